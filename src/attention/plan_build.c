/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/plan.h"
#include "device/clcall.h"
#include "device/report.h"
#include "device/tuning.h"
#include "plan/features/user_text.h"
#include "plan/planner.h"
#include "plan/source.h"
#include "plan/tuning/tuned.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Why the device would not take a configuration; "" where it did, or where something else failed. */
struct refusal {
    char reason[160];
    bool spills; /* it compiles, but keeps too much in memory: fewer registers' worth of work would not */
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
    "cannot be retargeted", /* src/plan/retarget.c */
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

/* Where a planned kernel does not compile, a slower one does not quietly take its place: the message says how to ask
 * for it. Not where text of the caller's is compiled too, which may well be the reason. */
static void name_way_out(const struct clattn_plan *plan, const struct cla_skeleton *refused, struct cla_error *error)
{
    const struct clattn_problem *problem = &plan->problem;
    const bool own_text = problem->score_mod || problem->score_mod_grad || problem->mask_mod;
    const struct cla_skeleton *other =
        problem->skeleton || own_text ? NULL : cla_plan_preferred(&plan->context->capabilities, problem, refused);
    const struct cla_error cause = *error;
    if (other)
        cla_fail(error, cause.status,
                 "%s, the planner's choice, does not compile on this device (problem.skeleton = \"%s\" takes a slower "
                 "kernel instead): %s",
                 refused->name, other->name, cause.text);
}

static clattn_status assemble(const struct clattn_problem *problem, const struct cla_choice *choice, int number,
                              struct cla_text *text, struct cla_error *error)
{
    struct cla_text defines = {0};
    struct cla_choice own = *choice;
    const struct cla_kernel_form form = cla_skeleton_form(choice->skeleton, &choice->config, number);
    own.config.work_group_size = form.work_group_size;
    cla_plan_defines(problem, &own, &defines);
    cla_text_printf(&defines, "#define CLATTN_%s %d\n", choice->skeleton->backward ? "KERNEL" : "SPLIT", number);
    cla_user_texts(problem, &defines);
    clattn_status status;
    if (defines.failed)
        status =
            cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the program text of %s", choice->skeleton->name);
    else
        status = cla_source_assemble(defines.data, form.files, text, error);
    cla_text_free(&defines);
    return status;
}

/* The numbers, as bits, of the kernels that calls may run. */
static uint32_t needed(const struct clattn_plan *plan, const struct cla_choice *choice)
{
    const struct clattn_capabilities *capabilities = &plan->context->capabilities;
    uint32_t kernels = 0;
    if (!cla_must_split(&plan->split_rule))
        kernels |= cla_recipe_kernels(choice->skeleton, &choice->config, capabilities, &plan->problem, 1);
    if (cla_may_split(&plan->split_rule))
        kernels |= cla_recipe_kernels(choice->skeleton, &choice->config, capabilities, &plan->problem, 2);
    return kernels;
}

/* Builds one of the variant's programs and makes its kernel; adds its key to `keys`. */
static clattn_status compile(struct clattn_plan *plan, const struct cla_choice *choice, int number,
                             struct cla_text *keys, struct refusal *refusal, struct cla_error *error)
{
    const struct cla_skeleton *skeleton = choice->skeleton;
    struct cla_text text = {0};
    cl_program program = NULL;
    char key[CLA_HASH_HEX], name[96], options[128];
    const struct cla_kernel_form form = cla_skeleton_form(skeleton, &choice->config, number);
    snprintf(options, sizeof options, "%s%s", CLA_BUILD_OPTIONS,
             skeleton->build_options ? skeleton->build_options(&plan->context->capabilities, &choice->config) : "");
    snprintf(name, sizeof name, "%s%s%s", skeleton->name, skeleton->backward ? ": " : "",
             skeleton->backward    ? form.entry
             : number == CLA_SPLIT ? ", keys split"
                                   : "");
    clattn_status status = assemble(&plan->problem, choice, number, &text, error);
    if (status)
        goto done;
    status = cla_program_get(plan->context, name, text.data, options, &program, key, error);
    if (!status)
        status = cla_kernel_init(&plan->kernels->skeleton[number], program, form.entry, error);
    if (status)
        judge_failure(status, error, refusal);
    else
        cla_text_printf(keys, "%s", key);
    if (status == CLATTN_BUILD_FAILED && !refusal->reason[0])
        name_way_out(plan, skeleton, error);
done:
    cla_cl_release_program(program);
    cla_text_free(&text);
    return status;
}

/* Asks the compiled kernel whether the device can run it. What it says of local memory is held against what the device
 * gives, not what it says: NVIDIA gives static arrays several times CL_DEVICE_LOCAL_MEM_SIZE. */
static clattn_status prove(const struct clattn_plan *plan, const struct cla_choice *choice, int number,
                           struct refusal *refusal, struct cla_error *error)
{
    const cl_kernel kernel = plan->kernels->skeleton[number].kernel;
    const cl_device_id device = plan->context->device;
    const struct cla_kernel_form form = cla_skeleton_form(choice->skeleton, &choice->config, number);
    size_t group = 0;
    cl_ulong local = 0;
    clattn_status status =
        cla_cl_kernel_work_group_info(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, error);
    if (!status)
        status = cla_cl_kernel_work_group_info(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, error);
    if (status)
        return status;
    const uint64_t usable = cla_most_compiled_local_bytes(&plan->context->capabilities);
    if (group < (size_t)form.work_group_size && !form.retargeted)
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

/* How much of an item the compiled kernel keeps in memory. Where that is much, NVIDIA's assembler has been seen to make
 * wrong code. */
static clattn_status prove_registers(const struct clattn_plan *plan, const struct cla_choice *choice, int number,
                                     struct refusal *refusal, struct cla_error *error)
{
    const uint64_t most = choice->skeleton->kernels[number].most_spilled_bytes;
    cl_ulong kept = 0;
    if (!most)
        return CLATTN_SUCCESS;
    const clattn_status status =
        cla_cl_kernel_work_group_info(plan->kernels->skeleton[number].kernel, plan->context->device,
                                      CL_KERNEL_PRIVATE_MEM_SIZE, sizeof kept, &kept, error);
    if (status || kept <= most)
        return status;
    refusal->spills = true;
    snprintf(refusal->reason, sizeof refusal->reason,
             "the compiled kernel keeps %llu bytes of a work-item in memory, of at most %llu", (unsigned long long)kept,
             (unsigned long long)most);
    return cla_fail(error, CLATTN_NOTHING_FITS, "%s", refusal->reason);
}

/* The key of a plan of several programs is the hash of theirs. */
static clattn_status set_key(struct clattn_plan *plan, const struct cla_text *keys, struct cla_error *error)
{
    char key[CLA_HASH_HEX];
    if (keys->failed)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the key of a plan");
    if (keys->length + 1 == sizeof key)
        memcpy(key, keys->data, sizeof key);
    else
        cla_hash_hex(cla_hash_bytes(keys->data, keys->length), key);
    snprintf(plan->info.program_key, sizeof plan->info.program_key, "%s", key);
    return CLATTN_SUCCESS;
}

/* All kernels of a configuration: where the device refuses one, it refuses the configuration. */
static clattn_status compile_all(struct clattn_plan *plan, const struct cla_choice *choice, struct refusal *refusal,
                                 struct cla_error *error)
{
    struct cla_text keys = {0};
    clattn_status status = CLATTN_SUCCESS;
    plan->split_rule = cla_split_rule(&plan->context->capabilities, &plan->problem, choice->skeleton, &choice->config);
    const uint32_t kernels = needed(plan, choice);
    for (int i = 0; i < CLA_MOST_KERNELS && !status; i++) {
        if (!(kernels >> i & 1))
            continue;
        plan->work_group_sizes[i] = cla_skeleton_form(choice->skeleton, &choice->config, i).work_group_size;
        status = compile(plan, choice, i, &keys, refusal, error);
        if (!status)
            status = prove(plan, choice, i, refusal, error);
        if (!status)
            status = prove_registers(plan, choice, i, refusal, error);
    }
    if (!status)
        status = set_key(plan, &keys, error);
    cla_text_free(&keys);
    return status;
}

static void drop_kernels(struct clattn_plan *plan)
{
    for (int i = 0; i < CLA_MOST_KERNELS; i++)
        cla_kernel_finish(&plan->kernels->skeleton[i]);
}

/* Compiles what was planned, then what is smaller, until the device takes it. */
clattn_status cla_plan_settle(struct clattn_plan *plan, struct cla_error *error)
{
    struct clattn_context *context = plan->context;
    struct cla_choice choice;
    clattn_status status = cla_plan_tuned(&context->capabilities, &plan->problem, &context->tuning, cla_kernels_hash,
                                          &choice, &plan->info, error);
    while (!status) {
        struct refusal refusal = {"", false};
        status = compile_all(plan, &choice, &refusal, error);
        plan->choice = choice;
        if (!status)
            return cla_rows_make(&plan->kernels->rows, context, &plan->problem, plan->features,
                                 cla_may_split(&plan->split_rule) && !plan->split_rule.joins, error);
        drop_kernels(plan);
        if (!refusal.reason[0])
            return status;
        cla_say(&context->log, CLATTN_LOG_INFO, "%s with B_r = %d, B_c = %d, %d work-items does not fit: %s",
                choice.skeleton->name, choice.config.b_r, choice.config.b_c, choice.config.work_group_size,
                refusal.reason);
        status = cla_plan_next(&context->capabilities, &plan->problem, refusal.reason, refusal.spills, &choice,
                               &plan->info, error);
    }
    return status;
}
