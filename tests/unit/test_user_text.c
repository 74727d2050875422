/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The user's texts in a program: their lines, their macros, and names that are not theirs. */
#include "plan/user_text.h"
#include "support/unit.h"
#include <string.h>

static void macros_end_with_their_texts(void **state)
{
    (void)state;
    const struct clattn_problem problem = {
        .score_mod = "#define A 1\nfloat score_mod() { return A; }\n\t#  define\tB(x) x\n#define CLATTN_D 3\n#definely "
                     "not\n#define",
        .mask_mod = "bool mask_mod() { return A; } // #define C\n#undef A\n#if 0\r\n#define D_1\r\n#endif"};
    struct cla_text text = {0};
    cla_user_texts(&problem, &text);
    assert_string_equal(text.data,
                        "#line 1 \"score_mod\"\n#define A 1\nfloat score_mod() { return A; }\n\t#  define\tB(x) "
                        "x\n#define CLATTN_D 3\n#definely not\n#define\n"
                        "#line 1 \"mask_mod\"\nbool mask_mod() { return A; } // #define C\n#undef A\n#if "
                        "0\r\n#define D_1\r\n#endif\n"
                        "#undef A\n#undef B\n#undef D_1\n");
    cla_text_free(&text);
}

static void empty_lines_are_lines(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.score_mod = "\n\n#define A 1\n\n", .mask_mod = "", .score_mod_grad = "\n"};
    struct cla_text text = {0};
    cla_user_texts(&problem, &text);
    assert_string_equal(text.data, "#line 1 \"score_mod\"\n\n\n#define A 1\n\n\n"
                                   "#line 1 \"score_mod_grad\"\n\n\n#line 1 \"mask_mod\"\n\n#undef A\n");
    cla_text_free(&text);
}

static void no_text_is_no_text(void **state)
{
    (void)state;
    const struct clattn_problem problem = {0};
    struct cla_text text = {0};
    cla_user_texts(&problem, &text);
    assert_null(text.data);
    assert_null(cla_user_texts_reserved(&problem).field);
}

static void reserved_words_are_found(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.score_mod = "my_clattn_x 1clattn\nx.clattned",
                                           .mask_mod = "\n\nint CLATTN_D;"},
                                free_of = {.score_mod = "my_clattn_x", .score_mod_grad = "Clattn", .mask_mod = ""},
                                last = {.mask_mod = "\n\nint CLATTN_D;"};
    const struct cla_reserved_word first = cla_user_texts_reserved(&problem), third = cla_user_texts_reserved(&last);
    assert_string_equal(first.field, "score_mod");
    assert_int_equal(first.line, 2);
    assert_int_equal(first.length, 8);
    assert_memory_equal(first.word, "clattned", 8);
    assert_string_equal(third.field, "mask_mod");
    assert_int_equal(third.line, 3);
    assert_null(cla_user_texts_reserved(&free_of).field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(macros_end_with_their_texts),
                                       cmocka_unit_test(empty_lines_are_lines), cmocka_unit_test(no_text_is_no_text),
                                       cmocka_unit_test(reserved_words_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
