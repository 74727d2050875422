/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/softcap.h"
#include <math.h>

/* tanh(x) / x, |x| <= 0.4, as a polynomial of x^2, whose first coefficient is 1: the others, by Remez' algorithm, as
 * cl/score/fast/softcap.clh has them. */
static const double second = -0.332691628, fourth = 0.121411693;
static const double log2e = 1.44269504088896341;

struct cla_softcap_curve cla_softcap_curve(float scale, float softcap)
{
    const double ratio = (double)scale / (double)softcap, square = ratio * ratio;
    const double shift = second / (2.0 * fourth), over = fourth * ratio * square * square;
    const double unit = softcap * log2e * over;
    if (!(ratio > 1e-5 && ratio < 1e5 && unit > 1e-30 && unit < 1e30))
        return (struct cla_softcap_curve){0};
    return (struct cla_softcap_curve){.shift = (float)(shift / square),
                                      .rest = (float)((1.0 / fourth - shift * shift) / (square * square)),
                                      .unit = (float)unit,
                                      .over = (float)over};
}

/* Where tanh(x) meets x (c0 + c2 x^2), of the largest x: what these cannot follow is nearly a fifth power, whose best
 * approximation by them leaves Chebyshev's polynomial of that degree, of which these are the zeros; and how large that
 * is, of the cap, for a largest x of 1. */
static const double meets[2] = {0.587785252, 0.951056516}, deviation = 8.4e-3;

static const double allowed = 1e-4; /* of a score */

/* Up to what share of the cap low scores go at most: of small caps, which allow more; and where a slope is wanted, too.
 */
static const double furthest_scaled = 0.4, furthest_low = 0.21;

/* What is squared takes 1 of 2..4: half at most. */
static const int halvings = 2;

static const float largest_cap = 1000; /* up to here offsets, in powers of two, are exact enough */

/* tanh(x) for |x| <= most as x (over + bow x^2), within what is allowed. */
struct fit {
    double most, over, bow;
};

static struct fit fit_low(float softcap, double furthest)
{
    const double most = fmin(furthest, pow(allowed / (deviation * (double)softcap), 0.2));
    double squares[2], over[2];
    for (int i = 0; i < 2; i++) {
        const double x = most * meets[i];
        squares[i] = x * x;
        over[i] = tanh(x) / x;
    }
    const double bow = (over[1] - over[0]) / (squares[1] - squares[0]);
    return (struct fit){.most = most, .over = over[0] - bow * squares[0], .bow = bow};
}

struct cla_softcap_polynomial cla_softcap_polynomial(float scale, float softcap)
{
    const struct cla_softcap_curve curve = cla_softcap_curve(scale, softcap);
    if (!(curve.unit > 0) || softcap > largest_cap)
        return (struct cla_softcap_polynomial){0};
    int power;
    const double products = ldexp(frexp(scale * log2e, &power), halvings);
    power -= halvings;
    if (power > 0 || power < -10) /* Q would leave the range of fp16 */
        return (struct cla_softcap_polynomial){0};

    const double factor = ldexp(1, power), ratio = (double)scale / (double)softcap / factor;
    const struct fit fit = fit_low(softcap, furthest_scaled);
    return (struct cla_softcap_polynomial){.factor = (float)factor,
                                           .inverse = (float)(1 / factor),
                                           .step = (float)(sqrt(-fit.bow * products) * ratio),
                                           .top = (float)(fit.over * products),
                                           .reached = (float)(tanh(fit.most) * (double)softcap),
                                           .shift = (float)(curve.shift * factor * factor),
                                           .rest = (float)(curve.rest * pow(factor, 4)),
                                           .unit = (float)(curve.unit / pow(factor, 5))};
}

struct cla_softcap_low cla_softcap_low(float scale, float softcap)
{
    if (!(cla_softcap_curve(scale, softcap).unit > 0))
        return (struct cla_softcap_low){0};
    const struct fit fit = fit_low(softcap, furthest_low);
    const double ratio = (double)scale / (double)softcap, unit = scale * log2e, square = fit.most * fit.most;
    /* 1 - tanh(x)^2 = 1 - x^2 + 2/3 x^4 - ..., of which x^4 is at best most^2 x^2 - most^4 / 8. */
    return (struct cla_softcap_low){.over = (float)(fit.over * unit),
                                    .bow = (float)(fit.bow * unit * ratio * ratio),
                                    .slope = (float)(1 - square * square / 12),
                                    .slope_bow = (float)((2 * square / 3 - 1) * ratio * ratio),
                                    .reach = (float)(fit.most / ratio)};
}
