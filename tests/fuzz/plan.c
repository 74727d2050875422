/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A plan for any problem on any device, its steps down, its splits and its traffic. */
#include "fuzz/planned.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/splits.h"
#include "plan/tuning/tuned.h"
#include <clattn/traffic.h>
#include <string.h>

enum { MOST_STEPS = 24 };

/* Every skeleton that exists has the kernels that a record asks for. */
static const char *any_kernels(const char *skeleton, char hex[40])
{
    return cla_skeleton_find(skeleton) ? strcpy(hex, "*") : NULL;
}

static void check_info(const struct clattn_capabilities *capabilities, const struct clattn_plan_info *info)
{
    FUZZ_REQUIRE(info->b_r >= 1 && info->b_c >= 1 && info->work_group_size >= 1);
    FUZZ_REQUIRE(!capabilities->max_work_group_size ||
                 (uint64_t)info->work_group_size <= capabilities->max_work_group_size);
    FUZZ_REQUIRE(info->local_bytes <= info->local_bytes_limit);
}

static int64_t size_of(struct fuzz_bytes *bytes)
{
    return (int64_t)(fuzz_number(bytes) % INT32_MAX);
}

static void check_choice(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct cla_choice *choice, const struct clattn_plan_info *info, struct fuzz_bytes bytes)
{
    struct cla_text text = {0};
    const struct cla_split_rule rule = cla_split_rule(capabilities, problem, choice->skeleton, &choice->config);
    const int64_t heads = size_of(&bytes), n_q = size_of(&bytes), n_kv = size_of(&bytes);
    const int splits = cla_splits_of(&rule, heads, n_q, n_kv);
    check_info(capabilities, info);
    FUZZ_REQUIRE(splits >= 1 && splits <= CLATTN_MAX_SPLITS);
    cla_plan_defines(problem, choice, &text);
    FUZZ_REQUIRE(!text.failed);
    cla_text_free(&text);
}

/* It goes through up to 32,768 blocks: once for an input. */
static void check_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                          struct fuzz_bytes bytes)
{
    struct clattn_traffic traffic;
    const int64_t heads = size_of(&bytes), n_q = size_of(&bytes), n_kv = size_of(&bytes);
    const struct clattn_traffic_params params = {
        .shape = {.batch = 1, .heads = heads ? heads : 1, .n_q = n_q, .n_kv = n_kv}};
    clattn_plan_traffic(problem, info, &params, &traffic);
}

static void plan(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem, bool tuned,
                 struct fuzz_bytes bytes)
{
    static struct clattn_plan_info info;
    struct cla_error error = {0};
    struct cla_choice choice = {0};
    memset(&info, 0, sizeof info);
    clattn_status status = tuned ? cla_plan_tuned(capabilities, problem, NULL, any_kernels, &choice, &info, &error)
                                 : cla_plan(capabilities, problem, &choice, &info, &error);
    if (!status)
        check_traffic(problem, &info, bytes);
    for (int steps = 0; !status && steps < MOST_STEPS; steps++) {
        check_choice(capabilities, problem, &choice, &info, bytes);
        status = cla_plan_step_down(capabilities, problem, "fuzz", &choice, &info, &error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct clattn_capabilities capabilities;
    struct fuzz_bytes bytes = {data, size};
    struct clattn_problem problem, resolved;
    struct cla_error error = {0};
    char knobs[128];
    const bool tuned = fuzz_byte(&bytes) & 1;
    fuzz_capabilities(&bytes, &capabilities);
    fuzz_problem(&bytes, &problem, knobs);
    if (!cla_problem_resolve(&problem, &resolved, &error))
        plan(&capabilities, &resolved, tuned, bytes);
    return 0;
}
