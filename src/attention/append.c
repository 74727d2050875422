/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/append.h"
#include "attention/arguments.h"
#include "attention/buffers.h"
#include "attention/chain.h"
#include "attention/forward.h"
#include "attention/score.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"

/* What goes through a kernel, in the order of an appender's kernels. */
static const struct {
    int from, to;
    bool rotated;
} moves[CLA_APPENDED] = {{CLA_NEW_K, CLA_K, true}, {CLA_NEW_V, CLA_V, false}, {CLA_Q, CLA_ROTATED_Q, true}};

static void set_append_sizes(const struct clattn_appender *appender, const struct clattn_append_args *args,
                             struct cla_call *call)
{
    struct cla_operand *operands = call->operands;
    const struct cla_sizes q = operands[CLA_Q].sizes;
    const struct cla_sizes table = {1, 1, args->rope_rows, appender->rotary_d / 2};
    const int q_bytes = operands[CLA_Q].element_bytes, new_bytes = clattn_dtype_size(appender->new_type);
    operands[CLA_NEW_K].sizes = operands[CLA_NEW_V].sizes = operands[CLA_ROTATED_Q].sizes = q;
    operands[CLA_NEW_K].sizes.heads = operands[CLA_NEW_V].sizes.heads = call->shape.kv_heads;
    operands[CLA_NEW_V].sizes.columns = call->problem->d_v;
    operands[CLA_POSITIONS].sizes = (struct cla_sizes){q.batch, 1, q.rows, 1};
    operands[CLA_ROPE_COS].sizes = operands[CLA_ROPE_SIN].sizes = table;
    operands[CLA_NEW_K].element_bytes = operands[CLA_NEW_V].element_bytes = operands[CLA_Q].element_bytes = new_bytes;
    operands[CLA_ROTATED_Q].element_bytes = q_bytes;
    operands[CLA_POSITIONS].element_bytes = (int)sizeof(int32_t);
    operands[CLA_ROPE_COS].element_bytes = operands[CLA_ROPE_SIN].element_bytes = (int)sizeof(float);
}

/* The pairs that are given. */
static clattn_status place_moves(struct cla_call *call, const struct clattn_append_args *args, struct cla_error *error)
{
    const struct clattn_tensor *const tensors[CLA_APPENDED][2] = {
        {&args->k_new, &args->k}, {&args->v_new, &args->v}, {&args->q, &args->q_rotated}};
    clattn_status status = CLATTN_SUCCESS;
    int given = 0;
    for (int i = 0; i < CLA_APPENDED && !status; i++) {
        const struct clattn_tensor *from = tensors[i][0], *to = tensors[i][1];
        if (!from->buffer && !to->buffer)
            continue;
        given++;
        status = cla_call_place(call, moves[i].from, from, CLA_INPUT, error);
        if (!status)
            status = cla_call_place(call, moves[i].to, to, CLA_OUTPUT, error);
        if (!status && !to->buffer) /* a tensor without elements needs no buffer, but the pair is to be one */
            status = cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s.buffer is NULL, and %s is given: it needs a place",
                              cla_operand_name(moves[i].to), cla_operand_name(moves[i].from));
    }
    if (!status && !given)
        status = cla_fail(error, CLATTN_INVALID_ARGUMENT,
                          "k_new, v_new and q are all NULL: at least one is to be given, with where it goes");
    return status;
}

static clattn_status place_tables(const struct clattn_appender *appender, struct cla_call *call,
                                  const struct clattn_append_args *args, struct cla_error *error)
{
    const bool rotates = appender->rotary_d > 0;
    if (!rotates && (args->rope_cos.buffer || args->rope_sin.buffer || args->rope_rows))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "rope_cos, rope_sin or rope_rows is given, and the appender was made with a rotary_d of 0: "
                        "they must be zero then");
    if (!rotates && args->q.buffer)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "q is given, and the appender was made with a rotary_d of 0: there is nothing to do to it");
    if (args->rope_rows < 0 || args->rope_rows > CLA_MAX_LENGTH)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "rope_rows is %lld: it is how many positions the tables have",
                        (long long)args->rope_rows);
    if (!rotates)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_call_place(call, CLA_ROPE_COS, &args->rope_cos, CLA_INPUT, error);
    return status ? status : cla_call_place(call, CLA_ROPE_SIN, &args->rope_sin, CLA_INPUT, error);
}

/* Of the score's arguments what says where keys lie. */
static struct clattn_score_args places_of(unsigned features, const struct clattn_score_args *given)
{
    struct clattn_score_args places = {0};
    if (features & CLATTN_KEY_LENGTHS)
        places.key_lengths = given->key_lengths;
    if (features & CLATTN_QUERY_LENGTHS) {
        places.query_lengths = given->query_lengths;
        places.query_lengths_offset = given->query_lengths_offset;
        places.query_lengths_memory = given->query_lengths_memory;
    }
    if (features & CLATTN_ROW_SHIFTS) {
        places.row_shifts = given->row_shifts;
        places.row_shifts_offset = given->row_shifts_offset;
        places.row_shifts_memory = given->row_shifts_memory;
    }
    if (features & CLATTN_VARLEN) {
        places.cu_seqlens_q = given->cu_seqlens_q;
        places.total_q = given->total_q;
    }
    if (features & CLATTN_PAGES) {
        places.pages = given->pages;
        places.page_offsets = given->page_offsets;
        places.pool_pages = given->pool_pages;
        places.page_count = given->page_count;
    }
    if (features & CLA_FEATURE_SCALES)
        places.kv_scales = given->kv_scales;
    return places;
}

/* Scales that each key has of its own are made; one that serves several is used. */
static clattn_status place_scales(struct cla_call *call, const struct clattn_kv_scales *scales, struct cla_error *error)
{
    if (!scales)
        return CLATTN_SUCCESS;
    const struct clattn_tensor *const tensors[] = {&scales->k_scales, &scales->k_zeros, &scales->v_scales,
                                                   &scales->v_zeros};
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < 4 && !status; i++)
        if (call->operands[CLA_K_SCALES + i].end && call->operands[CLA_K_SCALES + i].layout.row)
            status = cla_call_place(call, CLA_K_SCALES + i, tensors[i], CLA_OUTPUT, error);
    return status;
}

static clattn_status check_append_groups(const struct clattn_appender *appender, const struct clattn_shape *shape,
                                         struct cla_error *error)
{
    const bool narrow = appender->context->capabilities.address_bits == 32;
    const int64_t limit = narrow ? UINT32_MAX / appender->work_group_size : INT32_MAX;
    int64_t groups;
    if (!cla_multiply(shape->n_q, shape->heads, &groups) || !cla_multiply(groups, shape->batch, &groups) ||
        groups > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "shape: batch %lld x heads %lld x n_q %lld rows are more than can be worked on at once: split "
                        "the batch",
                        (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q);
    return CLATTN_SUCCESS;
}

static clattn_status check_append(const struct clattn_appender *appender, const struct cla_dispatch *to,
                                  const struct clattn_append_args *args, struct cla_call *call, struct cla_error *error)
{
    const struct clattn_score_args places = places_of(appender->features, &args->score);
    clattn_status status = cla_check_reserved(&cla_struct_append_args, "args", args, error);
    if (!status)
        status =
            cla_call_begin(call, &appender->problem, appender->features, CLA_BUFFERS, &args->shape, &places, error);
    if (status)
        return status;
    set_append_sizes(appender, args, call);
    status = place_tables(appender, call, args, error);
    if (!status)
        status = place_moves(call, args, error);
    if (!status)
        status = cla_call_place(call, CLA_POSITIONS, &args->positions, CLA_INPUT | CLA_OPTIONAL, error);
    if (!status)
        status = cla_score_place(call, &places, error);
    if (!status)
        status = place_scales(call, places.kv_scales, error);
    if (!status)
        status = check_append_groups(appender, &call->shape, error);
    if (!status)
        status = cla_check_overlap(call, error);
    return status ? status : cla_dispatch_checks(appender->context, to, call, error);
}

static clattn_status launch_move(const struct clattn_appender *appender, int move, const struct cla_call *call,
                                 int64_t rope_rows, struct cla_chain *chain, struct cla_error *error)
{
    const struct cla_operand *operands = call->operands, *from = &operands[moves[move].from],
                             *to = &operands[moves[move].to];
    const struct cla_append_params params = {.from = from->layout,
                                             .to = to->layout,
                                             .positions = operands[CLA_POSITIONS].layout,
                                             .cosines = operands[CLA_ROPE_COS].layout,
                                             .sines = operands[CLA_ROPE_SIN].layout,
                                             .heads = (int32_t)from->sizes.heads,
                                             .n_q = (int32_t)call->shape.n_q,
                                             .n_kv = (int32_t)call->shape.n_kv,
                                             .rope_rows = (int32_t)rope_rows};
    struct cla_argument arguments[6 + CLA_SCORE_ARGUMENTS] = {cla_operand_argument(from),
                                                              cla_operand_argument(to),
                                                              cla_operand_argument(&operands[CLA_POSITIONS]),
                                                              cla_operand_argument(&operands[CLA_ROPE_COS]),
                                                              cla_operand_argument(&operands[CLA_ROPE_SIN]),
                                                              {.size = sizeof params, .value = &params}};
    const cl_uint count = 6 + cla_score_arguments(call, appender->features, false, arguments + 6);
    const size_t groups = (size_t)(call->shape.batch * from->sizes.heads * call->shape.n_q);
    if (!from->end || !to->end)
        return CLATTN_SUCCESS;
    return cla_chain_launch(chain, &appender->kernels[move], arguments, count, groups,
                            (size_t)appender->work_group_size, error);
}

clattn_status cla_append_dispatch(const struct clattn_appender *appender, const struct clattn_append_args *args,
                                  const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_chain chain;
    if (!appender)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "appender is NULL: it must be a clattn_appender");
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_append_args");
    clattn_status status = check_append(appender, to, args, &call, error);
    if (status)
        return status;
    if (call.empty)
        return cla_chain_nothing(to, args->first_event, error);
    cla_chain_start(&chain, to, args->first_event);
    for (int i = 0; i < CLA_APPENDED && !status; i++) {
        /* The first command of a call begins before all others, and the last sync point is that of the whole call. */
        if (args->first_event || to->recorder)
            cla_chain_next(&chain);
        status = launch_move(appender, i, &call, args->rope_rows, &chain, error);
    }
    if (!status)
        status = cla_chain_event(&chain, error);
    cla_chain_finish(&chain, status);
    return status;
}

clattn_status clattn_append_enqueue(const clattn_appender *appender, cl_command_queue queue,
                                    const struct clattn_append_args *args, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    if (!cla_append_dispatch(appender, args, &to, &error))
        return CLATTN_SUCCESS;
    return cla_report(appender ? &appender->context->log : NULL, &error);
}
