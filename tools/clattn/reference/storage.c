/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/half.h"
#include "reference/reference.h"
#include <string.h>

enum clattn_dtype reference_type(const struct reference_problem *problem, enum reference_operand operand)
{
    const enum clattn_operand_type type = problem->types[operand];
    return type == CLATTN_AS_DTYPE ? problem->dtype : (enum clattn_dtype)(type - CLATTN_AS_FP32);
}

enum clattn_dtype reference_arithmetic(const struct reference_problem *problem)
{
    const enum clattn_dtype q = reference_type(problem, REFERENCE_Q);
    const bool one = q == reference_type(problem, REFERENCE_K) && q == reference_type(problem, REFERENCE_V);
    return one ? q : CLATTN_FP32;
}

float reference_round(enum clattn_dtype dtype, float value)
{
    if (dtype == CLATTN_FP16)
        return cla_half_to_float(cla_half_from_float(value));
    if (dtype == CLATTN_BF16)
        return cla_bf16_to_float(cla_bf16_from_float(value));
    return value;
}

static void store(enum clattn_dtype dtype, float value, void *storage, size_t index)
{
    if (dtype == CLATTN_FP32)
        ((float *)storage)[index] = value;
    else
        ((uint16_t *)storage)[index] = dtype == CLATTN_FP16 ? cla_half_from_float(value) : cla_bf16_from_float(value);
}

static float load(enum clattn_dtype dtype, const void *storage, size_t index)
{
    if (dtype == CLATTN_FP32)
        return ((const float *)storage)[index];
    const uint16_t bits = ((const uint16_t *)storage)[index];
    return dtype == CLATTN_FP16 ? cla_half_to_float(bits) : cla_bf16_to_float(bits);
}

/* The place of the element that is number `index` of the dense array. */
static size_t place(const int64_t sizes[4], const struct clattn_layout *layout, size_t index)
{
    if (!layout->strided && !layout->batch && !layout->head && !layout->row && !layout->column)
        return (size_t)layout->offset + index;
    const int64_t at = (int64_t)index, column = at % sizes[3], row = at / sizes[3] % sizes[2];
    const int64_t head = at / sizes[3] / sizes[2] % sizes[1], batch = at / sizes[3] / sizes[2] / sizes[1];
    return (size_t)(layout->offset + batch * layout->batch + head * layout->head + row * layout->row +
                    column * layout->column);
}

static size_t count_of(const int64_t sizes[4])
{
    return (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
}

void reference_scatter(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout,
                       const float *dense, void *storage)
{
    for (size_t i = 0; i < count_of(sizes); i++)
        store(dtype, dense[i], storage, place(sizes, layout, i));
}

void reference_gather(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout,
                      const void *storage, float *dense)
{
    for (size_t i = 0; i < count_of(sizes); i++)
        dense[i] = load(dtype, storage, place(sizes, layout, i));
}

size_t reference_extent(const int64_t sizes[4], const struct clattn_layout *layout)
{
    const size_t count = count_of(sizes);
    return count ? place(sizes, layout, count - 1) + 1 : (size_t)layout->offset;
}

void reference_erase(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout, void *storage)
{
    const size_t size = dtype == CLATTN_FP32 ? 4 : 2;
    for (size_t i = 0; i < count_of(sizes); i++)
        memset((char *)storage + place(sizes, layout, i) * size, 0xff, size);
}
