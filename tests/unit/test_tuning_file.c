/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tuning files through the public API: the default path, several writers at once, and files that must not be touched.
 */
#define _GNU_SOURCE
#include "support/unit.h"
#include <clattn/clattn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/clattn-test-tuning-XXXXXX", path[128];

static int make_fixture(void **state)
{
    (void)state;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/deep/er/tuning.json", directory);
    return 0;
}

static int remove_fixture(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static struct clattn_tuning_record record(int writer, int number)
{
    struct clattn_tuning_record made = {.driver = "1.0",
                                        .kernels = "*",
                                        .d = 64,
                                        .d_v = 64,
                                        .skeleton = "forward_cpu",
                                        .b_r = number + 1,
                                        .b_c = 64,
                                        .work_group_size = 1,
                                        .ms = 1 + number};
    snprintf(made.device, sizeof made.device, "P / device %d", writer);
    return made;
}

static clattn_status save_one(int writer, int number)
{
    clattn_tuning *tuning = NULL;
    const struct clattn_tuning_record made = record(writer, number);
    clattn_status status = clattn_tuning_create(&tuning);
    if (!status)
        status = clattn_tuning_add(tuning, &made);
    if (!status)
        status = clattn_tuning_save(tuning, path);
    clattn_tuning_destroy(&tuning);
    return status;
}

static int count_in_file(void)
{
    clattn_tuning *tuning = NULL;
    if (clattn_tuning_load(&tuning, path))
        fail_msg("%s", clattn_error_message());
    const int count = clattn_tuning_count(tuning);
    clattn_tuning_destroy(&tuning);
    return count;
}

static void writers_at_once_lose_nothing(void **state)
{
    (void)state;
    enum { WRITERS = 4, RECORDS = 25 };
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        if (!writers[w]) {
            int failures = 0;
            for (int i = 0; i < RECORDS; i++)
                failures += save_one(w, i) != CLATTN_SUCCESS;
            _exit(failures);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_in_file(), WRITERS * RECORDS);
    char command[256];
    snprintf(command, sizeof command, "test \"$(ls '%s/deep/er')\" = 'tuning.json\ntuning.json.lock'", directory);
    assert_int_equal(system(command), 0); /* no leftovers */
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_file_stays_as_it_is(void **state)
{
    (void)state;
    static const char damaged[] = "{\"format\": \"clattn tuning\", \"version\": 1,\n \"records\": [\n {\"device\"";
    assert_int_equal(save_one(0, 0), CLATTN_SUCCESS);
    write_text(damaged);
    assert_int_equal(save_one(0, 1), CLATTN_FILE_DAMAGED);
    assert_non_null(strstr(clattn_error_message(), "tuning.json:3:"));
    clattn_tuning *tuning = NULL;
    assert_int_equal(clattn_tuning_load(&tuning, path), CLATTN_FILE_DAMAGED);
    assert_null(tuning);
    char text[sizeof damaged + 8] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), sizeof damaged - 1);
    fclose(file);
    assert_string_equal(text, damaged);
}

static void links_and_permissions_stay(void **state)
{
    (void)state;
    char target[160];
    struct stat status;
    snprintf(target, sizeof target, "%s/target.json", directory);
    assert_int_equal(save_one(0, 0), CLATTN_SUCCESS);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(save_one(0, 1), CLATTN_SUCCESS);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(target, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(count_in_file(), 2);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    clattn_tuning *tuning = NULL;
    assert_int_equal(clattn_tuning_load(&tuning, path), CLATTN_FILE_FAILED);
    assert_non_null(strstr(clattn_error_message(), "No such file"));
    assert_int_equal(clattn_tuning_load(&tuning, directory), CLATTN_FILE_FAILED);
    snprintf(path, sizeof path, "%s", directory);
    assert_int_equal(save_one(0, 0), CLATTN_FILE_FAILED);
    snprintf(path, sizeof path, "/proc/nowhere/tuning.json");
    assert_int_equal(save_one(0, 0), CLATTN_FILE_FAILED);
    assert_null(tuning);
}

static void the_default_path_is_documented(void **state)
{
    (void)state;
    char found[256], wanted[256];
    clattn_tuning *tuning = NULL;
    assert_int_equal(setenv("CLATTN_TUNING_FILE", "/x/y.json", 1), 0);
    assert_int_equal(clattn_tuning_default_path(found, sizeof found), CLATTN_SUCCESS);
    assert_string_equal(found, "/x/y.json");
    assert_int_equal(clattn_tuning_default_path(found, 9), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(setenv("CLATTN_TUNING_FILE", "", 1), 0);
    assert_int_equal(clattn_tuning_load(&tuning, NULL), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_count(tuning), 0);
    assert_int_equal(clattn_tuning_save(tuning, NULL), CLATTN_INVALID_ARGUMENT);
    clattn_tuning_destroy(&tuning);
    assert_int_equal(unsetenv("CLATTN_TUNING_FILE"), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", directory, 1), 0);
    snprintf(wanted, sizeof wanted, "%s/clattn/tuning.json", directory);
    assert_int_equal(clattn_tuning_default_path(found, sizeof found), CLATTN_SUCCESS);
    assert_string_equal(found, wanted);
    assert_int_equal(clattn_tuning_load(&tuning, NULL), CLATTN_SUCCESS); /* there is none: an empty set */
    const struct clattn_tuning_record made = record(0, 0);
    assert_int_equal(clattn_tuning_add(tuning, &made), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_save(tuning, NULL), CLATTN_SUCCESS);
    clattn_tuning_destroy(&tuning);
    assert_int_equal(clattn_tuning_load(&tuning, NULL), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_count(tuning), 1);
    clattn_tuning_destroy(&tuning);
    assert_int_equal(setenv("XDG_CONFIG_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/h", 1), 0);
    assert_int_equal(clattn_tuning_default_path(found, sizeof found), CLATTN_SUCCESS);
    assert_string_equal(found, "/h/.config/clattn/tuning.json");
}

/* What is found by default is the user's own; what is named is the user's choice. */
static void a_default_file_that_others_can_write_is_refused(void **state)
{
    (void)state;
    static const mode_t dirty[][2] = {{0777, 0644}, {01777, 0644}, {0755, 0664}};
    char folder[64];
    clattn_tuning *tuning = NULL;
    snprintf(folder, sizeof folder, "%s/clattn", directory);
    snprintf(path, sizeof path, "%s/tuning.json", folder);
    assert_int_equal(save_one(0, 0), CLATTN_SUCCESS);
    assert_int_equal(unsetenv("CLATTN_TUNING_FILE"), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", directory, 1), 0);
    EACH(i, dirty)
    {
        assert_int_equal(chmod(folder, dirty[i][0]), 0);
        assert_int_equal(chmod(path, dirty[i][1]), 0);
        assert_int_equal(clattn_tuning_load(&tuning, NULL), CLATTN_FILE_FAILED);
        assert_non_null(strstr(clattn_error_message(), path));
        assert_non_null(strstr(clattn_error_message(), "other users may write"));
        assert_int_equal(clattn_tuning_load(&tuning, path), CLATTN_SUCCESS);
        assert_int_equal(clattn_tuning_save(tuning, NULL), CLATTN_FILE_FAILED);
        clattn_tuning_destroy(&tuning);
        assert_int_equal(setenv("CLATTN_TUNING_FILE", path, 1), 0);
        assert_int_equal(clattn_tuning_load(&tuning, NULL), CLATTN_SUCCESS);
        assert_int_equal(clattn_tuning_count(tuning), 1);
        clattn_tuning_destroy(&tuning);
        assert_int_equal(unsetenv("CLATTN_TUNING_FILE"), 0);
    }
}

static void sets_answer_for_themselves(void **state)
{
    (void)state;
    clattn_tuning *one = NULL, *two = NULL;
    struct clattn_tuning_record made = record(0, 0), read;
    char text[2048];
    size_t needed = 0;
    assert_int_equal(clattn_tuning_create(NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_tuning_create(&one), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_add(one, &made), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_text(one, NULL, 0, &needed), CLATTN_SUCCESS);
    assert_in_range(needed, 200, sizeof text);
    assert_int_equal(clattn_tuning_text(one, text, needed - 1, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_tuning_text(one, text, needed, NULL), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_parse(&two, "text", text, needed - 1), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_get(two, 0, &read), CLATTN_SUCCESS);
    assert_string_equal(read.device, made.device);
    assert_true(read.b_r == made.b_r && read.ms == made.ms && read.state == made.state && !read.best);
    assert_int_equal(clattn_tuning_get(two, 1, &read), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_tuning_merge(one, two), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_merge(one, one), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_count(one), 1);
    assert_int_equal(clattn_tuning_merge(one, NULL), CLATTN_INVALID_ARGUMENT);
    clattn_tuning_destroy(&one);
    clattn_tuning_destroy(&one);
    clattn_tuning_destroy(&two);
    assert_null(one);
}

/* A writer that dies with the lock leaves it free; one that keeps it is waited for. */
static void a_held_lock_is_waited_for(void **state)
{
    (void)state;
    char lock[160];
    assert_int_equal(save_one(0, 0), CLATTN_SUCCESS);
    snprintf(lock, sizeof lock, "%s.lock", path);
    const pid_t holder = fork();
    if (!holder) {
        const int file = open(lock, O_RDWR);
        if (file < 0 || flock(file, LOCK_EX))
            _exit(1);
        usleep(300000);
        _exit(0); /* without unlocking */
    }
    usleep(100000);
    assert_int_equal(save_one(0, 1), CLATTN_SUCCESS);
    int status;
    assert_int_equal(waitpid(holder, &status, 0), holder);
    assert_int_equal(status, 0);
    assert_int_equal(count_in_file(), 2);
}

int main(void)
{
    unsetenv("CLATTN_TUNING_FILE");
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fixture, remove_fixture)
    const struct CMUnitTest tests[] = {
        TEST(writers_at_once_lose_nothing), TEST(a_damaged_file_stays_as_it_is),  TEST(links_and_permissions_stay),
        TEST(what_is_no_file_is_refused),   TEST(the_default_path_is_documented), TEST(sets_answer_for_themselves),
        TEST(a_held_lock_is_waited_for),
        TEST(a_default_file_that_others_can_write_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
