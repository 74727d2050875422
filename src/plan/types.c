/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/types.h"
#include "plan/operand.h"
#include "plan/problem.h"

static enum clattn_dtype resolve(int64_t type, enum clattn_dtype dtype)
{
    return type == CLATTN_AS_DTYPE ? dtype : (enum clattn_dtype)(type - CLATTN_AS_FP32);
}

/* What the problem says of an operand. */
static int64_t said_of(const struct clattn_problem *problem, int operand)
{
    switch (operand) {
    case CLA_Q:
    case CLA_D_Q:
        return problem->q_type;
    case CLA_K:
    case CLA_D_K:
        return problem->k_type;
    case CLA_V:
    case CLA_D_V:
        return problem->v_type;
    case CLA_O:
        return problem->o_type;
    case CLA_BIAS:
        return problem->bias_type;
    default:
        return CLATTN_AS_DTYPE;
    }
}

enum clattn_dtype cla_type_of(const struct clattn_problem *problem, int operand)
{
    return resolve(said_of(problem, operand), problem->dtype);
}

int cla_size_of(const struct clattn_problem *problem, int operand)
{
    return clattn_dtype_size(cla_type_of(problem, operand));
}

bool cla_types_are_one(const struct clattn_problem *problem)
{
    return cla_type_of(problem, CLA_Q) == problem->dtype && cla_type_of(problem, CLA_K) == problem->dtype &&
           cla_type_of(problem, CLA_V) == problem->dtype;
}

clattn_status cla_types_check(const struct clattn_problem *problem, struct cla_error *error)
{
    const struct {
        const char *name;
        int64_t type;
    } types[] = {{"q_type", problem->q_type},
                 {"k_type", problem->k_type},
                 {"v_type", problem->v_type},
                 {"o_type", problem->o_type},
                 {"bias_type", problem->bias_type}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type < CLATTN_AS_DTYPE || types[i].type > CLATTN_AS_BF16)
            return cla_fail(error, CLATTN_INVALID_TYPE,
                            "problem.%s is %lld: it is CLATTN_AS_DTYPE (0), CLATTN_AS_FP32 (1), CLATTN_AS_FP16 (2) or "
                            "CLATTN_AS_BF16 (3)",
                            types[i].name, (long long)types[i].type);
    if (problem->bias_type && !(problem->features & CLATTN_BIAS))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.bias_type is %lld, and problem.features has no CLATTN_BIAS: it must be 0 then",
                        (long long)problem->bias_type);
    return CLATTN_SUCCESS;
}

static int64_t unless_default(enum clattn_dtype type, enum clattn_dtype dtype)
{
    return type == dtype ? CLATTN_AS_DTYPE : (int64_t)type + CLATTN_AS_FP32;
}

void cla_types_resolve(struct clattn_problem *problem)
{
    const struct clattn_problem given = *problem;
    const enum clattn_dtype q = cla_type_of(&given, CLA_Q), k = cla_type_of(&given, CLA_K),
                            v = cla_type_of(&given, CLA_V);
    if (!cla_problem_is_backward(problem) && q == k && k == v)
        problem->dtype = q;
    problem->q_type = unless_default(q, problem->dtype);
    problem->k_type = unless_default(k, problem->dtype);
    problem->v_type = unless_default(v, problem->dtype);
    problem->o_type = (enum clattn_operand_type)unless_default(cla_type_of(&given, CLA_O), problem->dtype);
    if (problem->features & CLATTN_BIAS)
        problem->bias_type = unless_default(cla_type_of(&given, CLA_BIAS), problem->dtype);
}

void cla_types_define(const struct clattn_problem *problem, struct cla_text *text)
{
    static const struct {
        const char *name;
        int operand;
    } types[] = {{"BIAS_TYPE", CLA_BIAS}, {"K_TYPE", CLA_K}, {"O_TYPE", CLA_O}, {"Q_TYPE", CLA_Q}, {"V_TYPE", CLA_V}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct cla_define type = {types[i].name, (int)cla_type_of(problem, types[i].operand)};
        if (said_of(problem, types[i].operand) != CLATTN_AS_DTYPE)
            cla_text_define(text, &type, 1);
    }
}

clattn_status cla_types_check_plain(const struct clattn_problem *problem, const char *name, struct cla_error *error)
{
    if (problem->features & CLATTN_PAGES)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "problem.features has CLATTN_PAGES: %s reads keys that lie at one distance from each other: take "
            "another skeleton",
            name);
    return cla_types_check_one(problem, name, error);
}

clattn_status cla_types_check_one(const struct clattn_problem *problem, const char *name, struct cla_error *error)
{
    if (cla_types_are_one(problem))
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "Q is %s, K %s, V %s%s%s: %s takes them in one type: store all in one, or take another skeleton",
                    clattn_dtype_name(cla_type_of(problem, CLA_Q)), clattn_dtype_name(cla_type_of(problem, CLA_K)),
                    clattn_dtype_name(cla_type_of(problem, CLA_V)), cla_problem_is_backward(problem) ? ", dO " : "",
                    cla_problem_is_backward(problem) ? clattn_dtype_name(problem->dtype) : "", name);
}
