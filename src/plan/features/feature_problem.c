/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/feature_check.h"
#include "plan/philox.h"
#include "plan/problem.h"

/* What a problem says of its features, for their table. `there`: it has the feature. */

clattn_status cla_check_window_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    if (problem->window_corner < 0 || problem->window_corner > CLATTN_CAUSAL_TOP_LEFT ||
        (problem->window_corner && !there))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.window_corner is %lld: with CLATTN_WINDOW it is 0 (aligned as all else), "
                        "CLATTN_CAUSAL_BOTTOM_RIGHT (1) or CLATTN_CAUSAL_TOP_LEFT (2), without it 0",
                        (long long)problem->window_corner);
    if (problem->sink_keys < 0 || problem->sink_keys > CLA_MAX_SINK_KEYS || (problem->sink_keys && !there))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.sink_keys is %lld: with CLATTN_WINDOW it is from 0 to %lld, without it 0",
                        (long long)problem->sink_keys, (long long)CLA_MAX_SINK_KEYS);
    if (problem->sink_keys && cla_problem_is_backward(problem))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.sink_keys is %lld, and problem.pass is %d, a backward one: it is 0 there",
                        (long long)problem->sink_keys, (int)problem->pass);
    return CLATTN_SUCCESS;
}

static clattn_status check_block(const char *name, int value, bool there, struct cla_error *error)
{
    if (!there && value)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.%s is %d without CLATTN_BLOCK_MASK: it must be 0 then",
                        name, value);
    if (there && (value < 16 || value % 16 || value > 65536))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.%s is %d: with CLATTN_BLOCK_MASK it is a multiple of 16 from 16 to 65536", name,
                        value);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_block_mask_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    if (!(problem->expected_density >= 0 && problem->expected_density <= 1))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.expected_density is %g: it is 0 (unknown) or the share of a block mask's blocks that "
                        "are not hidden, at most 1",
                        (double)problem->expected_density);
    if (problem->expected_density > 0 && !there)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.expected_density is %g, and problem.features has no CLATTN_BLOCK_MASK",
                        (double)problem->expected_density);
    const clattn_status status = check_block("block_q", problem->block_q, there, error);
    return status ? status : check_block("block_kv", problem->block_kv, there, error);
}

clattn_status cla_check_dropout_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    const clattn_status status = cla_dropout_check("problem.dropout_p", problem->dropout_p, error);
    if (status)
        return status;
    if (problem->dropout_p > 0 && !there)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.dropout_p is %g, and problem.features has no CLATTN_DROPOUT",
                        (double)problem->dropout_p);
    return CLATTN_SUCCESS;
}

/* No bit of the caller's stands for it. */
clattn_status cla_check_rng_state_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    (void)there;
    if (problem->rng_state < 0 || problem->rng_state > 1)
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "problem.rng_state is %lld: it is 0 (dropout's seed comes with each call) or 1 (kernels read it)",
            (long long)problem->rng_state);
    if (problem->rng_state && !(problem->features & CLATTN_DROPOUT))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.rng_state is 1, and problem.features has no CLATTN_DROPOUT");
    return CLATTN_SUCCESS;
}

/* The user's functions, which no feature's bit of the caller's stands for. */
clattn_status cla_check_user_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    (void)there;
    if (problem->score_mod_grad && !problem->score_mod)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.score_mod_grad is given without score_mod, whose derivative it is");
    if (cla_problem_is_backward(problem) && problem->score_mod && !problem->score_mod_grad)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.score_mod_grad is NULL: the backward pass needs the derivative of score_mod");
    return CLATTN_SUCCESS;
}

clattn_status cla_check_pages_problem(const struct clattn_problem *problem, bool there, struct cla_error *error)
{
    if (there ? problem->page_keys < 1 || problem->page_keys > CLA_MAX_LENGTH : problem->page_keys != 0)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.page_keys is %lld: with CLATTN_PAGES it is from 1 to %lld, without it 0",
                        (long long)problem->page_keys, (long long)CLA_MAX_LENGTH);
    if (there && cla_problem_is_backward(problem))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features has CLATTN_PAGES, and problem.pass is %d, a backward one: gradients are of "
                        "keys that lie in a tensor of their own",
                        (int)problem->pass);
    return CLATTN_SUCCESS;
}

static const char *constant_of(unsigned bit)
{
    const struct cla_feature *row = cla_features;
    while (row->bit != bit)
        row++;
    return row->constant;
}

static clattn_status check_of(const struct cla_feature *row, unsigned features, struct cla_error *error)
{
    if (row->of & ~features)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.features has %s without %s, which they are of",
                        row->constant, constant_of(row->of));
    return CLATTN_SUCCESS;
}

static clattn_status check_pass(const struct cla_feature *row, const struct clattn_problem *problem,
                                struct cla_error *error)
{
    if ((row->hooks & CLA_OF_GRADIENTS) && !cla_problem_is_backward(problem))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features has %s, and problem.pass is %d, a forward one: it is of gradients alone",
                        row->constant, (int)problem->pass);
    return CLATTN_SUCCESS;
}

clattn_status cla_features_check_problem(const struct clattn_problem *problem, struct cla_error *error)
{
    const unsigned features = cla_problem_features(problem);
    clattn_status status = CLATTN_SUCCESS;
    for (const struct cla_feature *row = cla_features; row < cla_features + cla_feature_count && !status; row++) {
        const bool there = features & row->bit;
        if (there)
            status = check_pass(row, problem, error);
        if (!status && there)
            status = check_of(row, features, error);
        if (!status && row->check_problem)
            status = row->check_problem(problem, there, error);
    }
    return status;
}
