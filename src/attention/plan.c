/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/plan.h"
#include "device/report.h"
#include "device/tuning.h"
#include "plan/checked.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/reserved.h"
#include "plan/tuning/tuned.h"
#include <stdlib.h>

clattn_status clattn_plan_preview(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                  struct clattn_plan_info *info)
{
    return clattn_tuning_preview(NULL, capabilities, problem, info);
}

clattn_status clattn_tuning_preview(const clattn_tuning *tuning, const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, struct clattn_plan_info *info)
{
    struct cla_error error;
    struct clattn_problem resolved;
    struct cla_choice choice;
    struct clattn_plan_info planned;
    clattn_status status = CLATTN_SUCCESS;
    if (!capabilities)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                          "capabilities is NULL: it must point to a struct clattn_capabilities");
    else if (!info)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "info is NULL: it must point to a struct clattn_plan_info");
    if (!status)
        status = cla_check_reserved(&cla_struct_capabilities, "capabilities", capabilities, &error);
    if (!status)
        status = cla_problem_resolve(problem, &resolved, &error);
    if (!status)
        status = cla_plan_tuned(capabilities, &resolved, tuning ? &tuning->db : NULL, cla_kernels_hash, &choice,
                                &planned, &error);
    if (status)
        return cla_report(NULL, &error);
    *info = planned;
    return CLATTN_SUCCESS;
}

static struct clattn_plan *allocate(void)
{
    struct clattn_plan *plan = calloc(1, sizeof *plan);
    struct cla_plan_kernels *kernels = calloc(1, sizeof *kernels);
    if (!plan || !kernels || pthread_mutex_init(&kernels->few.lock, NULL) != 0) {
        free(kernels);
        free(plan);
        return NULL;
    }
    plan->kernels = kernels;
    return plan;
}

clattn_status cla_plan_make(struct clattn_plan **result, struct clattn_context *context,
                            const struct clattn_problem *problem, struct cla_error *error)
{
    struct clattn_problem resolved;
    clattn_status status = cla_problem_resolve(problem, &resolved, error);
    if (status)
        return status;
    struct clattn_plan *plan = allocate();
    if (!plan)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_plan");
    plan->context = context;
    plan->problem = resolved;
    plan->features = cla_problem_features(&resolved);
    status = cla_plan_settle(plan, error);
    plan->problem.skeleton = plan->problem.knobs = NULL;
    plan->problem.score_mod = plan->problem.score_mod_grad = plan->problem.mask_mod = NULL;
    if (status)
        clattn_plan_destroy(&plan);
    else
        *result = plan;
    return status;
}

clattn_status cla_plan_would_split(const struct clattn_context *context, const struct clattn_problem *problem,
                                   const struct clattn_shape *shape, bool *splits, struct cla_error *error)
{
    struct clattn_problem free_to = *problem;
    struct clattn_plan_info info;
    struct cla_choice choice;
    free_to.splits = CLATTN_SPLITS_BY_SHAPE;
    const clattn_status status =
        cla_plan_tuned(&context->capabilities, &free_to, &context->tuning, cla_kernels_hash, &choice, &info, error);
    if (status)
        return status;
    const struct cla_split_rule rule =
        cla_split_rule(&context->capabilities, &free_to, choice.skeleton, &choice.config);
    *splits = cla_would_split(&rule, shape);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context, const struct clattn_problem *problem)
{
    struct cla_error error;
    clattn_status status;
    if (!plan)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must point to the handle to be set");
    else if (!context)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "context is NULL: it must be a clattn_context");
    else
        status = cla_plan_make(plan, context, problem, &error);
    return status ? cla_report(context ? &context->log : NULL, &error) : CLATTN_SUCCESS;
}

void clattn_plan_destroy(clattn_plan **handle)
{
    if (!handle || !*handle)
        return;
    struct clattn_plan *plan = *handle;
    *handle = NULL;
    for (int i = 0; i < CLA_MOST_KERNELS; i++)
        cla_kernel_finish(&plan->kernels->skeleton[i]);
    cla_rows_finish(&plan->kernels->rows);
    clattn_plan_destroy(&plan->kernels->few.plan);
    pthread_mutex_destroy(&plan->kernels->few.lock);
    free(plan->kernels);
    free(plan);
}

clattn_status clattn_plan_get_info(const clattn_plan *plan, struct clattn_plan_info *info)
{
    struct cla_error error;
    clattn_status status = CLATTN_SUCCESS;
    if (!plan)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must be a clattn_plan");
    else if (!info)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "info is NULL: it must point to a struct clattn_plan_info");
    if (status)
        return cla_report(plan ? &plan->context->log : NULL, &error);
    *info = plan->info;
    return CLATTN_SUCCESS;
}

clattn_status cla_plan_check_pass(const struct clattn_plan *plan, enum clattn_pass pass, const char *function,
                                  struct cla_error *error)
{
    static const char *const names[] = {"CLATTN_FORWARD", "CLATTN_BACKWARD", "CLATTN_ACCUMULATE",
                                        "CLATTN_BACKWARD_ACCUMULATE"};
    if (!plan)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must be a clattn_plan");
    if (plan->problem.pass != pass)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "plan was made for the pass %s: %s needs one whose problem.pass is %s",
                        names[plan->problem.pass], function, names[pass]);
    return CLATTN_SUCCESS;
}

clattn_status cla_plan_groups(const struct clattn_plan *plan, int64_t batch, int64_t heads, int64_t blocks,
                              const char *what, size_t *groups, struct cla_error *error)
{
    const bool narrow = plan->context->capabilities.address_bits == 32;
    const int64_t limit = narrow ? UINT32_MAX / plan->info.work_group_size : INT32_MAX;
    int64_t count;
    if (!cla_multiply(blocks, heads, &count) || !cla_multiply(count, batch, &count) || count > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "shape: batch %lld x heads %lld x %lld blocks (%s) are more work-groups than the %lld that can "
                        "be launched at once: split the batch",
                        (long long)batch, (long long)heads, (long long)blocks, what, (long long)limit);
    *groups = (size_t)count;
    return CLATTN_SUCCESS;
}
