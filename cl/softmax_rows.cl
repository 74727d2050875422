/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The middle step of standard attention: rows of scores become rows of probabilities, in place.
 *
 * Baked constants, besides those of types.clh (CLATTN_DTYPE is not used), view.clh and score.clh (all required)
 *   CLATTN_WORK_GROUP_SIZE  a power of two from 1 to 1024: work-items that share a row. With 1, the choice for a CPU,
 *                           rows are worked in vectors of 16; else scores are taken one by one, neighbours together.
 *
 * s holds [heads, n_q, n_kv] scores, scaled, dense, of the heads from first_head on (counted through the batch).
 * lse, m and l may be NULL.
 *
 * NDRange: heads * n_q work-groups.
 */
#include "common/types.clh"
#include "common/view.clh"

#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1 || CLATTN_WORK_GROUP_SIZE > 1024 ||                 \
    (CLATTN_WORK_GROUP_SIZE & (CLATTN_WORK_GROUP_SIZE - 1))
#error "CLATTN_WORK_GROUP_SIZE must be a power of two in 1..1024"
#endif

/* Subtracting the maximum must not make NaN of a row that has nothing but -inf. */
CLATTN_INLINE float subtrahend(float maximum)
{
    return maximum == -INFINITY ? 0.0f : maximum;
}

/* Of a row that sees no key, all probabilities are 0. */
CLATTN_INLINE float factor(float sum)
{
    return sum == 0.0f ? 0.0f : 1.0f / sum;
}

#if CLATTN_WORK_GROUP_SIZE == 1

/* e^x for x <= 0, to about 1 ulp of the argument: exactly 1 at 0, 0 below 2^-126 and at -inf, NaN at NaN. 1.5 * 2^23
 * rounds to an integer in the low bits; with 127 on top these are the exponent field of the power. */
CLATTN_INLINE float16 exponential(float16 x)
{
    const float magic = 12582912.0f + 127.0f, scale = 0x1.715476p+0f;
    const float16 shifted = x * scale + magic;
    const float16 f = x * scale - (shifted - magic);
    float16 p = (float16)(0x1.41fbbcp-13f);
    p = p * f + 0x1.5f3e54p-10f;
    p = p * f + 0x1.3b2d4cp-7f;
    p = p * f + 0x1.c6aee8p-5f;
    p = p * f + 0x1.ebfbdcp-3f;
    p = p * f + 0x1.62e430p-1f;
    p = p * f + 1.0f;
    p *= as_float16(as_int16(shifted) << 23);
    return select(p, (float16)(0.0f), x * scale <= (float16)(-126.0f));
}

/* The last scores of a row, filled up with ones that count for nothing. */
CLATTN_INLINE float16 load_tail(__global const float *s, int count)
{
    float x[16];
    for (int i = 0; i < 16; ++i)
        x[i] = i < count ? s[i] : -INFINITY;
    return vload16(0, x);
}

CLATTN_INLINE void store_tail(float16 x, __global float *s, int count)
{
    float y[16];
    vstore16(x, 0, y);
    for (int i = 0; i < count; ++i)
        s[i] = y[i];
}

CLATTN_INLINE float16 larger(float16 a, float16 b)
{
    return select(a, b, b > a);
}

CLATTN_INLINE float row_maximum(__global const float *s, int end)
{
    float16 top = (float16)(-INFINITY);
    int j = 0;
    for (; j + 16 <= end; j += 16)
        top = larger(top, vload16(0, s + j));
    if (j < end)
        top = larger(top, load_tail(s + j, end - j));
    const float8 a = fmax(top.lo, top.hi);
    const float4 b = fmax(a.lo, a.hi);
    const float2 c = fmax(b.lo, b.hi);
    return fmax(c.x, c.y);
}

CLATTN_INLINE float row_exponentials(__global float *s, int end, float base)
{
    float16 sum = (float16)(0.0f);
    int j = 0;
    for (; j + 16 <= end; j += 16) {
        const float16 e = exponential(vload16(0, s + j) - base);
        vstore16(e, 0, s + j);
        sum += e;
    }
    if (j < end) {
        const float16 e = exponential(load_tail(s + j, end - j) - base);
        store_tail(e, s + j, end - j);
        sum += e;
    }
    const float8 a = sum.lo + sum.hi;
    const float4 b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}

CLATTN_INLINE void row_scale(__global float *s, int end, int n_kv, float by)
{
    int j = 0;
    for (; j + 16 <= end; j += 16)
        vstore16(vload16(0, s + j) * by, 0, s + j);
    for (; j < end; ++j)
        s[j] *= by;
    for (; j < n_kv; ++j)
        s[j] = 0.0f;
}
#define SHARED
#define SHARED_ARGUMENT

#else

/* Combines a value of each work-item, as a tree; all get the result. */
#define REDUCE(shared, value, combine)                                                                                 \
    do {                                                                                                               \
        const int self = (int)get_local_id(0);                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        shared[self] = value;                                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        for (int width = CLATTN_WORK_GROUP_SIZE / 2; width > 0; width /= 2) {                                          \
            if (self < width)                                                                                          \
                shared[self] = combine(shared[self], shared[self + width]);                                            \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        }                                                                                                              \
        value = shared[0];                                                                                             \
    } while (0)
#define PLUS(a, b) ((a) + (b))
#define SHARED          , shared
#define SHARED_ARGUMENT , __local float *shared

CLATTN_INLINE float row_maximum(__global const float *s, int end SHARED_ARGUMENT)
{
    float top = -INFINITY;
    for (int j = (int)get_local_id(0); j < end; j += CLATTN_WORK_GROUP_SIZE)
        top = fmax(top, s[j]);
    REDUCE(shared, top, fmax);
    return top;
}

CLATTN_INLINE float row_exponentials(__global float *s, int end, float base SHARED_ARGUMENT)
{
    float sum = 0.0f;
    for (int j = (int)get_local_id(0); j < end; j += CLATTN_WORK_GROUP_SIZE) {
        const float e = exp(s[j] - base);
        s[j] = e;
        sum += e;
    }
    REDUCE(shared, sum, PLUS);
    return sum;
}

CLATTN_INLINE void row_scale(__global float *s, int end, int n_kv, float by)
{
    for (int j = (int)get_local_id(0); j < n_kv; j += CLATTN_WORK_GROUP_SIZE)
        s[j] = j < end ? s[j] * by : 0.0f;
}

#endif

CLATTN_INLINE void store_row(__global float *vector, clattn_layout layout, int b, int h, int i, float value)
{
    if (vector && get_local_id(0) == 0)
        vector[layout.offset + b * layout.batch + h * layout.head + i * layout.row] = value;
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_softmax_rows(__global float *s, __global float *lse, __global float *m, __global float *l,
                    const clattn_forward_params p, const int first_head)
{
#if CLATTN_WORK_GROUP_SIZE > 1
    __local float shared[CLATTN_WORK_GROUP_SIZE];
#endif
    const int row = (int)get_group_id(0);
    const int head = first_head + row / p.n_q, i = row % p.n_q;
    const int b = head / p.heads, h = head % p.heads;
    __global float *const scores = s + (long)row * p.n_kv;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv);
    const int end = clattn_key_end(i, &view);

    const float top = row_maximum(scores, end SHARED);
    const float sum = row_exponentials(scores, end, subtrahend(top) SHARED);
    row_scale(scores, end, p.n_kv, factor(sum));
    store_row(lse, p.lse, b, h, i, top + log(sum));
    store_row(m, p.m, b, h, i, top);
    store_row(l, p.l, b, h, i, sum);
}
