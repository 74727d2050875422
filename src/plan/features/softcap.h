/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SOFTCAP_H
#define CLA_SOFTCAP_H

/* softcap * tanh(s * scale / softcap), in powers of two, for products s whose score is at most 0.4 of the cap,
 * within 2.1e-6 of the cap and 2e-7 of the score: unit * s * ((s^2 + shift)^2 + rest); with `over` for unit, in units
 * of the cap. That is s (c0 + c2 s^2 + c4 s^4) of cl/score/fast/softcap.clh with the square completed: two steps of
 * one register and one constant each. */
struct cla_softcap_curve {
    float shift, rest, unit, over; /* unit 0: some of it would vanish or be infinite, or the scale is not positive */
};

struct cla_softcap_curve cla_softcap_curve(float scale, float softcap);

/* The same of products t of a Q that has been multiplied by `factor`, a power of two and at most 1: t unit ((t^2 +
 * shift)^2 + rest); and for low scores, within 1e-4, in one step less:
 *   t (top - min(1, |t| step)^2)
 * What comes of the largest score that this is good for is `reached`. Of others it makes more than half of them, so
 * that what is far below 0 stays there. */
struct cla_softcap_polynomial {
    float factor;  /* 0: there is no such one, for the scale is too large or too small, or the cap is too large */
    float inverse; /* 1 / factor */
    float step, top, reached;
    float shift, rest, unit;
};

struct cla_softcap_polynomial cla_softcap_polynomial(float scale, float softcap);

/* The same for gradients, without that power of two: products s of up to `reach`, either side of 0, are s (over + bow
 * s^2) in powers of two, within 1e-4, and the derivative of what that is in natural units by the score before is slope
 * + slope_bow s^2, within 1.9e-4. */
struct cla_softcap_low {
    float over, bow, slope, slope_bow;
    float reach; /* 0: there are none, see above */
};

struct cla_softcap_low cla_softcap_low(float scale, float softcap);

#endif
