/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/packing.h"
#include "plan/problem.h"
#include "plan/sizes.h"

bool cla_may_pack(const struct cla_skeleton *skeleton, const struct clattn_problem *problem)
{
    return skeleton->packs && (skeleton->row_views || !(problem->features & CLATTN_DROPOUT));
}

clattn_status cla_packing_check(const struct cla_skeleton *skeleton, const struct clattn_problem *problem,
                                struct cla_error *error)
{
    if (problem->packing != CLATTN_PACKING_ALWAYS || cla_may_pack(skeleton, problem))
        return CLATTN_SUCCESS;
    if (!skeleton->packs)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.packing is CLATTN_PACKING_ALWAYS: the kernels of %s have no packed rows, so it is "
                        "CLATTN_PACKING_PLANNED or CLATTN_PACKING_NEVER",
                        skeleton->name);
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "problem.packing is CLATTN_PACKING_ALWAYS: with CLATTN_DROPOUT it is CLATTN_PACKING_PLANNED or "
                    "CLATTN_PACKING_NEVER");
}

/* The largest divisor of a group with which rows can still be counted: divisors come in pairs. */
static int largest(int64_t group, int64_t n_q)
{
    const int64_t most = n_q > 0 ? CLA_MAX_LENGTH / n_q : group;
    int64_t pack = 1;
    for (int64_t small = 1; small * small <= group; small++) {
        if (group % small)
            continue;
        if (group / small <= most)
            return (int)(group / small);
        if (small <= most)
            pack = small;
    }
    return (int)pack;
}

int cla_expected_pack(const struct clattn_problem *problem)
{
    const int64_t heads = problem->expected_heads, kv_heads = problem->expected_kv_heads;
    return heads && kv_heads && heads % kv_heads == 0 ? largest(heads / kv_heads, problem->expected_n_q) : 1;
}

int cla_pack_of(const struct cla_config *config, const struct clattn_shape *shape)
{
    return config->packs && shape->kv_heads ? largest(shape->heads / shape->kv_heads, shape->n_q) : 1;
}

/* Where one head's rows fill the blocks of a kernel, K and V come from a cache, and packing gains nothing. */
bool cla_plans_to_pack(const struct cla_skeleton *skeleton, const struct clattn_problem *problem)
{
    if (problem->packing != CLATTN_PACKING_PLANNED)
        return problem->packing == CLATTN_PACKING_ALWAYS;
    if (skeleton->row_views)
        return true;
    return cla_may_pack(skeleton, problem) && problem->expected_n_q && problem->expected_n_kv &&
           problem->expected_n_q <= cla_packing_sizes.most_rows && cla_expected_pack(problem) > 1;
}

struct clattn_problem cla_problem_packed(const struct clattn_problem *problem)
{
    struct clattn_problem packed = *problem;
    const int pack = cla_expected_pack(problem);
    packed.expected_n_q *= pack;
    packed.expected_heads /= pack;
    return packed;
}
