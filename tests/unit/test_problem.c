/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/problem.h"
#include "plan/problem_members.h"
#include "support/unit.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static struct cla_error error;

/* The message must name the argument and show its value. */
static void assert_message(const char *name, const char *value)
{
    assert_non_null(strstr(error.text, name));
    assert_non_null(strstr(error.text, value));
}

static void defaults_are_put_in_place(void **state)
{
    (void)state;
    struct clattn_problem resolved;
    assert_int_equal(cla_problem_resolve(&(struct clattn_problem){.d = 64}, &resolved, &error), CLATTN_SUCCESS);
    assert_int_equal(resolved.d_v, 64);
    assert_true(resolved.scale == 0.125f);
    assert_int_equal(resolved.dtype, CLATTN_FP32);
}

static const struct {
    struct clattn_problem problem;
    clattn_status status;
    const char *name, *value;
} bad_problems[] = {
    {{.d = 0}, CLATTN_INVALID_SHAPE, "problem.d", "0"},
    {{.d = -3}, CLATTN_INVALID_SHAPE, "problem.d", "-3"},
    {{.d = 577}, CLATTN_INVALID_SHAPE, "problem.d", "577"},
    {{.d = 576}, CLATTN_INVALID_SHAPE, "problem.d_v", "d = 576"},
    {{.d = 513, .d_v = 64, .pass = CLATTN_BACKWARD}, CLATTN_INVALID_SHAPE, "problem.d is 513", "gradients"},
    {{.d = 64, .d_v = 513}, CLATTN_INVALID_SHAPE, "problem.d_v", "513"},
    {{.d = 64, .d_v = -1}, CLATTN_INVALID_SHAPE, "problem.d_v", "-1"},
    {{.d = 64, .dtype = (enum clattn_dtype)3}, CLATTN_INVALID_TYPE, "problem.dtype", "3"},
    {{.d = 64, .causal = (enum clattn_causal)7}, CLATTN_INVALID_ARGUMENT, "problem.causal", "7"},
    {{.d = 64, .scale = NAN}, CLATTN_INVALID_ARGUMENT, "problem.scale", "finite"},
    {{.d = 64, .scale = INFINITY}, CLATTN_INVALID_ARGUMENT, "problem.scale", "finite"},
    {{.d = 64, .expected_n_q = -1}, CLATTN_INVALID_SHAPE, "expected_n_q", "-1"},
    {{.d = 64, .expected_n_kv = -2}, CLATTN_INVALID_SHAPE, "expected_n_kv", "-2"},
    {{.d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .expected_density = -0.5f},
     CLATTN_INVALID_ARGUMENT,
     "problem.expected_density",
     "-0.5"},
    {{.d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .expected_density = 1.5f},
     CLATTN_INVALID_ARGUMENT,
     "problem.expected_density",
     "1.5"},
    {{.d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .expected_density = NAN},
     CLATTN_INVALID_ARGUMENT,
     "problem.expected_density",
     "nan"},
    {{.d = 64, .expected_density = 0.5f},
     CLATTN_INVALID_ARGUMENT,
     "problem.expected_density is 0.5",
     "CLATTN_BLOCK_MASK"},
    {{.d = 64, .features = CLATTN_BIAS_SLOPES}, CLATTN_INVALID_ARGUMENT, "CLATTN_BIAS_SLOPES", "without CLATTN_BIAS"},
    {{.d = 64, .b_r = -1}, CLATTN_INVALID_ARGUMENT, "b_r", "-1"},
    {{.d = 64, .splits = -2}, CLATTN_INVALID_ARGUMENT, "problem.splits", "-2"},
    {{.d = 64, .splits = CLATTN_MAX_SPLITS + 1}, CLATTN_INVALID_ARGUMENT, "problem.splits", "from 2 to"},
    {{.d = 64, .packing = -1}, CLATTN_INVALID_ARGUMENT, "problem.packing", "-1"},
    {{.d = 64, .packing = 3}, CLATTN_INVALID_ARGUMENT, "problem.packing", "3"},
    {{.d = 64, .packing = CLATTN_PACKING_ALWAYS, .pass = CLATTN_BACKWARD}, CLATTN_INVALID_ARGUMENT, "packing", "alone"},
    {{.d = 64, .knobs = "stages=2"}, CLATTN_INVALID_ARGUMENT, "problem.knobs", "stages=2"},
    {{.d = 64, .pass = (enum clattn_pass)4}, CLATTN_INVALID_ARGUMENT, "problem.pass", "4"},
    {{.d = 64, .pass = (enum clattn_pass) - 1}, CLATTN_INVALID_ARGUMENT, "problem.pass", "-1"},
    {{.d = 64, .features = 1u << 31}, CLATTN_INVALID_ARGUMENT, "problem.features", "0x80000000"},
    {{.d = 64, .work_group_size = 1 << 20}, CLATTN_INVALID_ARGUMENT, "work_group_size", "1048576"},
};

static void bad_problems_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_problems / sizeof *bad_problems; i++) {
        struct clattn_problem resolved, before;
        memset(&resolved, 0x5a, sizeof resolved);
        before = resolved;
        assert_int_equal(cla_problem_resolve(&bad_problems[i].problem, &resolved, &error), bad_problems[i].status);
        assert_message(bad_problems[i].name, bad_problems[i].value);
        assert_memory_equal(&resolved, &before, sizeof before);
    }
    struct clattn_problem resolved;
    assert_int_equal(cla_problem_resolve(NULL, &resolved, &error), CLATTN_INVALID_ARGUMENT);
}

static void masks_are_mostly_seen_from_three_quarters_on(void **state)
{
    (void)state;
    static const struct {
        float density;
        bool seen;
    } rows[] = {{0, false}, {0.01f, false}, {0.74f, false}, {0.75f, true}, {0.99f, true}, {1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct clattn_problem problem = {
            .d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .expected_density = rows[i].density};
        struct clattn_problem resolved;
        assert_int_equal(cla_problem_resolve(&problem, &resolved, &error), CLATTN_SUCCESS);
        assert_int_equal(cla_problem_is_mostly_seen(&resolved), rows[i].seen);
    }
}

static void bad_shapes_are_named(void **state)
{
    (void)state;
    const struct {
        struct clattn_shape shape;
        clattn_status status;
        const char *name, *value;
    } cases[] = {
        {{.batch = -1, .heads = 1}, CLATTN_INVALID_SHAPE, "shape.batch", "-1"},
        {{.batch = 1, .heads = 6, .kv_heads = 4}, CLATTN_INVALID_SHAPE, "shape.kv_heads", "4"},
        {{.batch = 1, .heads = 2, .kv_heads = -2}, CLATTN_INVALID_SHAPE, "shape.kv_heads", "-2"},
        {{.batch = 1, .heads = 1, .n_q = INT64_C(1) << 31}, CLATTN_TOO_LARGE, "shape.n_q", "2147483648"},
        {{.batch = 1, .heads = 1, .n_kv = INT64_MAX}, CLATTN_TOO_LARGE, "shape.n_kv", "9223372036854775807"},
        {{.batch = INT64_C(1) << 31, .heads = 1}, CLATTN_TOO_LARGE, "shape.batch", "2147483648"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct clattn_shape resolved;
        assert_int_equal(cla_shape_resolve(&cases[i].shape, &resolved, &error), cases[i].status);
        assert_message(cases[i].name, cases[i].value);
    }
    struct clattn_shape resolved;
    assert_int_equal(cla_shape_resolve(&(struct clattn_shape){.batch = 2, .heads = 6}, &resolved, &error), 0);
    assert_int_equal(resolved.kv_heads, 6);
    assert_int_equal(cla_shape_resolve(&(struct clattn_shape){0}, &resolved, &error), 0);
}

static const struct cla_sizes sizes = {.batch = 2, .heads = 3, .rows = 5, .columns = 7};

static void the_default_layout_is_dense(void **state)
{
    (void)state;
    struct cla_layout resolved;
    int64_t end;
    assert_int_equal(
        cla_layout_resolve("q", &(struct clattn_layout){.offset = 11}, &sizes, false, &resolved, &end, &error), 0);
    assert_int_equal(resolved.batch, 105);
    assert_int_equal(resolved.head, 35);
    assert_int_equal(resolved.row, 7);
    assert_int_equal(resolved.column, 1);
    assert_int_equal(end, 11 + 210);
    assert_true(cla_layout_is_dense(&resolved, &sizes));
    const struct clattn_layout bnhd = clattn_layout_bnhd(3, 5, 7);
    assert_int_equal(cla_layout_resolve("q", &bnhd, &sizes, false, &resolved, &end, &error), 0);
    assert_true(cla_layout_is_dense(&resolved, &sizes));
    assert_int_equal(bnhd.row, 21);
    assert_int_equal(cla_layout_resolve("q", &bnhd, &sizes, true, &resolved, &end, &error), 0);
    assert_true(cla_layout_is_dense(&resolved, &sizes));
}

static void strides_of_zero_are_taken_at_their_word_where_the_layout_says_so(void **state)
{
    (void)state;
    const struct clattn_layout one = {.offset = 11, .strided = 1};
    struct cla_layout resolved;
    int64_t end;
    assert_int_equal(cla_layout_resolve("score.bias", &one, &sizes, false, &resolved, &end, &error), 0);
    assert_int_equal(end, 12); /* one element, whatever the sizes */
    assert_int_equal(resolved.batch, 0);
    assert_int_equal(resolved.head, 0);
    assert_int_equal(resolved.row, 0);
    assert_int_equal(resolved.column, 0);
    assert_int_equal(cla_layout_resolve("o", &one, &sizes, true, &resolved, &end, &error), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout", "share a place");
    const struct clattn_layout unknown = {.column = 1, .strided = 2};
    assert_int_equal(cla_layout_resolve("k", &unknown, &sizes, false, &resolved, &end, &error), CLATTN_INVALID_LAYOUT);
    assert_message("k.layout.strided", "2");
}

/* Where 64 bits do not hold the strides of a dense layout. */
static void dense_layouts_do_not_overflow(void **state)
{
    (void)state;
    const int64_t most = INT64_MAX, much = INT64_C(1) << 40;
    assert_int_equal(clattn_layout_bhnd(much, much, 2).batch, most);
    assert_int_equal(clattn_layout_bhnd(1, much, much).head, most);
    assert_int_equal(clattn_layout_bnhd(much, 2, much).row, most);
    assert_int_equal(clattn_layout_bnhd(much, much, 1).batch, most);
    assert_int_equal(clattn_layout_bhnd(most, most, most).batch, most);
}

static clattn_status resolve(struct clattn_layout layout, bool output)
{
    struct cla_layout resolved;
    int64_t end;
    return cla_layout_resolve("o", &layout, &sizes, output, &resolved, &end, &error);
}

static void outputs_may_not_overlap_themselves(void **state)
{
    (void)state;
    const struct clattn_layout shared_rows = {.batch = 105, .head = 35, .row = 6, .column = 1};
    assert_int_equal(resolve(shared_rows, false), CLATTN_SUCCESS);
    assert_int_equal(resolve(shared_rows, true), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout.row", "6");
    const struct clattn_layout broadcast = {.batch = 0, .head = 35, .row = 7, .column = 1};
    assert_int_equal(resolve(broadcast, false), CLATTN_SUCCESS);
    assert_int_equal(resolve(broadcast, true), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout.batch", "0");
    const struct clattn_layout gaps = {.batch = 1000, .head = 100, .row = 15, .column = 2};
    const struct cla_layout the_same = {.batch = 1000, .head = 100, .row = 15, .column = 2};
    assert_int_equal(resolve(gaps, true), CLATTN_SUCCESS);
    assert_false(cla_layout_is_dense(&the_same, &sizes));
}

static void negative_and_overflowing_strides_are_refused(void **state)
{
    (void)state;
    assert_int_equal(resolve((struct clattn_layout){.batch = 1, .head = -3}, false), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout.head", "-3");
    assert_int_equal(resolve((struct clattn_layout){.offset = -1}, false), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout.offset", "-1");
    assert_int_equal(resolve((struct clattn_layout){.batch = INT64_MAX, .column = 1}, false), CLATTN_INVALID_LAYOUT);
    assert_message("o.layout", "overflow");
    assert_int_equal(resolve((struct clattn_layout){.batch = INT64_MAX / 2, .head = INT64_MAX / 2, .column = 1}, false),
                     CLATTN_INVALID_LAYOUT);
    assert_int_equal(resolve((struct clattn_layout){.offset = INT64_MAX, .column = 1}, false), CLATTN_INVALID_LAYOUT);
    const struct cla_sizes huge = {.batch = 1 << 30, .heads = 1 << 30, .rows = 1 << 30, .columns = 512};
    struct cla_layout resolved;
    int64_t end;
    assert_int_equal(cla_layout_resolve("q", &(struct clattn_layout){0}, &huge, false, &resolved, &end, &error),
                     CLATTN_INVALID_LAYOUT);
    assert_message("q.layout", "overflows"); /* not a stride that it made itself */
}

static void an_empty_tensor_touches_nothing(void **state)
{
    (void)state;
    struct cla_layout resolved;
    int64_t end = -1;
    const struct cla_sizes empty = {.batch = 2, .heads = 3, .rows = 0, .columns = 7};
    assert_int_equal(cla_layout_resolve("o", &(struct clattn_layout){0}, &empty, true, &resolved, &end, &error), 0);
    assert_int_equal(end, 0);
}

/* Each word in front of the reserved room is a number of the table, one of the texts, or a gap before 8 bytes. */
static void every_number_is_in_the_table(void **state)
{
    (void)state;
    enum { WORDS = offsetof(struct clattn_problem, reserved) / 4 };
    static const size_t texts[] = {offsetof(struct clattn_problem, score_mod),
                                   offsetof(struct clattn_problem, score_mod_grad),
                                   offsetof(struct clattn_problem, mask_mod), offsetof(struct clattn_problem, skeleton),
                                   offsetof(struct clattn_problem, knobs)};
    bool known[WORDS + 2] = {false}, long_begins[WORDS + 2] = {false};
    for (int i = 0; i < CLA_PROBLEM_MEMBERS; i++) {
        const struct cla_problem_member *member = &cla_problem_members[i];
        assert_false(known[member->at / 4]);
        for (size_t at = 0; at < member->bytes; at += 4)
            known[(member->at + at) / 4] = true;
        long_begins[member->at / 4] = member->bytes == 8;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t at = 0; at < sizeof(char *); at += 4)
            known[(texts[i] + at) / 4] = true;
        long_begins[texts[i] / 4] = true;
    }
    for (int word = 0; word < WORDS; word++)
        if (!known[word] && !(word % 2 && long_begins[word + 1]))
            fail_msg("byte %d of struct clattn_problem is in no row of plan/problem_members.c", 4 * word);
}

static void numbers_are_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < CLA_PROBLEM_MEMBERS; i++) {
        const struct cla_problem_member *member = &cla_problem_members[i];
        struct clattn_problem one = {.d = 64}, other = one;
        assert_true(cla_problem_same_numbers(&one, &other));
        ((char *)&other)[member->at] ^= 1;
        assert_false(cla_problem_same_numbers(&one, &other));
        assert_true(cla_problem_member_of(&one, member) != cla_problem_member_of(&other, member));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_put_in_place),
        cmocka_unit_test(bad_problems_are_named),
        cmocka_unit_test(masks_are_mostly_seen_from_three_quarters_on),
        cmocka_unit_test(bad_shapes_are_named),
        cmocka_unit_test(the_default_layout_is_dense),
        cmocka_unit_test(strides_of_zero_are_taken_at_their_word_where_the_layout_says_so),
        cmocka_unit_test(dense_layouts_do_not_overflow),
        cmocka_unit_test(outputs_may_not_overlap_themselves),
        cmocka_unit_test(negative_and_overflowing_strides_are_refused),
        cmocka_unit_test(an_empty_tensor_touches_nothing),
        cmocka_unit_test(every_number_is_in_the_table),
        cmocka_unit_test(numbers_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
