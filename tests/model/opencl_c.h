/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What kernel texts that as_c.py has turned into C find in place of OpenCL's language. */
#ifndef MODEL_OPENCL_C_H
#define MODEL_OPENCL_C_H

#include "model/machine.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CLATTN_INLINE static inline __attribute__((unused))
#define __kernel      static
#define __global
#define __local static /* what a kernel declares so is not used: local memory is the machine's */
typedef unsigned uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef struct {
    ushort bits;
} half; /* of which no model has any */
typedef struct {
    float x, y;
} float2;
typedef struct {
    float x, y, z, w;
} float4;
typedef struct {
    float4 low, high;
} float8;
typedef struct {
    int x, y, z, w;
} int4;
typedef struct {
    uint s0, s1, s2, s3;
} uint4;
#define VECTOR_OF(type, ...) ((type){__VA_ARGS__})
#define make_float2(...)     VECTOR_OF(float2, __VA_ARGS__)
#define make_float4(...)     VECTOR_OF(float4, __VA_ARGS__)
#define make_float8(...)     VECTOR_OF(float8, __VA_ARGS__)
#define make_int4(...)       VECTOR_OF(int4, __VA_ARGS__)
#define make_uint4(...)      VECTOR_OF(uint4, __VA_ARGS__)

#define min(a, b)           ((a) < (b) ? (a) : (b))
#define max(a, b)           ((a) > (b) ? (a) : (b))
#define clamp(x, low, end)  min(max(x, low), end)
#define mul_hi(a, b)        ((uint)((uint64_t)(a) * (b) >> 32)) /* of uint */
#define convert_float(x)    ((float)(x))
#define native_divide(x, y) ((x) / (y))

static inline __attribute__((unused)) float as_float(uint x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline __attribute__((unused)) uint as_uint(float x)
{
    uint y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline __attribute__((unused)) float vload_half(size_t n, const half *from)
{
    (void)from[n];
    abort();
}
static inline __attribute__((unused)) void vstore_half_rte(float x, size_t n, half *to)
{
    (void)x, (void)to[n];
    abort();
}
static inline __attribute__((unused)) float4 vload4(size_t n, const float *from)
{
    float4 x;
    memcpy(&x, from + 4 * n, sizeof x);
    return x;
}
static inline __attribute__((unused)) void vstore4(float4 x, size_t n, float *to)
{
    memcpy(to + 4 * n, &x, sizeof x);
}

#define CLK_LOCAL_MEM_FENCE           0
#define CLK_GLOBAL_MEM_FENCE          0
#define barrier(fence)                machine_meet()
#define get_local_id(dimension)       ((size_t)machine_lid())
#define get_group_id(dimension)       ((size_t)machine_group())
#define get_num_groups(dimension)     ((size_t)machine_groups())
#define reqd_work_group_size(x, y, z) unused
#define atomic_inc(at)                (machine_maybe_pause(), (*(at))++)
#define atom_inc                      atomic_inc
#define atom_cmpxchg(at, is, becomes) (machine_maybe_pause(), model_exchange((volatile ulong *)(at), is, becomes))
static inline __attribute__((unused)) ulong model_exchange(volatile ulong *at, ulong is, ulong becomes)
{
    const ulong was = *at;
    if (was == is)
        *at = becomes;
    return was;
}

#endif
