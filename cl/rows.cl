/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the backward pass needs beside its matrix products: what it knows of each row (clattn_row of types.clh), of
 * which delta = rowsum(dO * O) is what the softmax's derivative takes from every element of a row; and the gradient of
 * the sinks. Sums have a fixed order.
 *
 * Baked constants, besides those of types.clh, view.clh and score.clh (all required)
 *   CLATTN_D_V              1..512: the head dimension of O.
 *   CLATTN_WORK_GROUP_SIZE  a power of two from 1 to 1024. With 1, the choice for a CPU, an item takes whole rows, in
 *                           vectors of CLATTN_VECTOR_WIDTH floats, 4, 8 or 16; else CLATTN_ROW_ITEMS neighbours share a
 *                           row and read it together.
 *   CLATTN_ROW_ITEMS        a power of two from 1 to CLATTN_WORK_GROUP_SIZE.
 *   CLATTN_B_R              rows of a work-group of clattn_statistics; at most CLATTN_WORK_GROUP_SIZE unless that is 1,
 *                           and a multiple of CLATTN_WORK_GROUP_SIZE / CLATTN_ROW_ITEMS.
 */
#include "common/types.clh"
#include "common/vectors.clh"
#include "common/view.clh"

#if !defined(CLATTN_D_V) || CLATTN_D_V < 1 || CLATTN_D_V > 512
#error "CLATTN_D_V must be in 1..512"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1 || CLATTN_WORK_GROUP_SIZE > 1024 ||                 \
    (CLATTN_WORK_GROUP_SIZE & (CLATTN_WORK_GROUP_SIZE - 1))
#error "CLATTN_WORK_GROUP_SIZE must be a power of two in 1..1024"
#endif
#if !defined(CLATTN_ROW_ITEMS) || CLATTN_ROW_ITEMS < 1 || CLATTN_WORK_GROUP_SIZE % CLATTN_ROW_ITEMS
#error "CLATTN_ROW_ITEMS must divide CLATTN_WORK_GROUP_SIZE"
#endif
#define ROWS_AT_ONCE (CLATTN_WORK_GROUP_SIZE / CLATTN_ROW_ITEMS)
#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % ROWS_AT_ONCE ||                                             \
    (CLATTN_WORK_GROUP_SIZE > 1 && CLATTN_B_R > CLATTN_WORK_GROUP_SIZE)
#error "CLATTN_B_R must be a multiple of the rows worked at a time, and at most CLATTN_WORK_GROUP_SIZE"
#endif

#if CLATTN_WORK_GROUP_SIZE == 1
typedef CLATTN_CONCAT(float, CLATTN_VECTOR_WIDTH) vec;
#define read_vec CLATTN_CONCAT(clattn_read, CLATTN_VECTOR_WIDTH)
CLATTN_INLINE float sum_of(vec x)
{
#if CLATTN_VECTOR_WIDTH == 16
    const float8 a = x.lo + x.hi;
    const float4 b = a.lo + a.hi;
#elif CLATTN_VECTOR_WIDTH == 8
    const float4 b = x.lo + x.hi;
#else
    const float4 b = x;
#endif
    return b.x + b.y + b.z + b.w;
}
#endif

/* This item's share of the product of two rows. Where `a` (O) is 0 it counts for nothing: a row that sees no key must
 * not bring in what dO holds there. */
CLATTN_INLINE float part_of_product(__global const clattn_output *a, long a_step, __global const clattn_storage *c,
                                    long c_step, int lane)
{
    float sum = 0.0f;
    int x = lane;
#if CLATTN_WORK_GROUP_SIZE == 1
    if (a_step == 1 && c_step == 1) {
        vec sums = (vec)(0.0f);
        for (; x + CLATTN_VECTOR_WIDTH <= CLATTN_D_V; x += CLATTN_VECTOR_WIDTH) {
            const vec factor = read_vec(CLATTN_O_TYPE, a, x);
            sums += select(factor * read_vec(CLATTN_DTYPE, c, x), (vec)(0.0f), factor == (vec)(0.0f));
        }
        sum = sum_of(sums);
    }
#endif
#if CLATTN_WORK_GROUP_SIZE > 1 && CLATTN_D_V % 8 == 0
    if (a_step == 1 && c_step == 1 && ((size_t)a | (size_t)c) % 16 == 0) {
        for (x = 8 * lane; x < CLATTN_D_V; x += 8 * CLATTN_ROW_ITEMS) {
            const float8 factor = CLATTN_FOR(CLATTN_O_TYPE, clattn_whole8)(a + x);
            const float8 other = CLATTN_FOR(CLATTN_DTYPE, clattn_whole8)(c + x);
            const float8 part = select(factor * other, (float8)(0.0f), factor == (float8)(0.0f));
            const float4 half_of_it = part.lo + part.hi;
            sum += half_of_it.x + half_of_it.y + (half_of_it.z + half_of_it.w);
        }
        return sum;
    }
#endif
    for (; x < CLATTN_D_V; x += CLATTN_ROW_ITEMS) {
        const float factor = clattn_get_output(a + x * a_step);
        sum += factor == 0.0f ? 0.0f : factor * clattn_load(c + x * c_step);
    }
    return sum;
}

/* Up to how large a score the one number `lse` is exact enough for weights that are rounded to 16 bits. It, the scale
 * in powers of two and their product with a score are each off by up to 2^-24 of LSE, which moves a weight by less than
 * 2^-23 LSE of it: up to here by 2^-14 where fp16 rounds it by 2^-12, by 2^-11 where bf16 does by 2^-9. */
#define MOST_LSE (CLATTN_DTYPE == 1 ? 512.0f : 4096.0f)

/* Where LSE, m and l are: LSE counts where the others are NULL. */
typedef struct {
    __global const float *lse, *m, *l; /* of the present row and head */
    long lse_row, m_row, l_row;
} softmax_vectors;

/* What delta is to have beside rowsum(dO * O). The derivative of LSE by a score is P, so that
 * dS = P (dP - delta + d_lse): a delta of delta - d_lse is all that other kernels need to know. */
#if CLATTN_LSE_GRADIENT
#define D_LSE_PARAMETERS      , __global const float *d_lse, const clattn_layout d_lse_at
#define DELTA_OF_ROW(sum, b, h, i) ((sum) - d_lse[clattn_at(d_lse_at, b, h, i)])
#else
#define D_LSE_PARAMETERS
#define DELTA_OF_ROW(sum, b, h, i) (sum)
#endif

/* A row's weights follow from the m and l of the forward pass, or from LSE and 1. What is not finite makes none. */
CLATTN_INLINE void leave_row(__global float *to, float delta, const softmax_vectors *in, int r)
{
    const float m = in->m ? in->m[r * in->m_row] : in->lse[r * in->lse_row], l = in->m ? in->l[r * in->l_row] : 1.0f;
    const bool sees_none = m == -INFINITY || l == 0.0f;
    float y[CLATTN_STATISTICS]; /* read back by vload: collecting lanes in vector literals confuses Oclgrind 21.10 */
    y[0] = CLATTN_LSE_GRADIENT && sees_none ? 0.0f : delta; /* d_lse may be anything there */
    y[1] = sees_none ? INFINITY : isfinite(m) ? m : NAN;
    y[2] = sees_none ? 0.0f : 1.0f / l;
    y[CLATTN_LSE_AT] = sees_none ? INFINITY : fabs(m) <= MOST_LSE ? fma(m, CLATTN_LOG2E, log2(l)) : NAN;
    *(__global float4 *)(to + r * CLATTN_STATISTICS) = vload4(0, y);
}

/* And so many words of the workspace, from word `first_word` on, become 0: counters of kernels that follow.
 *
 * NDRange: batch * heads * ceil(rows / B_R) work-groups. With variable lengths the tensors are one batch element. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_statistics(__global const clattn_output *o, __global const clattn_storage *d_o, __global const float *lse,
                  __global const float *m, __global const float *l, __global float *workspace, const clattn_layout o_at,
                  const clattn_layout d_o_at, const clattn_layout lse_at, const clattn_layout m_at,
                  const clattn_layout l_at, const clattn_layout at, const int heads, const int rows,
                  const long first_word, const long words D_LSE_PARAMETERS)
{
    for (long n = (long)get_global_id(0); n < words; n += (long)get_global_size(0))
        ((__global uint *)workspace)[first_word + n] = 0;
    if (rows == 0)
        return;
    const int blocks = (rows + CLATTN_B_R - 1) / CLATTN_B_R;
    const int group = (int)get_group_id(0);
    const int bh = group / blocks;
    const int first = (group - bh * blocks) * CLATTN_B_R;
    const int b = bh / heads;
    const int h = bh - b * heads;
    const int count = min(CLATTN_B_R, rows - first);
    /* Unsigned: a shift and a mask, not the freeze instruction that Oclgrind lacks. */
    const int lane = (int)(get_local_id(0) % CLATTN_ROW_ITEMS);
    o += clattn_at(o_at, b, h, first);
    d_o += clattn_at(d_o_at, b, h, first);
    const softmax_vectors vectors = {m ? 0 : lse + clattn_at(lse_at, b, h, first),
                                     m ? m + clattn_at(m_at, b, h, first) : 0,
                                     m ? l + clattn_at(l_at, b, h, first) : 0,
                                     lse_at.row,
                                     m_at.row,
                                     l_at.row};
    __global float *const to = workspace + clattn_at(at, b, h, first);
#if CLATTN_WORK_GROUP_SIZE == 1
    for (int r = 0; r < count; ++r)
        leave_row(to,
                  DELTA_OF_ROW(part_of_product(o + r * o_at.row, o_at.column, d_o + r * d_o_at.row, d_o_at.column,
                                               lane),
                               b, h, first + r),
                  &vectors, r);
#else
    /* One column more than there are parts, so that those who add up a row each read different banks. */
    __local float parts[CLATTN_B_R * (CLATTN_ROW_ITEMS + 1)];
    const int self = (int)get_local_id(0);
    for (int r = (int)(get_local_id(0) / CLATTN_ROW_ITEMS); r < count; r += ROWS_AT_ONCE)
        parts[r * (CLATTN_ROW_ITEMS + 1) + lane] =
            part_of_product(o + r * o_at.row, o_at.column, d_o + r * d_o_at.row, d_o_at.column, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (self < count) {
        float sum = 0.0f;
        for (int i = 0; i < CLATTN_ROW_ITEMS; ++i)
            sum += parts[self * (CLATTN_ROW_ITEMS + 1) + i];
        leave_row(to, DELTA_OF_ROW(sum, b, h, first + self), &vectors, self);
    }
#endif
}

#if CLATTN_SINKS
/* A sink takes the weight exp(sink - top) * share of each row and has no value: dS = P * (0 - delta).
 *
 * NDRange: heads work-groups. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_d_sinks(__global const float *workspace, __global float *d_sinks, const clattn_layout at,
               const clattn_layout d_sinks_at, const int batch, const int heads, const int n_q CLATTN_SCORE_PARAMETERS)
{
    const int h = (int)get_group_id(0), self = (int)get_local_id(0);
    float sum = 0.0f, lost = 0.0f; /* Kahan's sum: heads may have millions of rows */
    for (int b = 0; b < batch; ++b) {
        const clattn_view view = clattn_open(b, h, heads, n_q, 0 CLATTN_SCORE_ARGUMENTS);
        for (int i = self; i < view.n_q; i += CLATTN_WORK_GROUP_SIZE) {
            const clattn_row row = clattn_read_row(workspace + clattn_at(at, b, h, view.row_base + i));
            /* What has no weight counts for nothing, whatever dO holds there. */
            const float above = view.sinks - row.top;
            const float weight = row.top == INFINITY ? 0.0f : exp(above > 0.0f ? 0.0f : above) * row.share;
            const float part = weight * row.delta;
            const float x = (weight == 0.0f ? 0.0f : -part) - lost;
            const float next = sum + x;
            lost = (next - sum) - x;
            sum = next;
        }
    }
#if CLATTN_WORK_GROUP_SIZE > 1
    __local float shared[CLATTN_WORK_GROUP_SIZE];
    shared[self] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = CLATTN_WORK_GROUP_SIZE / 2; width > 0; width /= 2) {
        if (self < width)
            shared[self] += shared[self + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = shared[0];
#endif
    if (self == 0)
        d_sinks[d_sinks_at.offset + h * d_sinks_at.head] = sum;
}
#endif
