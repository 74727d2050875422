/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CLCALL_COMMON_H
#define CLA_CLCALL_COMMON_H

#include "plan/error.h"
#include <clattn/opencl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What became of a call of OpenCL's, and strings that it answers: for the files that make calls. */

static inline clattn_status cla_cl_check(cl_int code, const char *call, struct cla_error *error)
{
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "%s failed: %s (%d)", call, clattn_status_name(code), (int)code);
}

static inline clattn_status cla_cl_check_query(cl_int code, const char *call, cl_uint name, struct cla_error *error)
{
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "%s(0x%04x) failed: %s (%d)", call, (unsigned)name, clattn_status_name(code),
                    (int)code);
}

/* A call that makes an object must not be believed to have made one where it answers NULL. */
static inline clattn_status cla_cl_check_made(cl_int code, const void *object, const char *call,
                                              struct cla_error *error)
{
    return cla_cl_check(code == CL_SUCCESS && !object ? CL_OUT_OF_HOST_MEMORY : code, call, error);
}

static inline clattn_status cla_cl_short_of_memory(const char *call, size_t bytes, struct cla_error *error)
{
    return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the %zu bytes that %s answers", bytes, call);
}

/* Copies what a query answered without the blanks that some drivers put around it. */
static inline void cla_cl_copy_trimmed(char *text, size_t size, const char *answer)
{
    answer += strspn(answer, " \t\n");
    size_t length = strlen(answer);
    if (length >= size)
        length = size - 1;
    while (length > 0 && strchr(" \t\n", answer[length - 1]))
        length--;
    memmove(text, answer, length);
    text[length] = '\0';
}

/* The bytes answered are followed by a 0 of our own: not every driver ends its strings. */
static inline char *cla_cl_string_block(size_t bytes)
{
    char *block = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;
    if (block)
        block[0] = block[bytes] = '\0';
    return block;
}

#endif
