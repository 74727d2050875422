/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/softcap.h"

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
