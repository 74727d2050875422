/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/plan.h"
#include "device/clcall.h"
#include "device/report.h"
#include "device/source.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clattn_status clattn_plan_preview(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                  struct clattn_plan_info *info)
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
        status = cla_problem_resolve(problem, &resolved, &error);
    if (!status)
        status = cla_plan(capabilities, &resolved, &choice, &planned, &error);
    if (status)
        return cla_report(NULL, &error);
    *info = planned;
    return CLATTN_SUCCESS;
}

/* Why the device would not take a configuration; "" where it did, or where something else failed. */
struct refusal {
    char reason[160];
};

/* The words in which compilers say that a kernel wants more than the device has, lower case. Everything else that stops
 * a build is an error in the kernel. */
static const char *const resource_words[] = {
    "too much shared data",      /* NVIDIA: local memory */
    "too many resources",        /* NVIDIA: registers for the work-group */
    "local memory limit",        /* AMD */
    "exceeds limit",             /* AMD: "local memory (98304) exceeds limit (65536)" */
    "ran out of registers",      /* LLVM back ends */
    "shared local memory",       /* Intel: "uses too much shared local memory" */
    "work-group size exceeds",   /* Intel */
    "exceeds the maximum",       /* Apple, Mali: local memory, work-group size */
    "insufficient local memory", /* Adreno */
    "out of resources",
};

static const char *find_resource_word(const char *log)
{
    for (size_t i = 0; i < sizeof resource_words / sizeof *resource_words; i++) {
        const size_t length = strlen(resource_words[i]);
        for (const char *at = log; *at; at++) {
            size_t same = 0;
            while (same < length && tolower((unsigned char)at[same]) == resource_words[i][same])
                same++;
            if (same == length)
                return resource_words[i];
        }
    }
    return NULL;
}

static void judge_failure(clattn_status status, const struct cla_error *error, struct refusal *refusal)
{
    const char *word = status == CLATTN_BUILD_FAILED ? find_resource_word(error->text) : NULL;
    if (word)
        snprintf(refusal->reason, sizeof refusal->reason, "its compiler says \"%s\"", word);
    else if (status == CL_OUT_OF_RESOURCES || status == CL_INVALID_WORK_GROUP_SIZE)
        snprintf(refusal->reason, sizeof refusal->reason, "the build ended with %s", clattn_status_name(status));
}

static clattn_status assemble(const struct clattn_problem *problem, const struct cla_choice *choice,
                              struct cla_text *text, struct cla_error *error)
{
    struct cla_text defines = {0};
    cla_plan_defines(problem, choice, &defines);
    clattn_status status;
    if (defines.failed)
        status =
            cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the program text of %s", choice->skeleton->name);
    else
        status = cla_source_assemble(defines.data, choice->skeleton->files, text, error);
    cla_text_free(&defines);
    return status;
}

static const char *build_options(const struct clattn_plan *plan, const struct cla_choice *choice)
{
    const bool plain = choice->skeleton->unoptimised && choice->skeleton->unoptimised(&plan->context->capabilities);
    return plain ? CLA_BUILD_OPTIONS " -cl-opt-disable" : CLA_BUILD_OPTIONS;
}

/* Builds the variant and makes its kernel. */
static clattn_status compile(struct clattn_plan *plan, const struct cla_choice *choice, struct refusal *refusal,
                             struct cla_error *error)
{
    struct cla_text text = {0};
    cl_program program = NULL;
    char key[CLA_HASH_HEX];
    clattn_status status = assemble(&plan->problem, choice, &text, error);
    if (status)
        goto done;
    status = cla_program_get(plan->context, choice->skeleton->name, text.data, build_options(plan, choice), &program,
                             key, error);
    if (!status)
        status = cla_kernel_init(plan->kernel, program, choice->skeleton->entries[0], error);
    if (status)
        judge_failure(status, error, refusal);
    else
        snprintf(plan->info.program_key, sizeof plan->info.program_key, "%s", key);
done:
    cla_cl_release_program(program);
    cla_text_free(&text);
    return status;
}

/* Asks the compiled kernel whether the device can run it. What it says of local memory is held against what the device
 * gives, not what it says: NVIDIA gives static arrays several times CL_DEVICE_LOCAL_MEM_SIZE. */
static clattn_status prove(const struct clattn_plan *plan, const struct cla_choice *choice, struct refusal *refusal,
                           struct cla_error *error)
{
    const cl_kernel kernel = plan->kernel->kernel;
    const cl_device_id device = plan->context->device;
    size_t group = 0;
    cl_ulong local = 0;
    clattn_status status =
        cla_cl_kernel_work_group_info(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, error);
    if (!status)
        status = cla_cl_kernel_work_group_info(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, error);
    if (status)
        return status;
    const uint64_t usable = cla_usable_local_bytes(&plan->context->capabilities);
    if (group < (size_t)choice->config.work_group_size)
        snprintf(refusal->reason, sizeof refusal->reason,
                 "the compiled kernel runs in work-groups of at most %zu work-items", group);
    else if (local > usable)
        snprintf(refusal->reason, sizeof refusal->reason,
                 "the compiled kernel takes %llu bytes of local memory, and %llu can be used",
                 (unsigned long long)local, (unsigned long long)usable);
    else
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_NOTHING_FITS, "%s", refusal->reason);
}

/* Compiles what was planned, then what is smaller, until the device takes it. */
static clattn_status settle(struct clattn_plan *plan, struct cla_error *error)
{
    struct clattn_context *context = plan->context;
    struct cla_choice choice;
    clattn_status status = cla_plan(&context->capabilities, &plan->problem, &choice, &plan->info, error);
    while (!status) {
        struct refusal refusal = {""};
        status = compile(plan, &choice, &refusal, error);
        if (!status)
            status = prove(plan, &choice, &refusal, error);
        if (!status)
            return CLATTN_SUCCESS;
        cla_kernel_finish(plan->kernel);
        plan->info.program_key[0] = '\0';
        if (!refusal.reason[0])
            return status;
        cla_say(&context->log, CLATTN_LOG_INFO, "%s with B_r = %d, B_c = %d, %d work-items does not fit: %s",
                choice.skeleton->name, choice.config.b_r, choice.config.b_c, choice.config.work_group_size,
                refusal.reason);
        status =
            cla_plan_step_down(&context->capabilities, &plan->problem, refusal.reason, &choice, &plan->info, error);
    }
    return status;
}

clattn_status cla_plan_make(struct clattn_plan **result, struct clattn_context *context,
                            const struct clattn_problem *problem, struct cla_error *error)
{
    struct clattn_problem resolved;
    clattn_status status = cla_problem_resolve(problem, &resolved, error);
    if (status)
        return status;
    struct clattn_plan *plan = calloc(1, sizeof *plan);
    struct cla_kernel *kernel = calloc(1, sizeof *kernel);
    if (!plan || !kernel) {
        free(kernel);
        free(plan);
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_plan");
    }
    plan->context = context;
    plan->problem = resolved;
    plan->kernel = kernel;
    status = settle(plan, error);
    plan->problem.skeleton = NULL;
    if (status)
        clattn_plan_destroy(&plan);
    else
        *result = plan;
    return status;
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
    cla_kernel_finish(plan->kernel);
    free(plan->kernel);
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
