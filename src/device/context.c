/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/context.h"
#include "device/clcall.h"
#include "device/os.h"
#include "device/probe.h"
#include "device/query.h"
#include "device/report.h"
#include "device/tuning.h"
#include "device/ways.h"
#include "plan/reserved.h"
#include <stdlib.h>
#include <string.h>

clattn_status clattn_query_device(cl_device_id device, struct clattn_capabilities *capabilities)
{
    struct cla_error error = {0};
    if (!device)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "device is NULL: it must be a cl_device_id");
    else if (!capabilities)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                 "capabilities is NULL: it must point to a struct clattn_capabilities");
    else
        cla_query(device, capabilities, &error);
    return error.status ? cla_report(NULL, &error) : CLATTN_SUCCESS;
}

/* llvmpipe of Mesa 22.3.6 gives a work-item 65,535 turns of loops in all, and then leaves each loop behind its first,
 * without a word (tests/drivers/loops.c); 25.0.7 does not. Versions between have not been tried. */
static bool leaves_loops(const struct clattn_capabilities *capabilities)
{
    enum { FIRST_GOOD_MESA = 25 };
    return strcmp(capabilities->platform_name, "rusticl") == 0 &&
           strncmp(capabilities->device_name, "llvmpipe", strlen("llvmpipe")) == 0 &&
           atoi(capabilities->driver_version) < FIRST_GOOD_MESA;
}

/* PoCL 6.0 so runs a loop within a loop with barriers for ever, or leaves out what follows (tests/drivers/loops.c). Its
 * other ways are right. */
static bool loses_its_way(const struct clattn_capabilities *capabilities)
{
    return strcmp(capabilities->platform_name, "Portable Computing Language") == 0 && cla_os_wants_pocl_cbs();
}

clattn_status cla_check_device(const struct clattn_capabilities *capabilities, struct cla_error *error)
{
    if (leaves_loops(capabilities))
        return cla_fail(
            error, CLATTN_UNSUPPORTED_DEVICE,
            "device \"%s\": Mesa %s leaves loops after 65535 turns, so that results are wrong: take Mesa 25.0 "
            "or later, or another driver",
            capabilities->device_name, capabilities->driver_version);
    if (loses_its_way(capabilities))
        return cla_fail(
            error, CLATTN_UNSUPPORTED_DEVICE,
            "device \"%s\": POCL_WORK_GROUP_METHOD is \"cbs\", with which PoCL runs loops that have barriers "
            "wrongly: unset it, or set it to \"loopvec\" or \"loops\", before the first OpenCL call",
            capabilities->device_name);
    if (!capabilities->available)
        return cla_fail(error, CLATTN_UNSUPPORTED_DEVICE,
                        "device \"%s\" is not available (CL_DEVICE_AVAILABLE is false): take another device",
                        capabilities->device_name);
    if (!capabilities->compiler_available)
        return cla_fail(
            error, CLATTN_UNSUPPORTED_DEVICE,
            "device \"%s\" has no compiler (CL_DEVICE_COMPILER_AVAILABLE is false): kernels are compiled at "
            "run time, so the driver must bring one",
            capabilities->device_name);
    return CLATTN_SUCCESS;
}

static clattn_status check_params(const struct clattn_context_params *params, struct cla_error *error)
{
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params is NULL: it must point to a struct clattn_context_params");
    clattn_status status = cla_check_reserved(&cla_struct_context_params, "params", params, error);
    if (status)
        return status;
    if (!params->context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->context is NULL: it must be a cl_context");
    if (!params->device)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->device is NULL: it must be one of the devices of params->context");
    bool has = false;
    status = cla_cl_context_has_device(params->context, params->device, &has, error);
    if (!status && !has)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->device %p is not one of the devices of params->context %p", (void *)params->device,
                        (void *)params->context);
    return status;
}

/* What others may write to would run their programs. */
static void distrust_cache_directory(struct clattn_context *context)
{
    const char *const distrust = cla_os_distrusts_directory(context->cache_directory);
    if (!distrust)
        return;
    cla_say(&context->log, CLATTN_LOG_WARNING,
            "the cache directory %s is not used, compiled programs are not kept: %s (it must belong to the user or to "
            "root, with mode 0755 or less)",
            context->cache_directory, distrust);
    context->cache_directory[0] = '\0';
}

/* A directory that cannot be used is no error: nothing is kept then. */
static void choose_cache_directory(struct clattn_context *context, const char *directory)
{
    const size_t size = sizeof context->cache_directory;
    if (!directory) {
        if (!cla_os_cache_directory(context->cache_directory, size)) {
            context->cache_directory[0] = '\0';
            cla_say(&context->log, CLATTN_LOG_WARNING,
                    "the default cache directory is longer than %zu bytes: compiled programs are not kept", size - 1);
        }
    } else if (strlen(directory) < size) {
        strcpy(context->cache_directory, directory);
    } else {
        cla_say(&context->log, CLATTN_LOG_WARNING,
                "params->cache_directory is longer than %zu bytes: compiled programs are not kept", size - 1);
    }
}

/* Takes over the caller's handles; what has been taken is what a later clattn_context_destroy() gives back. */
static clattn_status retain_handles(struct clattn_context *context, const struct clattn_context_params *params,
                                    struct cla_error *error)
{
    clattn_status status = cla_cl_retain_context(params->context, error);
    if (status)
        return status;
    context->context = params->context;
    status = cla_cl_retain_device(params->device, error);
    if (!status)
        context->device = params->device;
    return status;
}

static clattn_status fill(struct clattn_context *context, const struct clattn_context_params *params,
                          struct cla_error *error)
{
    clattn_status status = retain_handles(context, params, error);
    if (!status)
        status = cla_query(context->device, &context->capabilities, error);
    if (!status)
        status = cla_check_device(&context->capabilities, error);
    if (status)
        return status;
    cla_pointers_find(&context->pointers, context->device, &context->capabilities);
    context->programs = cla_programs_create(CLA_PROGRAMS_KEPT);
    if (!context->programs)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_context");
    if (params->tuning && (status = cla_tuning_merge(&context->tuning, &params->tuning->db, error)))
        return status;
    cla_warn_of_unknown_ways(&context->log);
    choose_cache_directory(context, params->cache_directory);
    distrust_cache_directory(context);
    return cla_probe(context, error);
}

static clattn_status create(struct clattn_context **result, const struct clattn_context_params *params,
                            struct cla_error *error)
{
    if (!result)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "context is NULL: it must point to the handle to be set");
    clattn_status status = check_params(params, error);
    if (status)
        return status;
    struct clattn_context *context = calloc(1, sizeof *context);
    if (!context)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_context");
    context->log = params->log;
    status = fill(context, params, error);
    if (status)
        clattn_context_destroy(&context);
    else
        *result = context;
    return status;
}

clattn_status clattn_context_create(clattn_context **context, const struct clattn_context_params *params)
{
    struct cla_error error = {0};
    if (create(context, params, &error))
        return cla_report(params ? &params->log : NULL, &error);
    return CLATTN_SUCCESS;
}

void clattn_context_destroy(clattn_context **handle)
{
    if (!handle || !*handle)
        return;
    struct clattn_context *context = *handle;
    *handle = NULL;
    cla_programs_destroy(context->programs);
    cla_tuning_free(&context->tuning);
    cla_cl_release_device(context->device);
    cla_cl_release_context(context->context);
    free(context);
}

const struct clattn_capabilities *clattn_context_capabilities(const clattn_context *context)
{
    return context ? &context->capabilities : NULL;
}
