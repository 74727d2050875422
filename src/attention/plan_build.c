/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/plan.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/source.h"
#include "device/tuning.h"
#include "plan/planner.h"
#include "plan/tuned.h"
#include "plan/user_text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

/* The skeleton that the planner would take if this one were not there; NULL where there is none. */
static const struct cla_skeleton *next_skeleton(const struct clattn_plan *plan, const struct cla_skeleton *refused)
{
    bool after = false;
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton; skeleton++) {
        if (after && cla_skeleton_serves(*skeleton, plan->problem.pass) &&
            (*skeleton)->prefers(&plan->context->capabilities, &plan->problem))
            return *skeleton;
        after = after || *skeleton == refused;
    }
    return NULL;
}

/* Where a planned kernel does not compile, a slower one does not quietly take its place: the message says how to ask
 * for it. Not where text of the caller's is compiled too, which may well be the reason. */
static void name_way_out(const struct clattn_plan *plan, const struct cla_skeleton *refused, struct cla_error *error)
{
    const struct clattn_problem *problem = &plan->problem;
    const bool own_text = problem->score_mod || problem->score_mod_grad || problem->mask_mod;
    const struct cla_skeleton *other = problem->skeleton || own_text ? NULL : next_skeleton(plan, refused);
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

/* Unoptimised: with calls, too, for PoCL takes time with the square of a function's variables, which inlining
 * multiplies. */
static const char *build_options(const struct clattn_plan *plan, const struct cla_choice *choice)
{
    const bool plain = choice->skeleton->unoptimised && choice->skeleton->unoptimised(&plan->context->capabilities);
    return plain ? CLA_BUILD_OPTIONS " -cl-opt-disable -DCLATTN_INLINE=static" : CLA_BUILD_OPTIONS;
}

static bool is_needed(const struct clattn_plan *plan, const struct cla_skeleton *skeleton, int number)
{
    if (skeleton->backward && number == CLA_D_BIAS)
        return plan->features & CLATTN_BIAS;
    if (skeleton->backward && number == CLA_ORDER)
        return skeleton->orders_blocks(&plan->problem);
    if (skeleton->backward)
        return true;
    return number == CLA_SPLIT ? cla_may_split(&plan->split_rule) : !cla_must_split(&plan->split_rule);
}

static int kernel_count(const struct cla_skeleton *skeleton)
{
    int count = 0;
    while (skeleton->backward && count < CLA_MOST_KERNELS && skeleton->entries[count])
        count++;
    return skeleton->backward ? count : CLA_FORWARD_KERNELS;
}

static const char *entry_of(const struct cla_skeleton *skeleton, int number)
{
    return skeleton->entries[skeleton->backward ? number : 0];
}

/* Builds one of the variant's programs and makes its kernel; adds its key to `keys`. */
static clattn_status compile(struct clattn_plan *plan, const struct cla_choice *choice, int number,
                             struct cla_text *keys, struct refusal *refusal, struct cla_error *error)
{
    const struct cla_skeleton *skeleton = choice->skeleton;
    struct cla_text text = {0};
    cl_program program = NULL;
    char key[CLA_HASH_HEX], name[96];
    snprintf(name, sizeof name, "%s%s%s", skeleton->name, skeleton->backward ? ": " : "",
             skeleton->backward    ? skeleton->entries[number]
             : number == CLA_SPLIT ? ", keys split"
                                   : "");
    clattn_status status = assemble(&plan->problem, choice, number, &text, error);
    if (status)
        goto done;
    status = cla_program_get(plan->context, name, text.data, build_options(plan, choice), &program, key, error);
    if (!status)
        status = cla_kernel_init(&plan->kernels->skeleton[number], program, entry_of(skeleton, number), error);
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
    for (int i = 0; i < kernel_count(choice->skeleton) && !status; i++) {
        if (!is_needed(plan, choice->skeleton, i))
            continue;
        status = compile(plan, choice, i, &keys, refusal, error);
        if (!status)
            status = prove(plan, choice, i, refusal, error);
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

/* The device refused what a tuning record says: the model plans, and a step says why. */
static clattn_status plan_without_record(struct clattn_plan *plan, const char *reason, struct cla_choice *choice,
                                         struct cla_error *error)
{
    const clattn_status status = cla_plan(&plan->context->capabilities, &plan->problem, choice, &plan->info, error);
    if (!status)
        cla_plan_step(&plan->info, "tuning", choice->config.b_r, choice->config.b_c,
                      "the device refused what a tuning record says: %s", reason);
    return status;
}

/* The driver's PTX cannot be retargeted after all: planned without what needs that, and a step says why. */
static clattn_status plan_without_wgmma(struct clattn_plan *plan, const char *reason, struct cla_choice *choice,
                                        struct cla_error *error)
{
    struct clattn_capabilities without = plan->context->capabilities;
    without.nv_wgmma = false;
    const char *refused = choice->skeleton->name;
    const clattn_status status = cla_plan(&without, &plan->problem, choice, &plan->info, error);
    if (!status)
        cla_plan_step(&plan->info, "device", choice->config.b_r, choice->config.b_c, "without %s: %s", refused, reason);
    return status;
}

static void take_forms(struct clattn_plan *plan, const struct cla_choice *choice)
{
    const struct cla_skeleton *skeleton = choice->skeleton;
    for (int i = 0; i < CLA_MOST_KERNELS && skeleton->entries[i]; i++)
        plan->work_group_sizes[i] = cla_skeleton_form(skeleton, &choice->config, i).work_group_size;
    plan->sum_floats = skeleton->sum_floats ? skeleton->sum_floats(&plan->problem) : 0;
    plan->chains = skeleton->chains ? skeleton->chains(&choice->config) : 1;
    plan->clears_sums = skeleton->adds_to_zeros;
    plan->orders_blocks = skeleton->orders_blocks && skeleton->orders_blocks(&plan->problem);
    plan->maps = skeleton->maps ? skeleton->maps(&choice->config) : 0;
}

/* Compiles what was planned, then what is smaller, until the device takes it. */
clattn_status cla_plan_settle(struct clattn_plan *plan, struct cla_error *error)
{
    struct clattn_context *context = plan->context;
    struct cla_choice choice;
    clattn_status status = cla_plan_tuned(&context->capabilities, &plan->problem, &context->tuning, cla_kernels_hash,
                                          &choice, &plan->info, error);
    while (!status) {
        struct refusal refusal = {""};
        status = compile_all(plan, &choice, &refusal, error);
        plan->most_groups = choice.skeleton->stays ? context->capabilities.compute_units : 0;
        take_forms(plan, &choice);
        if (!status)
            return cla_rows_make(&plan->kernels->rows, context, &plan->problem, plan->features,
                                 cla_may_split(&plan->split_rule), error);
        drop_kernels(plan);
        if (!refusal.reason[0])
            return status;
        cla_say(&context->log, CLATTN_LOG_INFO, "%s with B_r = %d, B_c = %d, %d work-items does not fit: %s",
                choice.skeleton->name, choice.config.b_r, choice.config.b_c, choice.config.work_group_size,
                refusal.reason);
        if (plan->info.source == CLATTN_PLAN_TUNED || plan->info.source == CLATTN_PLAN_BUILT_IN)
            status = plan_without_record(plan, refusal.reason, &choice, error);
        else if (choice.skeleton->retargeted && !cla_plan_is_forced(&plan->problem))
            status = plan_without_wgmma(plan, refusal.reason, &choice, error);
        else
            status =
                cla_plan_step_down(&context->capabilities, &plan->problem, refusal.reason, &choice, &plan->info, error);
    }
    return status;
}
