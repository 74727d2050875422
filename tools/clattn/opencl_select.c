/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "opencl_select.h"
#include "compile_watch.h"
#include "system/system.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int no_platform(struct failure *failure)
{
    return fail(failure, STATUS_DEVICE, "no OpenCL platform: no driver is installed, or %s", system_opencl_hint);
}

static int list_devices(struct opencl_platform *platform, struct failure *failure)
{
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (code == CL_DEVICE_NOT_FOUND || (!code && !count))
        return STATUS_OK;
    if (code)
        return fail_code(failure, "clGetDeviceIDs", code);
    platform->devices = calloc(count, sizeof *platform->devices);
    if (!platform->devices)
        return fail(failure, STATUS_DEVICE, "no memory for a list of %u devices", count);
    code = clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, count, platform->devices, NULL);
    if (code)
        return fail_code(failure, "clGetDeviceIDs", code);
    platform->device_count = (int)count;
    return STATUS_OK;
}

/* Khronos's loader cuts the lists of these variables into words where they lie, so that a child would inherit the first
 * word alone, and find fewer platforms than its parent. */
static const char *const cut_variables[] = {"OCL_ICD_FILENAMES", "OPENCL_LAYERS"};
enum { CUT_VARIABLES = sizeof cut_variables / sizeof *cut_variables };

static cl_int platform_ids(cl_uint most, cl_platform_id *ids, cl_uint *count)
{
    char *whole[CUT_VARIABLES] = {NULL};
    for (int i = 0; i < CUT_VARIABLES; i++)
        whole[i] = getenv(cut_variables[i]) ? strdup(getenv(cut_variables[i])) : NULL;
    const cl_int code = clGetPlatformIDs(most, ids, count);
    for (int i = 0; i < CUT_VARIABLES; i++) {
        if (whole[i])
            system_set_variable(cut_variables[i], whole[i]);
        free(whole[i]);
    }
    return code;
}

static int list_platforms(struct opencl_platforms *platforms, struct failure *failure)
{
    cl_platform_id ids[64];
    cl_uint count = 0;
    const cl_int code = platform_ids(64, ids, &count);
    if (code == -1001 /* CL_PLATFORM_NOT_FOUND_KHR */ || (!code && !count))
        return no_platform(failure);
    if (code)
        return fail_code(failure, "clGetPlatformIDs", code);
    if (count > 64)
        count = 64;
    platforms->items = calloc(count, sizeof *platforms->items);
    if (!platforms->items)
        return fail(failure, STATUS_DEVICE, "no memory for a list of %u platforms", count);
    for (cl_uint i = 0; i < count; i++) {
        struct opencl_platform *platform = &platforms->items[platforms->count++];
        platform->id = ids[i];
        if (clGetPlatformInfo(ids[i], CL_PLATFORM_NAME, sizeof platform->name, platform->name, NULL))
            strcpy(platform->name, "unnamed platform");
        const int status = list_devices(platform, failure);
        if (status)
            return status;
    }
    return STATUS_OK;
}

int opencl_list(struct opencl_platforms *platforms, struct failure *failure)
{
    *platforms = (struct opencl_platforms){.items = NULL};
    const int status = list_platforms(platforms, failure);
    if (status)
        opencl_list_free(platforms);
    return status;
}

void opencl_list_free(struct opencl_platforms *platforms)
{
    for (int i = 0; i < platforms->count; i++)
        free(platforms->items[i].devices);
    free(platforms->items);
    *platforms = (struct opencl_platforms){.items = NULL};
}

static bool choose_first(const struct opencl_platforms *platforms, cl_device_type wanted, struct session *session)
{
    for (int p = 0; p < platforms->count; p++) {
        for (int d = 0; d < platforms->items[p].device_count; d++) {
            cl_device_type type = 0;
            clGetDeviceInfo(platforms->items[p].devices[d], CL_DEVICE_TYPE, sizeof type, &type, NULL);
            if (type & wanted) {
                session->platform = p;
                session->device = d;
                session->id = platforms->items[p].devices[d];
                return true;
            }
        }
    }
    return false;
}

static int choose_named(const struct opencl_platforms *platforms, const struct option_device *wanted,
                        struct session *session, struct failure *failure)
{
    if (wanted->platform >= platforms->count)
        return fail(failure, STATUS_USAGE, "--device %d:%d: there %s %d platform%s ('clattn devices' lists them)",
                    wanted->platform, wanted->device, platforms->count == 1 ? "is" : "are", platforms->count,
                    platforms->count == 1 ? "" : "s");
    const struct opencl_platform *platform = &platforms->items[wanted->platform];
    if (wanted->device >= platform->device_count)
        return fail(failure, STATUS_USAGE,
                    "--device %d:%d: platform %d (%s) has %d device%s ('clattn devices' lists them)", wanted->platform,
                    wanted->device, wanted->platform, platform->name, platform->device_count,
                    platform->device_count == 1 ? "" : "s");
    session->platform = wanted->platform;
    session->device = wanted->device;
    session->id = platform->devices[wanted->device];
    return STATUS_OK;
}

static int choose(const struct option_device *wanted, struct session *session, struct failure *failure)
{
    struct opencl_platforms platforms;
    int status = opencl_list(&platforms, failure);
    if (status)
        return status;
    if (wanted->given)
        status = choose_named(&platforms, wanted, session, failure);
    else if (!choose_first(&platforms, CL_DEVICE_TYPE_GPU, session) &&
             !choose_first(&platforms, (cl_device_type)~0u, session))
        status = fail(failure, STATUS_DEVICE, "no OpenCL device: %s%s no device (a driver without its hardware?)",
                      platforms.count == 1 ? platforms.items[0].name : "the installed platforms",
                      platforms.count == 1 ? " has" : " have");
    opencl_list_free(&platforms);
    return status;
}

/* Errors also come as the status of the call that failed, and are printed once, from there. */
static void log_warning(void *user, enum clattn_log_level level, const char *text)
{
    compile_watch_hear(user, level, text);
    if (level == CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: warning: %s\n", text);
}

static void log_quietly(void *user, enum clattn_log_level level, const char *text)
{
    compile_watch_hear(user, level, text);
}

clattn_tuning *tuning_default(bool quiet)
{
    clattn_tuning *tuning = NULL;
    if (clattn_tuning_load(&tuning, NULL) && !quiet)
        fprintf(stderr, "clattn: warning: the tuning file is left out: %s\n", clattn_error_message());
    return tuning;
}

static int open_context(struct session *session, bool quiet, struct failure *failure)
{
    cl_int code = CL_SUCCESS;
    session->context = clCreateContext(NULL, 1, &session->id, NULL, NULL, &code);
    if (code)
        return fail_code(failure, "clCreateContext", code);
    session->queue = clCreateCommandQueue(session->context, session->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code)
        return fail_code(failure, "clCreateCommandQueue", code);
    session->watch = compile_watch_start(!quiet);
    if (!session->watch)
        return fail(failure, STATUS_DEVICE, "no memory for a session");
    clattn_tuning *tuning = tuning_default(quiet);
    const struct clattn_context_params params = {
        .context = session->context,
        .device = session->id,
        .log = {.function = quiet ? log_quietly : log_warning, .user = session->watch, .level = CLATTN_LOG_INFO},
        .tuning = tuning};
    code = clattn_context_create(&session->clattn, &params);
    clattn_tuning_destroy(&tuning);
    if (code)
        return fail_library(failure, "clattn_context_create", code);
    session->capabilities = clattn_context_capabilities(session->clattn);
    return STATUS_OK;
}

int session_open(struct session *session, const struct option_device *wanted, bool quiet, struct failure *failure)
{
    *session = (struct session){.id = NULL};
    int status = choose(wanted, session, failure);
    if (!status)
        status = open_context(session, quiet, failure);
    if (status)
        session_close(session);
    return status;
}

void session_close(struct session *session)
{
    clattn_context_destroy(&session->clattn);
    compile_watch_stop(session->watch);
    if (session->queue)
        clReleaseCommandQueue(session->queue);
    if (session->context)
        clReleaseContext(session->context);
    *session = (struct session){.id = NULL};
}

static int check_pass_skeleton(const struct clattn_capabilities *capabilities, enum clattn_pass pass,
                               const char *option, const char *skeleton, struct failure *failure)
{
    const struct clattn_problem problem = {.pass = pass, .d = 64, .skeleton = skeleton};
    struct clattn_plan_info info;
    if (!skeleton || clattn_plan_preview(capabilities, &problem, &info) != CLATTN_INVALID_ARGUMENT)
        return STATUS_OK;
    return fail(failure, STATUS_USAGE, "--%s '%s': %s", option, skeleton, clattn_error_message());
}

int check_skeleton(const struct clattn_capabilities *capabilities, const char *skeleton, struct failure *failure)
{
    return check_pass_skeleton(capabilities, CLATTN_FORWARD, "skeleton", skeleton, failure);
}

int check_backward_skeleton(const struct clattn_capabilities *capabilities, const char *option, const char *skeleton,
                            struct failure *failure)
{
    return check_pass_skeleton(capabilities, CLATTN_BACKWARD, option, skeleton, failure);
}

void session_title(const struct session *session, char *text, size_t size)
{
    snprintf(text, size, "%d:%d %s (%s)", session->platform, session->device, session->capabilities->device_name,
             session->capabilities->platform_name);
}

int check_any_skeleton(const struct clattn_capabilities *capabilities, const char *skeleton, struct failure *failure)
{
    struct failure forward, backward; /* a text in *failure would be told, whatever fails later */
    const int status = check_skeleton(capabilities, skeleton, &forward);
    if (!status || !check_backward_skeleton(capabilities, "skeleton", skeleton, &backward))
        return STATUS_OK;
    return fail(failure, status, "%.1800s; or, for gradients: %.1800s", forward.text, clattn_error_message());
}

int check_forced(const char *skeleton, const char *knobs, int64_t b_r, int64_t b_c, int64_t work_group_size,
                 struct failure *failure)
{
    static const char problem[] = "they are those of a --skeleton, which is not named";
    if (skeleton)
        return STATUS_OK;
    if (knobs)
        return fail(failure, STATUS_USAGE, "--knobs '%s': %s", knobs, problem);
    if (b_r || b_c)
        return fail(failure, STATUS_USAGE, "--%s '%" PRId64 "': blocks: %s", b_r ? "b-r" : "b-c", b_r ? b_r : b_c,
                    problem);
    if (work_group_size)
        return fail(failure, STATUS_USAGE, "--work-group-size '%" PRId64 "': a work-group: %s", work_group_size,
                    problem);
    return STATUS_OK;
}
