/* SPDX-License-Identifier: BSD-2-Clause */
#include "decode.h"
#include "platform.h"
#include "tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cl_program program_new(cl_context context, cl_int *code)
{
    objects_lock();
    const bool ok = object_is(context, CONTEXT);
    cl_program program = ok ? object_new(sizeof *program, PROGRAM, context) : NULL;
    if (program) {
        program->device = context->devices[0];
        program->status = CL_BUILD_NONE;
    }
    objects_unlock();
    *code = program ? CL_SUCCESS : ok ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_CONTEXT;
    return program;
}

cl_program program_from_source(cl_context context, cl_uint count, const char **texts, const size_t *lengths,
                               cl_int *code)
{
    cl_int said = CL_SUCCESS;
    size_t total = 0;
    cl_program program = program_new(context, &said);
    for (cl_uint n = 0; n < count; n++)
        total += lengths && lengths[n] ? lengths[n] : strlen(texts[n]);
    char *to = program ? program->text = calloc(1, total + 1) : NULL;
    for (cl_uint n = 0; to && n < count; n++) {
        const size_t length = lengths && lengths[n] ? lengths[n] : strlen(texts[n]);
        memcpy(to, texts[n], length);
        to += length;
    }
    if (code)
        *code = said;
    return program;
}

static bool take_binary(cl_program program, uint8_t *binary, size_t bytes)
{
    program->binary = binary;
    program->binary_bytes = bytes;
    return object_read(binary, bytes, &program->object);
}

cl_program program_from_binary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *sizes,
                               const unsigned char **binaries, cl_int *states, cl_int *code)
{
    cl_int said = CL_SUCCESS;
    cl_program program = count == 1 && devices ? program_new(context, &said) : NULL;
    uint8_t *copy = program && sizes[0] ? malloc(sizes[0]) : NULL;
    if (copy)
        memcpy(copy, binaries[0], sizes[0]);
    if (program)
        program->device = devices[0];
    if (program && (!copy || !take_binary(program, copy, sizes[0]))) {
        objects_lock();
        object_release(program);
        objects_unlock();
        program = NULL;
        said = CL_INVALID_BINARY;
    }
    if (states)
        states[0] = said;
    if (code)
        *code = !program && !said ? CL_INVALID_VALUE : said;
    return program;
}

cl_int program_build(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                     void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    (void)notify;
    (void)data;
    if (!object_is(program, PROGRAM))
        return CL_INVALID_PROGRAM;
    if (count == 1 && devices)
        program->device = devices[0];
    free(program->options);
    program->options = strdup(options ? options : "");
    if (!program->text && program->binary) {
        program->status = CL_BUILD_SUCCESS;
        return CL_SUCCESS;
    }
    uint8_t *binary = NULL;
    size_t bytes = 0;
    free(program->log);
    const bool ok =
        tool_compile(&program->device->facts->chip, program->text, program->options, &binary, &bytes, &program->log) &&
        take_binary(program, binary, bytes);
    program->status = ok ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;
    return ok ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

void program_end(cl_program program)
{
    for (int n = 0; n < MOST_KERNELS; n++)
        program_free(&program->code[n]);
    object_free(&program->object);
    free(program->text);
    free(program->log);
    free(program->options);
    free(program->binary);
}

cl_int program_retain(cl_program program)
{
    objects_lock();
    const bool ok = object_is(program, PROGRAM);
    if (ok)
        object_retain(program);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_PROGRAM;
}

cl_int program_release(cl_program program)
{
    objects_lock();
    const bool ok = object_is(program, PROGRAM);
    if (ok)
        object_release(program);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_PROGRAM;
}

cl_int program_info(cl_program program, cl_program_info name, size_t room, void *to, size_t *wanted)
{
    const cl_uint one = 1;
    switch (name) {
    case CL_PROGRAM_NUM_DEVICES:
        return answer(&one, sizeof one, room, to, wanted);
    case CL_PROGRAM_DEVICES:
        return answer(&program->device, sizeof program->device, room, to, wanted);
    case CL_PROGRAM_SOURCE:
        return answer_text(program->text ? program->text : "", room, to, wanted);
    case CL_PROGRAM_BINARY_SIZES:
        return answer(&program->binary_bytes, sizeof program->binary_bytes, room, to, wanted);
    case CL_PROGRAM_BINARIES:
        if (to && room < sizeof(void *))
            return CL_INVALID_VALUE;
        if (to && *(void **)to)
            memcpy(*(void **)to, program->binary, program->binary_bytes);
        if (wanted)
            *wanted = sizeof(void *);
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int program_build_info(cl_program program, cl_device_id device, cl_program_build_info name, size_t room, void *to,
                          size_t *wanted)
{
    (void)device;
    switch (name) {
    case CL_PROGRAM_BUILD_STATUS:
        return answer(&program->status, sizeof program->status, room, to, wanted);
    case CL_PROGRAM_BUILD_LOG:
        return answer_text(program->log ? program->log : "", room, to, wanted);
    case CL_PROGRAM_BUILD_OPTIONS:
        return answer_text(program->options ? program->options : "", room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}
