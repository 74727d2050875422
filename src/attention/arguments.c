/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/arguments.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "plan/checked.h"
#include "plan/reserved.h"
#include "plan/types.h"

/* Q, K and their kind, with variable lengths packed end to end. */
static void set_tensor_sizes(struct cla_call *call)
{
    const struct clattn_shape *shape = &call->shape;
    const bool packed = call->features & CLATTN_VARLEN;
    const int64_t batch = packed ? 1 : shape->batch;
    const int64_t rows = packed ? call->score.total_q : shape->n_q;
    const int64_t keys = packed ? call->score.total_kv : call->key_count;
    const int d = call->problem->d, d_v = call->problem->d_v;
    const struct cla_sizes q = {batch, shape->heads, rows, d}, o = {batch, shape->heads, rows, d_v};
    struct cla_sizes k = {batch, shape->kv_heads, keys, d}, v = {batch, shape->kv_heads, keys, d_v};
    if (call->features & CLATTN_PAGES) {
        k.batch = v.batch = call->pool_pages;
        k.rows = v.rows = call->problem->page_keys;
    }
    const struct cla_sizes vector = {batch, shape->heads, rows, 1};
    const struct {
        int which;
        struct cla_sizes sizes;
    } tensors[] = {{CLA_Q, q},      {CLA_K, k},   {CLA_V, v},   {CLA_O, o},   {CLA_LSE, vector}, {CLA_M, vector},
                   {CLA_L, vector}, {CLA_D_O, o}, {CLA_D_Q, q}, {CLA_D_K, k}, {CLA_D_V, v}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const int which = tensors[i].which;
        const bool is_vector = which == CLA_LSE || which == CLA_M || which == CLA_L;
        call->operands[which].sizes = tensors[i].sizes;
        call->operands[which].block = is_vector ? 1 : cla_type((int)cla_type_of(call->problem, which))->block;
        call->operands[which].element_bytes = is_vector ? (int)sizeof(float) : cla_size_of(call->problem, which);
        call->operands[which].sizes.columns = cla_ceil_div(tensors[i].sizes.columns, call->operands[which].block);
    }
}

clattn_status cla_call_begin(struct cla_call *call, const struct clattn_problem *problem, unsigned features,
                             enum cla_source source, const struct clattn_shape *shape,
                             const struct clattn_score_args *score, struct cla_error *error)
{
    *call = (struct cla_call){.problem = problem, .features = features, .source = source, .page_count = -1};
    clattn_status status = cla_shape_resolve(shape, &call->shape, error);
    call->key_count = call->shape.n_kv;
    if (!status && score)
        status = cla_check_reserved(&cla_struct_kv_scales, "score.kv_scales", score->kv_scales, error);
    if (!status && score)
        status = cla_check_reserved(&cla_struct_score_more, "score.more", score->more, error);
    if (!status && score)
        status = cla_score_check(call, score, error);
    if (status)
        return status;
    const bool no_rows = features & CLATTN_VARLEN ? !call->score.total_q : !call->shape.n_q;
    call->empty = !call->shape.batch || !call->shape.heads || !call->shape.n_q || no_rows;
    set_tensor_sizes(call);
    cla_score_sizes(call);
    return CLATTN_SUCCESS;
}

clattn_status cla_call_take_chunk(struct cla_call *call, int64_t first_key, int64_t key_count, struct cla_error *error)
{
    static const int tensors[] = {CLA_K, CLA_V, CLA_D_K, CLA_D_V, CLA_K_SCALES, CLA_K_ZEROS, CLA_V_SCALES, CLA_V_ZEROS};
    const bool pages = call->features & CLATTN_PAGES, packed = (call->features & CLATTN_VARLEN) && !pages;
    const int64_t keys = packed ? call->score.total_kv : call->shape.n_kv;
    const char *what = packed ? "score.total_kv" : "shape.n_kv";
    if (first_key < 0 || first_key > keys)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "first_key is %lld: with %lld keys (%s) it is from 0 on",
                        (long long)first_key, (long long)keys, what);
    if (key_count < 0 || key_count > keys - first_key)
        return cla_fail(
            error, CLATTN_INVALID_SHAPE, "key_count is %lld: from first_key %lld on there are %lld of %lld keys (%s)",
            (long long)key_count, (long long)first_key, (long long)(keys - first_key), (long long)keys, what);
    call->first_key = first_key;
    call->key_count = key_count;
    call->score.first_key = (int32_t)first_key;
    call->score.key_count = (int32_t)key_count;
    call->score.keys = (int32_t)call->shape.n_kv;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && !pages; i++)
        call->operands[tensors[i]].sizes.rows = key_count;
    if (pages)
        call->operands[CLA_PAGES].sizes = cla_pages_sizes(call, key_count);
    return CLATTN_SUCCESS;
}

clattn_status cla_call_place_rest(struct cla_call *call, const struct clattn_score_args *score,
                                  struct cla_bytes workspace, struct cla_error *error)
{
    clattn_status status = cla_score_place(call, score, error);
    if (!status)
        status = cla_call_place_workspace(call, workspace, error);
    return status ? status : cla_check_overlap(call, error);
}

clattn_status cla_forward_arguments(const struct clattn_problem *problem, unsigned features, enum cla_source source,
                                    const struct clattn_forward_args *args, size_t first_bytes, struct cla_call *call,
                                    struct cla_error *error)
{
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_forward_args");
    const struct clattn_tensor *const tensors[CLA_FORWARD_OPERANDS] = {&args->q,   &args->k, &args->v, &args->o,
                                                                       &args->lse, &args->m, &args->l};
    clattn_status status = cla_check_reserved(&cla_struct_forward_args, "args", args, error);
    if (!status)
        status = cla_call_begin(call, problem, features, source, &args->shape, &args->score, error);
    for (int i = 0; i < CLA_FORWARD_OPERANDS && !status; i++) {
        const int how = i < CLA_O ? CLA_INPUT : i == CLA_O ? CLA_OUTPUT : CLA_OUTPUT | CLA_OPTIONAL;
        status = cla_call_place(call, i, tensors[i], how, error);
    }
    if (!status && !call->empty)
        call->workspace_bytes = first_bytes;
    const struct cla_bytes workspace = {args->workspace, args->workspace_memory, args->workspace_bytes};
    return status ? status : cla_call_place_rest(call, &args->score, workspace, error);
}

static clattn_status check_wait(cl_uint number, cl_event event, cl_context context, struct cla_error *error)
{
    cl_context found = NULL;
    struct cla_error cause;
    if (!event)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "wait_list[%u] is NULL: it must be a cl_event",
                        (unsigned)number);
    const clattn_status status = cla_cl_event_context(event, &found, &cause);
    if (status)
        return cla_fail(error, status, "wait_list[%u] is not a usable cl_event: %s", (unsigned)number, cause.text);
    if (found != context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "wait_list[%u] belongs to the cl_context %p: it must belong to %p, that of the clattn_context",
                        (unsigned)number, (void *)found, (void *)context);
    return CLATTN_SUCCESS;
}

clattn_status cla_check_waits(cl_uint wait_count, const cl_event *wait_list, cl_context context,
                              struct cla_error *error)
{
    if (wait_count && !wait_list)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "wait_list is NULL with a wait_count of %u: it must hold that many events, or wait_count be 0",
                        (unsigned)wait_count);
    clattn_status status = CLATTN_SUCCESS;
    for (cl_uint i = 0; i < wait_count && !status; i++)
        status = check_wait(i, wait_list[i], context, error);
    return status;
}

clattn_status cla_check_queue(cl_command_queue queue, cl_context context, cl_device_id device, struct cla_error *error)
{
    if (!queue)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "queue is NULL: it must be a cl_command_queue");
    cl_context queue_context = NULL;
    cl_device_id queue_device = NULL;
    struct cla_error cause;
    const clattn_status status = cla_cl_queue_context(queue, &queue_context, &queue_device, &cause);
    if (status)
        return cla_fail(error, status, "queue is not a usable cl_command_queue: %s", cause.text);
    if (queue_context != context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "queue belongs to the cl_context %p: it must belong to %p, that of the clattn_context",
                        (void *)queue_context, (void *)context);
    if (queue_device != device)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "queue belongs to the device %p: it must belong to %p, that of the clattn_context",
                        (void *)queue_device, (void *)device);
    return CLATTN_SUCCESS;
}
