/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "device/binary_cache.h"
#include "device/os.h"
#include "plan/binary_format.h"
#include "plan/hash.h"
#include "support/unit.h"
#include <clattn/cache.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/clattn-test-cache-XXXXXX";

static const char identity[] = "program 1\nlibrary 0.1.0\ndevice Made Up\n";
static const char payload[] = "a compiled program";

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

static void path_of(const char *of, char path[256])
{
    char hex[CLA_HASH_HEX];
    cla_hash_hex(cla_hash_bytes(of, strlen(of)), hex);
    snprintf(path, 256, "%s/%s%s", directory, hex, CLA_BINARY_CACHE_SUFFIX);
}

static void assert_loads(const char *of, const void *expected, size_t expected_size)
{
    void *loaded = NULL;
    size_t size = 0;
    assert_true(cla_binary_cache_load(directory, of, &loaded, &size));
    assert_int_equal(size, expected_size);
    assert_memory_equal(loaded, expected, expected_size);
    free(loaded);
}

static void assert_does_not_load(const char *of)
{
    void *loaded = directory;
    size_t size = 77;
    assert_false(cla_binary_cache_load(directory, of, &loaded, &size));
    assert_ptr_equal(loaded, directory);
    assert_int_equal(size, 77);
}

/* The bytes of the file that storing `payload` makes. */
static unsigned char *stored_file(size_t *size)
{
    char path[256];
    path_of(identity, path);
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    unsigned char *file = cla_os_read_file(path, 1 << 20, size);
    assert_non_null(file);
    return file;
}

static void write_file(const void *data, size_t size)
{
    char path[256];
    path_of(identity, path);
    assert_true(cla_os_replace_file(path, data, size));
}

static void what_is_stored_is_loaded(void **state)
{
    (void)state;
    assert_does_not_load(identity);
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    assert_loads(identity, payload, sizeof payload);
    assert_true(cla_binary_cache_store(directory, identity, "other", 5));
    assert_loads(identity, "other", 5);
    assert_true(cla_binary_cache_store(directory, identity, NULL, 0));
    assert_loads(identity, "", 0);
    cla_binary_cache_drop(directory, identity);
    assert_does_not_load(identity);
    cla_binary_cache_drop(directory, identity);
}

static void the_directory_is_made_when_needed(void **state)
{
    (void)state;
    char deep[300];
    void *loaded = NULL;
    size_t size = 0;
    snprintf(deep, sizeof deep, "%s/one/two", directory);
    assert_false(cla_binary_cache_load(deep, identity, &loaded, &size));
    assert_true(cla_binary_cache_store(deep, identity, payload, sizeof payload));
    assert_true(cla_binary_cache_load(deep, identity, &loaded, &size));
    free(loaded);
}

/* A file that is whole in every way, but that another user can have put there. */
static void what_others_can_write_is_not_loaded(void **state)
{
    (void)state;
    char path[256];
    path_of(identity, path);
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    assert_int_equal(chmod(path, 0666), 0);
    assert_does_not_load(identity);
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload)); /* replaced */
    assert_loads(identity, payload, sizeof payload);
    assert_int_equal(chmod(directory, 01777), 0);
    assert_does_not_load(identity);
    assert_false(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    assert_int_equal(chmod(directory, 0755), 0);
    assert_loads(identity, payload, sizeof payload);
    if (chown(path, 65534, (gid_t)-1) != 0)
        skip(); /* only root can give files away */
    assert_does_not_load(identity);
}

static void no_directory_keeps_nothing(void **state)
{
    (void)state;
    void *loaded = NULL;
    size_t size = 0;
    assert_false(cla_binary_cache_store("", identity, payload, sizeof payload));
    assert_false(cla_binary_cache_load("", identity, &loaded, &size));
    cla_binary_cache_drop("", identity);
}

/* Tests may run as root, for whom every directory is writable: what lies below a regular file is not. */
static void an_unwritable_directory_is_quiet(void **state)
{
    (void)state;
    char file[300], inside[320];
    void *loaded = NULL;
    size_t size = 0;
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(inside, sizeof inside, "%s/file/cache", directory);
    assert_true(cla_os_replace_file(file, "x", 1));
    for (int i = 0; i < 2; i++) {
        const char *bad = i ? inside : file;
        assert_false(cla_binary_cache_store(bad, identity, payload, sizeof payload));
        assert_false(cla_binary_cache_load(bad, identity, &loaded, &size));
        cla_binary_cache_drop(bad, identity);
    }
}

static void a_file_cut_at_any_length_is_refused_and_replaced(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *file = stored_file(&size);
    for (size_t length = 0; length < size; length++) {
        write_file(file, length);
        assert_does_not_load(identity);
        assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
        assert_loads(identity, payload, sizeof payload);
    }
    free(file);
}

static void a_file_with_any_bit_flipped_is_refused(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *file = stored_file(&size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
        write_file(file, size);
        assert_does_not_load(identity);
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    write_file(file, size);
    assert_loads(identity, payload, sizeof payload);
    free(file);
}

static void a_file_with_something_behind_it_is_refused(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *file = stored_file(&size), *longer = calloc(1, size + 1);
    memcpy(longer, file, size);
    write_file(longer, size + 1);
    assert_does_not_load(identity);
    free(longer);
    free(file);
}

static void a_file_of_another_identity_is_refused(void **state)
{
    (void)state;
    size_t size = 0;
    void *foreign = cla_binary_encode("program 1\nlibrary 0.1.0\ndevice Another\n", payload, sizeof payload, &size);
    assert_non_null(foreign);
    write_file(foreign, size);
    assert_does_not_load(identity);
    free(foreign);
}

/* A file as a later version of the library would write it, checksum and all. */
static void a_file_of_another_version_is_refused(void **state)
{
    (void)state;
    enum { VERSION = 8, CHECKSUM = 24, HEADER = 40 };
    size_t size = 0;
    unsigned char *file = stored_file(&size);
    const unsigned char version = file[VERSION];
    for (int change = 0; change < 2; change++) {
        file[VERSION] = (unsigned char)(version + change);
        const struct cla_hash parts[2] = {cla_hash_bytes(file, CHECKSUM), cla_hash_bytes(file + HEADER, size - HEADER)};
        const struct cla_hash sum = cla_hash_bytes(parts, sizeof parts);
        memcpy(file + CHECKSUM, &sum, sizeof sum);
        write_file(file, size);
        if (change)
            assert_does_not_load(identity);
        else
            assert_loads(identity, payload, sizeof payload); /* the sum above is the format's */
    }
    free(file);
}

/* A file with holes: large to the cache, small on the disk. */
static void make_sparse(const char *of, off_t bytes, int age_seconds, char path[256])
{
    path_of(of, path);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, bytes), 0);
    const struct timespec used = {.tv_sec = time(NULL) - age_seconds}, times[2] = {used, used};
    assert_int_equal(futimens(file, times), 0);
    close(file);
}

static void the_directory_is_kept_below_its_limit(void **state)
{
    (void)state;
    char oldest[256], old[256], recent[256];
    make_sparse("oldest", CLATTN_CACHE_MAX_BYTES / 2, 300, oldest);
    make_sparse("old", CLATTN_CACHE_MAX_BYTES / 4, 200, old);
    make_sparse("recent", CLATTN_CACHE_MAX_BYTES / 4, 100, recent);
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    assert_int_not_equal(access(oldest, F_OK), 0);
    assert_int_equal(access(old, F_OK), 0);
    assert_int_equal(access(recent, F_OK), 0);
    assert_loads(identity, payload, sizeof payload);
}

static void a_file_beyond_the_limit_is_not_read(void **state)
{
    (void)state;
    char path[256];
    make_sparse(identity, (off_t)CLATTN_CACHE_MAX_BYTES + 1, 0, path);
    assert_does_not_load(identity);
}

static void loading_counts_as_use(void **state)
{
    (void)state;
    char path[256], other[256];
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    path_of(identity, path);
    const struct timespec used = {.tv_sec = time(NULL) - 1000}, times[2] = {used, used};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_loads(identity, payload, sizeof payload);
    make_sparse("other", CLATTN_CACHE_MAX_BYTES, 500, other);
    assert_true(cla_binary_cache_store(directory, "new", "x", 1));
    assert_int_not_equal(access(other, F_OK), 0);
    assert_loads(identity, payload, sizeof payload);
}

/* Writers keep replacing one file by payloads of one repeated byte; readers must never see a mixture or half of one. */
enum { ROUNDS = 300, BYTES = 20000 };

static void *write_often(void *byte)
{
    char *data = malloc(BYTES);
    memset(data, *(const char *)byte, BYTES);
    intptr_t bad = 0;
    for (int i = 0; i < ROUNDS; i++)
        bad += !cla_binary_cache_store(directory, identity, data, BYTES);
    free(data);
    return (void *)bad;
}

static void *read_often(void *unused)
{
    (void)unused;
    intptr_t bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *data = NULL;
        size_t size = 0;
        if (!cla_binary_cache_load(directory, identity, &data, &size)) {
            bad++;
            continue;
        }
        const char *bytes = data;
        bad += size != BYTES || memcmp(bytes, bytes + 1, size - 1) != 0;
        free(data);
    }
    return (void *)bad;
}

static int replace_and_read_at_once(void)
{
    static char bytes[] = "ab";
    pthread_t threads[4];
    intptr_t bad = 0;
    pthread_create(&threads[0], NULL, write_often, &bytes[0]);
    pthread_create(&threads[1], NULL, write_often, &bytes[1]);
    pthread_create(&threads[2], NULL, read_often, NULL);
    pthread_create(&threads[3], NULL, read_often, NULL);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        bad += (intptr_t)result;
    }
    return bad != 0;
}

static void readers_see_the_old_file_or_the_new_one(void **state)
{
    (void)state;
    char first = 'c';
    assert_null(write_often(&first));
    const pid_t other = fork(); /* another process at the same time */
    if (other == 0)
        _exit(replace_and_read_at_once());
    assert_int_equal(replace_and_read_at_once(), 0);
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

static void clearing_removes_the_files_and_no_others(void **state)
{
    (void)state;
    char foreign[300];
    int64_t removed = -1;
    snprintf(foreign, sizeof foreign, "%s/notes.txt", directory);
    assert_true(cla_os_replace_file(foreign, "mine", 4));
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    assert_true(cla_binary_cache_store(directory, "another", payload, sizeof payload));
    assert_int_equal(clattn_cache_clear(directory, &removed), CLATTN_SUCCESS);
    assert_int_equal(removed, 2);
    assert_int_equal(access(foreign, F_OK), 0);
    assert_does_not_load(identity);
    assert_int_equal(clattn_cache_clear(foreign, &removed), CLATTN_SUCCESS);
    assert_int_equal(removed, 0);
    assert_int_equal(clattn_cache_clear("", NULL), CLATTN_SUCCESS);
}

static void clearing_the_default_directory_follows_the_environment(void **state)
{
    (void)state;
    int64_t removed = -1;
    char path[64] = "untouched";
    assert_true(cla_binary_cache_store(directory, identity, payload, sizeof payload));
    setenv("CLATTN_CACHE_DIR", directory, 1);
    assert_int_equal(clattn_cache_default_directory(path, 3), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "size is 3"));
    assert_string_equal(path, "untouched");
    assert_int_equal(clattn_cache_default_directory(NULL, 64), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "path is NULL"));
    assert_int_equal(clattn_cache_default_directory(path, sizeof path), CLATTN_SUCCESS);
    assert_string_equal(path, directory);
    assert_int_equal(clattn_cache_clear(NULL, &removed), CLATTN_SUCCESS);
    assert_int_equal(removed, 1);
    setenv("CLATTN_CACHE_DIR", "", 1);
    assert_int_equal(clattn_cache_clear(NULL, &removed), CLATTN_SUCCESS);
    assert_int_equal(removed, 0);
    unsetenv("CLATTN_CACHE_DIR");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_fixture, remove_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_stored_is_loaded),
        TEST(the_directory_is_made_when_needed),
        TEST(what_others_can_write_is_not_loaded),
        TEST(no_directory_keeps_nothing),
        TEST(an_unwritable_directory_is_quiet),
        TEST(a_file_cut_at_any_length_is_refused_and_replaced),
        TEST(a_file_with_any_bit_flipped_is_refused),
        TEST(a_file_with_something_behind_it_is_refused),
        TEST(a_file_of_another_identity_is_refused),
        TEST(a_file_of_another_version_is_refused),
        TEST(the_directory_is_kept_below_its_limit),
        TEST(a_file_beyond_the_limit_is_not_read),
        TEST(loading_counts_as_use),
        TEST(readers_see_the_old_file_or_the_new_one),
        TEST(clearing_removes_the_files_and_no_others),
        TEST(clearing_the_default_directory_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
