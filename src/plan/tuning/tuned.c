/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/tuning/tuned.h"
#include "plan/checked.h"

static bool look_up(const struct clattn_tuning_record *key, const struct cla_tuning_db *user,
                    cla_kernels_function kernels, struct clattn_tuning_record *found, enum clattn_plan_source *source)
{
    const struct clattn_tuning_record *record = user ? cla_tuning_find(user->records, user->count, key, kernels) : NULL;
    *source = CLATTN_PLAN_TUNED;
    if (!record) {
        record = cla_tuning_find(cla_tuning_built_in, cla_tuning_built_in_count, key, kernels);
        *source = CLATTN_PLAN_BUILT_IN;
    }
    if (record)
        *found = *record;
    return record != NULL;
}

/* The built-in table was measured with as many blocks of rows as keep a device busy whatever their size, which is then
 * a matter of speed alone. Where work-groups are persistent and there are but a few for each, their number decides. */
static bool is_too_small(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct clattn_tuning_record *record)
{
    enum { BLOCKS_A_UNIT = 8 };
    const struct cla_skeleton *skeleton = cla_skeleton_find(record->skeleton);
    if (!skeleton || !skeleton->persistent || !problem->expected_heads || !problem->expected_n_q || !record->b_r)
        return false;
    return (double)cla_ceil_div(problem->expected_n_q, record->b_r) * (double)problem->expected_heads <
           (double)BLOCKS_A_UNIT * capabilities->compute_units;
}

static const char *source_name(enum clattn_plan_source source)
{
    return source == CLATTN_PLAN_TUNED ? "tuning records" : "built-in table";
}

/* The record's choices, as if the caller had forced them. */
static clattn_status plan_record(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                 const struct clattn_tuning_record *record, struct cla_choice *choice,
                                 struct clattn_plan_info *info, struct cla_error *error)
{
    struct clattn_problem forced = *problem;
    forced.skeleton = record->skeleton;
    forced.b_r = record->b_r;
    forced.b_c = record->b_c;
    forced.work_group_size = record->work_group_size;
    forced.knobs = record->knobs[0] ? record->knobs : NULL;
    return cla_plan(capabilities, &forced, choice, info, error);
}

clattn_status cla_plan_tuned(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             const struct cla_tuning_db *user, cla_kernels_function kernels, struct cla_choice *choice,
                             struct clattn_plan_info *info, struct cla_error *error)
{
    struct clattn_tuning_record key, record;
    enum clattn_plan_source source;
    if (cla_plan_is_forced(problem) || !cla_tuning_key(capabilities, problem, &key) ||
        !look_up(&key, user, kernels, &record, &source) ||
        (source == CLATTN_PLAN_BUILT_IN && is_too_small(capabilities, problem, &record)))
        return cla_plan(capabilities, problem, choice, info, error);
    struct cla_error refusal;
    if (!plan_record(capabilities, problem, &record, choice, info, &refusal)) {
        info->source = source;
        cla_plan_step(info, "tuning", info->b_r, info->b_c, "measured: %.4g ms, the best of its class (%s)", record.ms,
                      source_name(source));
        return CLATTN_SUCCESS;
    }
    const clattn_status status = cla_plan(capabilities, problem, choice, info, error);
    if (!status)
        cla_plan_step(info, "tuning", info->b_r, info->b_c, "a record of the %s does not fit: %s", source_name(source),
                      refusal.text);
    return status;
}
