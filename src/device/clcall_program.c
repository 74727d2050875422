/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Programs and kernels. */
#include "device/clcall.h"
#include "device/clcall_common.h"
#include <stdlib.h>
#include <string.h>

clattn_status cla_cl_program_from_source(cl_context context, const char *text, size_t length, cl_program *program,
                                         struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_program made = clCreateProgramWithSource(context, 1, &text, &length, &code);
    const clattn_status status = cla_cl_check_made(code, made, "clCreateProgramWithSource", error);
    if (!status)
        *program = made;
    return status;
}

clattn_status cla_cl_program_from_binary(cl_context context, cl_device_id device, const void *binary, size_t size,
                                         cl_program *program, struct cla_error *error)
{
    const unsigned char *bytes = binary;
    cl_int code = CL_SUCCESS, binary_code = CL_SUCCESS;
    cl_program made = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, &binary_code, &code);
    if (code == CL_SUCCESS && binary_code != CL_SUCCESS) {
        cla_cl_release_program(made);
        made = NULL;
        code = binary_code;
    }
    const clattn_status status = cla_cl_check_made(code, made, "clCreateProgramWithBinary", error);
    if (!status)
        *program = made;
    return status;
}

clattn_status cla_cl_build(cl_program program, cl_device_id device, const char *options, struct cla_error *error)
{
    const cl_int code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    struct cla_error ignored;
    struct cla_text log = {0};
    cla_cl_build_log(program, device, &log, &ignored);
    const clattn_status status = code == CL_BUILD_PROGRAM_FAILURE ? CLATTN_BUILD_FAILED : code;
    cla_fail(error, status, "clBuildProgram failed: %s (%d)%s%s", clattn_status_name(code), (int)code,
             log.length ? "; the compiler says:\n" : "", log.length ? log.data : "");
    cla_text_free(&log);
    return status;
}

clattn_status cla_cl_build_log(cl_program program, cl_device_id device, struct cla_text *log, struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status = cla_cl_check(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes),
                                        "clGetProgramBuildInfo", error);
    if (status)
        return status;
    char *answer = cla_cl_string_block(bytes);
    if (!answer)
        return cla_cl_short_of_memory("clGetProgramBuildInfo", bytes, error);
    status = cla_cl_check(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, answer, NULL),
                          "clGetProgramBuildInfo", error);
    if (!status) {
        cla_cl_copy_trimmed(answer, bytes + 1, answer);
        cla_text_add(log, answer, strlen(answer));
    }
    free(answer);
    return status;
}

/* Where in the lists that the program answers the device stands. A program has all devices of its context. */
static clattn_status program_device_index(cl_program program, cl_device_id device, cl_uint *count, cl_uint *index,
                                          struct cla_error *error)
{
    cl_uint devices = 0;
    clattn_status status = cla_cl_check(
        clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL), "clGetProgramInfo", error);
    if (status)
        return status;
    cl_device_id *list = calloc((size_t)devices + 1, sizeof *list);
    if (!list)
        return cla_cl_short_of_memory("clGetProgramInfo", devices * sizeof *list, error);
    status = cla_cl_check(clGetProgramInfo(program, CL_PROGRAM_DEVICES, devices * sizeof *list, list, NULL),
                          "clGetProgramInfo", error);
    if (!status) {
        *count = devices;
        for (*index = 0; *index < devices && list[*index] != device;)
            ++*index;
        if (*index == devices)
            status = cla_fail(error, CL_INVALID_DEVICE, "the program was not made for this device");
    }
    free(list);
    return status;
}

/* Gets the binaries of all devices into one block, of which `index` stays: an entry of NULL should mean that a binary
 * is not wanted, but PoCL 3.1 writes there all the same. */
static clattn_status program_binaries(cl_program program, const size_t *sizes, unsigned char **binaries, cl_uint count,
                                      cl_uint index, void **binary, struct cla_error *error)
{
    size_t total = 1;
    for (cl_uint i = 0; i < count; i++)
        total += sizes[i];
    unsigned char *block = malloc(total), *at = block;
    if (!block)
        return cla_cl_short_of_memory("clGetProgramInfo", total, error);
    for (cl_uint i = 0; i < count; at += sizes[i++])
        binaries[i] = at;
    const clattn_status status =
        cla_cl_check(clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL),
                     "clGetProgramInfo", error);
    if (status) {
        free(block);
        return status;
    }
    memmove(block, binaries[index], sizes[index]);
    *binary = block;
    return CLATTN_SUCCESS;
}

clattn_status cla_cl_program_binary(cl_program program, cl_device_id device, void **binary, size_t *size,
                                    struct cla_error *error)
{
    cl_uint count = 0, index = 0;
    clattn_status status = program_device_index(program, device, &count, &index, error);
    if (status)
        return status;
    size_t *sizes = calloc(count, sizeof *sizes);
    unsigned char **binaries = calloc(count, sizeof *binaries);
    if (!sizes || !binaries)
        status = cla_cl_short_of_memory("clGetProgramInfo", count * (sizeof *sizes + sizeof *binaries), error);
    if (!status)
        status = cla_cl_check(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL),
                              "clGetProgramInfo", error);
    /* A program built for one device of several: PoCL 3.1 puts that device's binary first, wherever the device stands.
     */
    if (!status && !sizes[index])
        index = 0;
    if (!status)
        status = program_binaries(program, sizes, binaries, count, index, binary, error);
    if (!status)
        *size = sizes[index];
    free(binaries);
    free(sizes);
    return status;
}

clattn_status cla_cl_kernel(cl_program program, const char *name, cl_kernel *kernel, struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_kernel made = clCreateKernel(program, name, &code);
    const clattn_status status = cla_cl_check_made(code, made, "clCreateKernel", error);
    if (!status)
        *kernel = made;
    return status;
}

clattn_status cla_cl_kernel_work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                            size_t size, void *value, struct cla_error *error)
{
    return cla_cl_check_query(clGetKernelWorkGroupInfo(kernel, device, name, size, value, NULL),
                              "clGetKernelWorkGroupInfo", name, error);
}

clattn_status cla_cl_set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value,
                                  struct cla_error *error)
{
    const cl_int code = clSetKernelArg(kernel, index, size, value);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "clSetKernelArg of argument %u (%zu bytes) failed: %s (%d)", (unsigned)index, size,
                    clattn_status_name(code), (int)code);
}
