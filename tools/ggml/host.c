/* SPDX-License-Identifier: BSD-2-Clause */
#include "clattn_ggml.h"
#include <math.h>
#include <stdlib.h>

bool clattn_ggml_expand(const struct ggml_tensor *tensor, struct ggml_tensor *expanded)
{
    const size_t rows = (size_t)tensor->ne[1], heads = (size_t)tensor->ne[2],
                 all = rows * heads * (size_t)tensor->ne[3];
    const size_t columns = (size_t)tensor->ne[0];
    *expanded = *tensor;
    expanded->type = GGML_TYPE_F32;
    expanded->nb[0] = sizeof(float);
    for (int i = 1; i < 4; i++)
        expanded->nb[i] = expanded->nb[i - 1] * (size_t)tensor->ne[i - 1];
    float *to = expanded->data = malloc(all * columns * sizeof(float) + 1);
    if (!to)
        return false;
    for (size_t r = 0; r < all; r++, to += columns) {
        const size_t j = r % rows, h = r / rows % heads, b = r / rows / heads;
        const char *from = (const char *)tensor->data + j * tensor->nb[1] + h * tensor->nb[2] + b * tensor->nb[3];
        ggml_get_type_traits(tensor->type)->to_float(from, to, tensor->ne[0]);
    }
    return true;
}

cl_mem clattn_ggml_slopes(cl_context cl, float max_bias, size_t heads, cl_int *code)
{
    float *slopes = malloc(heads * sizeof *slopes + 1);
    size_t even = 1;
    *code = CL_OUT_OF_HOST_MEMORY;
    if (!slopes)
        return NULL;
    while (2 * even <= heads)
        even *= 2;
    for (size_t h = 0; h < heads; h++)
        slopes[h] = exp2f(-max_bias * (h < even ? (float)(h + 1) : (float)(h - even) + 0.5f) / (float)even);
    cl_mem made = clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, heads * sizeof *slopes, slopes, code);
    free(slopes);
    return made;
}
