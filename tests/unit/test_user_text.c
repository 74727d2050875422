/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The user's texts in a program: their lines, their macros, and names that are not theirs. */
#include "plan/features/user_text.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cla_error error;

static char *texts_of(const struct clattn_problem *problem)
{
    struct cla_text text = {0};
    cla_user_texts(problem, &text);
    assert_false(text.failed);
    return text.data;
}

static void expect(const struct clattn_problem *problem, const char *wanted)
{
    char *const got = texts_of(problem);
    assert_string_equal(got, wanted);
    free(got);
}

static void macros_are_put_back_behind_their_texts(void **state)
{
    (void)state;
    const struct clattn_problem problem = {
        .score_mod = "#define A 1\nfloat score_mod() { return A; }\n\t#  define\tB(x) x\n#definely not\n#define",
        .mask_mod = "bool mask_mod() { return A; } // #define C\n#undef A\n#if 0\r\n#define D_1\r\n#endif"};
    expect(&problem, "#pragma push_macro(\"A\")\n#pragma push_macro(\"B\")\n#pragma push_macro(\"A\")\n"
                     "#pragma push_macro(\"D_1\")\n"
                     "#line 1 \"score_mod\"\n#define A 1\nfloat score_mod() { return A; }\n\t#  define\tB(x) "
                     "x\n#definely not\n#define\n"
                     "#line 1 \"mask_mod\"\nbool mask_mod() { return A; } // #define C\n#undef A\n#if "
                     "0\r\n#define D_1\r\n#endif\n"
                     "#undef A\n#pragma pop_macro(\"A\")\n#undef B\n#pragma pop_macro(\"B\")\n"
                     "#undef A\n#pragma pop_macro(\"A\")\n#undef D_1\n#pragma pop_macro(\"D_1\")\n"
                     "#line 2 \"score_mod\"\nfloat score_mod(float score, int b, int h, int i, int j, __global const "
                     "float *data);\n"
                     "#line 1 \"mask_mod\"\nbool mask_mod(int b, int h, int i, int j, __global const float *data);\n");
}

/* In whatever way a directive is written. */
static void macros_are_found_behind_comments_and_joined_lines(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.mask_mod = "/* \n */ # /* x\n y */ def\\\nine IN\\  \nFINITY 3\n"
                                                       "%: define max(a) a\n"
                                                       "const char *s = \"\\\"\n#define IN_A_STRING\";\n"
                                                       "/* #define IN_A_COMMENT\n#define ANOTHER */\n"
                                                       "#undef M_PI_F // and \\\n#define JOINED\n"};
    char *const got = texts_of(&problem);
    const char *const wanted[] = {"push_macro(\"INFINITY\")", "push_macro(\"max\")", "push_macro(\"IN_A_STRING\")",
                                  "push_macro(\"M_PI_F\")",   "#undef INFINITY\n",   "pop_macro(\"M_PI_F\")"};
    EACH (i, wanted)
        if (!strstr(got, wanted[i]))
            fail_msg("no %s in %s", wanted[i], got);
    assert_null(strstr(got, "(\"IN_A_COMMENT"));
    assert_null(strstr(got, "(\"ANOTHER"));
    assert_null(strstr(got, "(\"JOINED"));
    free(got);
}

/* The declaration that the compiler compares it with has the number of the line where the function is defined. */
static void functions_are_declared_where_they_are_defined(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line; /* 0: nothing is declared */
    } cases[] = {{"bool mask_mod(int b) { return b; }", 1},
                 {"// bool mask_mod(int b) {}\n/*\n*/ static\nbool\nmask_mod /* x */\n(int (b))\n{ return b; }", 5},
                 {"bool mask_mod(int b);\nbool other() { mask_mod(1); return 0; }\nbool mask_mod(int b) {\n}", 3},
                 {"bool mask_mod(int b);", 0},
                 {"#include \"mine.cl\"", 0},
                 {"bool my_mask_mod(int b) {} bool mask_mod_2() {} bool f() { return mask_mod(1) {} }", 0},
                 {"\\\n\nbool mask_mod(", 0}};
    EACH (i, cases) {
        const struct clattn_problem problem = {.mask_mod = cases[i].text};
        char *const got = texts_of(&problem), line[64];
        const char *const found = strstr(got, "\"mask_mod\"\nbool mask_mod(int b, int h,");
        snprintf(line, sizeof line, "#line %d \"mask_mod\"\nbool mask_mod(int b, int h,", cases[i].line);
        if (!found != !cases[i].line || (found && !strstr(got, line)))
            fail_msg("case %zu: %s", i, got);
        free(got);
    }
}

static void empty_lines_are_lines(void **state)
{
    (void)state;
    expect(&(struct clattn_problem){.score_mod = "\n\n#define A 1\n\n", .mask_mod = "", .score_mod_grad = "\n"},
           "#pragma push_macro(\"A\")\n#line 1 \"score_mod\"\n\n\n#define A 1\n\n\n"
           "#line 1 \"score_mod_grad\"\n\n\n#line 1 \"mask_mod\"\n\n#undef A\n#pragma pop_macro(\"A\")\n");
}

static void a_byte_order_mark_is_passed_over(void **state)
{
    (void)state;
    expect(&(struct clattn_problem){.mask_mod = "\xef\xbb\xbf#define A 1\n\xef\xbb\xbf"},
           "#pragma push_macro(\"A\")\n#line 1 \"mask_mod\"\n#define A 1\n\xef\xbb\xbf\n"
           "#undef A\n#pragma pop_macro(\"A\")\n");
}

/* A backslash at the end would join the library's next line to it. */
static void a_backslash_at_the_end_joins_nothing(void **state)
{
    (void)state;
    expect(&(struct clattn_problem){.mask_mod = "#define A 1 \\"},
           "#pragma push_macro(\"A\")\n#line 1 \"mask_mod\"\n#define A 1 \\\n\n#undef A\n#pragma pop_macro(\"A\")\n");
}

static void no_text_is_no_text(void **state)
{
    (void)state;
    const struct clattn_problem problem = {0};
    assert_null(texts_of(&problem));
    assert_int_equal(cla_user_texts_check(&problem, &error), CLATTN_SUCCESS);
}

static void names_of_the_library_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: taken */
    } cases[] = {{"my_clattn_x 1clattn\nx.clattned", "mask_mod:2: \"clattned\""},
                 {"\n\n#undef CLATTN_D\n#define CLATTN_D 512", "mask_mod:3: \"CLATTN_D\""},
                 {"/* \n */\\\n#define CLAT\\\nTN_D 512", "mask_mod:3: \"CLATTN_D\""},
                 {"\xef\xbb\xbf#define /* a */ CLATTN_INLINE", "mask_mod:1: \"CLATTN_INLINE\""},
                 {"float clattn_load(float x) { return x; }", "\"clattn_load\""},
                 {"// of clattn\n/* CLATTN_D */ const char *s = \"clattn\", c = 'c';", NULL},
                 {"Clattn my_clattn_x", NULL},
                 {"'\n#define CLATTN_D 1", "mask_mod:2: \"CLATTN_D\""},
                 {"\"\\\\\" CLATTN_D", "mask_mod:1: \"CLATTN_D\""},
                 {"\n/* one */ // /*\n x /* two \n // */ y", NULL},
                 {"\n/* one */\n x /* two \n CLATTN_D * /", "mask_mod:3: the comment"},
                 {"/", NULL},
                 {"/\\\n*", "mask_mod:2: the comment"}};
    EACH (i, cases) {
        const struct clattn_problem problem = {.score_mod = "", .mask_mod = cases[i].text};
        const clattn_status status = cla_user_texts_check(&problem, &error);
        if (status != (cases[i].says ? CLATTN_INVALID_ARGUMENT : CLATTN_SUCCESS) ||
            (status && !strstr(error.text, cases[i].says)))
            fail_msg("case %zu: status %d, %s", i, status, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macros_are_put_back_behind_their_texts),
        cmocka_unit_test(macros_are_found_behind_comments_and_joined_lines),
        cmocka_unit_test(functions_are_declared_where_they_are_defined),
        cmocka_unit_test(empty_lines_are_lines),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(a_backslash_at_the_end_joins_nothing),
        cmocka_unit_test(no_text_is_no_text),
        cmocka_unit_test(names_of_the_library_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
