/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The judge is judged: the float64 reference against cases worked out by hand, and the rule against outputs known to be
 * right or wrong. Also how `clattn run` makes one problem of three arrays. */
#include "files/arrays.h"
#include "random.h"
#include "reference/reference.h"
#include "support/unit.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (1.0 + fabs(b));
}

static void masks_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_int_equal(reference_visible(CLATTN_FULL, 3, 5, 0), 5);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_TOP_LEFT, 3, 5, 0), 1);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_TOP_LEFT, 5, 3, 4), 3);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_BOTTOM_RIGHT, 3, 5, 0), 3);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_BOTTOM_RIGHT, 3, 5, 2), 5);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_BOTTOM_RIGHT, 5, 3, 1), 0);
    assert_int_equal(reference_visible(CLATTN_CAUSAL_BOTTOM_RIGHT, 5, 3, 2), 1);
    assert_true(reference_visible_pairs(CLATTN_FULL, 3, 5) == 15.0);
    assert_true(reference_visible_pairs(CLATTN_CAUSAL_TOP_LEFT, 4, 4) == 10.0);
    assert_true(reference_visible_pairs(CLATTN_CAUSAL_BOTTOM_RIGHT, 5, 3) == 6.0);
}

/* Two keys with logits ln 1 and ln 3: weights 1/4 and 3/4. */
static void two_keys_have_the_weights_of_their_logits(void **state)
{
    (void)state;
    const struct reference_problem problem = {
        .d = 1, .d_v = 2, .scale = 1.0, .shape = {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 2}};
    const float q[] = {1.0f}, k[] = {0.0f, 1.0986122886681098f}, v[] = {4.0f, 8.0f, 8.0f, 0.0f};
    double o[2], lse, m, l;
    assert_true(reference_attention(&problem, q, k, v, o, &lse, &m, &l));
    const double logit = (double)k[1], weight = exp(logit) / (1.0 + exp(logit));
    assert_true(near(o[0], 4.0 + 4.0 * weight) && near(o[1], 8.0 - 8.0 * weight));
    assert_true(near(lse, log(1.0 + exp(logit))) && near(m, logit) && near(l, 1.0 + exp(-logit)));
}

static void rows_that_see_nothing_are_zero(void **state)
{
    (void)state;
    const struct reference_problem problem = {
        .d = 1, .d_v = 1, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .shape = {.batch = 1, .heads = 1, .n_q = 2, .n_kv = 1}};
    const float q[] = {1.0f, 2.0f}, k[] = {3.0f}, v[] = {5.0f};
    double o[2], lse[2], m[2], l[2];
    assert_true(reference_attention(&problem, q, k, v, o, lse, m, l));
    assert_true(o[0] == 0.0 && isinf(lse[0]) && lse[0] < 0 && isinf(m[0]) && m[0] < 0 && l[0] == 0.0);
    assert_true(o[1] == 5.0 && near(lse[1], 6.0) && near(m[1], 6.0) && l[1] == 1.0);
}

static void query_heads_share_the_heads_of_keys(void **state)
{
    (void)state;
    const struct reference_problem problem = {
        .d = 1, .d_v = 1, .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 1, .n_kv = 1}};
    const float q[8] = {0}, k[4] = {0}, v[] = {1.0f, 2.0f, 3.0f, 4.0f};
    const double expected[] = {1, 1, 2, 2, 3, 3, 4, 4};
    double o[8];
    assert_true(reference_attention(&problem, q, k, v, o, NULL, NULL, NULL));
    assert_memory_equal(o, expected, sizeof expected);
}

/* Random data in every type: the naive run is close, and its error is what its type explains. */
static void the_naive_run_is_as_good_as_its_type(void **state)
{
    (void)state;
    static const double unit[] = {0x1p-24, 0x1p-11, 0x1p-8};
    for (int dtype = 0; dtype < 3; dtype++) {
        const struct reference_problem problem = {
            .dtype = (enum clattn_dtype)dtype,
            .d = 32,
            .d_v = 16,
            .causal = CLATTN_CAUSAL_TOP_LEFT,
            .shape = {.batch = 2, .heads = 2, .kv_heads = 1, .n_q = 20, .n_kv = 30}};
        float q[2 * 2 * 20 * 32], k[2 * 30 * 32], v[2 * 30 * 16], naive[2 * 2 * 20 * 16];
        double o[2 * 2 * 20 * 16];
        struct random random = {.state = 7};
        float *const inputs[] = {q, k, v};
        const size_t counts[] = {sizeof q / 4, sizeof k / 4, sizeof v / 4};
        for (int i = 0; i < 3; i++) {
            random_normal(&random, 1.0, inputs[i], counts[i]);
            for (size_t j = 0; j < counts[i]; j++)
                inputs[i][j] = reference_round(problem.dtype, inputs[i][j]);
        }
        assert_true(reference_attention(&problem, q, k, v, o, NULL, NULL, NULL));
        assert_true(reference_naive(&problem, q, k, v, naive));
        const struct reference_verdict verdict = reference_judge(naive, o, NULL, sizeof naive / 4, 0.0);
        assert_true(verdict.error > unit[dtype] / 8 && verdict.error < unit[dtype] * 64);
        const struct reference_floor floor = reference_floor(&problem, q, k, v, o);
        assert_true(floor.o > 0.0 && floor.o < unit[dtype] * 1024);
        assert_true(reference_judge(naive, o, naive, sizeof naive / 4, floor.o).pass);
        naive[7] += (float)(4.0 * verdict.error + floor.o);
        assert_false(reference_judge(naive, o, NULL, sizeof naive / 4, 2.0 * verdict.error + floor.o).pass);
    }
}

static void what_is_not_a_number_never_passes(void **state)
{
    (void)state;
    const double reference[] = {1.0, -INFINITY, 2.0};
    const float right[] = {1.0f, -INFINITY, 2.0f}, nan[] = {1.0f, NAN, 2.0f}, finite[] = {1.0f, -1e30f, 2.0f},
                other[] = {1.0f, INFINITY, 2.0f};
    assert_true(reference_judge(right, reference, NULL, 3, 0.0).pass);
    assert_false(reference_judge(nan, reference, NULL, 3, 1.0).pass);
    assert_int_equal(reference_judge(nan, reference, NULL, 3, 1.0).at, 1);
    assert_false(reference_judge(finite, reference, NULL, 3, 1.0).pass);
    assert_false(reference_judge(other, reference, NULL, 3, 1.0).pass);
    assert_false(reference_judge(right, reference, nan, 3, 1.0).pass); /* a naive run that failed excuses nothing */
    assert_true(reference_judge(NULL, NULL, NULL, 0, 0.0).pass);
}

static void tensors_go_to_their_places_and_back(void **state)
{
    (void)state;
    const int64_t sizes[4] = {2, 3, 4, 5};
    const struct clattn_layout layouts[] = {{.offset = 7},
                                            {.offset = 3, .batch = 60, .head = 5, .row = 15, .column = 1},
                                            {.offset = 1, .batch = 1000, .head = 200, .row = 20, .column = 2}};
    for (int dtype = 0; dtype < 3; dtype++) {
        for (int i = 0; i < 3; i++) {
            float dense[120], back[120];
            unsigned char storage[8192];
            for (int j = 0; j < 120; j++)
                dense[j] = (float)j; /* exact in every type */
            memset(storage, 0xff, sizeof storage);
            reference_scatter((enum clattn_dtype)dtype, sizes, &layouts[i], dense, storage);
            reference_gather((enum clattn_dtype)dtype, sizes, &layouts[i], storage, back);
            assert_memory_equal(dense, back, sizeof dense);
            const size_t end = reference_extent(sizes, &layouts[i]) * (dtype ? 2 : 4);
            assert_true(storage[end] == 0xff && storage[end - 1] != 0xff);
            reference_erase((enum clattn_dtype)dtype, sizes, &layouts[i], storage);
            for (size_t j = 0; j < sizeof storage; j++)
                assert_int_equal(storage[j], 0xff);
        }
    }
}

static struct npy_header header_of(enum npy_type type, int dimensions, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t all[] = {a, b, c, d};
    struct npy_header header = {.type = type, .dimensions = dimensions};
    memcpy(header.shape, all, sizeof all);
    return header;
}

static int match(const struct npy_header *q, const struct npy_header *k, const struct npy_header *v, bool bnhd,
                 int dtype, struct arrays *arrays, struct failure *failure)
{
    const struct arrays_request request = {.names = {"q.npy", "k.npy", "v.npy"},
                                           .headers = {q, k, v},
                                           .bnhd = bnhd,
                                           .dtype = dtype,
                                           .k_format = -1,
                                           .v_format = -1};
    return arrays_match(&request, arrays, failure);
}

static void arrays_make_one_problem(void **state)
{
    (void)state;
    struct arrays arrays;
    struct failure failure = {.text = ""};
    const struct npy_header q = header_of(NPY_FLOAT16, 4, 2, 8, 5, 64), k = header_of(NPY_FLOAT16, 4, 2, 2, 7, 64),
                            v = header_of(NPY_FLOAT16, 4, 2, 2, 7, 32);
    assert_int_equal(match(&q, &k, &v, false, -1, &arrays, &failure), STATUS_OK);
    assert_true(arrays.shape.batch == 2 && arrays.shape.heads == 8 && arrays.shape.kv_heads == 2 &&
                arrays.shape.n_q == 5 && arrays.shape.n_kv == 7 && arrays.d == 64 && arrays.d_v == 32);
    assert_int_equal(arrays.dtype, CLATTN_FP16);
    assert_true(arrays.o_header.shape[3] == 32 && arrays.row_header.dimensions == 3 && arrays.row_header.shape[2] == 5);
    const struct npy_header q3 = header_of(NPY_UINT16, 3, 5, 8, 64, 0), k3 = header_of(NPY_UINT16, 3, 7, 4, 64, 0);
    assert_int_equal(match(&q3, &k3, &k3, true, CLATTN_BF16, &arrays, &failure), STATUS_OK);
    assert_true(arrays.shape.heads == 8 && arrays.shape.kv_heads == 4 && arrays.shape.n_q == 5 &&
                arrays.shape.batch == 1);
    assert_true(arrays.q.row == 512 && arrays.q.head == 64);
    assert_true(arrays.row_header.dimensions == 2 && arrays.row_header.shape[0] == 8 &&
                arrays.row_header.shape[1] == 5);
    const struct npy_header v3 = header_of(NPY_FLOAT16, 3, 7, 4, 64, 0);
    assert_int_equal(match(&q3, &k3, &v3, true, CLATTN_BF16, &arrays, &failure), STATUS_OK);
    assert_true(arrays.dtype == CLATTN_BF16 && arrays.k_type == CLATTN_BF16 && arrays.v_type == CLATTN_FP16);
    const struct npy_header q2 = header_of(NPY_FLOAT32, 2, 5, 1, 0, 0);
    assert_int_equal(match(&q2, &q2, &q2, false, -1, &arrays, &failure), STATUS_OK);
    assert_true(arrays.row_header.dimensions == 1 && arrays.row_header.shape[0] == 5);
}

static void mismatch(struct npy_header q, struct npy_header k, struct npy_header v, int dtype, const char *file,
                     const char *why)
{
    struct arrays arrays;
    struct failure failure = {.text = ""};
    assert_int_equal(match(&q, &k, &v, false, dtype, &arrays, &failure), STATUS_FILE);
    if (!strstr(failure.text, file) || !strstr(failure.text, why))
        fail_msg("'%s' does not say '%s' and '%s'", failure.text, file, why);
}

static void arrays_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    const struct npy_header a = header_of(NPY_FLOAT32, 3, 8, 5, 64, 0), half = header_of(NPY_FLOAT16, 3, 8, 5, 64, 0);
    const struct npy_header bits = header_of(NPY_UINT16, 3, 8, 5, 64, 0), flat = header_of(NPY_FLOAT32, 1, 64, 0, 0, 0);
    mismatch(bits, bits, bits, -1, "q.npy", "--dtype bf16");
    mismatch(a, bits, a, -1, "k.npy", "--k-format bf16");
    mismatch(a, a, bits, CLATTN_FP32, "v.npy", "--v-format bf16");
    mismatch(half, half, half, CLATTN_FP32, "q.npy", "--dtype fp32");
    mismatch(flat, a, a, -1, "q.npy", "[n, d]");
    mismatch(a, header_of(NPY_FLOAT32, 2, 5, 64, 0, 0), a, -1, "k.npy", "dimensions");
    mismatch(a, header_of(NPY_FLOAT32, 3, 8, 5, 32, 0), a, -1, "k.npy", "d is 32");
    mismatch(a, a, header_of(NPY_FLOAT32, 3, 8, 6, 64, 0), -1, "v.npy", "n is 6");
    mismatch(a, a, header_of(NPY_FLOAT32, 3, 4, 5, 64, 0), -1, "v.npy", "heads is 4");
    mismatch(a, header_of(NPY_FLOAT32, 3, 3, 5, 64, 0), header_of(NPY_FLOAT32, 3, 3, 5, 64, 0), -1, "k.npy", "divide");
    mismatch(a, header_of(NPY_FLOAT32, 3, 0, 5, 64, 0), header_of(NPY_FLOAT32, 3, 0, 5, 64, 0), -1, "k.npy", "divide");
    mismatch(header_of(NPY_FLOAT32, 2, 5, 513, 0, 0), a, a, -1, "k.npy", "dimensions");
    mismatch(header_of(NPY_FLOAT32, 3, 8, 5, 577, 0), a, a, -1, "q.npy", "1 to 576");
    mismatch(header_of(NPY_FLOAT32, 3, 8, 5, 0, 0), a, a, -1, "q.npy", "1 to 576");
    mismatch(a, a, header_of(NPY_FLOAT32, 3, 8, 5, 0, 0), -1, "v.npy", "1 to 512");
    const struct npy_header b = header_of(NPY_FLOAT32, 4, 2, 8, 5, 64), one = header_of(NPY_FLOAT32, 4, 1, 8, 5, 64);
    mismatch(b, one, b, -1, "k.npy", "batch is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_the_contract),
        cmocka_unit_test(two_keys_have_the_weights_of_their_logits),
        cmocka_unit_test(rows_that_see_nothing_are_zero),
        cmocka_unit_test(query_heads_share_the_heads_of_keys),
        cmocka_unit_test(the_naive_run_is_as_good_as_its_type),
        cmocka_unit_test(what_is_not_a_number_never_passes),
        cmocka_unit_test(tensors_go_to_their_places_and_back),
        cmocka_unit_test(arrays_make_one_problem),
        cmocka_unit_test(arrays_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
