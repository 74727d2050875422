/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Data at the edge of what the arithmetic takes, and data that must have no effect at all. */
#include "support/compare.h"
#include "support/unit.h"
#include <float.h>
#include <math.h>
#include <string.h>

static struct test_device device;

enum { D = 40, N = 90, HEADS = 2 };

static struct forward_case basic(const char *skeleton, int dtype)
{
    return (struct forward_case){.problem = {.dtype = (enum clattn_dtype)dtype, .d = D, .skeleton = skeleton},
                                 .shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N},
                                 .seed = 21};
}

/* Runs a check for each skeleton and type, and counts what fails. */
typedef bool (*edge_function)(struct forward_case forward);

static void holds_everywhere(edge_function holds)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
            struct forward_case forward = basic((*skeleton)->name, dtype);
            forward.problem.knobs = test_knobs(*skeleton, dtype);
            if (test_takes(&device, *skeleton, dtype, 3) && test_serves(&device, &forward.problem) && !holds(forward)) {
                print_error("fails: %s, %s\n", (*skeleton)->name, clattn_dtype_name((enum clattn_dtype)dtype));
                failures++;
            }
        }
    assert_int_equal(failures, 0);
}

static bool huge_scores(struct forward_case forward)
{
    forward.spread = forward.problem.dtype == CLATTN_FP16 ? 5e3 : 1e4;
    return forward_check(&device, &forward);
}

static bool tiny_scores(struct forward_case forward)
{
    forward.spread = 1e-6;
    return forward_check(&device, &forward);
}

/* Two runs that may differ in nothing but what the second's inputs have where it must not matter. */
struct pair {
    struct forward_arrays clean, dirty;
};

static bool pair_make(const struct forward_case *forward, struct pair *pair)
{
    return forward_arrays_make(forward, &pair->clean) && forward_arrays_make(forward, &pair->dirty);
}

static bool pair_run(const struct forward_case *forward, struct pair *pair)
{
    return forward_run(&device, NULL, forward, &pair->clean) && forward_run(&device, NULL, forward, &pair->dirty);
}

static void pair_free(struct pair *pair)
{
    forward_arrays_free(&pair->clean);
    forward_arrays_free(&pair->dirty);
}

/* A kernel may take its decisions for a whole block of rows, so that the data of one row moves the rounding of another:
 * as far as the reordering of a sum, and one step of the type that O is stored in. */
static bool same_but_for_rounding(const struct forward_case *forward, const struct pair *pair, size_t first,
                                  size_t rows)
{
    static const double steps[] = {[CLATTN_FP32] = 1e-5, [CLATTN_FP16] = 4e-3, [CLATTN_BF16] = 4e-2};
    return compare_close("o", pair->clean.o + first * D, pair->dirty.o + first * D, rows * D,
                         steps[forward->problem.dtype]) &&
           compare_close("lse", pair->clean.lse + first, pair->dirty.lse + first, rows, 1e-5);
}

static void spoil_key(struct forward_arrays *arrays, size_t n_kv, size_t j, float key, float value)
{
    for (size_t head = 0; head < HEADS; head++)
        for (size_t c = 0; c < D; c++) {
            arrays->k[(head * n_kv + j) * D + c] = key;
            arrays->v[(head * n_kv + j) * D + c] = value;
        }
}

static const float poisons[] = {NAN, INFINITY, -INFINITY};
enum { POISONS = sizeof poisons / sizeof poisons[0] };

/* Top-left causal with more keys than rows: the keys at the end are hidden from all. */
static bool keys_that_no_row_sees(struct forward_case forward)
{
    bool same = true;
    forward.problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    forward.shape.n_q = 45;
    for (int i = 0; i < POISONS && same; i++) {
        struct pair pair;
        same = pair_make(&forward, &pair);
        for (size_t j = 45; j < N; j++)
            spoil_key(&pair.dirty, N, j, poisons[i], poisons[(i + 1) % POISONS]);
        same = same && pair_run(&forward, &pair) && same_but_for_rounding(&forward, &pair, 0, HEADS * 45);
        pair_free(&pair);
    }
    return same;
}

/* Key j is hidden from the rows before j alone: they must not notice what it is, whichever block they share with the
 * others. */
static bool earlier_rows_do_not_notice(struct forward_case forward, bool spoil_k, bool spoil_v)
{
    static const size_t keys[] = {N - 1, 64, 33, 17, 1};
    bool same = true;
    forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && same; i++) {
        const float poison = poisons[i % POISONS];
        struct pair pair;
        same = pair_make(&forward, &pair);
        spoil_key(&pair.dirty, N, keys[i], spoil_k ? poison : 1.0f, spoil_v ? poison : 1.0f);
        same = same && pair_run(&forward, &pair);
        for (size_t head = 0; head < HEADS && same; head++)
            same = same_but_for_rounding(&forward, &pair, head * N, keys[i]);
        pair_free(&pair);
    }
    return same;
}

static bool hidden_keys(struct forward_case forward)
{
    return earlier_rows_do_not_notice(forward, true, false);
}

static bool hidden_values(struct forward_case forward)
{
    return earlier_rows_do_not_notice(forward, false, true);
}

/* A score of -inf, as an additive mask in an extra dimension makes it, is a key that weighs nothing. */
static bool scores_of_minus_infinity(struct forward_case forward)
{
    struct pair pair;
    bool same = pair_make(&forward, &pair);
    for (size_t i = 0; same && i < HEADS * N; i++)
        pair.clean.q[i * D] = pair.dirty.q[i * D] = 1.0f;
    for (size_t i = 0; same && i < HEADS * N; i += 3) {
        pair.clean.k[i * D] = -30000.0f; /* so little that its exponential is 0 */
        pair.dirty.k[i * D] = -INFINITY;
    }
    same = same && pair_run(&forward, &pair) && same_but_for_rounding(&forward, &pair, 0, HEADS * N);
    pair_free(&pair);
    return same;
}

/* The mean of the largest values is the largest value, though their sum is not a number of the type. A weight is
 * rounded to bf16 before it meets V: where it is relative to a maximum that has been passed, the largest one is not 1,
 * and O may be the number beside. */
static bool largest_values(struct forward_case forward)
{
    struct forward_arrays arrays;
    const float largest = forward.problem.dtype == CLATTN_FP16 ? 65504.0f : 0x1p+120f;
    const float allowed = forward.problem.dtype == CLATTN_BF16 ? 0x1p-7f : 32.0f * FLT_EPSILON;
    bool right = forward_arrays_make(&forward, &arrays);
    for (size_t i = 0; right && i < HEADS * N * D; i++)
        arrays.v[i] = largest;
    right = right && forward_run(&device, NULL, &forward, &arrays);
    for (size_t i = 0; right && i < HEADS * N * D; i++)
        right = fabsf(arrays.o[i] / largest - 1.0f) <= allowed;
    forward_arrays_free(&arrays);
    return right;
}

/* Equal scores everywhere: the plain mean, and LSE = ln n. */
static bool equal_scores(struct forward_case forward)
{
    struct forward_arrays arrays;
    bool right = forward_arrays_make(&forward, &arrays);
    if (right)
        memset(arrays.q, 0, HEADS * N * D * sizeof(float));
    right = right && forward_run(&device, NULL, &forward, &arrays) && compare_outputs(&forward, &arrays);
    for (size_t i = 0; right && i < HEADS * N; i++)
        right = arrays.m[i] == 0.0f && fabsf(arrays.lse[i] - logf(N)) < 4.0f * FLT_EPSILON * logf(N);
    forward_arrays_free(&arrays);
    return right;
}

#define EDGE(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        holds_everywhere(name);                                                                                        \
    }
EDGE(huge_scores)
EDGE(tiny_scores)
EDGE(keys_that_no_row_sees)
EDGE(hidden_keys)
EDGE(hidden_values)
EDGE(scores_of_minus_infinity)
EDGE(largest_values)
EDGE(equal_scores)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huge_scores),           cmocka_unit_test(test_tiny_scores),
        cmocka_unit_test(test_keys_that_no_row_sees), cmocka_unit_test(test_hidden_keys),
        cmocka_unit_test(test_hidden_values),         cmocka_unit_test(test_scores_of_minus_infinity),
        cmocka_unit_test(test_largest_values),        cmocka_unit_test(test_equal_scores),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
