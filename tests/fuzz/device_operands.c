/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Q, K, V and what is of their kind, as the problem stores them: types, blocks of elements, pages, scales. */
#include "fuzz/device_call.h"

/* A block of so many elements in so many bytes. */
struct form {
    int elements, bytes;
};

static struct form form_of(const struct call *call, int64_t type)
{
    static const struct form forms[] = {
        [CLATTN_AS_FP32] = {1, 4},     [CLATTN_AS_FP16] = {1, 2},   [CLATTN_AS_BF16] = {1, 2},
        [CLATTN_AS_INT8] = {1, 1},     [CLATTN_AS_INT4] = {2, 1},   [CLATTN_AS_FP8_E4M3] = {1, 1},
        [CLATTN_AS_FP8_E5M2] = {1, 1}, [CLATTN_AS_Q8_0] = {32, 34}, [CLATTN_AS_Q4_0] = {32, 18}};
    return type ? forms[type] : (struct form){1, clattn_dtype_size(call->problem->dtype)};
}

int64_t call_d_v(const struct call *call)
{
    return call->problem->d_v ? call->problem->d_v : call->problem->d;
}

struct clattn_tensor call_rows(struct call *call, const char *name, int64_t columns, int64_t type,
                               enum memory_role role)
{
    const struct call_tensor what = {
        name, {call->batch, call->sizes.heads, call->rows, columns}, form_of(call, type).bytes, role, .vector = false};
    return call_tensor(call, &what);
}

struct clattn_tensor call_vector(struct call *call, const char *name, enum memory_role role)
{
    const struct call_tensor what = {name, {call->batch, call->sizes.heads, call->rows, 1}, 4, role, .vector = true};
    return call_tensor(call, &what);
}

/* Pages are drawn by call_pages, if there are any, before this. */
struct clattn_tensor call_keys(struct call *call, const char *name, int64_t columns, int64_t type,
                               enum memory_role role)
{
    const bool paged = call->problem->features & CLATTN_PAGES;
    const struct form form = form_of(call, type);
    const struct call_tensor what = {name,
                                     {paged ? call->pool_pages : call->batch, call->kv_heads,
                                      paged ? call->problem->page_keys : call->keys,
                                      (columns + form.elements - 1) / form.elements},
                                     form.bytes,
                                     role,
                                     .vector = false,
                                     .dense = type >= CLATTN_AS_INT8,
                                     .block = form.elements};
    return call_tensor(call, &what);
}

static bool has_scales(int64_t type)
{
    return type >= CLATTN_AS_INT8 && type <= CLATTN_AS_FP8_E5M2;
}

/* Zero points have the strides of the scales, and an offset of their own. */
static void scales(struct call *call, bool zeros, int64_t columns, int64_t group, struct clattn_tensor *scale,
                   struct clattn_tensor *zero)
{
    const int64_t groups = group ? (columns + group - 1) / group : 1;
    *scale = call_keys(call, "scales", groups, CLATTN_AS_FP32, MEMORY_INPUT);
    if (!zeros)
        return;
    *zero = *scale;
    if (dice(call->dice, 3))
        return;
    /* Made for other strides: what those of the scales reach beyond it has to be seen. */
    zero->buffer = call_keys(call, "zeros", groups, CLATTN_AS_FP32, MEMORY_INPUT).buffer;
    call->spoilt++;
}

const struct clattn_kv_scales *call_scales(struct call *call)
{
    const struct clattn_problem *problem = call->problem;
    call->scales = (struct clattn_kv_scales){0};
    if (has_scales(problem->k_type))
        scales(call, problem->zero_points & CLATTN_K_ZEROS, problem->d, problem->k_scale_group, &call->scales.k_scales,
               &call->scales.k_zeros);
    if (has_scales(problem->v_type))
        scales(call, problem->zero_points & CLATTN_V_ZEROS, call_d_v(call), problem->v_scale_group,
               &call->scales.v_scales, &call->scales.v_zeros);
    return has_scales(problem->k_type) || has_scales(problem->v_type) ? &call->scales : NULL;
}

/* A table, or compressed rows, of which numbers and offsets are anything. */
void call_pages(struct call *call, struct clattn_score_args *score)
{
    const int64_t batch = call->sizes.batch, page_keys = call->problem->page_keys;
    const int64_t of_each = (call->keys + page_keys - 1) / page_keys;
    call->pool_pages = dice(call->dice, 20) ? 1 + dice(call->dice, 12) : 0;
    score->pool_pages = call->pool_pages;
    if (dice(call->dice, 2)) {
        score->pages = call_list(call, "pages", batch * of_each, MEMORY_INDEX);
    } else {
        score->page_count = 1 + dice(call->dice, 20);
        score->pages = call_list(call, "pages", score->page_count, MEMORY_INDEX);
        score->page_offsets = call_list(call, "page_offsets", batch + 1, MEMORY_INDEX);
        CALL_SPOIL(call, score->page_count);
    }
    CALL_SPOIL(call, score->pool_pages);
}
