/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/backward_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool judge_one(const char *name, const float *out, const double *exact, const float *naive, size_t count,
                      double floor)
{
    const struct reference_verdict verdict = reference_judge_gradient(out, exact, naive, count, floor);
    if (!verdict.pass)
        fprintf(stderr, "%s[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g\n", name, verdict.at,
                (double)out[verdict.at], exact[verdict.at], verdict.error, verdict.allowed);
    return verdict.pass;
}

bool backward_judge(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *arrays)
{
    const struct forward_arrays *in = &arrays->forward;
    const struct reference_problem problem = forward_reference_of(forward, in);
    const struct gradients out = backward_gradients(forward, arrays);
    double *exact[GRADIENTS];
    float *naive[GRADIENTS];
    struct reference_gradient_floor floor;
    bool right = true;
    for (int i = 0; i < GRADIENTS; i++) {
        exact[i] = calloc(out.counts[i] + 1, sizeof(double));
        naive[i] = calloc(out.counts[i] + 1, sizeof(float));
        right = right && exact[i] && naive[i];
    }
    const struct reference_gradients gradients = {exact[D_Q], exact[D_K], exact[D_V], exact[D_BIAS], exact[D_SINKS]};
    const struct reference_naive_gradients naive_ones = {naive[D_Q], naive[D_K], naive[D_V], naive[D_BIAS],
                                                         naive[D_SINKS]};
    right = right && reference_backward(&problem, in->q, in->k, in->v, arrays->d_o, &gradients, &floor) &&
            reference_naive_backward(&problem, in->q, in->k, in->v, arrays->d_o, &naive_ones);
    for (int i = 0; i < GRADIENTS && right; i++) {
        const double floors[GRADIENTS] = {floor.d_q, floor.d_k, floor.d_v, floor.d_bias, floor.d_sinks};
        if (wanted & 1u << i && out.counts[i])
            right = judge_one(backward_names[i], out.values[i], exact[i], naive[i], out.counts[i], floors[i]);
    }
    for (int i = 0; i < GRADIENTS; i++) {
        free(exact[i]);
        free(naive[i]);
    }
    return right;
}

bool backward_same(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *a,
                   const struct backward_arrays *b)
{
    const struct gradients one = backward_gradients(forward, a), other = backward_gradients(forward, b);
    bool same = true;
    for (int i = 0; i < GRADIENTS; i++)
        if (wanted & 1u << i && one.counts[i] &&
            memcmp(one.values[i], other.values[i], one.counts[i] * sizeof(float)) != 0) {
            fprintf(stderr, "%s differs between two runs\n", backward_names[i]);
            same = false;
        }
    return same;
}
