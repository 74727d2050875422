/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/build.h"
#include "device/clcall.h"
#include "plan/retarget.h"
#include <stdlib.h>
#include <string.h>

/* The program, built from source, once more for the other target. */
static clattn_status retarget(cl_context context, cl_device_id device, cl_program source, const char *options,
                              cl_program *program, struct cla_error *error)
{
    struct cla_text ptx = {0};
    void *binary = NULL;
    size_t size = 0;
    clattn_status status = cla_cl_program_binary(source, device, &binary, &size, error);
    if (!status)
        status = cla_retarget_ptx(binary, size, &ptx, error);
    if (!status)
        status = cla_cl_program_from_binary(context, device, ptx.data, ptx.length, program, error);
    if (!status)
        status = cla_cl_build(*program, device, options, error);
    cla_text_free(&ptx);
    free(binary);
    return status;
}

clattn_status cla_build_text(cl_context context, cl_device_id device, const char *text, const char *options,
                             cl_program *program, struct cla_error *error)
{
    cl_program source = NULL, made = NULL;
    clattn_status status = cla_cl_program_from_source(context, text, strlen(text), &source, error);
    if (!status)
        status = cla_cl_build(source, device, options, error);
    if (!status && cla_retarget_wanted(text))
        status = retarget(context, device, source, options, &made, error);
    *program = NULL;
    if (!status) {
        *program = made ? made : source;
        source = made ? source : NULL;
        made = NULL;
    }
    cla_cl_release_program(made);
    cla_cl_release_program(source);
    return status;
}
