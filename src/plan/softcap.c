/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/softcap.h"
#include <math.h>

/* tanh(x) / x, |x| <= 0.4, as a polynomial of x^2, whose first coefficient is 1: the others, by Remez' algorithm, as
 * cl/common/matrix_softcap.clh has them. */
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

/* What is squared takes 1 of 2..4: half at most. */
static const int halvings = 2;

static const float largest_cap = 1000; /* up to here offsets, in powers of two, are exact enough */

struct cla_softcap_bend cla_softcap_bend(float scale, float softcap)
{
    const struct cla_softcap_curve curve = cla_softcap_curve(scale, softcap);
    if (!(curve.unit > 0) || softcap > largest_cap)
        return (struct cla_softcap_bend){0};
    int power;
    const double products = ldexp(frexp(scale * log2e, &power), halvings);
    power -= halvings;
    if (power > 0 || power < -10) /* Q would leave the range of fp16 */
        return (struct cla_softcap_bend){0};

    const double factor = ldexp(1, power), ratio = (double)scale / (double)softcap / factor;
    const double most = fmin(0.4, pow(allowed / (deviation * (double)softcap), 0.2));
    double squares[2], over[2];
    for (int i = 0; i < 2; i++) {
        const double x = most * meets[i];
        squares[i] = x * x;
        over[i] = tanh(x) / x;
    }
    const double c2 = (over[1] - over[0]) / (squares[1] - squares[0]), c0 = over[0] - c2 * squares[0];
    return (struct cla_softcap_bend){.factor = (float)factor,
                                     .inverse = (float)(1 / factor),
                                     .step = (float)(sqrt(-c2 * products) * ratio),
                                     .top = (float)(c0 * products),
                                     .reached = (float)(tanh(most) * (double)softcap),
                                     .shift = (float)(curve.shift * factor * factor),
                                     .rest = (float)(curve.rest * pow(factor, 4)),
                                     .unit = (float)(curve.unit / pow(factor, 5))};
}
