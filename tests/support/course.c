/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/course.h"
#include <math.h>

void course_of_keys(const struct forward_case *forward, struct forward_arrays *arrays, course factor)
{
    const int64_t keys = forward->shape.n_kv, d = forward->problem.d;
    for (int64_t i = 0; i < forward->shape.heads * keys; i++)
        for (int64_t c = 0; c < d; c++) {
            float *const x = &arrays->k[i * d + c];
            *x = reference_round(forward->problem.dtype, *x * (float)factor((double)(i % keys) / (double)keys));
        }
}

void course_add_to_scores(const struct forward_case *forward, struct forward_arrays *arrays, course term, double times)
{
    const int64_t keys = forward->shape.n_kv, d = forward->problem.d;
    for (int64_t i = 0; i < forward->shape.heads * forward->shape.n_q; i++)
        arrays->q[i * d] = 8.0f;
    for (int64_t i = 0; i < forward->shape.heads * keys; i++) {
        const double each = times * term((double)(i % keys) / (double)keys) * sqrt((double)d) / 8.0;
        arrays->k[i * d] = reference_round(forward->problem.dtype, (float)each);
    }
}
