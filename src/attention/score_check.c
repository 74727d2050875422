/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/score.h"
#include "plan/philox.h"
#include <math.h>

static bool is_set(const struct clattn_tensor *tensor)
{
    const struct clattn_layout *layout = &tensor->layout;
    return tensor->buffer || layout->offset || layout->strided || !cla_layout_is_default(layout);
}

/* A number that belongs to a feature. */
struct number {
    const char *name;
    unsigned feature;
    const char *feature_name;
    double value;
};

/* Values for something that the problem does not do are a mistake of the caller's, not a wish to be passed over. */
static clattn_status check_absent_numbers(unsigned features, const struct clattn_score_args *args,
                                          struct cla_error *error)
{
    const struct number numbers[] = {
        {"window_left", CLATTN_WINDOW, "CLATTN_WINDOW", (double)args->window_left},
        {"window_right", CLATTN_WINDOW, "CLATTN_WINDOW", (double)args->window_right},
        {"softcap", CLATTN_SOFTCAP, "CLATTN_SOFTCAP", (double)args->softcap},
        {"block_count", CLATTN_BLOCK_MASK, "CLATTN_BLOCK_MASK", (double)args->block_count},
        {"total_q", CLATTN_VARLEN, "CLATTN_VARLEN", (double)args->total_q},
        {"total_kv", CLATTN_VARLEN, "CLATTN_VARLEN", (double)args->total_kv},
        {"dropout_p", CLATTN_DROPOUT, "CLATTN_DROPOUT", (double)args->dropout_p},
        {"dropout_seed", CLATTN_DROPOUT, "CLATTN_DROPOUT", (double)args->dropout_seed},
        {"dropout_offset", CLATTN_DROPOUT, "CLATTN_DROPOUT", (double)args->dropout_offset},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(features & numbers[i].feature) && numbers[i].value != 0)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "score.%s is %.10g, and the problem has no %s: it must be 0 then", numbers[i].name,
                            numbers[i].value, numbers[i].feature_name);
    return CLATTN_SUCCESS;
}

static clattn_status check_absent_tensors(unsigned features, const struct clattn_score_args *args,
                                          struct cla_error *error)
{
    const unsigned mods = CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD;
    const struct {
        int which;
        unsigned feature;
        const char *feature_name;
        bool set;
    } tensors[] = {
        {CLA_ALIBI, CLATTN_ALIBI, "CLATTN_ALIBI", is_set(&args->alibi)},
        {CLA_BIAS, CLATTN_BIAS, "CLATTN_BIAS", is_set(&args->bias)},
        {CLA_MASK, CLATTN_MASK, "CLATTN_MASK", is_set(&args->mask)},
        {CLA_BLOCK_MASK, CLATTN_BLOCK_MASK, "CLATTN_BLOCK_MASK", is_set(&args->block_mask)},
        {CLA_BLOCK_OFFSETS, CLATTN_BLOCK_MASK, "CLATTN_BLOCK_MASK", is_set(&args->block_offsets)},
        {CLA_BLOCK_COLUMNS, CLATTN_BLOCK_MASK, "CLATTN_BLOCK_MASK", args->block_columns != NULL},
        {CLA_KEY_LENGTHS, CLATTN_KEY_LENGTHS, "CLATTN_KEY_LENGTHS", is_set(&args->key_lengths)},
        {CLA_CU_Q, CLATTN_VARLEN, "CLATTN_VARLEN", is_set(&args->cu_seqlens_q)},
        {CLA_CU_KV, CLATTN_VARLEN, "CLATTN_VARLEN", is_set(&args->cu_seqlens_kv)},
        {CLA_SINKS, CLATTN_SINKS, "CLATTN_SINKS", is_set(&args->sinks)},
        {CLA_DATA, mods, "score_mod or mask_mod", args->data != NULL},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (!(features & tensors[i].feature) && tensors[i].set)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "%s is given, and the problem has no %s: it must be all zero then",
                            cla_operand_names[tensors[i].which], tensors[i].feature_name);
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

static clattn_status check_window(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const int64_t n_q = call->shape.n_q, n_kv = call->shape.n_kv, enough = n_q > n_kv ? n_q : n_kv;
    const clattn_status status =
        clamp_window("window_left", args->window_left, n_q, enough, &call->score.window_left, error);
    if (status)
        return status;
    return clamp_window("window_right", args->window_right, n_kv, enough, &call->score.window_right, error);
}

static clattn_status check_softcap(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    if (!(args->softcap > 0) || !isfinite(args->softcap))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.softcap is %g: it is greater than 0 and finite",
                        (double)args->softcap);
    call->score.softcap = args->softcap;
    call->score.curve = cla_softcap_curve(call->problem->scale, args->softcap);
    call->score.bend = cla_softcap_bend(call->problem->scale, args->softcap);
    call->score.low = cla_softcap_low(call->problem->scale, args->softcap);
    return CLATTN_SUCCESS;
}

static clattn_status check_dropout(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    struct cla_score_params *score = &call->score;
    const clattn_status status = cla_dropout_check("score.dropout_p", args->dropout_p, error);
    if (status)
        return status;
    if (call->problem->dropout_p > 0 && args->dropout_p != call->problem->dropout_p)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.dropout_p is %g: the problem says that it is %g in every call (problem.dropout_p)",
                        (double)args->dropout_p, (double)call->problem->dropout_p);
    score->dropout_scale = cla_dropout_scale(cla_dropout_threshold(args->dropout_p));
    cla_dropout_digits(cla_dropout_threshold(args->dropout_p), score->dropout_digits);
    score->seed_low = (uint32_t)args->dropout_seed;
    score->seed_high = (uint32_t)(args->dropout_seed >> 32);
    score->dropout_offset = args->dropout_offset;
    return CLATTN_SUCCESS;
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

static clattn_status check_totals(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const struct clattn_shape *shape = &call->shape;
    const clattn_status status =
        check_total("total_q", args->total_q, shape->batch, "n_q", shape->n_q, &call->score.total_q, error);
    if (status)
        return status;
    return check_total("total_kv", args->total_kv, shape->batch, "n_kv", shape->n_kv, &call->score.total_kv, error);
}

static clattn_status check_block_mask(const struct clattn_score_args *args, struct cla_error *error)
{
    const bool csr = args->block_offsets.buffer;
    if (csr && is_set(&args->block_mask))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.block_mask and score.block_offsets are both given: a block mask is either bytes or "
                        "compressed rows, and the other's fields are zero");
    if (!csr && (is_set(&args->block_offsets) || args->block_columns || args->block_count))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.block_offsets.buffer is NULL, and block_columns, block_count or a layout is given: "
                        "compressed rows need it, and without it these are zero");
    if (args->block_count < 0 || args->block_count > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.block_count is %lld: it is from 0 to %d",
                        (long long)args->block_count, INT32_MAX);
    return CLATTN_SUCCESS;
}

clattn_status cla_score_check(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const unsigned features = call->features;
    clattn_status status = check_absent_numbers(features, args, error);
    if (!status)
        status = check_absent_tensors(features, args, error);
    if (!status && (features & CLATTN_WINDOW))
        status = check_window(call, args, error);
    if (!status && (features & CLATTN_SOFTCAP))
        status = check_softcap(call, args, error);
    if (!status && (features & CLATTN_BLOCK_MASK))
        status = check_block_mask(args, error);
    if (!status && (features & CLATTN_VARLEN))
        status = check_totals(call, args, error);
    if (!status && (features & CLATTN_DROPOUT))
        status = check_dropout(call, args, error);
    return status;
}
