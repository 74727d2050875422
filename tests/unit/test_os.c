/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "device/os.h"
#include "support/unit.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".clattn"
#define NAME_A "0000000000000000000000000000000a" SUFFIX
#define NAME_B "0000000000000000000000000000000b" SUFFIX
#define NAME_C "0000000000000000000000000000000c" SUFFIX

/* Each test has a fresh directory; paths are made below it. */
static char directory[] = "/tmp/clattn-test-os-XXXXXX";
static char paths[4][256];

static const char *below(int slot, const char *name)
{
    snprintf(paths[slot], sizeof paths[slot], "%s/%s", directory, name);
    return paths[slot];
}

static int make_fixture(void **state)
{
    (void)state;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_fixture(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void put(const char *path, const void *data, size_t size, int age_seconds)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    const struct timespec used = {.tv_sec = time(NULL) - age_seconds}, times[2] = {used, used};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *listing = opendir(path);
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static void assert_cache_directory(const char *expected)
{
    char path[256];
    assert_true(cla_os_cache_directory(path, sizeof path));
    assert_string_equal(path, expected);
}

static void the_environment_names_the_cache_directory(void **state)
{
    (void)state;
    setenv("CLATTN_CACHE_DIR", "/a/b", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/me", 1);
    assert_cache_directory("/a/b");
    setenv("CLATTN_CACHE_DIR", "", 1);
    assert_cache_directory("");
    unsetenv("CLATTN_CACHE_DIR");
    assert_cache_directory("/xdg/clattn");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_cache_directory("/home/me/.cache/clattn");
    setenv("XDG_CACHE_HOME", "", 1);
    assert_cache_directory("/home/me/.cache/clattn");
    unsetenv("XDG_CACHE_HOME");
    assert_cache_directory("/home/me/.cache/clattn");
    unsetenv("HOME");
    assert_cache_directory("");
}

static void a_cache_directory_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    char path[5] = "none";
    setenv("CLATTN_CACHE_DIR", "/a/b", 1);
    assert_true(cla_os_cache_directory(path, 5));
    strcpy(path, "none");
    assert_false(cla_os_cache_directory(path, 4));
    assert_string_equal(path, "none");
    assert_false(cla_os_cache_directory(path, 0));
    unsetenv("CLATTN_CACHE_DIR");
}

static void directories_are_made_with_their_parents_for_the_user_alone(void **state)
{
    (void)state;
    struct stat status;
    assert_true(cla_os_make_directory(below(0, "x/y//z/")));
    assert_int_equal(stat(below(0, "x/y/z"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_true(cla_os_make_directory(below(0, "x/y/z")));
}

static void a_directory_that_cannot_be_is_refused(void **state)
{
    (void)state;
    put(below(0, "file"), "x", 1, 0);
    assert_false(cla_os_make_directory(below(0, "file")));
    assert_false(cla_os_make_directory(below(0, "file/x/y")));
    assert_false(cla_os_make_directory(""));
}

static void files_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    size_t size = 77;
    put(below(0, "file"), "12345", 5, 0);
    char *data = cla_os_read_file(paths[0], 5, &size);
    assert_non_null(data);
    assert_int_equal(size, 5);
    assert_memory_equal(data, "12345", 5);
    free(data);
    size = 77;
    assert_null(cla_os_read_file(paths[0], 4, &size));
    assert_null(cla_os_read_file(below(1, "absent"), 100, &size));
    assert_null(cla_os_read_file(directory, 100000, &size));
    assert_null(cla_os_read_file(below(1, "file/x"), 100, &size));
    assert_int_equal(size, 77);
}

static void an_empty_file_is_a_file(void **state)
{
    (void)state;
    size_t size = 77;
    put(below(0, "file"), "", 0, 0);
    void *data = cla_os_read_file(paths[0], 0, &size);
    assert_non_null(data);
    assert_int_equal(size, 0);
    free(data);
}

static void a_pipe_is_refused_and_not_waited_for(void **state)
{
    (void)state;
    size_t size;
    assert_int_equal(mkfifo(below(0, "pipe"), 0600), 0);
    assert_null(cla_os_read_file(paths[0], 100, &size));
}

static void replacing_leaves_the_new_file_and_nothing_else(void **state)
{
    (void)state;
    size_t size = 0;
    assert_true(cla_os_replace_file(below(0, "file"), "first", 5));
    assert_true(cla_os_replace_file(paths[0], "second one", 10));
    char *data = cla_os_read_file(paths[0], 100, &size);
    assert_int_equal(size, 10);
    assert_memory_equal(data, "second one", 10);
    free(data);
    assert_int_equal(count_entries(directory), 1);
    struct stat status;
    assert_int_equal(stat(paths[0], &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void replacing_what_cannot_be_replaced_leaves_nothing_behind(void **state)
{
    (void)state;
    put(below(0, "file"), "x", 1, 0);
    assert_false(cla_os_replace_file(below(1, "file/y"), "z", 1));
    assert_int_equal(mkdir(below(1, "folder"), 0700), 0);
    assert_false(cla_os_replace_file(paths[1], "z", 1));
    assert_false(cla_os_replace_file(below(1, "absent/y"), "z", 1));
    assert_int_equal(count_entries(directory), 2);
}

static void trimming_removes_what_was_unused_for_longest(void **state)
{
    (void)state;
    put(below(0, NAME_A), "aaaa", 4, 30);
    put(below(1, NAME_B), "bbbb", 4, 10);
    put(below(2, NAME_C), "cccc", 4, 20);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 12), 0);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 11), 1);
    assert_false(exists(paths[0]));
    cla_os_touch(paths[2]);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 4), 1);
    assert_false(exists(paths[1]));
    assert_true(exists(paths[2]));
}

static void trimming_to_nothing_takes_empty_files_too(void **state)
{
    (void)state;
    put(below(0, NAME_A), "", 0, 0);
    put(below(1, NAME_B), "b", 1, 0);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 0), 2);
    assert_int_equal(count_entries(directory), 0);
}

static void trimming_many_files_works(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, "%032x" SUFFIX, (unsigned)i);
        put(below(0, name), "12345678", 8, 1000 - i);
    }
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 80), 290);
    assert_int_equal(count_entries(directory), 10);
    assert_true(exists(below(0, "0000000000000000000000000000012b" SUFFIX)));
}

static void trimming_touches_no_foreign_file(void **state)
{
    (void)state;
    static const char *const foreign[] = {
        "notes.txt",
        "notes" SUFFIX,
        "0000000000000000000000000000000" SUFFIX,   /* 31 digits */
        "000000000000000000000000000000000" SUFFIX, /* 33 */
        "0000000000000000000000000000000A" SUFFIX,
        NAME_A ".backup",
        NAME_A "~",
        NAME_A ".new-abc1234",
    };
    const int count = sizeof foreign / sizeof foreign[0];
    for (int i = 0; i < count; i++)
        put(below(0, foreign[i]), "mine", 4, 1000000);
    assert_int_equal(mkdir(below(0, NAME_A), 0700), 0);
    assert_int_equal(symlink("notes.txt", below(0, NAME_B)), 0);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 0), 0);
    assert_int_equal(count_entries(directory), count + 2);
}

/* Who writes a file holds its lock, and a process that is killed holds none. */
static void leftovers_of_killed_writers_go_and_files_being_written_stay(void **state)
{
    (void)state;
    put(below(0, NAME_A ".new-abc123"), "x", 1, 1);
    put(below(1, NAME_B ".new-abc123"), "x", 1, 7200);
    const int writer = open(paths[1], O_RDWR);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 100), 1);
    assert_false(exists(paths[0]));
    assert_true(exists(paths[1]));
    assert_int_equal(close(writer), 0);
    assert_int_equal(cla_os_trim_directory(directory, SUFFIX, 100), 1);
    assert_int_equal(count_entries(directory), 0);
}

static void replacing_a_kept_file_clears_what_killed_writers_left(void **state)
{
    (void)state;
    put(below(0, "tuning.json.new-abc123"), "x", 1, 0);
    put(below(1, "tuning.json.new-abc124"), "x", 1, 0);
    put(below(2, "other.json.new-abc123"), "x", 1, 0);
    put(below(3, "tuning.json.new-abc12"), "x", 1, 0);
    const int writer = open(paths[1], O_RDWR);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    char target[256];
    snprintf(target, sizeof target, "%s/tuning.json", directory);
    assert_true(cla_os_replace_kept_file(target, "{}", 2));
    assert_false(exists(paths[0]));
    assert_true(exists(paths[1]) && exists(paths[2]) && exists(paths[3]));
    assert_int_equal(count_entries(directory), 4);
    assert_int_equal(close(writer), 0);
}

/* Whether the file at `path` is read as the user's own, and else why not. */
static void assert_own(const char *path, const char *wanted)
{
    const char *distrust = "?";
    size_t size = 0;
    char *data = cla_os_read_own_file(path, 100, &size, &distrust);
    assert_true(!data == (wanted != NULL) && (size == 4) == !wanted);
    if (wanted && (!distrust || !strstr(distrust, wanted)))
        fail_msg("%s for %s", distrust ? distrust : "nothing", path);
    assert_true(wanted || !distrust);
    free(data);
}

static void files_that_others_may_have_written_are_not_the_users(void **state)
{
    (void)state;
    put(below(0, "file"), "mine", 4, 0);
    assert_own(paths[0], NULL);
    static const mode_t dirty[] = {0664, 0646, 0666}, dirty_directory[] = {0770, 0707, 01777};
    EACH (i, dirty) {
        assert_int_equal(chmod(paths[0], dirty[i]), 0);
        assert_own(paths[0], "may write");
    }
    assert_int_equal(chmod(paths[0], 0444), 0);
    assert_own(paths[0], NULL);
    assert_null(cla_os_distrusts_directory(directory));
    EACH (i, dirty_directory) {
        assert_int_equal(chmod(directory, dirty_directory[i]), 0);
        assert_own(paths[0], "its directory");
        assert_non_null(cla_os_distrusts_directory(directory));
    }
    assert_int_equal(chmod(directory, 0755), 0);
    assert_own(paths[0], NULL);
    assert_null(cla_os_distrusts_directory(below(1, "absent")));
    if (chown(paths[0], 65534, (gid_t)-1) != 0)
        skip(); /* only root can give files away */
    assert_own(paths[0], "another user");
    assert_int_equal(chown(paths[0], 0, (gid_t)-1), 0);
    assert_int_equal(chown(directory, 65534, (gid_t)-1), 0);
    assert_own(paths[0], "its directory");
    assert_string_equal(cla_os_distrusts_directory(directory), "it belongs to another user");
}

static void a_directory_that_is_not_there_is_empty(void **state)
{
    (void)state;
    assert_int_equal(cla_os_trim_directory(below(0, "absent"), SUFFIX, 0), 0);
    assert_int_equal(cla_os_trim_directory("", SUFFIX, 0), 0);
}

static void libraries_are_loaded_or_it_is_said_why_not(void **state)
{
    (void)state;
    const char *reason = NULL;
    assert_null(cla_os_library("libclattn-has-no-such.so.1", &reason));
    assert_non_null(strstr(reason, "libclattn-has-no-such.so.1"));
    void *const library = cla_os_library("libOpenCL.so.1", &reason);
    assert_non_null(library);
    assert_non_null(cla_os_library_symbol(library, "clGetPlatformIDs"));
    assert_null(cla_os_library_symbol(library, "clattn_has_no_such"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_fixture, remove_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directories_are_made_with_their_parents_for_the_user_alone),
        TEST(a_directory_that_cannot_be_is_refused),
        TEST(files_are_read_whole_or_not_at_all),
        TEST(an_empty_file_is_a_file),
        TEST(a_pipe_is_refused_and_not_waited_for),
        TEST(replacing_leaves_the_new_file_and_nothing_else),
        TEST(replacing_what_cannot_be_replaced_leaves_nothing_behind),
        TEST(trimming_removes_what_was_unused_for_longest),
        TEST(trimming_to_nothing_takes_empty_files_too),
        TEST(trimming_many_files_works),
        TEST(trimming_touches_no_foreign_file),
        TEST(leftovers_of_killed_writers_go_and_files_being_written_stay),
        TEST(replacing_a_kept_file_clears_what_killed_writers_left),
        TEST(files_that_others_may_have_written_are_not_the_users),
        TEST(a_directory_that_is_not_there_is_empty),
        cmocka_unit_test(the_environment_names_the_cache_directory),
        cmocka_unit_test(a_cache_directory_that_does_not_fit_is_refused),
        cmocka_unit_test(libraries_are_loaded_or_it_is_said_why_not),
    };
    umask(022);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
