/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How an OpenCL layer of the tests begins. Include <CL/cl_layer.h> first, for the version that the layer wants. */
#ifndef TEST_SUPPORT_LAYER_H
#define TEST_SUPPORT_LAYER_H

#include <string.h>

static inline cl_int layer_answer(const void *value, size_t bytes, size_t size, void *to, size_t *size_ret)
{
    if (to && size < bytes)
        return CL_INVALID_VALUE;
    if (to)
        memcpy(to, value, bytes);
    if (size_ret)
        *size_ret = bytes;
    return CL_SUCCESS;
}

/* What clGetLayerInfo answers for the layer called `title`. */
static inline cl_int layer_info(const char *title, cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (name == CL_LAYER_API_VERSION)
        return layer_answer(&version, sizeof version, size, value, size_ret);
    if (name == CL_LAYER_NAME)
        return layer_answer(title, strlen(title) + 1, size, value, size_ret);
    return CL_INVALID_VALUE;
}

/* Begins clInitLayer: *target has the functions below, and so has *table, whose functions the caller then replaces. */
static inline cl_int layer_begin(cl_uint entries, const cl_icd_dispatch *below, cl_icd_dispatch *target,
                                 cl_icd_dispatch *table, cl_uint *entries_ret, const cl_icd_dispatch **table_ret)
{
    if (!below || !entries_ret || !table_ret || entries < sizeof *target / sizeof(void *))
        return CL_INVALID_VALUE;
    memcpy(target, below, sizeof *target);
    memcpy(table, below, sizeof *table);
    *table_ret = table;
    *entries_ret = sizeof *table / sizeof(void *);
    return CL_SUCCESS;
}

#endif
