/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/feature_check.h"
#include "plan/features/softcap.h"
#include "plan/kernel_params.h"
#include "plan/philox.h"
#include "plan/problem.h"
#include <math.h>
#include <string.h>

static bool is_set(const struct clattn_tensor *tensor)
{
    const struct clattn_layout *layout = &tensor->layout;
    return tensor->buffer || tensor->memory || layout->offset || layout->strided || !cla_layout_is_default(layout);
}

static double value_of(const struct cla_feature_number *number, const struct clattn_score_args *args)
{
    const void *given = cla_feature_number_given(number, args);
    if (!given)
        return 0;
    switch (number->type) {
    case CLA_NUMBER_INT64:
        return (double)*(const int64_t *)given;
    case CLA_NUMBER_UINT64:
        return (double)*(const uint64_t *)given;
    case CLA_NUMBER_UINT32:
        return (double)*(const uint32_t *)given;
    case CLA_NUMBER_INT:
        return (double)*(const int *)given;
    case CLA_NUMBER_FLOAT:
        break;
    }
    return (double)*(const float *)given;
}

static const char *home_text(const struct cla_feature_number *number)
{
    return number->home == CLA_IN_MORE ? "more->" : "";
}

/* Values for something that the problem does not do are a mistake of the caller's, not a wish to be passed over. */
static clattn_status check_absent_numbers(const struct cla_feature_call *call, struct cla_error *error)
{
    const struct cla_feature *of;
    const struct cla_feature_number *number;
    for (int i = 0; (number = cla_feature_number_after(i ? number : NULL, &of)); i++)
        if (!(call->features & of->bit) && value_of(number, call->args) != 0)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "score.%s%s is %.10g, and the problem has no %s: it must be 0 then", home_text(number),
                            number->name, value_of(number, call->args), of->constant);
    return CLATTN_SUCCESS;
}

static bool is_given(const struct cla_feature_tensor *tensor, const struct clattn_score_args *args)
{
    const struct clattn_tensor given = cla_feature_given(tensor, args);
    return is_set(&given);
}

static clattn_status check_absent_tensors(const struct cla_feature_call *call, struct cla_error *error)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++)
        if (!(call->features & of->bit) && is_given(tensor, call->args))
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "%s is given, and the problem has no %s: it must be all zero then", tensor->path,
                            of->constant);
    return CLATTN_SUCCESS;
}

/* Numbers that kernels get as they are. */
static clattn_status take_numbers(const struct cla_feature_call *call, struct cla_error *error)
{
    const struct cla_feature *of;
    const struct cla_feature_number *number;
    for (int i = 0; (number = cla_feature_number_after(i ? number : NULL, &of)); i++) {
        if (!(call->features & of->bit) || !number->range)
            continue;
        const float value = (float)value_of(number, call->args);
        if (!(value >= number->least && value <= number->most))
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.%s%s is %g: it is %s", home_text(number),
                            number->name, (double)value, number->range);
        memcpy((char *)call->params + cla_feature_number_at(i), &value, sizeof value);
    }
    return CLATTN_SUCCESS;
}

/* The kernels add a window's reach to row and key numbers in 32 bits. `length`: of what it is added to; a reach of
 * `enough` or more hides nothing. */
static clattn_status clamp_window(const char *name, int64_t value, int64_t length, int64_t enough, int32_t *clamped,
                                  struct cla_error *error)
{
    const int64_t most = INT32_MAX - 2 * 4096 - length;
    if (value < CLATTN_UNLIMITED)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.%s is %lld: it is CLATTN_UNLIMITED (-1) or a number of keys", name, (long long)value);
    if (value == CLATTN_UNLIMITED || value > enough)
        value = enough;
    if (value > most)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "score.%s comes to %lld keys with a length of %lld: their sum must stay below %lld", name,
                        (long long)value, (long long)length, (long long)(length + most));
    *clamped = (int32_t)value;
    return CLATTN_SUCCESS;
}

/* With shifts of a caller's own, which kernels clamp (cl/score/view.clh): all sums with a place are below 2^31. */
enum { MOST_SHIFTED = 1 << 28, MOST_REACH = 1 << 30 };

clattn_status cla_check_row_shifts(const struct cla_feature_call *call, struct cla_error *error)
{
    if (call->shape.n_q > MOST_SHIFTED || call->shape.n_kv > MOST_SHIFTED)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "shape: n_q is %lld and n_kv %lld: with CLATTN_ROW_SHIFTS they are at most %d",
                        (long long)call->shape.n_q, (long long)call->shape.n_kv, MOST_SHIFTED);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_tree_mask(const struct cla_feature_call *call, struct cla_error *error)
{
    if (call->args->tree_keys < 1 || call->args->tree_keys > CLA_MAX_LENGTH)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.tree_keys is %lld: it is how many of the last keys score.tree_mask is about, from 1 to "
                        "%lld",
                        (long long)call->args->tree_keys, (long long)CLA_MAX_LENGTH);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_window(const struct cla_feature_call *call, struct cla_error *error)
{
    const int64_t n_q = call->shape.n_q, n_kv = call->shape.n_kv, longer = n_q > n_kv ? n_q : n_kv;
    const int64_t enough = call->features & CLATTN_ROW_SHIFTS ? MOST_REACH : longer;
    const clattn_status status =
        clamp_window("window_left", call->args->window_left, n_q, enough, &call->params->window_left, error);
    if (status)
        return status;
    return clamp_window("window_right", call->args->window_right, n_kv, enough, &call->params->window_right, error);
}

clattn_status cla_check_softcap(const struct cla_feature_call *call, struct cla_error *error)
{
    if (!(call->args->softcap > 0) || !isfinite(call->args->softcap))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.softcap is %g: it is greater than 0 and finite",
                        (double)call->args->softcap);
    call->params->softcap = call->args->softcap;
    call->params->curve = cla_softcap_curve(call->problem->scale, call->args->softcap);
    call->params->polynomial = cla_softcap_polynomial(call->problem->scale, call->args->softcap);
    call->params->low = cla_softcap_low(call->problem->scale, call->args->softcap);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_dropout(const struct cla_feature_call *call, struct cla_error *error)
{
    struct cla_score_params *const score = call->params;
    const clattn_status status = cla_dropout_check("score.dropout_p", call->args->dropout_p, error);
    if (status)
        return status;
    if (call->problem->dropout_p > 0 && call->args->dropout_p != call->problem->dropout_p)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.dropout_p is %g: the problem says that it is %g in every call (problem.dropout_p)",
                        (double)call->args->dropout_p, (double)call->problem->dropout_p);
    score->dropout_scale = cla_dropout_scale(cla_dropout_threshold(call->args->dropout_p));
    cla_dropout_digits(cla_dropout_threshold(call->args->dropout_p), score->dropout_digits);
    score->seed_low = (uint32_t)call->args->dropout_seed;
    score->seed_high = (uint32_t)(call->args->dropout_seed >> 32);
    score->dropout_offset = call->args->dropout_offset;
    return CLATTN_SUCCESS;
}

/* What kernels get of its place is written once it has one (attention/score.c). */
clattn_status cla_check_rng_state(const struct cla_feature_call *call, struct cla_error *error)
{
    if (!call->args->dropout_seed)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "score.dropout_seed is %llu: with problem.rng_state the seed is score.rng_state's, so it is 0",
                    (unsigned long long)call->args->dropout_seed);
}

/* More rows than batch * n_q would mean that a sequence is longer than n_q says, and its last rows were not computed.
 */
static clattn_status check_total(const char *name, int64_t total, int64_t batch, const char *length_name,
                                 int64_t length, int32_t *result, struct cla_error *error)
{
    if (total < 0)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s is %lld: sizes are not negative", name,
                        (long long)total);
    if (total > INT32_MAX)
        return cla_fail(error, CLATTN_TOO_LARGE, "score.%s is %lld: it is at most %d", name, (long long)total,
                        INT32_MAX);
    if (total > batch * length) /* both are below 2^31 */
        return cla_fail(error, CLATTN_INVALID_SHAPE,
                        "score.%s is %lld: %lld sequences (shape.batch) of at most %lld (shape.%s) have no more than "
                        "%lld",
                        name, (long long)total, (long long)batch, (long long)length, length_name,
                        (long long)(batch * length));
    *result = (int32_t)total;
    return CLATTN_SUCCESS;
}

clattn_status cla_check_totals(const struct cla_feature_call *call, struct cla_error *error)
{
    const struct clattn_shape *shape = &call->shape;
    if ((call->features & CLATTN_PAGES) && (call->args->total_kv || is_set(&call->args->cu_seqlens_kv)))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.%s is given with CLATTN_PAGES: keys that lie in pages are not packed, so "
                        "it must be zero (score.key_lengths says how many keys a sequence has)",
                        call->args->total_kv ? "total_kv" : "cu_seqlens_kv");
    const clattn_status status =
        check_total("total_q", call->args->total_q, shape->batch, "n_q", shape->n_q, &call->params->total_q, error);
    if (status)
        return status;
    return check_total("total_kv", call->args->total_kv, shape->batch, "n_kv", shape->n_kv, &call->params->total_kv,
                       error);
}

clattn_status cla_check_block_mask(const struct cla_feature_call *call, struct cla_error *error)
{
    const bool csr = call->args->block_offsets.buffer;
    if (csr && is_set(&call->args->block_mask))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.block_mask and score.block_offsets are both given: a block mask is either bytes or "
                        "compressed rows, and the other's fields are zero");
    const struct clattn_score_args *args = call->args;
    if (!csr && (is_set(&args->block_offsets) || args->block_columns || args->block_count))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.block_offsets.buffer is NULL, and block_columns, block_count or a layout is given: "
                        "compressed rows need it, and without it these are zero");
    if (call->args->block_count < 0 || call->args->block_count > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.block_count is %lld: it is from 0 to %d",
                        (long long)call->args->block_count, INT32_MAX);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_pages(const struct cla_feature_call *call, struct cla_error *error)
{
    const bool csr = call->args->page_offsets.buffer;
    if (call->args->pool_pages < 0 || call->args->pool_pages > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.pool_pages is %lld: it is how many pages K and V have, from 0 to %d",
                        (long long)call->args->pool_pages, INT32_MAX);
    if (call->args->page_count < 0 || call->args->page_count > INT32_MAX || (!csr && call->args->page_count))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.page_count is %lld: it is 0, or with score.page_offsets how many numbers score.pages "
                        "has, up to %d",
                        (long long)call->args->page_count, INT32_MAX);
    if (!csr && is_set(&call->args->page_offsets))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.page_offsets.buffer is NULL, and its layout is given: without offsets it must be zero");
    return CLATTN_SUCCESS;
}

/* Rows of which a call has some are counted by Philox's lines (cl/common/philox.clh). */
static clattn_status check_dropout_row(const struct cla_feature_call *call, struct cla_error *error)
{
    enum { ROWS = 16, LINES = 8 };
    const int64_t row = call->args->dropout_row;
    const bool there = (call->features & CLATTN_DROPOUT) && cla_problem_accumulates(call->problem);
    if (row < 0 || row > CLA_MAX_LENGTH || row % ROWS || (row && !there))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.dropout_row is %lld: it is a multiple of %d, and 0 in all passes but CLATTN_ACCUMULATE "
                        "and CLATTN_BACKWARD_ACCUMULATE with CLATTN_DROPOUT",
                        (long long)row, ROWS);
    call->params->dropout_line = (uint32_t)(row / ROWS * LINES);
    return CLATTN_SUCCESS;
}

clattn_status cla_features_check(const struct cla_feature_call *call, struct cla_error *error)
{
    clattn_status status = check_absent_numbers(call, error);
    if (!status)
        status = check_dropout_row(call, error);
    if (!status)
        status = check_absent_tensors(call, error);
    for (const struct cla_feature *row = cla_features; row < cla_features + cla_feature_count && !status; row++)
        if (row->check && (call->features & row->bit))
            status = row->check(call, error);
    return status ? status : take_numbers(call, error);
}
