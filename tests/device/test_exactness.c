/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rounding in fp32: sums over many keys and rows do not drift, and scalar products of large head dimensions are more
 * exact than one accumulator makes them. The skeletons of fp32, forward and backward. */
#include "random.h"
#include "support/device.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { D = 4, MOST = 1000000 };

static struct test_device device;
static clattn_host *host;

/* What NumPy's plain fp32 softmax attention is off by, of one row of equal weights and V = 0.7 throughout, as a share
 * of it. */
static const struct {
    int64_t n;
    double numpy;
} lengths[] = {{4096, 4.4e-6}, {65536, 6.8e-5}, {MOST, 1.1e-3}};

static const struct {
    const struct cla_skeleton *forward, *backward;
} skeletons[] = {{&cla_forward_cpu, &cla_backward_cpu}, {&cla_forward_simt, &cla_backward_simt}};

static float *many, *others, *gradients, *more; /* of MOST rows or keys each */

static void assert_success(clattn_status status)
{
    if (status)
        fail_msg("%s: %s", clattn_status_name(status), clattn_error_message());
}

static void assert_all_near(const char *what, const struct cla_skeleton *skeleton, const float *values, int64_t count,
                            double truth, double bound)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)values[i] - truth) <= bound * fabs(truth)))
            fail_msg("%s of %s: element %lld is %.9g and ought to be %.9g: off by %.2g of it, more than %.2g", what,
                     skeleton->name, (long long)i, (double)values[i], truth, fabs((double)values[i] - truth) / truth,
                     bound);
}

static void fill(float *values, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
}

static void forward(const struct cla_skeleton *skeleton, int64_t rows, int64_t keys, const float *q, const float *k,
                    const float *v, float *o, float *m, float *l, int64_t chunk)
{
    const struct clattn_problem problem = {.d = D, .splits = 1, .skeleton = skeleton->name};
    const struct clattn_host_forward_args args = {
        .shape = {1, 1, 1, rows, keys}, .q = q, .k = k, .v = v, .o = o, .m = m, .l = l, .kv_chunk = chunk};
    assert_success(clattn_host_forward(host, &problem, &args));
}

/* Equal weights, constant V; and l where one score is 0.5 above the others, so that their weights are no whole numbers.
 */
static void many_keys(void **state)
{
    (void)state;
    const float q[D] = {1, 1, 1, 1};
    float o[D], m, l;
    fill(others, MOST * D, 0.7f);
    EACH (s, skeletons) {
        if (!test_is_for(skeletons[s].forward))
            continue;
        EACH (i, lengths) {
            const int64_t n = lengths[i].n;
            const double weights = 1 + (double)(n - 1) * exp(-0.5);
            fill(many, n * D, 0.0f);
            forward(skeletons[s].forward, 1, n, q, many, others, o, &m, &l, 0);
            assert_all_near("O", skeletons[s].forward, o, D, (double)0.7f, lengths[i].numpy);
            if (n == MOST)
                continue;
            many[0] = 1;
            forward(skeletons[s].forward, 1, n, q, many, others, o, &m, &l, n == 65536 ? 1000 : 0);
            assert_all_near("O", skeletons[s].forward, o, D, (double)0.7f, lengths[i].numpy);
            assert_all_near("l", skeletons[s].forward, &l, 1, weights, lengths[i].numpy / 4);
        }
    }
}

static void backward(const struct cla_skeleton *skeleton, int64_t rows, int64_t keys,
                     struct clattn_host_backward_args args)
{
    const struct clattn_problem problem = {.pass = CLATTN_BACKWARD, .d = D, .skeleton = skeleton->name};
    args.shape = (struct clattn_shape){1, 1, 1, rows, keys};
    assert_success(clattn_host_backward(host, &problem, &args));
}

/* Keys of 0.7 and of -0.7 in turn, with V = 1 and -1, and a Q of 0: P = 1 / n, dP = +-4, delta = 0. So all keys add the
 * same to dQ, which is scale 0.7 4. */
static void gradient_of_many_keys(void **state)
{
    (void)state;
    const int64_t n = lengths[1].n;
    const float q[D] = {0}, d_o[D] = {1, 1, 1, 1};
    float o[D], m, l, d_q[D];
    for (int64_t i = 0; i < n * D; i++) {
        many[i] = i / D % 2 ? -0.7f : 0.7f;
        others[i] = i / D % 2 ? -1.0f : 1.0f;
    }
    EACH (s, skeletons) {
        if (!test_is_for(skeletons[s].forward))
            continue;
        forward(skeletons[s].forward, 1, n, q, many, others, o, &m, &l, 0);
        backward(skeletons[s].backward, 1, n,
                 (struct clattn_host_backward_args){.q = q,
                                                    .k = many,
                                                    .v = others,
                                                    .o = o,
                                                    .d_o = d_o,
                                                    .m = &m,
                                                    .l = &l,
                                                    .d_q = d_q,
                                                    .d_k = gradients,
                                                    .d_v = more});
        assert_all_near("dQ", skeletons[s].backward, d_q, D, 0.5 * (double)0.7f * 4, lengths[1].numpy);
    }
}

/* Two keys of 0, with V = 1 and -1, Q and dO of 0.7: P = 0.5, dP = +-2.8, delta = 0. So all rows add the same to dK, n
 * scale 1.4 0.7 or its opposite, and to dV, n 0.35. */
static void gradients_of_many_rows(void **state)
{
    (void)state;
    const int64_t n = lengths[1].n;
    const float k[2 * D] = {0}, v[2 * D] = {1, 1, 1, 1, -1, -1, -1, -1};
    float d_k[2 * D], d_v[2 * D];
    float *const m = more, *const l = more + n;
    const double truth = (double)n * 0.5 * 1.4 * (double)0.7f * ((double)0.7f / 0.7);
    fill(many, n * D, 0.7f);
    EACH (s, skeletons) {
        if (!test_is_for(skeletons[s].forward))
            continue;
        forward(skeletons[s].forward, n, 2, many, k, v, others, m, l, 0);
        backward(skeletons[s].backward, n, 2,
                 (struct clattn_host_backward_args){.q = many,
                                                    .k = k,
                                                    .v = v,
                                                    .o = others,
                                                    .d_o = many,
                                                    .m = m,
                                                    .l = l,
                                                    .d_q = gradients,
                                                    .d_k = d_k,
                                                    .d_v = d_v});
        assert_all_near("dK", skeletons[s].backward, d_k, D, truth, lengths[1].numpy);
        assert_all_near("dK", skeletons[s].backward, d_k + D, D, -truth, lengths[1].numpy);
        assert_all_near("dV", skeletons[s].backward, d_v, 2 * D, (double)n * 0.5 * (double)0.7f, lengths[1].numpy);
    }
}

enum { WIDE = 256, ROWS = 48, KEYS = 192 };

static float wide_q[ROWS * WIDE], wide_k[KEYS * WIDE], wide_v[KEYS * WIDE], wide_o[ROWS * WIDE];

/* One row in float64, and in fp32 with one accumulator for each sum. */
static void attend_plainly(const float *q, double exact[WIDE], float plain[WIDE])
{
    double scores[KEYS], weights = 0, most = -INFINITY;
    float rounded[KEYS], sum = 0, top = -INFINITY;
    for (int j = 0; j < KEYS; j++) {
        scores[j] = rounded[j] = 0;
        for (int x = 0; x < WIDE; x++) {
            scores[j] += (double)q[x] * (double)wide_k[j * WIDE + x] / 16;
            rounded[j] = fmaf(q[x] / 16, wide_k[j * WIDE + x], rounded[j]);
        }
        most = fmax(most, scores[j]);
        top = fmaxf(top, rounded[j]);
    }
    for (int j = 0; j < KEYS; j++) {
        weights += scores[j] = exp(scores[j] - most);
        sum += rounded[j] = expf(rounded[j] - top);
    }
    for (int x = 0; x < WIDE; x++) {
        exact[x] = plain[x] = 0;
        for (int j = 0; j < KEYS; j++) {
            exact[x] += scores[j] * (double)wide_v[j * WIDE + x] / weights;
            plain[x] = fmaf(rounded[j], wide_v[j * WIDE + x], plain[x]);
        }
        plain[x] /= sum;
    }
}

/* d = 256 with Q and K of N(0, 2): the scores' own rounding counts most. */
static void wide_heads(void **state)
{
    (void)state;
    struct random random = {3};
    random_normal(&random, 2, wide_q, ROWS * WIDE);
    random_normal(&random, 2, wide_k, KEYS * WIDE);
    random_normal(&random, 1, wide_v, KEYS * WIDE);
    EACH (s, skeletons) {
        const struct clattn_problem problem = {.d = WIDE, .skeleton = skeletons[s].forward->name};
        const struct clattn_host_forward_args args = {
            .shape = {1, 1, 1, ROWS, KEYS}, .q = wide_q, .k = wide_k, .v = wide_v, .o = wide_o};
        double ours = 0, plain = 0;
        if (!test_is_for(skeletons[s].forward))
            continue;
        assert_success(clattn_host_forward(host, &problem, &args));
        for (int i = 0; i < ROWS; i++) {
            double exact[WIDE];
            float rounded[WIDE];
            attend_plainly(wide_q + i * WIDE, exact, rounded);
            for (int x = 0; x < WIDE; x++) {
                ours += pow((double)wide_o[i * WIDE + x] - exact[x], 2);
                plain += pow((double)rounded[x] - exact[x], 2);
            }
        }
        printf("%s: %.3g of what one accumulator is off by\n", skeletons[s].forward->name, sqrt(ours / plain));
        assert_true(sqrt(ours / plain) < 0.7);
    }
}

/* Where a row sees few keys its dS are large and sum up to 0, and so do the rows of dK of all keys. They do not where
 * delta is made of O: what it and dP are rounded by does not cancel then. */
static void few_keys(void **state)
{
    (void)state;
    enum { FEW = 5 };
    struct random random = {5};
    float *const q = many, *const d_o = wide_q, *const m = more, *const l = more + ROWS, *const d_v = more + 2 * ROWS;
    float k[FEW * D], d_k[FEW * D];
    random_normal(&random, 1, q, ROWS * D);
    random_normal(&random, 1, k, FEW * D);
    random_normal(&random, 1, wide_v, FEW * WIDE);
    random_normal(&random, 1, d_o, ROWS * WIDE);
    EACH (s, skeletons) {
        const struct clattn_problem problem = {.d = D, .d_v = WIDE, .skeleton = skeletons[s].forward->name},
                                    back = {.pass = CLATTN_BACKWARD,
                                            .d = D,
                                            .d_v = WIDE,
                                            .skeleton = skeletons[s].backward->name};
        const struct clattn_shape shape = {1, 1, 1, ROWS, FEW};
        double most = 0, off = 0;
        if (!test_is_for(skeletons[s].forward))
            continue;
        assert_success(
            clattn_host_forward(host, &problem,
                                &(struct clattn_host_forward_args){
                                    .shape = shape, .q = q, .k = k, .v = wide_v, .o = wide_o, .m = m, .l = l}));
        assert_success(clattn_host_backward(host, &back,
                                            &(struct clattn_host_backward_args){.shape = shape,
                                                                                .q = q,
                                                                                .k = k,
                                                                                .v = wide_v,
                                                                                .o = wide_o,
                                                                                .d_o = d_o,
                                                                                .m = m,
                                                                                .l = l,
                                                                                .d_q = gradients,
                                                                                .d_k = d_k,
                                                                                .d_v = d_v}));
        for (int x = 0; x < D; x++) {
            double sum = 0;
            for (int j = 0; j < FEW; j++) {
                sum += (double)d_k[j * D + x];
                most = fmax(most, fabs((double)d_k[j * D + x]));
            }
            off = fmax(off, fabs(sum));
        }
        printf("%s: dK of all keys sums up to %.3g of its largest number\n", skeletons[s].backward->name, off / most);
        assert_true(off < 0x1p-24 * 5 * most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_keys), cmocka_unit_test(gradient_of_many_keys),
                                       cmocka_unit_test(gradients_of_many_rows), cmocka_unit_test(wide_heads),
                                       cmocka_unit_test(few_keys)};
    test_device_open(&device);
    many = malloc(MOST * D * sizeof *many);
    others = malloc(MOST * D * sizeof *others);
    gradients = malloc(MOST * D * sizeof *gradients);
    more = malloc(MOST * D * sizeof *more);
    if (!many || !others || !gradients || !more ||
        clattn_host_create(&host, &(struct clattn_host_params){.context = device.clattn}))
        return 1;
    const int failures = cmocka_run_group_tests_name("exactness", tests, NULL, NULL);
    clattn_host_destroy(&host);
    free(many);
    free(others);
    free(gradients);
    free(more);
    test_device_close(&device);
    return failures;
}
