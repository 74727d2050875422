/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/rule.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double unit_of(enum clattn_dtype dtype)
{
    return dtype == CLATTN_FP32 ? 0x1p-24 : dtype == CLATTN_FP16 ? 0x1p-11 : 0x1p-8;
}

static bool judge_one(const char *name, const float *out, const double *exact, const float *naive, size_t count,
                      double unit)
{
    bool finite = true;
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(exact[i]));
        finite = finite && isfinite(naive[i]);
    }
    /* Where the plain formula overflows, as fp16's scores may, it says nothing of what is allowed. (A pair's dP and
     * delta are sums of their own here, where the plain formula's cancel each other's rounding: 2 units of 6.) */
    const struct reference_verdict verdict = reference_judge_gradient(
        out, exact, finite ? naive : NULL, count, (finite ? 6.0 : 8.0) * unit * largest + (double)FLT_MIN);
    if (!verdict.pass)
        fprintf(stderr, "%s[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g\n", name, verdict.at,
                (double)out[verdict.at], exact[verdict.at], verdict.error, verdict.allowed);
    return verdict.pass;
}

bool rule_of_gradients(const struct forward_case *forward, const struct backward_arrays *arrays)
{
    const struct forward_arrays *in = &arrays->forward;
    const struct reference_problem problem = forward_reference_of(forward, in);
    const size_t q = reference_q_count(&problem), k = reference_k_count(&problem), v = reference_v_count(&problem),
                 bias = arrays->d_bias ? reference_d_bias_count(&problem) : 0,
                 sinks = problem.score.features & CLATTN_SINKS ? (size_t)problem.shape.heads : 0,
                 all = q + k + v + bias + sinks;
    double *exact = calloc(all + 1, sizeof *exact);
    float *naive = calloc(all + 1, sizeof *naive);
    const struct reference_gradients gradients = {exact, exact + q, exact + q + k, exact + q + k + v,
                                                  exact + all - sinks};
    const struct reference_naive_gradients naive_ones = {naive, naive + q, naive + q + k, naive + q + k + v,
                                                         naive + all - sinks};
    const double unit = unit_of(problem.dtype);
    bool right = exact && naive && reference_backward(&problem, in->q, in->k, in->v, arrays->d_o, &gradients, NULL) &&
                 reference_naive_backward(&problem, in->q, in->k, in->v, arrays->d_o, &naive_ones);
    right = right && judge_one("d_q", arrays->d_q, exact, naive, q, unit);
    right = right && judge_one("d_k", arrays->d_k, exact + q, naive + q, k, unit);
    right = right && judge_one("d_v", arrays->d_v, exact + q + k, naive + q + k, v, unit);
    if (right && bias)
        right = judge_one("d_bias", arrays->d_bias, exact + q + k + v, naive + q + k + v, bias, unit);
    if (right && sinks)
        right = judge_one("d_sinks", arrays->d_sinks, exact + all - sinks, naive + all - sinks, sinks, 0x1p-24);
    free(exact);
    free(naive);
    return right;
}

bool rule_of_output(const struct forward_case *forward, const struct forward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference_of(forward, arrays);
    const size_t count = reference_o_count(&problem);
    double *exact = calloc(count + 1, sizeof *exact), largest = 0.0;
    float *naive = calloc(count + 1, sizeof *naive);
    bool right = exact && naive &&
                 reference_attention(&problem, arrays->q, arrays->k, arrays->v, exact, NULL, NULL, NULL) &&
                 reference_naive(&problem, arrays->q, arrays->k, arrays->v, naive);
    bool finite = true;
    for (size_t i = 0; i < count && right; i++) {
        largest = fmax(largest, fabs(exact[i]));
        finite = finite && isfinite(naive[i]);
    }
    if (right) {
        const struct reference_verdict verdict =
            reference_judge(arrays->o, exact, finite ? naive : NULL, count, 4.0 * unit_of(problem.dtype) * largest);
        right = verdict.pass;
        if (!right)
            fprintf(stderr, "o[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g\n", verdict.at,
                    (double)arrays->o[verdict.at], exact[verdict.at], verdict.error, verdict.allowed);
    }
    free(exact);
    free(naive);
    return right;
}
