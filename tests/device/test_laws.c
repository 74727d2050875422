/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Laws of attention that need no reference: what must stay the same when the data are changed in a known way. */
#include "support/compare.h"
#include "support/unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;

enum { D = 64, D_V = 48, N_Q = 70, N_KV = 150, HEADS = 2, KEY_ROWS = HEADS * N_KV, QUERY_ROWS = HEADS * N_Q };

/* Two runs of one law, with the error that reordering the sums may make. */
struct law {
    struct forward_case one, other;
    struct forward_arrays a, b;
    struct reference_floor allowed;
};

typedef bool (*law_function)(struct law *law);

static bool law_make(struct law *law, const char *skeleton, enum clattn_dtype dtype)
{
    *law = (struct law){.one = {.problem = {.dtype = dtype, .d = D, .d_v = D_V, .skeleton = skeleton},
                                .shape = {.batch = 1, .heads = HEADS, .n_q = N_Q, .n_kv = N_KV},
                                .seed = 11}};
    law->other = law->one;
    if (!forward_arrays_make(&law->one, &law->a) || !forward_arrays_make(&law->other, &law->b))
        return false;
    const struct reference_problem problem = forward_reference(&law->one);
    double *o = calloc(reference_o_count(&problem), sizeof *o);
    const bool made = o && reference_attention(&problem, law->a.q, law->a.k, law->a.v, o, NULL, NULL, NULL);
    if (made)
        law->allowed = reference_floor(&problem, law->a.q, law->a.k, law->a.v, o);
    free(o);
    return made;
}

static void law_free(struct law *law)
{
    forward_arrays_free(&law->a);
    forward_arrays_free(&law->b);
}

static bool run_both(struct law *law)
{
    return forward_run(&device, NULL, &law->one, &law->a) && forward_run(&device, NULL, &law->other, &law->b);
}

/* Both runs may be off by the floor, in opposite directions. */
static bool outputs_agree(const struct law *law)
{
    return compare_close("o", law->a.o, law->b.o, QUERY_ROWS * D_V, 2.0 * law->allowed.o);
}

static bool rows_agree(const struct law *law)
{
    return compare_close("lse", law->a.lse, law->b.lse, QUERY_ROWS, 2.0 * law->allowed.rows) &&
           compare_close("m", law->a.m, law->b.m, QUERY_ROWS, 2.0 * law->allowed.rows);
}

static bool constant_values(struct law *law)
{
    for (size_t i = 0; i < KEY_ROWS * D_V; i++)
        law->a.v[i] = reference_round(law->one.problem.dtype, 0.1f * (float)(1 + i % D_V));
    if (!forward_run(&device, NULL, &law->one, &law->a))
        return false;
    for (size_t i = 0; i < QUERY_ROWS * D_V; i++)
        law->b.o[i] = law->a.v[i % D_V];
    return outputs_agree(law);
}

static void copy_key(const struct law *law, size_t from, size_t to)
{
    memcpy(law->b.k + to * D, law->a.k + from * D, D * sizeof(float));
    memcpy(law->b.v + to * D_V, law->a.v + from * D_V, D_V * sizeof(float));
}

static bool permuted_keys(struct law *law)
{
    for (size_t head = 0; head < HEADS; head++)
        for (size_t j = 0; j < N_KV; j++)
            copy_key(law, head * N_KV + j, head * N_KV + (j * 77 + 5) % N_KV); /* 77 and N_KV have no common divisor */
    return run_both(law) && outputs_agree(law) && rows_agree(law);
}

/* A further dimension that is 1 in each key and c in each query adds scale * c to every score. */
static bool shifted_scores(struct law *law)
{
    enum { MORE = D + 1 };
    static const float shift = 8.0f;
    const float scale = 1.0f / 8.0f; /* 1 / sqrt(64), said so that d + 1 does not change it */
    law->one.problem.scale = law->other.problem.scale = scale;
    law->other.problem.d = MORE;
    struct forward_arrays more;
    if (!forward_arrays_make(&law->other, &more))
        return false;
    for (size_t i = 0; i < QUERY_ROWS * MORE; i++)
        more.q[i] = i % MORE < D ? law->a.q[i / MORE * D + i % MORE] : shift;
    for (size_t i = 0; i < KEY_ROWS * MORE; i++)
        more.k[i] = i % MORE < D ? law->a.k[i / MORE * D + i % MORE] : 1.0f;
    memcpy(more.v, law->a.v, KEY_ROWS * D_V * sizeof(float));
    forward_arrays_free(&law->b);
    law->b = more;
    if (!run_both(law))
        return false;
    for (size_t i = 0; i < QUERY_ROWS; i++) {
        law->b.lse[i] -= scale * shift;
        law->b.m[i] -= scale * shift;
    }
    return outputs_agree(law) && rows_agree(law);
}

static bool linear_in_values(struct law *law)
{
    /* o(v + w) = o(v) + o(w), with w = -3 v reversed along the columns so that nothing cancels by symmetry. The values
     * are whole numbers, so that their sums are exact in every type. */
    for (size_t i = 0; i < KEY_ROWS * D_V; i++) {
        law->a.v[i] = (float)((int)(i * 7 % 23) - 11);
        law->b.v[i] = (float)((int)(i * 5 % 19) - 9);
    }
    float *sum = calloc(QUERY_ROWS * D_V, sizeof *sum);
    bool holds = sum && run_both(law);
    for (size_t i = 0; holds && i < QUERY_ROWS * D_V; i++)
        sum[i] = law->a.o[i] + law->b.o[i];
    for (size_t i = 0; i < KEY_ROWS * D_V; i++)
        law->a.v[i] += law->b.v[i];
    /* The floor is for values of about 4; these reach 20, and three outputs are rounded. */
    holds = holds && forward_run(&device, NULL, &law->one, &law->a) &&
            compare_close("o", law->a.o, sum, QUERY_ROWS * D_V,
                          3.0 * (law->allowed.o * 5.0 + (law->one.problem.dtype == CLATTN_BF16 ? 0.0625 : 0.0)));
    free(sum);
    return holds;
}

/* The halves of a split: keys [0, CUT) and [CUT, N_KV), seen as views of the same arrays. */
enum { CUT = 61 };

static bool split_and_merge(struct law *law)
{
    struct forward_arrays halves[2];
    for (int half = 0; half < 2; half++) {
        struct forward_case part = law->one;
        const size_t first = half ? CUT : 0, count = half ? N_KV - CUT : CUT;
        part.shape.n_kv = (int64_t)count;
        if (!forward_arrays_make(&part, &halves[half]))
            return false;
        memcpy(halves[half].q, law->a.q, QUERY_ROWS * D * sizeof(float));
        for (size_t head = 0; head < HEADS; head++) {
            memcpy(halves[half].k + head * count * D, law->a.k + (head * N_KV + first) * D, count * D * sizeof(float));
            memcpy(halves[half].v + head * count * D_V, law->a.v + (head * N_KV + first) * D_V,
                   count * D_V * sizeof(float));
        }
        if (!forward_run(&device, NULL, &part, &halves[half]))
            return false;
    }
    for (size_t i = 0; i < QUERY_ROWS; i++) {
        const float m = fmaxf(halves[0].m[i], halves[1].m[i]);
        const float l0 = halves[0].l[i] * expf(halves[0].m[i] - m), l1 = halves[1].l[i] * expf(halves[1].m[i] - m);
        law->b.m[i] = m;
        law->b.l[i] = l0 + l1;
        law->b.lse[i] = m + logf(l0 + l1);
        for (size_t c = 0; c < D_V; c++)
            law->b.o[i * D_V + c] = (halves[0].o[i * D_V + c] * l0 + halves[1].o[i * D_V + c] * l1) / (l0 + l1);
    }
    forward_arrays_free(&halves[0]);
    forward_arrays_free(&halves[1]);
    return forward_run(&device, NULL, &law->one, &law->a) && outputs_agree(law) && rows_agree(law);
}

/* A batch of two is two batches of one, to the bit: rows know nothing of each other. */
static bool batch_is_separate(struct law *law)
{
    struct forward_case pair = law->one;
    struct forward_arrays both;
    pair.shape.batch = 2;
    if (!forward_arrays_make(&pair, &both))
        return false;
    bool holds = forward_run(&device, NULL, &pair, &both);
    for (size_t batch = 0; batch < 2 && holds; batch++) {
        memcpy(law->a.q, both.q + batch * QUERY_ROWS * D, QUERY_ROWS * D * sizeof(float));
        memcpy(law->a.k, both.k + batch * KEY_ROWS * D, KEY_ROWS * D * sizeof(float));
        memcpy(law->a.v, both.v + batch * KEY_ROWS * D_V, KEY_ROWS * D_V * sizeof(float));
        holds = forward_run(&device, NULL, &law->one, &law->a) &&
                compare_close("o", law->a.o, both.o + batch * QUERY_ROWS * D_V, QUERY_ROWS * D_V, 0.0) &&
                compare_close("lse", law->a.lse, both.lse + batch * QUERY_ROWS, QUERY_ROWS, 0.0);
    }
    forward_arrays_free(&both);
    return holds;
}

/* All lower-case constants of a law, for each skeleton and type. */
static void holds_everywhere(law_function holds)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
            struct law law;
            const struct clattn_problem problem = {
                .dtype = (enum clattn_dtype)dtype, .d = D, .skeleton = (*skeleton)->name};
            if (!test_takes(&device, *skeleton, dtype, 3) || !test_serves(&device, &problem))
                continue;
            if (!law_make(&law, (*skeleton)->name, (enum clattn_dtype)dtype) || !holds(&law)) {
                print_error("fails: %s, %s\n", (*skeleton)->name, clattn_dtype_name((enum clattn_dtype)dtype));
                failures++;
            }
            law_free(&law);
        }
    assert_int_equal(failures, 0);
}

#define LAW(name)                                                                                                      \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        holds_everywhere(name);                                                                                        \
    }
LAW(constant_values)
LAW(permuted_keys)
LAW(shifted_scores)
LAW(linear_in_values)
LAW(split_and_merge)
LAW(batch_is_separate)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_values), cmocka_unit_test(test_permuted_keys),
        cmocka_unit_test(test_shifted_scores),  cmocka_unit_test(test_linear_in_values),
        cmocka_unit_test(test_split_and_merge), cmocka_unit_test(test_batch_is_separate),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
