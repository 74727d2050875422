/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/types.h"
#include "plan/operand.h"
#include "plan/problem.h"

const struct cla_type *cla_type(int type)
{
    static const struct cla_type types[CLA_TYPES] = {
        {"fp32", 1, 4, false, false},    {"fp16", 1, 2, false, false},   {"bf16", 1, 2, false, false},
        {"int8", 1, 1, true, true},      {"int4", 2, 1, true, true},     {"fp8_e4m3", 1, 1, true, false},
        {"fp8_e5m2", 1, 1, true, false}, {"q8_0", 32, 34, false, false}, {"q4_0", 32, 18, false, false}};
    return &types[type];
}

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
    return cla_type((int)cla_type_of(problem, operand))->bytes;
}

double cla_element_bytes(const struct clattn_problem *problem, int operand)
{
    const struct cla_type *type = cla_type((int)cla_type_of(problem, operand));
    return (double)type->bytes / type->block;
}

int64_t cla_scale_group(const struct clattn_problem *problem, int operand)
{
    const int64_t columns = operand == CLA_K ? problem->d : problem->d_v;
    const int64_t group = operand == CLA_K ? problem->k_scale_group : problem->v_scale_group;
    if (!cla_type((int)cla_type_of(problem, operand))->scaled)
        return 0;
    return group && group < columns ? group : columns;
}

unsigned cla_types_features(const struct clattn_problem *problem)
{
    const bool k = cla_type((int)cla_type_of(problem, CLA_K))->scaled,
               v = cla_type((int)cla_type_of(problem, CLA_V))->scaled;
    return (k ? CLA_FEATURE_K_SCALES : 0) | (v ? CLA_FEATURE_V_SCALES : 0) |
           (problem->zero_points & CLATTN_K_ZEROS ? CLA_FEATURE_K_ZEROS : 0) |
           (problem->zero_points & CLATTN_V_ZEROS ? CLA_FEATURE_V_ZEROS : 0);
}

bool cla_types_are_one(const struct clattn_problem *problem)
{
    return cla_type_of(problem, CLA_Q) == problem->dtype && cla_type_of(problem, CLA_K) == problem->dtype &&
           cla_type_of(problem, CLA_V) == problem->dtype;
}

/* The most that a type may be: K and V, which forward passes may expand, have formats. */
static clattn_status check_type(const char *name, int64_t type, bool keys, bool backward, struct cla_error *error)
{
    if (type >= CLATTN_AS_DTYPE && type <= CLATTN_AS_BF16)
        return CLATTN_SUCCESS;
    if (type < CLATTN_AS_DTYPE || type > CLATTN_AS_Q4_0)
        return cla_fail(error, CLATTN_INVALID_TYPE,
                        "problem.%s is %lld: it is CLATTN_AS_DTYPE (0), CLATTN_AS_FP32 (1), CLATTN_AS_FP16 (2) or "
                        "CLATTN_AS_BF16 (3)%s",
                        name, (long long)type, keys ? ", or a format up to CLATTN_AS_Q4_0 (9)" : "");
    if (!keys)
        return cla_fail(error, CLATTN_INVALID_TYPE,
                        "problem.%s is %lld (%s): formats are those of K and V alone, this is from 0 to CLATTN_AS_BF16 "
                        "(3)",
                        name, (long long)type, cla_type((int)type - CLATTN_AS_FP32)->name);
    if (backward)
        return cla_fail(error, CLATTN_INVALID_TYPE,
                        "problem.%s is %lld (%s): backward passes read no formats: it is from 0 to CLATTN_AS_BF16 (3), "
                        "and the operand stored so",
                        name, (long long)type, cla_type((int)type - CLATTN_AS_FP32)->name);
    return CLATTN_SUCCESS;
}

static clattn_status check_scales(const char *name, enum clattn_dtype type, int64_t group, bool zeros,
                                  struct cla_error *error)
{
    const struct cla_type *of = cla_type((int)type);
    if (group < 0 || (group && !of->scaled))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.%s_scale_group is %lld with %s_type %s: it counts the elements that have one scale, 0 "
                        "for all of a row, and is 0 where there are no scales",
                        name, (long long)group, name, of->name);
    if (zeros && !of->centred)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.zero_points has those of %s with %s_type %s: INT8 and INT4 alone have them", name,
                        name, of->name);
    return CLATTN_SUCCESS;
}

clattn_status cla_types_check(const struct clattn_problem *problem, struct cla_error *error)
{
    const struct {
        const char *name;
        int64_t type;
        bool keys;
    } types[] = {{"q_type", problem->q_type, false},
                 {"k_type", problem->k_type, true},
                 {"v_type", problem->v_type, true},
                 {"o_type", problem->o_type, false},
                 {"bias_type", problem->bias_type, false}};
    clattn_status status = CLATTN_SUCCESS;
    for (size_t i = 0; i < sizeof types / sizeof *types && !status; i++)
        status = check_type(types[i].name, types[i].type, types[i].keys, cla_problem_is_backward(problem), error);
    if (status)
        return status;
    if (problem->bias_type && !(problem->features & CLATTN_BIAS))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.bias_type is %lld, and problem.features has no CLATTN_BIAS: it must be 0 then",
                        (long long)problem->bias_type);
    if (problem->zero_points & ~(int64_t)(CLATTN_K_ZEROS | CLATTN_V_ZEROS))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.zero_points is %lld: it is CLATTN_K_ZEROS (1) and CLATTN_V_ZEROS (2), or-ed together",
                        (long long)problem->zero_points);
    status = check_scales("k", cla_type_of(problem, CLA_K), problem->k_scale_group,
                          problem->zero_points & CLATTN_K_ZEROS, error);
    return status ? status
                  : check_scales("v", cla_type_of(problem, CLA_V), problem->v_scale_group,
                                 problem->zero_points & CLATTN_V_ZEROS, error);
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
    if (cla_scale_group(&given, CLA_K))
        problem->k_scale_group = cla_scale_group(&given, CLA_K);
    if (cla_scale_group(&given, CLA_V))
        problem->v_scale_group = cla_scale_group(&given, CLA_V);
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
    for (int operand = CLA_K; operand <= CLA_V; operand++) {
        const struct cla_define group = {operand == CLA_K ? "K_SCALE_GROUP" : "V_SCALE_GROUP",
                                         (int)cla_scale_group(problem, operand)};
        if (group.value)
            cla_text_define(text, &group, 1);
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
                    cla_type((int)cla_type_of(problem, CLA_Q))->name, cla_type((int)cla_type_of(problem, CLA_K))->name,
                    cla_type((int)cla_type_of(problem, CLA_V))->name, cla_problem_is_backward(problem) ? ", dO " : "",
                    cla_problem_is_backward(problem) ? clattn_dtype_name(problem->dtype) : "", name);
}
