/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What of Apple's systems can be told on others: this program has os_places_darwin.c and os_environment_ids.c in the
 * place of this system's own.
 */
#define _POSIX_C_SOURCE 200809L
#include "device/os.h"
#include "support/unit.h"
#include <stdlib.h>

static void folders_are_apples(void **state)
{
    (void)state;
    char path[256];
    unsetenv("CLATTN_CACHE_DIR");
    unsetenv("CLATTN_TUNING_FILE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", "/Users/ada", 1);
    assert_true(cla_os_cache_directory(path, sizeof path));
    assert_string_equal(path, "/Users/ada/Library/Caches/clattn");
    assert_true(cla_os_tuning_path(path, sizeof path));
    assert_string_equal(path, "/Users/ada/Library/Application Support/clattn/tuning.json");
    setenv("XDG_CACHE_HOME", "/tmp/caches", 1);
    assert_true(cla_os_cache_directory(path, sizeof path));
    assert_string_equal(path, "/tmp/caches/clattn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_are_apples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
