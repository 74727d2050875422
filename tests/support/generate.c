/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/generate.h"
#include "random.h"
#include "reference/reference.h"
#include <math.h>

/* Wide enough that a few keys win each row: data of N(0, 0.1) hides errors in Q and K, since its softmax is flat. */
static const double default_spread = 4.0;

static void generate(struct random *random, enum clattn_dtype dtype, double deviation, float *values, size_t count)
{
    random_normal(random, deviation, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = reference_round(dtype, values[i]);
}

void generate_inputs(const struct forward_case *forward, struct forward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference_of(forward, arrays);
    const double scale = problem.scale != 0.0 ? fabs(problem.scale) : 1.0 / sqrt(problem.d);
    const double spread = forward->spread != 0.0 ? forward->spread : default_spread;
    /* A score is a sum of d products: its deviation is scale * dev(q) * dev(k) * sqrt(d). */
    const double deviation = sqrt(spread / (scale * sqrt(problem.d)));
    struct random random = {.state = forward->seed};
    generate(&random, reference_type(&problem, REFERENCE_Q), deviation, arrays->q, reference_q_count(&problem));
    generate(&random, reference_type(&problem, REFERENCE_K), deviation, arrays->k, reference_k_count(&problem));
    generate(&random, reference_type(&problem, REFERENCE_V), 1.0, arrays->v, reference_v_count(&problem));
}
