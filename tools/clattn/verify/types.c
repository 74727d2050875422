/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/types.h"
#include <stdio.h>

void verify_types_draw(struct random *random, bool apart, struct reference_problem *problem)
{
    for (int i = 0; i < REFERENCE_OPERANDS; i++) {
        const enum clattn_operand_type type = (enum clattn_operand_type)random_below(random, 4);
        problem->types[i] = apart || i >= REFERENCE_O ? type : CLATTN_AS_DTYPE;
    }
    if (!(problem->score.features & CLATTN_BIAS))
        problem->types[REFERENCE_BIAS] = CLATTN_AS_DTYPE;
}

bool verify_types_differ(const struct reference_problem *problem)
{
    for (int i = 0; i < REFERENCE_OPERANDS; i++)
        if (reference_type(problem, (enum reference_operand)i) != problem->dtype)
            return true;
    return false;
}

void verify_types_say(const struct reference_problem *reference, struct clattn_problem *problem)
{
    problem->q_type = reference->types[REFERENCE_Q];
    problem->k_type = reference->types[REFERENCE_K];
    problem->v_type = reference->types[REFERENCE_V];
    problem->o_type = reference->types[REFERENCE_O];
    if (problem->features & CLATTN_BIAS)
        problem->bias_type = reference->types[REFERENCE_BIAS];
}

void verify_types_text(const struct reference_problem *problem, char *text, size_t size)
{
    static const char *const names[REFERENCE_OPERANDS] = {"q", "k", "v", "o", "bias"};
    size_t used = (size_t)snprintf(text, size, "%s", clattn_dtype_name(problem->dtype));
    const size_t first = used;
    for (int i = 0; i < REFERENCE_OPERANDS && used < size; i++)
        if (reference_type(problem, (enum reference_operand)i) != problem->dtype)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used == first ? " (" : ", ", names[i],
                                     clattn_dtype_name(reference_type(problem, (enum reference_operand)i)));
    if (used > first && used < size)
        snprintf(text + used, size - used, ")");
}
