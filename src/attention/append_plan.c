/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/append.h"
#include "attention/small_program.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/operand.h"
#include "plan/problem.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <stdlib.h>

/* The problem's features that say where keys lie, and which rows a sequence has; their scales are others. */
enum { PLACES = CLATTN_PAGES | CLATTN_VARLEN | CLATTN_KEY_LENGTHS | CLATTN_QUERY_LENGTHS | CLATTN_ROW_SHIFTS };

/* Most work-items that share a row: heads have few columns. */
enum { ROW_ITEMS = 32 };

static clattn_status check_rotation(const struct clattn_append_params *params, int d, struct cla_error *error)
{
    if (params->rotary_d < 0 || params->rotary_d > d || params->rotary_d % 2)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->rotary_d is %lld: it is 0 (no rotation) or an even number of columns up to d, %d",
                        (long long)params->rotary_d, d);
    if (params->interleaved != 0 && params->interleaved != 1)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->interleaved is %lld: it is 0 (pairs are rotary_d / 2 columns apart) or 1 (neighbours)",
                        (long long)params->interleaved);
    return CLATTN_SUCCESS;
}

static clattn_status check_append_problem(const struct clattn_problem *problem, struct cla_error *error)
{
    if (problem->pass != CLATTN_FORWARD)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->problem->pass is %d: it is that of the forward pass which reads the cache, "
                        "CLATTN_FORWARD (0)",
                        (int)problem->pass);
    if ((problem->features & CLATTN_VARLEN) && !(problem->features & CLATTN_PAGES))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->problem->features has CLATTN_VARLEN without CLATTN_PAGES: keys that are packed end to "
                        "end leave no room to append to: take pages");
    return CLATTN_SUCCESS;
}

static clattn_status take_append_params(struct clattn_appender *appender, const struct clattn_append_params *params,
                                        struct cla_error *error)
{
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params is NULL: it must point to a struct clattn_append_params");
    struct clattn_problem *problem = &appender->problem;
    clattn_status status = cla_check_reserved(&cla_struct_append_params, "params", params, error);
    if (!status && (params->new_type < CLATTN_AS_DTYPE || params->new_type > CLATTN_AS_BF16))
        status = cla_fail(error, CLATTN_INVALID_TYPE,
                          "params->new_type is %lld: it is CLATTN_AS_DTYPE (0), CLATTN_AS_FP32 (1), CLATTN_AS_FP16 (2) "
                          "or CLATTN_AS_BF16 (3)",
                          (long long)params->new_type);
    if (!status)
        status = cla_problem_resolve(params->problem, problem, error);
    if (!status)
        status = check_append_problem(problem, error);
    if (!status)
        status = check_rotation(params, problem->d, error);
    if (status)
        return status;
    appender->new_type = params->new_type == CLATTN_AS_DTYPE ? params->problem->dtype
                                                             : (enum clattn_dtype)(params->new_type - CLATTN_AS_FP32);
    appender->rotary_d = (int)params->rotary_d;
    appender->features = cla_problem_features(problem) & (PLACES | CLA_FEATURE_SCALES);
    return CLATTN_SUCCESS;
}

static int row_items(const struct clattn_capabilities *capabilities)
{
    const int most = cla_small_work_group(capabilities);
    return most < ROW_ITEMS ? most : ROW_ITEMS;
}

/* Elements that are quantised together. */
static int group_of(const struct clattn_problem *problem, int operand)
{
    const int64_t group = cla_scale_group(problem, operand);
    return group ? (int)group : cla_type((int)cla_type_of(problem, operand))->block;
}

static clattn_status compile_appender(struct clattn_appender *appender, int interleaved, struct cla_error *error)
{
    static const char *const files[] = {"append.cl", NULL};
    static const char *const names[CLA_APPENDED] = {"clattn_append_k", "clattn_append_v", "clattn_append_q"};
    const struct clattn_problem *problem = &appender->problem;
    struct cla_text defines = {0};
    cl_program program = NULL;
    appender->work_group_size = row_items(&appender->context->capabilities);
    cla_text_printf(&defines,
                    "#define CLATTN_CAUSAL 1\n#define CLATTN_D %d\n#define CLATTN_DTYPE %d\n#define CLATTN_D_V %d\n"
                    "#define CLATTN_FEATURES %u\n#define CLATTN_INTERLEAVED %d\n#define CLATTN_K_TYPE %d\n"
                    "#define CLATTN_K_SCALE_GROUP %d\n#define CLATTN_Q_TYPE %d\n#define CLATTN_ROTARY %d\n"
                    "#define CLATTN_STATE 0\n#define CLATTN_V_SCALE_GROUP %d\n#define CLATTN_V_TYPE %d\n"
                    "#define CLATTN_WORK_GROUP_SIZE %d\n",
                    problem->d, (int)appender->new_type, problem->d_v, appender->features, interleaved,
                    (int)cla_type_of(problem, CLA_K), group_of(problem, CLA_K), (int)cla_type_of(problem, CLA_Q),
                    appender->rotary_d, group_of(problem, CLA_V), (int)cla_type_of(problem, CLA_V),
                    appender->work_group_size);
    if (problem->page_keys)
        cla_text_printf(&defines, "#define CLATTN_PAGE_KEYS %lld\n", (long long)problem->page_keys);
    clattn_status status = cla_small_program(appender->context, "append", &defines, files, &program, error);
    for (int i = 0; i < CLA_APPENDED && !status; i++)
        status = cla_kernel_init(&appender->kernels[i], program, names[i], error);
    cla_cl_release_program(program);
    return status;
}

static struct clattn_appender *allocate_appender(void)
{
    struct clattn_appender *appender = calloc(1, sizeof *appender);
    struct cla_kernel *kernels = calloc(CLA_APPENDED, sizeof *kernels);
    if (!appender || !kernels) {
        free(kernels);
        free(appender);
        return NULL;
    }
    appender->kernels = kernels;
    return appender;
}

clattn_status cla_appender_make(struct clattn_appender **result, struct clattn_context *context,
                                const struct clattn_append_params *params, struct cla_error *error)
{
    if (!result)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "appender is NULL: it must point to the handle to be set");
    if (!context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "context is NULL: it must be a clattn_context");
    struct clattn_appender *appender = allocate_appender();
    if (!appender)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_appender");
    appender->context = context;
    clattn_status status = take_append_params(appender, params, error);
    if (!status)
        status = compile_appender(appender, (int)params->interleaved, error);
    appender->problem.skeleton = appender->problem.knobs = NULL;
    appender->problem.score_mod = appender->problem.score_mod_grad = appender->problem.mask_mod = NULL;
    if (status)
        clattn_appender_destroy(&appender);
    else
        *result = appender;
    return status;
}

clattn_status clattn_appender_create(clattn_appender **appender, clattn_context *context,
                                     const struct clattn_append_params *params)
{
    struct cla_error error;
    if (!cla_appender_make(appender, context, params, &error))
        return CLATTN_SUCCESS;
    return cla_report(context ? &context->log : NULL, &error);
}

void clattn_appender_destroy(clattn_appender **handle)
{
    if (!handle || !*handle)
        return;
    struct clattn_appender *appender = *handle;
    *handle = NULL;
    for (int i = 0; i < CLA_APPENDED; i++)
        cla_kernel_finish(&appender->kernels[i]);
    free(appender->kernels);
    free(appender);
}
