/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The polynomials of scores far below the cap, in float as the kernels have them, beside tanh. */
#include "plan/features/softcap.h"
#include "support/unit.h"
#include <math.h>

static float product(struct cla_softcap_curve curve, float s)
{
    const float square = fmaf(s, s, curve.shift);
    return s * fmaf(square, square, curve.rest);
}

static float at(struct cla_softcap_curve curve, float s)
{
    return curve.unit * product(curve, s);
}

static void it_is_tanh_up_to_two_fifths(void **state)
{
    (void)state;
    static const float scales[] = {0.125f, 0.0883883476f, 1.0f, 7.5e-4f, 300.0f},
                       caps[] = {0.5f, 5.0f, 20.0f, 30.0f, 50.0f, 1000.0f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
            const struct cla_softcap_curve curve = cla_softcap_curve(scales[i], caps[k]);
            if ((double)scales[i] / (double)caps[k] < 1e-5) {
                assert_true(curve.unit == 0.0f);
                continue;
            }
            assert_true(curve.unit > 0.0f && isfinite(curve.rest) && isfinite(curve.shift));
            for (int n = -1000; n <= 1000; n++) {
                const double x = n / 2500.0;
                const float s = (float)(x * (double)caps[k] / (double)scales[i]);
                const double right = tanh((double)s * (double)scales[i] / (double)caps[k]);
                const double got[] = {(double)at(curve, s) / ((double)caps[k] * 1.44269504088896341),
                                      (double)(product(curve, s) * curve.over)};
                for (size_t form = 0; form < 2; form++)
                    if (fabs(got[form] - right) > 2.1e-6 + 2e-7 * fabs(x))
                        fail_msg("scale %g, cap %g, x %g: %s off by %g of the cap", (double)scales[i], (double)caps[k],
                                 x, form ? "over" : "unit", fabs(got[form] - right));
            }
        }
}

/* Products that no pair has, or that are hidden, are as low as can be. */
static void what_is_hidden_stays_so(void **state)
{
    (void)state;
    const struct cla_softcap_curve curve = cla_softcap_curve(0.125f, 30.0f);
    assert_true(at(curve, -INFINITY) == -INFINITY);
    assert_true(at(curve, INFINITY) == INFINITY);
    assert_true(isnan(at(curve, NAN)));
    for (float s = -60.0f / 0.125f; s < -15.0f; s += 1.0f) /* monotone below, and never above what the cap leaves */
        assert_true(at(curve, s) < at(curve, s + 1.0f));
}

static void what_would_vanish_is_refused(void **state)
{
    (void)state;
    static const float wrong[][2] = {{-0.125f, 30.0f}, {0.0f, 30.0f},     {0.125f, 1e6f},   {0.125f, 1e-7f},
                                     {1e-24f, 1e-22f}, {1e24f, 1e22f},    {INFINITY, 1.0f}, {NAN, 1.0f},
                                     {1e-30f, 30.0f},  {3e38f, 1.17e-38f}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct cla_softcap_curve curve = cla_softcap_curve(wrong[i][0], wrong[i][1]);
        assert_true(curve.unit == 0.0f && curve.over == 0.0f && curve.shift == 0.0f && curve.rest == 0.0f);
    }
}

static float low_score(struct cla_softcap_polynomial p, float t)
{
    const float x = fminf(fabsf(t) * p.step, 1.0f);
    return t * fmaf(-x, x, p.top);
}

static float score_of(struct cla_softcap_polynomial p, float t)
{
    const struct cla_softcap_curve curve = {.shift = p.shift, .rest = p.rest, .unit = p.unit};
    return at(curve, t);
}

/* Of products of a Q that has been multiplied: both ways to a score, in powers of two, as far as each is good for. */
static void low_scores_follow_tanh(void **state)
{
    (void)state;
    static const float scales[] = {0.125f, 0.0883883476f, 0.0625f, 1.0f, 0.0078125f, 2.7f},
                       caps[] = {0.5f, 5.0f, 20.0f, 30.0f, 50.0f, 100.0f, 1000.0f};
    static const double log2e = 1.44269504088896341;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
            const struct cla_softcap_polynomial polynomial = cla_softcap_polynomial(scales[i], caps[k]);
            const double cap = (double)caps[k], scale = (double)scales[i] / (double)polynomial.factor;
            if ((double)scales[i] / cap < 1e-5) {
                assert_true(polynomial.factor == 0.0f);
                continue;
            }
            int power;
            assert_true(frexpf(polynomial.factor, &power) == 0.5f && polynomial.factor <= 1.0f);
            assert_true(polynomial.factor * polynomial.inverse == 1.0f);
            assert_true(polynomial.reached > 0.1f * caps[k] && polynomial.reached < 0.4f * caps[k]);
            const double reach = cap * atanh((double)polynomial.reached / cap);
            for (int n = -1000; n <= 1000; n++) {
                const float low = (float)(n / 1000.0 * reach / scale), far = (float)(n / 2500.0 * cap / scale);
                const double of_low = cap * tanh((double)low * scale / cap),
                             of_far = cap * tanh((double)far * scale / cap);
                if (fabs((double)low_score(polynomial, low) / log2e - of_low) > 1.02e-4 + 3e-7 * fabs(of_low))
                    fail_msg("scale %g, cap %g, score %g: off by %g", (double)scales[i], cap, (double)low * scale,
                             fabs((double)low_score(polynomial, low) / log2e - of_low));
                if (fabs((double)score_of(polynomial, far) / log2e - of_far) > 2.1e-6 * cap + 4e-7 * fabs(of_far))
                    fail_msg("scale %g, cap %g, score %g: off by %g, one step more", (double)scales[i], cap,
                             (double)far * scale, fabs((double)score_of(polynomial, far) / log2e - of_far));
            }
            /* What the threshold of a lane's weights says holds for all higher scores, and low ones stay low. */
            for (double score = reach; score < 100.0 * cap; score *= 1.01) {
                const float t = (float)(score / scale);
                assert_true((double)low_score(polynomial, t) / log2e > 0.999 * (double)polynomial.reached);
                assert_true((double)low_score(polynomial, -t) / log2e < -0.49 * score);
            }
            assert_true(low_score(polynomial, -INFINITY) == -INFINITY && low_score(polynomial, INFINITY) == INFINITY);
        }
}

static void what_would_leave_the_range_is_not_bent(void **state)
{
    (void)state;
    static const float wrong[][2] = {{2.8f, 30.0f},    {6e-4f, 30.0f}, {0.125f, 1001.0f},
                                     {-0.125f, 30.0f}, {0.0f, 30.0f},  {1e-7f, 1e-9f},
                                     {INFINITY, 1.0f}, {NAN, 1.0f},    {3e38f, 1e-30f}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(cla_softcap_polynomial(wrong[i][0], wrong[i][1]).factor == 0.0f);
}

/* For gradients: the score, in powers of two, and its derivative, either side of 0 as far as that is good for. */
static void low_scores_have_their_slope(void **state)
{
    (void)state;
    static const float scales[] = {0.125f, 0.0883883476f, 0.0625f, 1.0f, 7.5e-4f, 300.0f},
                       caps[] = {0.5f, 5.0f, 20.0f, 30.0f, 50.0f, 100.0f, 1000.0f};
    static const double log2e = 1.44269504088896341;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
            const struct cla_softcap_low low = cla_softcap_low(scales[i], caps[k]);
            const double cap = (double)caps[k], scale = (double)scales[i], ratio = scale / cap;
            if (ratio < 1e-5) {
                assert_true(low.reach == 0.0f);
                continue;
            }
            assert_true((double)low.reach * ratio > 0.1 && (double)low.reach * ratio < 0.2101);
            for (int n = -1000; n <= 1000; n++) {
                const float s = (float)n / 1000.0f * low.reach, y = s * s;
                const double t = tanh((double)s * ratio), score = (double)(s * fmaf(y, low.bow, low.over)) / log2e,
                             slope = (double)fmaf(y, low.slope_bow, low.slope);
                if (fabs(score - cap * t) > 1.02e-4 + 3e-7 * fabs(cap * t))
                    fail_msg("scale %g, cap %g, score %g: off by %g", scale, cap, (double)s * scale,
                             fabs(score - cap * t));
                if (fabs(slope - (1.0 - t * t)) > 1.9e-4)
                    fail_msg("scale %g, cap %g, score %g: slope off by %g", scale, cap, (double)s * scale,
                             fabs(slope - (1.0 - t * t)));
            }
        }
}

static void what_would_vanish_is_not_low(void **state)
{
    (void)state;
    static const float wrong[][2] = {{-0.125f, 30.0f}, {0.0f, 30.0f},    {0.125f, 1e6f}, {0.125f, 1e-7f},
                                     {1e-24f, 1e-22f}, {INFINITY, 1.0f}, {NAN, 1.0f},    {1e-30f, 30.0f}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct cla_softcap_low low = cla_softcap_low(wrong[i][0], wrong[i][1]);
        assert_true(low.reach == 0.0f && low.over == 0.0f && low.bow == 0.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_tanh_up_to_two_fifths),
                                       cmocka_unit_test(what_is_hidden_stays_so),
                                       cmocka_unit_test(what_would_vanish_is_refused),
                                       cmocka_unit_test(low_scores_follow_tanh),
                                       cmocka_unit_test(what_would_leave_the_range_is_not_bent),
                                       cmocka_unit_test(low_scores_have_their_slope),
                                       cmocka_unit_test(what_would_vanish_is_not_low)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
