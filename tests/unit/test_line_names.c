/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lines that a compiler counts through the whole program get back the names that #line gave them. */
#include "plan/error.h"
#include "plan/hash.h"
#include "plan/line_names.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

static const char program[] = "#define A 1\n"
                              "#define B 2\n"
                              "#line 1 \"score_mod\"\n"
                              "float score_mod()\n"
                              "{\n"
                              "}\n"
                              "#line 1 \"common/types.clh\"\n"
                              "int x;\n";

static void check(const char *before, const char *after)
{
    struct cla_error error;
    cla_fail(&error, CLATTN_BUILD_FAILED, "%s", before);
    cla_name_lines(program, &error);
    assert_string_equal(error.text, after);
    assert_int_equal(error.status, CLATTN_BUILD_FAILED);
}

static void names_follow_the_directives(void **state)
{
    (void)state;
    check("<kernel>:4:7: error", "score_mod:1:7: error");
    check("a <kernel>:5:1: x\n<kernel>:8:5: y", "a score_mod:2:1: x\ncommon/types.clh:1:5: y");
}

static void other_text_stays(void **state)
{
    (void)state;
    check("no place at all", "no place at all");
    check("<kernel>:2:9: before any directive", "<kernel>:2:9: before any directive");
    check("<kernel>:oops", "<kernel>:oops");
    check("score_mod:4:1: named already", "score_mod:4:1: named already");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_follow_the_directives),
                                       cmocka_unit_test(other_text_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
