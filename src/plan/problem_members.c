/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/problem_members.h"
#include <string.h>

#define MEMBER(name, is_real, is_own)                                                                                  \
    {                                                                                                                  \
        .path = "problem." #name, .at = offsetof(struct clattn_problem, name),                                         \
        .bytes = sizeof((struct clattn_problem *)0)->name, .real = is_real, .own = is_own                              \
    }
#define SHARED(name) MEMBER(name, false, false)
#define OWN(name)    MEMBER(name, false, true)

/* As the struct has them. */
const struct cla_problem_member cla_problem_members[CLA_PROBLEM_MEMBERS] = {
    SHARED(pass),
    SHARED(dtype),
    SHARED(d),
    SHARED(d_v),
    SHARED(causal),
    MEMBER(scale, true, false),
    SHARED(features),
    SHARED(block_q),
    SHARED(block_kv),
    MEMBER(dropout_p, true, true),
    SHARED(o_type),
    OWN(unordered),
    OWN(expected_n_q),
    OWN(expected_n_kv),
    OWN(expected_heads),
    MEMBER(expected_density, true, true),
    OWN(splits),
    OWN(b_r),
    OWN(b_c),
    OWN(work_group_size),
    SHARED(bias_type),
    OWN(expected_kv_heads),
    OWN(packing),
    SHARED(q_type),
    SHARED(k_type),
    SHARED(v_type),
    SHARED(page_keys),
    SHARED(k_scale_group),
    SHARED(v_scale_group),
    SHARED(zero_points),
    SHARED(window_corner),
    SHARED(split_keys),
    SHARED(rng_state),
    SHARED(sink_keys),
};

static const void *place_of(const struct clattn_problem *problem, const struct cla_problem_member *member)
{
    return (const char *)problem + member->at;
}

bool cla_problem_same_numbers(const struct clattn_problem *a, const struct clattn_problem *b)
{
    for (int i = 0; i < CLA_PROBLEM_MEMBERS; i++) {
        const struct cla_problem_member *member = &cla_problem_members[i];
        if (memcmp(place_of(a, member), place_of(b, member), member->bytes) != 0)
            return false;
    }
    return true;
}

int64_t cla_problem_member_of(const struct clattn_problem *problem, const struct cla_problem_member *member)
{
    int64_t whole = 0;
    int32_t half = 0;
    if (member->bytes == sizeof whole)
        memcpy(&whole, place_of(problem, member), sizeof whole);
    else
        memcpy(&half, place_of(problem, member), sizeof half);
    return member->bytes == sizeof whole ? whole : member->real ? (int64_t)(uint32_t)half : half;
}
