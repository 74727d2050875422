/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The variants that the library can make of a skeleton, against the float64 reference: d x type x causal. The argument
 * names the skeleton, so that the enumeration can be spread over processes. Without CLATTN_TEST_FULL=1 each d meets
 * each type once and each mask once, in a Latin square, and not all nine pairs of them (a d that is much like its
 * neighbours one type and mask), of which a turn takes all of the usual d, a third of others' and half of the
 * neighbours'; and of a skeleton that is for other devices a sample is taken, or, with `all` as
 * second argument, the whole square. */
#include "plan/sizes.h"
#include "plan/skeleton.h"
#include "plan/splits.h"
#include "support/forward.h"
#include "support/turn.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

static struct test_device device;
static const struct cla_skeleton *skeleton;
static bool all;

static const int head_dimensions[] = {1, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256, 320, 512};
enum { DIMENSIONS = sizeof head_dimensions / sizeof head_dimensions[0] };

static bool is_like_its_neighbours(int d)
{
    return d != 1 && d != 64 && d != 128 && d != 512;
}

static bool is_usual(int d)
{
    return d == 64 || d == 128;
}

/* Lengths, in the order of the work they make. The last are for one type and a small d alone: the reference takes its
 * time. */
static const int64_t lengths[][2] = {{1, 1},     {3, 799},   {799, 3},   {113, 203},
                                     {203, 113}, {108, 256}, {512, 256}, {1023, 1024}};
enum { SHORT_LENGTHS = 6, LENGTHS = sizeof lengths / sizeof lengths[0], MOST_WORK = 1 << 24 };

/* Each variant gets three pairs of lengths; going through the dimensions, each type and mask meets all of them. */
enum { PAIRS = 3 };

static int64_t work(const int64_t pair[2], int d)
{
    return pair[0] * pair[1] * d;
}

/* The pair of lengths for the n-th try of a variant: a walk through the table, back to the short ones where the work is
 * too much. */
static const int64_t *pick_lengths(int variant, int n, int d)
{
    const int at = (variant * PAIRS + n * 5 + variant / DIMENSIONS) % LENGTHS;
    return work(lengths[at], d) <= MOST_WORK ? lengths[at] : lengths[at % SHORT_LENGTHS];
}

static bool in_square(int variant)
{
    const int i = variant % DIMENSIONS, causal = variant / DIMENSIONS % 3, dtype = variant / DIMENSIONS / 3;
    if (test_is_full())
        return true;
    if ((i + causal + dtype) % 3 != 0)
        return false;
    if (is_like_its_neighbours(head_dimensions[i]))
        return dtype == i / 2 % 3 && test_is_turn(i / 2, 2);
    return is_usual(head_dimensions[i]) || test_is_turn(i + dtype, 3);
}

static bool is_taken(int variant, int d, enum clattn_dtype dtype)
{
    const struct clattn_problem problem = {.dtype = dtype, .d = d, .skeleton = skeleton->name};
    const bool in_sample = (variant + 7) % 19 == 0;
    return (in_sample || (in_square(variant) && (all || test_takes(&device, skeleton, variant + 7, 19)))) &&
           test_serves(&device, &problem);
}

static bool check_variant(int variant, int d, enum clattn_dtype dtype, enum clattn_causal causal)
{
    bool right = true;
    for (int n = 0; n < PAIRS; n++) {
        const int64_t *pair = pick_lengths(variant, n, d);
        const struct forward_case forward = {.problem = {.dtype = dtype,
                                                         .d = d,
                                                         .causal = causal,
                                                         .skeleton = skeleton->name,
                                                         .knobs = test_knobs(skeleton, variant + n)},
                                             .shape = {.batch = 1, .heads = 1, .n_q = pair[0], .n_kv = pair[1]},
                                             .seed = (uint64_t)(variant * PAIRS + n + 1)};
        right = forward_check(&device, &forward) && right;
    }
    return right;
}

static int failures_of(enum clattn_dtype dtype)
{
    int failures = 0;
    for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
        for (int i = 0; i < DIMENSIONS; i++) {
            const int variant = ((int)dtype * 3 + causal) * DIMENSIONS + i;
            if (is_taken(variant, head_dimensions[i], dtype))
                failures += !check_variant(variant, head_dimensions[i], dtype, (enum clattn_causal)causal);
        }
    return failures;
}

static void fp32_is_right(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CLATTN_FP32), 0);
}

static void fp16_is_right(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CLATTN_FP16), 0);
}

static void bf16_is_right(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CLATTN_BF16), 0);
}

/* So many causal blocks of rows for each work-group that stays that it no longer takes those of all heads together. */
static void blocks_are_many(void **state)
{
    (void)state;
    enum { BLOCKS = 3, BATCH = 2 };
    const int64_t units = clattn_context_capabilities(device.clattn)->compute_units;
    struct forward_case forward = {.problem = {.dtype = CLATTN_FP16,
                                               .d = 16,
                                               .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                               .b_r = strcmp(skeleton->name, "forward_hopper") == 0 ? 64 : 0,
                                               .skeleton = skeleton->name},
                                   .shape = {.batch = BATCH, .n_q = BLOCKS * 64 - 50, .n_kv = BLOCKS * 64 - 30},
                                   .seed = 8};
    if (!test_serves(&device, &forward.problem))
        return;
    forward.shape.kv_heads = cla_together_sizes.forward_hopper_rounds * units / (BLOCKS * BATCH * 2) + 1;
    forward.shape.heads = 2 * forward.shape.kv_heads;
    assert_true(forward_check(&device, &forward));
}

/* Which sizes are planned depends on the lengths that are expected, what they compute does not: those for short and for
 * long sequences of many heads, on a shape of two blocks of rows and more. A CPU, which compiles for seconds, has one.
 */
static void sizes_for_all_lengths(void **state)
{
    (void)state;
    const int dimensions[] = {64, 128};
    const int64_t expected[] = {16384, 4096, 2048, 512};
    const bool is_cpu = clattn_context_capabilities(device.clattn)->type == CLATTN_DEVICE_CPU;
    enum { CASES = 2 * 2 * 4 * 2 };
    int failures = 0;
    for (int i = 0; i < (is_cpu ? 1 : CASES); i++) {
        const int64_t n = expected[i / 2 % 4];
        const struct forward_case forward = {.problem = {.dtype = i / 8 % 2 ? CLATTN_BF16 : CLATTN_FP16,
                                                         .d = dimensions[i / 16],
                                                         .causal = i % 2 ? CLATTN_FULL : CLATTN_CAUSAL_BOTTOM_RIGHT,
                                                         .skeleton = skeleton->name,
                                                         .expected_heads = 256,
                                                         .expected_n_q = n,
                                                         .expected_n_kv = n},
                                             .shape = {.batch = 1, .heads = 2, .n_q = 407, .n_kv = 559},
                                             .seed = (uint64_t)i};
        failures += test_serves(&device, &forward.problem) && !forward_check(&device, &forward);
    }
    assert_int_equal(failures, 0);
}

/* forward_hopper's largest work-groups, which the tuner may take: blocks of rows that end within each of the four
 * consumers. */
static void four_consumers(void **state)
{
    (void)state;
    const int64_t rows[] = {1, 65, 200, 256, 1000};
    int failures = 0;
    if (strcmp(skeleton->name, "forward_hopper") != 0)
        skip();
    for (int i = 0; i < 5 * 2 * 2 * 2; i++) {
        const struct forward_case forward = {
            .problem = {.dtype = i % 2 ? CLATTN_BF16 : CLATTN_FP16,
                        .d = i / 2 % 2 ? 40 : 64,
                        .causal = i / 4 % 2 ? CLATTN_FULL : CLATTN_CAUSAL_BOTTOM_RIGHT,
                        .skeleton = skeleton->name,
                        .b_r = 256,
                        .b_c = 64},
            .shape = {.batch = 2, .heads = 6, .kv_heads = 3, .n_q = rows[i / 8], .n_kv = 1111},
            .seed = (uint64_t)i};
        failures += !forward_check(&device, &forward);
    }
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    all = argc > 2 && strcmp(argv[2], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(fp32_is_right),         cmocka_unit_test(fp16_is_right),
                                       cmocka_unit_test(bf16_is_right),         cmocka_unit_test(blocks_are_many),
                                       cmocka_unit_test(sizes_for_all_lengths), cmocka_unit_test(four_consumers)};
    skeleton = test_device_open_for(&device, argc, argv);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
