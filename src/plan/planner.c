/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/planner.h"
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/operand.h"
#include "plan/packing.h"
#include "plan/philox.h"
#include "plan/problem.h"
#include "plan/splits.h"
#include "plan/traffic.h"
#include "plan/tuning/knobs.h"
#include "plan/types.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cla_plan_step(struct clattn_plan_info *info, const char *name, int b_r, int b_c, const char *format, ...)
{
    if (info->step_count == CLA_NO_STEPS)
        return;
    if (info->step_count < CLATTN_MAX_PLAN_STEPS)
        info->step_count++;
    struct clattn_plan_step *step = &info->steps[info->step_count - 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(step->reason, sizeof step->reason, format, arguments);
    va_end(arguments);
    snprintf(step->name, sizeof step->name, "%s", name);
    step->b_r = b_r;
    step->b_c = b_c;
}

/* B_c = floor(M / 4d), B_r = min(B_c, d): M counts elements of the type that the skeleton's tiles hold; d is the larger
 * of the two head dimensions, since the paper's 4d stands for one row each of Q, K, V and O. */
static void paper_bound(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct cla_skeleton *skeleton, struct clattn_plan_info *info)
{
    const int d = problem->d > problem->d_v ? problem->d : problem->d_v;
    const int element_bytes = cla_skeleton_element_bytes(skeleton, problem);
    info->local_bytes_limit = cla_usable_local_bytes(capabilities);
    info->m_elements = info->local_bytes_limit / (uint64_t)element_bytes;
    const uint64_t bound = info->m_elements / (4 * (uint64_t)d);
    const int b_c = bound < 1 ? 1 : bound > INT32_MAX ? INT32_MAX : (int)bound;
    info->paper_b_c = b_c;
    info->paper_b_r = b_c < d ? b_c : d;
    cla_plan_step(
        info, "paper", info->paper_b_r, info->paper_b_c,
        "M = %llu bytes / %d = %llu elements; B_c = floor(M / 4d) = %d and B_r = min(B_c, d) = %d with d = %d",
        (unsigned long long)info->local_bytes_limit, element_bytes, (unsigned long long)info->m_elements,
        info->paper_b_c, info->paper_b_r, d);
}

const struct cla_skeleton *cla_plan_preferred(const struct clattn_capabilities *capabilities,
                                              const struct clattn_problem *problem, const struct cla_skeleton *after)
{
    bool passed = !after;
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton; skeleton++) {
        if (passed && cla_skeleton_serves(*skeleton, problem->pass) && (*skeleton)->prefers(capabilities, problem))
            return *skeleton;
        passed = passed || *skeleton == after;
    }
    return NULL;
}

/* Skeletons of several vendors may share a name: cla_skeleton_find takes the first. */
static void list_skeletons(enum clattn_pass pass, char *names, size_t size)
{
    size_t used = 0;
    names[0] = '\0';
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton && used < size; skeleton++)
        if (cla_skeleton_serves(*skeleton, pass) && cla_skeleton_find((*skeleton)->name) == *skeleton)
            used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", (*skeleton)->name);
}

static clattn_status pick_skeleton(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   const struct cla_skeleton *after, const struct cla_skeleton **skeleton,
                                   struct cla_error *error)
{
    *skeleton =
        problem->skeleton ? cla_skeleton_find(problem->skeleton) : cla_plan_preferred(capabilities, problem, after);
    if (*skeleton && cla_skeleton_serves(*skeleton, problem->pass))
        return CLATTN_SUCCESS;
    char names[256];
    list_skeletons(problem->pass, names, sizeof names);
    if (problem->skeleton)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.skeleton is \"%s\": it is NULL (planned) or, for this pass, one of %s",
                        problem->skeleton, names);
    return cla_fail(error, CLATTN_NOTHING_FITS, "no skeleton (%s) runs on the device %s", names,
                    capabilities->device_name);
}

static void describe(const struct clattn_problem *problem, const struct cla_choice *choice,
                     struct clattn_plan_info *info)
{
    const struct cla_config *config = &choice->config;
    snprintf(info->skeleton, sizeof info->skeleton, "%s", choice->skeleton->name);
    info->b_r = config->b_r;
    info->b_c = config->b_c;
    info->work_group_size = config->work_group_size;
    cla_knobs_write(choice->skeleton, config, info->knobs, sizeof info->knobs);
    info->t_r = cla_ceil_div(problem->expected_n_q * (config->packs ? cla_expected_pack(problem) : 1), config->b_r);
    info->t_c = cla_ceil_div(problem->expected_n_kv, config->b_c);
    info->local_bytes = choice->skeleton->local_bytes(problem, config);
    info->private_bytes = choice->skeleton->private_bytes(problem, config);
    if (choice->skeleton->streams)
        choice->skeleton->streams(config, info->streams);
    else
        cla_streams_plain(config, info->streams);
}

/* How often keys are split at the expected sizes; says so where they are. */
static void describe_splits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            const struct cla_choice *choice, struct clattn_plan_info *info)
{
    const int64_t heads = problem->expected_heads, n_q = problem->expected_n_q, n_kv = problem->expected_n_kv;
    const struct cla_split_rule rule = cla_split_rule(capabilities, problem, choice->skeleton, &choice->config);
    const bool known = heads && n_q && n_kv;
    if (rule.split_keys) {
        info->splits = 0;
        cla_plan_step(info, "splits", info->b_r, info->b_c, "keys are split at each multiple of %lld, in every call",
                      (long long)rule.split_keys);
        return;
    }
    info->splits = rule.splits != CLATTN_SPLITS_BY_SHAPE ? rule.splits
                   : known                               ? cla_splits_of(&rule, heads, n_q, n_kv)
                                                         : 0;
    if (cla_must_split(&rule))
        cla_plan_step(info, "splits", info->b_r, info->b_c, "keys are split into %d parts in every call", info->splits);
    else if (info->splits > 1)
        cla_plan_step(info, "splits", info->b_r, info->b_c,
                      "%lld blocks of rows, %lld at a time: keys are split into %d parts, %.2g times the work of the "
                      "whole at a time instead of %.2g",
                      (long long)cla_split_blocks(&rule, heads, n_q), (long long)rule.slots, info->splits,
                      cla_split_cost(&rule, heads, n_q, n_kv, info->splits) / (double)n_kv,
                      cla_split_cost(&rule, heads, n_q, n_kv, 1) / (double)n_kv);
    else if (info->splits == 0)
        cla_plan_step(info, "splits", info->b_r, info->b_c,
                      "keys are split where a call has too few blocks of rows for %lld at a time",
                      (long long)rule.slots);
}

/* The baked constants as the info shows them: the #define lines without the word and the prefix's repetition. */
static clattn_status list_constants(const struct clattn_problem *problem, const struct cla_choice *choice,
                                    struct clattn_plan_info *info, struct cla_error *error)
{
    struct cla_text text = {0};
    cla_plan_defines(problem, choice, &text);
    if (text.failed) {
        cla_text_free(&text);
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the plan's constants");
    }
    size_t used = 0;
    for (char *line = text.data, *next; line && *line; line = next) {
        char name[64];
        int value;
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        if (sscanf(line, "#define %63s %d", name, &value) == 2 && used < sizeof info->constants)
            used += (size_t)snprintf(info->constants + used, sizeof info->constants - used, "%s%s=%d", used ? " " : "",
                                     name, value);
    }
    cla_text_free(&text);
    return CLATTN_SUCCESS;
}

bool cla_plan_is_forced(const struct clattn_problem *problem)
{
    return problem->skeleton || problem->b_r || problem->b_c || problem->work_group_size || problem->knobs;
}

clattn_status cla_adopt(const struct clattn_capabilities *capabilities, const struct cla_skeleton *skeleton,
                        const struct clattn_problem *problem, struct cla_config *config, struct clattn_plan_info *info,
                        struct cla_error *error)
{
    const clattn_status status = skeleton->adopt(capabilities, problem, config, info, error);
    const uint64_t most = cla_usable_local_bytes(capabilities);
    const uint64_t local = status ? 0 : skeleton->local_bytes(problem, config);
    if (status || local <= most)
        return status;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "problem.knobs \"%.80s\" do not fit %s with b_r = %d, b_c = %d: they take %llu bytes of local "
                    "memory, of which there are %llu",
                    problem->knobs ? problem->knobs : "", skeleton->name, config->b_r, config->b_c,
                    (unsigned long long)local, (unsigned long long)most);
}

/* The skeleton's own choice, with the knobs that the problem names in place of some of it. */
static clattn_status configure(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               const struct cla_skeleton *skeleton, struct cla_config *config,
                               struct clattn_plan_info *info, struct cla_error *error)
{
    clattn_status status = cla_packing_check(skeleton, problem, error);
    const bool packs = cla_plans_to_pack(skeleton, problem);
    const struct clattn_problem packed = packs ? cla_problem_packed(problem) : *problem;
    const int steps = info->step_count;
    if (!status)
        status = skeleton->choose(capabilities, &packed, config, info, error);
    config->packs = packs;
    if (status || !problem->knobs)
        return status;
    status = cla_knobs_read(skeleton, problem->knobs, config, error);
    if (status || !skeleton->adopt)
        return status;
    info->step_count = steps;
    return cla_adopt(capabilities, skeleton, &packed, config, info, error);
}

/* Says which skeleton the device would have run, were Q, K and V contiguous and of one type. */
static void explain_operands(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             const struct cla_skeleton *skeleton, struct clattn_plan_info *info)
{
    struct clattn_problem alike = *problem;
    struct cla_error why;
    if (problem->skeleton || !cla_types_check_plain(problem, "", &why))
        return;
    alike.dtype = cla_type_of(problem, cla_type_of(problem, CLA_K) > CLATTN_BF16 ? CLA_Q : CLA_K);
    alike.q_type = alike.k_type = alike.v_type = CLATTN_AS_DTYPE;
    alike.zero_points = 0;
    alike.features &= ~(unsigned)CLATTN_PAGES;
    const struct cla_skeleton *other = cla_plan_preferred(capabilities, &alike, NULL);
    if (other && other != skeleton && cla_types_check_plain(problem, other->name, &why))
        cla_plan_step(info, "operands", 0, 0, "%s", why.text);
}

/* Says why a GPU's plan takes another kernel than those for matrix units. */
static void explain_matrix_unit(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const struct cla_skeleton *skeleton, struct clattn_plan_info *info)
{
    char why[sizeof info->steps->reason];
    if (problem->skeleton || skeleton->declines || capabilities->type != CLATTN_DEVICE_GPU)
        return;
    cla_matrix_why_not(capabilities, problem, why, sizeof why);
    cla_plan_step(info, "matrix unit", 0, 0, "%s", why);
}

/* With one of the skeletons behind `after` (NULL: any). */
static clattn_status plan_after(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const struct cla_skeleton *after, struct cla_choice *choice,
                                struct clattn_plan_info *info, struct cla_error *error)
{
    struct cla_choice found = {0};
    *info = (struct clattn_plan_info){0};
    clattn_status status = pick_skeleton(capabilities, problem, after, &found.skeleton, error);
    if (status)
        return status;
    paper_bound(capabilities, problem, found.skeleton, info);
    explain_operands(capabilities, problem, found.skeleton, info);
    explain_matrix_unit(capabilities, problem, found.skeleton, info);
    status = configure(capabilities, problem, found.skeleton, &found.config, info, error);
    if (status)
        return status;
    if (found.config.packs && cla_expected_pack(problem) > 1)
        cla_plan_step(info, "packing", found.config.b_r, found.config.b_c,
                      "query heads that share a head of K and V go together: %d rows of a block are %d heads' at the "
                      "expected sizes, and K and V are read once for them",
                      found.config.b_r, cla_expected_pack(problem));
    info->source = cla_plan_is_forced(problem) ? CLATTN_PLAN_FORCED : CLATTN_PLAN_MODEL;
    describe(problem, &found, info);
    describe_splits(capabilities, problem, &found, info);
    *choice = found;
    return list_constants(problem, &found, info, error);
}

clattn_status cla_plan(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_choice *choice, struct clattn_plan_info *info, struct cla_error *error)
{
    return plan_after(capabilities, problem, NULL, choice, info, error);
}

clattn_status cla_plan_step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                 const char *reason, struct cla_choice *choice, struct clattn_plan_info *info,
                                 struct cla_error *error)
{
    const struct cla_config refused = choice->config;
    const bool forced = problem->b_r || problem->b_c || problem->work_group_size || problem->knobs;
    if (forced || !choice->skeleton->step_down || !choice->skeleton->step_down(capabilities, problem, &choice->config))
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "%s with B_r = %d, B_c = %d and %d work-items does not fit the device (%s), and %s", choice->skeleton->name,
            refused.b_r, refused.b_c, refused.work_group_size, reason,
            forced ? "these sizes were forced: leave b_r, b_c, work_group_size and knobs 0 to have them planned"
                   : "there is no smaller configuration");
    describe(problem, choice, info);
    describe_splits(capabilities, problem, choice, info);
    cla_plan_step(info, "device", choice->config.b_r, choice->config.b_c,
                  "the device refused B_r = %d, B_c = %d with %d work-items: %s", refused.b_r, refused.b_c,
                  refused.work_group_size, reason);
    return list_constants(problem, choice, info, error);
}

static bool is_retargeted(const struct cla_choice *choice)
{
    for (const struct cla_kernel_form *form = choice->skeleton->kernels; form->entry; form++)
        if (form->retargeted)
            return true;
    return false;
}

/* The driver's PTX cannot be retargeted after all. */
static clattn_status leave_skeleton(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const char *reason, struct cla_choice *choice,
                                    struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_skeleton *refused = choice->skeleton;
    const clattn_status status = plan_after(capabilities, problem, refused, choice, info, error);
    if (!status)
        cla_plan_step(info, "device", choice->config.b_r, choice->config.b_c, "without %s: %s", refused->name, reason);
    return status;
}

clattn_status cla_plan_next(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            const char *reason, bool spills, struct cla_choice *choice, struct clattn_plan_info *info,
                            struct cla_error *error)
{
    const bool may_leave = is_retargeted(choice) && !cla_plan_is_forced(problem);
    clattn_status status = CLATTN_NOTHING_FITS;
    if (info->source == CLATTN_PLAN_TUNED || info->source == CLATTN_PLAN_BUILT_IN) {
        status = cla_plan(capabilities, problem, choice, info, error);
        if (!status)
            cla_plan_step(info, "tuning", choice->config.b_r, choice->config.b_c,
                          "the device refused what a tuning record says: %s", reason);
        return status;
    }
    if (spills || !may_leave)
        status = cla_plan_step_down(capabilities, problem, reason, choice, info, error);
    if (status == CLATTN_NOTHING_FITS && may_leave)
        status = leave_skeleton(capabilities, problem, reason, choice, info, error);
    return status;
}

void cla_plan_defines(const struct clattn_problem *problem, const struct cla_choice *choice, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"B_C", choice->config.b_c},
        {"B_R", choice->config.b_r},
        {"BLOCK_KV", problem->block_kv},
        {"BLOCK_Q", problem->block_q},
        {"CAUSAL", (int)problem->causal},
        {"D", problem->d},
        {"DTYPE", (int)problem->dtype},
        {"D_V", problem->d_v},
        {"FEATURES", (int)cla_problem_features(problem)},
        {"LOCAL_BYTES", (int)choice->skeleton->local_bytes(problem, &choice->config)},
        {"SCORE_MOD_GRAD", problem->score_mod_grad != NULL},
        {"STATE", cla_problem_accumulates(problem)},
        {"WORK_GROUP_SIZE", choice->config.work_group_size},
    };
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    if (problem->dropout_p > 0) {
        const struct cla_define threshold = {"DROPOUT_THRESHOLD", (int)cla_dropout_threshold(problem->dropout_p)};
        cla_text_define(text, &threshold, 1);
    }
    cla_types_define(problem, text);
    if (problem->split_keys) {
        const struct cla_define keys = {"SPLIT_KEYS", (int)cla_split_keys(problem, &choice->config)};
        cla_text_define(text, &keys, 1);
    }
    if (problem->window_corner) {
        const struct cla_define corner = {"WINDOW_CORNER", (int)problem->window_corner};
        cla_text_define(text, &corner, 1);
    }
    if (problem->sink_keys) {
        const struct cla_define sinks = {"SINK_KEYS", (int)problem->sink_keys};
        cla_text_define(text, &sinks, 1);
    }
    if (problem->page_keys) {
        const struct cla_define pages = {"PAGE_KEYS", (int)problem->page_keys};
        cla_text_define(text, &pages, 1);
    }
    if (choice->config.packs && !choice->skeleton->row_views) {
        const struct cla_define packs = {"PACKS", 1};
        cla_text_define(text, &packs, 1);
    }
    choice->skeleton->define(problem, &choice->config, text);
}
