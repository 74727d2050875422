/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A report goes to strangers: names of folders, the user and the host are taken out of all its texts. */
#define _XOPEN_SOURCE 700
#include "report/report.h"
#include "support/unit.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect(const char *given, const char *wanted)
{
    json_t *value = json_pack("{s:[s, i], s:s}", "list", given, 7, "text", given);
    json_t *clean = report_without_names(value);
    assert_string_equal(json_string_value(json_object_get(clean, "text")), wanted);
    const json_t *list = json_object_get(clean, "list");
    assert_string_equal(json_string_value(json_array_get(list, 0)), wanted);
    assert_int_equal(json_integer_value(json_array_get(list, 1)), 7);
    json_decref(clean);
    json_decref(value);
}

static void home_is_a_tilde(void **state)
{
    (void)state;
    assert_int_equal(setenv("HOME", "/srv/people/edith", 1), 0);
    expect("cannot read /srv/people/edith/.cache/clattn: no", "cannot read ~/.cache/clattn: no");
    expect("/srv/people/edith", "~");
    expect("/srv/people/edith /srv/people/edith", "~ ~");
}

static void pieces_of_words_stay(void **state)
{
    (void)state;
    assert_int_equal(setenv("HOME", "/srv/people/edith", 1), 0);
    expect("/srv/people/edith2/x", "/srv/people/edith2/x");
    expect("a/srv/people/edith", "a/srv/people/edith");
    expect("", "");
}

static void the_working_folder_is_a_dot(void **state)
{
    (void)state;
    char folder[PATH_MAX], given[PATH_MAX + 32];
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(given, sizeof given, "%s/clattn-tune.json", folder);
    expect(given, "./clattn-tune.json");
}

static void the_host_is_not_named(void **state)
{
    (void)state;
    char host[256] = "", given[300];
    gethostname(host, sizeof host - 1);
    const bool named = strlen(host) >= 3 && strcmp(host, "localhost") != 0;
    snprintf(given, sizeof given, "on %s.", host);
    expect(given, named ? "on HOST." : given);
}

static void short_names_and_numbers_stay(void **state)
{
    (void)state;
    assert_int_equal(setenv("HOME", "/", 1), 0);
    expect("d 64 / 128", "d 64 / 128");
    assert_null(report_without_names(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(home_is_a_tilde),
        cmocka_unit_test(pieces_of_words_stay),
        cmocka_unit_test(the_working_folder_is_a_dot),
        cmocka_unit_test(the_host_is_not_named),
        cmocka_unit_test(short_names_and_numbers_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
