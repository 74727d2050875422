/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What every system's files below device/os.h do, told by os.h alone; test_os.c knows POSIX and looks closer.
 */
#include "device/os.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(digit) "0000000000000000000000000000000" digit ".files"

/* Below the build's folder, made and emptied here. */
static const char folder[] = "test-os-files/deeper";

static const char *below(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_holds(const char *path, const char *text)
{
    size_t size = 0;
    char *const data = cla_os_read_file(path, 1000, &size);
    assert_non_null(data);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    free(data);
}

static void files_are_replaced_whole(void **state)
{
    (void)state;
    assert_true(cla_os_make_directory(folder));
    assert_true(cla_os_make_directory(folder)); /* is there */
    assert_true(cla_os_replace_file(below("file"), "one", 3));
    assert_true(cla_os_exists(below("file")));
    assert_holds(below("file"), "one");
    assert_true(cla_os_replace_file(below("file"), "", 0));
    assert_holds(below("file"), "");
    assert_true(cla_os_replace_kept_file(below("file"), "another", 7));
    assert_holds(below("file"), "another");
    size_t size = 0;
    assert_null(cla_os_read_file(below("file"), 6, &size)); /* too long */
    cla_os_remove_file(below("file"));
    assert_false(cla_os_exists(below("file")));
    assert_null(cla_os_read_file(below("file"), 1000, &size));
    assert_false(cla_os_replace_file(below("absent/file"), "one", 3));
    assert_false(cla_os_make_directory(""));
}

static void the_users_own_files_are_read(void **state)
{
    (void)state;
    const char *distrust = "?";
    size_t size = 0;
    assert_true(cla_os_make_directory(folder));
    assert_null(cla_os_distrusts_directory(folder));
    assert_null(cla_os_distrusts_directory(below("absent")));
    assert_true(cla_os_replace_file(below("file"), "mine", 4));
    char *const data = cla_os_read_own_file(below("file"), 1000, &size, &distrust);
    assert_null(distrust);
    assert_non_null(data);
    assert_int_equal(size, 4);
    free(data);
    cla_os_remove_file(below("file"));
    assert_null(cla_os_read_own_file(below("file"), 1000, &size, &distrust));
    assert_null(distrust);
}

static void a_lock_is_held_once(void **state)
{
    (void)state;
    assert_true(cla_os_make_directory(folder));
    const int first = cla_os_lock(below("lock"), 0);
    assert_true(first >= 0);
    assert_int_equal(cla_os_lock(below("lock"), 30), -1);
    cla_os_unlock(first);
    const int second = cla_os_lock(below("lock"), 0);
    assert_true(second >= 0);
    cla_os_unlock(second);
    cla_os_remove_file(below("lock"));
}

static void a_cache_is_trimmed(void **state)
{
    (void)state;
    assert_true(cla_os_make_directory(folder));
    assert_true(cla_os_replace_file(below(NAME("1")), "12345", 5));
    assert_true(cla_os_replace_file(below(NAME("2")), "12345", 5));
    assert_true(cla_os_replace_file(below("foreign.files"), "12345", 5));
    cla_os_touch(below(NAME("1")));
    assert_int_equal(cla_os_trim_directory(folder, ".files", 10), 0);
    assert_int_equal(cla_os_trim_directory(folder, ".files", 5), 1);
    assert_true(cla_os_exists(below(NAME("1"))) != cla_os_exists(below(NAME("2"))));
    assert_int_equal(cla_os_trim_directory(folder, ".files", 0), 1);
    assert_true(cla_os_exists(below("foreign.files")));
    assert_int_equal(cla_os_trim_directory(below("absent"), ".files", 0), 0);
    cla_os_remove_file(below("foreign.files"));
}

static void places_fit_or_are_refused(void **state)
{
    (void)state;
    char path[1024] = "untouched";
    assert_true(cla_os_cache_directory(path, sizeof path));
    assert_non_null(strstr(path, "clattn"));
    assert_true(cla_os_tuning_path(path, sizeof path));
    assert_false(cla_os_cache_directory(path, 4));
}

static void an_absent_library_is_named(void **state)
{
    (void)state;
    const char *reason = NULL;
    assert_null(cla_os_library("clattn-has-no-such-library", &reason));
    assert_non_null(strstr(reason, "clattn-has-no-such-library"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_replaced_whole),  cmocka_unit_test(the_users_own_files_are_read),
        cmocka_unit_test(a_lock_is_held_once),       cmocka_unit_test(a_cache_is_trimmed),
        cmocka_unit_test(places_fit_or_are_refused), cmocka_unit_test(an_absent_library_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
