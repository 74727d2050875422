/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/arguments.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "plan/checked.h"

const char *const cla_operand_names[CLA_OPERANDS] = {
    [CLA_Q] = "q",
    [CLA_K] = "k",
    [CLA_V] = "v",
    [CLA_O] = "o",
    [CLA_LSE] = "lse",
    [CLA_M] = "m",
    [CLA_L] = "l",
    [CLA_D_O] = "d_o",
    [CLA_D_Q] = "d_q",
    [CLA_D_K] = "d_k",
    [CLA_D_V] = "d_v",
    [CLA_BIAS_GRAD] = "d_bias",
    [CLA_SINKS_GRAD] = "d_sinks",
    [CLA_ALIBI] = "score.alibi",
    [CLA_BIAS] = "score.bias",
    [CLA_MASK] = "score.mask",
    [CLA_BLOCK_MASK] = "score.block_mask",
    [CLA_BLOCK_OFFSETS] = "score.block_offsets",
    [CLA_BLOCK_COLUMNS] = "score.block_columns",
    [CLA_KEY_LENGTHS] = "score.key_lengths",
    [CLA_CU_Q] = "score.cu_seqlens_q",
    [CLA_CU_KV] = "score.cu_seqlens_kv",
    [CLA_SINKS] = "score.sinks",
    [CLA_DATA] = "score.data",
    [CLA_STATE] = "state",
    [CLA_FROM] = "from",
    [CLA_WORKSPACE] = "workspace",
};

/* Whether the operand is a bare cl_mem among the arguments, not a struct clattn_tensor. */
static bool is_bare(int which)
{
    return which == CLA_BLOCK_COLUMNS || which >= CLA_DATA;
}

/* Q, K and their kind, with variable lengths packed end to end. */
static void set_tensor_sizes(struct cla_call *call)
{
    const struct clattn_shape *shape = &call->shape;
    const bool packed = call->features & CLATTN_VARLEN;
    const int64_t batch = packed ? 1 : shape->batch;
    const int64_t rows = packed ? call->score.total_q : shape->n_q;
    const int64_t keys = packed ? call->score.total_kv : call->key_count;
    const int d = call->problem->d, d_v = call->problem->d_v, bytes = clattn_dtype_size(call->problem->dtype);
    const struct cla_sizes q = {batch, shape->heads, rows, d}, o = {batch, shape->heads, rows, d_v};
    const struct cla_sizes k = {batch, shape->kv_heads, keys, d}, v = {batch, shape->kv_heads, keys, d_v};
    const struct cla_sizes vector = {batch, shape->heads, rows, 1};
    const struct {
        int which, element_bytes;
        struct cla_sizes sizes;
    } tensors[] = {{CLA_Q, bytes, q},    {CLA_K, bytes, k},   {CLA_V, bytes, v},  {CLA_O, bytes, o},
                   {CLA_LSE, 4, vector}, {CLA_M, 4, vector},  {CLA_L, 4, vector}, {CLA_D_O, bytes, o},
                   {CLA_D_Q, bytes, q},  {CLA_D_K, bytes, k}, {CLA_D_V, bytes, v}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        call->operands[tensors[i].which].sizes = tensors[i].sizes;
        call->operands[tensors[i].which].element_bytes = tensors[i].element_bytes;
    }
}

clattn_status cla_call_begin(struct cla_call *call, const struct clattn_problem *problem, unsigned features,
                             enum cla_source source, const struct clattn_shape *shape,
                             const struct clattn_score_args *score, struct cla_error *error)
{
    *call = (struct cla_call){.problem = problem, .features = features, .source = source};
    clattn_status status = cla_shape_resolve(shape, &call->shape, error);
    call->key_count = call->shape.n_kv;
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
    static const int tensors[] = {CLA_K, CLA_V, CLA_D_K, CLA_D_V};
    const bool packed = call->features & CLATTN_VARLEN;
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
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        call->operands[tensors[i]].sizes.rows = key_count;
    return CLATTN_SUCCESS;
}

static clattn_status check_present(const struct cla_call *call, int which, struct cla_error *error)
{
    const struct cla_operand *operand = &call->operands[which];
    if (operand->buffer || !operand->end || call->source == CLA_LAYOUTS)
        return CLATTN_SUCCESS;
    if (call->source == CLA_ARRAYS)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is NULL: it must point to an array of %lld elements",
                        cla_operand_names[which], (long long)operand->end);
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s%s is NULL: it must be a cl_mem of at least %lld bytes",
                    cla_operand_names[which], is_bare(which) ? "" : ".buffer",
                    (long long)(operand->end * operand->element_bytes));
}

clattn_status cla_call_place(struct cla_call *call, int which, const struct clattn_tensor *tensor, int how,
                             struct cla_error *error)
{
    struct cla_operand *operand = &call->operands[which];
    if ((how & CLA_OPTIONAL) && !tensor->buffer)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_layout_resolve(cla_operand_names[which], &tensor->layout, &operand->sizes,
                                                    how & CLA_OUTPUT, &operand->layout, &operand->end, error);
    if (status)
        return status;
    operand->buffer = tensor->buffer;
    operand->output = how & CLA_OUTPUT;
    /* Packed tensors have no batch, but the kernels multiply one by its stride. */
    if ((call->features & CLATTN_VARLEN) && which < CLA_BIAS_GRAD)
        operand->layout.batch = 0;
    return check_present(call, which, error);
}

clattn_status cla_call_place_bytes(struct cla_call *call, int which, cl_mem buffer, size_t bytes, bool output,
                                   struct cla_error *error)
{
    call->operands[which] = (struct cla_operand){.buffer = buffer,
                                                 .sizes = {1, 1, 1, (int64_t)bytes},
                                                 .layout = {.column = 1},
                                                 .end = (int64_t)bytes,
                                                 .element_bytes = 1,
                                                 .output = output};
    return check_present(call, which, error);
}

clattn_status cla_call_place_workspace(struct cla_call *call, cl_mem workspace, size_t bytes, struct cla_error *error)
{
    const size_t needed = call->workspace_bytes;
    if (!needed || call->source != CLA_BUFFERS)
        return CLATTN_SUCCESS;
    if (bytes < needed)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace_bytes is %zu: this shape needs %zu", bytes,
                        needed);
    if (!workspace)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace is NULL: it must be a cl_mem of %zu bytes",
                        needed);
    return cla_call_place_bytes(call, CLA_WORKSPACE, workspace, needed, true, error);
}

/* The bytes of its buffer that an operand takes. */
struct span {
    int64_t first, end;
};

static struct span span_of(const struct cla_operand *operand)
{
    if (operand->whole)
        return (struct span){0, INT64_MAX};
    return (struct span){operand->layout.offset * operand->element_bytes, operand->end * operand->element_bytes};
}

static bool share_bytes(const struct cla_operand *a, const struct cla_operand *b)
{
    const struct span in_a = span_of(a), in_b = span_of(b);
    return a->end && b->end && a->buffer == b->buffer && in_a.first < in_b.end && in_b.first < in_a.end;
}

static clattn_status fail_overlap(const struct cla_call *call, int output, int other, struct cla_error *error)
{
    const struct span a = span_of(&call->operands[output]), b = span_of(&call->operands[other]);
    if (call->operands[other].whole)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s (bytes %lld to %lld of its buffer) overlaps %s, which has the same buffer: an output needs "
                        "a place of its own",
                        cla_operand_names[output], (long long)a.first, (long long)(a.end - 1),
                        cla_operand_names[other]);
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s (bytes %lld to %lld of its buffer) overlaps %s (bytes %lld to %lld of the same buffer): an "
                    "output needs a place of its own",
                    cla_operand_names[output], (long long)a.first, (long long)(a.end - 1), cla_operand_names[other],
                    (long long)b.first, (long long)(b.end - 1));
}

clattn_status cla_check_overlap(const struct cla_call *call, struct cla_error *error)
{
    if (call->source != CLA_BUFFERS)
        return CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        for (int j = 0; j < i; j++) {
            const struct cla_operand *later = &call->operands[i], *earlier = &call->operands[j];
            if ((later->output || earlier->output) && share_bytes(later, earlier))
                return later->output ? fail_overlap(call, i, j, error) : fail_overlap(call, j, i, error);
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_buffer(int which, const struct cla_operand *operand, struct cla_error *error)
{
    const char *name = cla_operand_names[which], *suffix = is_bare(which) ? "" : ".buffer";
    struct cla_error cause;
    size_t bytes = 0;
    const clattn_status status = cla_cl_buffer_size(operand->buffer, &bytes, &cause);
    if (status)
        return cla_fail(error, status, "%s%s is not a usable cl_mem: %s", name, suffix, cause.text);
    const uint64_t needed = (uint64_t)operand->end * (uint64_t)operand->element_bytes;
    if (operand->whole || bytes >= needed)
        return CLATTN_SUCCESS;
    if (which == CLA_WORKSPACE)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace has %zu bytes: this shape needs %llu", bytes,
                        (unsigned long long)needed);
    if (is_bare(which))
        return cla_fail(error, CLATTN_BUFFER_TOO_SMALL, "%s has %zu bytes: this call needs %llu", name, bytes,
                        (unsigned long long)needed);
    return cla_fail(error, CLATTN_BUFFER_TOO_SMALL,
                    "%s.buffer has %zu bytes: the tensor reaches to byte %llu (%lld elements of %d bytes)", name, bytes,
                    (unsigned long long)needed, (long long)operand->end, operand->element_bytes);
}

clattn_status cla_check_buffers(const struct cla_call *call, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++)
        if (call->operands[i].end)
            status = check_buffer(i, &call->operands[i], error);
    return status;
}

clattn_status cla_forward_arguments(const struct clattn_problem *problem, unsigned features, enum cla_source source,
                                    const struct clattn_forward_args *args, size_t first_bytes, struct cla_call *call,
                                    struct cla_error *error)
{
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_forward_args");
    const struct clattn_tensor *const tensors[CLA_FORWARD_OPERANDS] = {&args->q,   &args->k, &args->v, &args->o,
                                                                       &args->lse, &args->m, &args->l};
    clattn_status status = cla_call_begin(call, problem, features, source, &args->shape, &args->score, error);
    for (int i = 0; i < CLA_FORWARD_OPERANDS && !status; i++) {
        const int how = i < CLA_O ? CLA_INPUT : i == CLA_O ? CLA_OUTPUT : CLA_OUTPUT | CLA_OPTIONAL;
        status = cla_call_place(call, i, tensors[i], how, error);
    }
    if (!status && !call->empty)
        call->workspace_bytes = first_bytes;
    if (!status)
        status = cla_score_place(call, &args->score, error);
    if (!status)
        status = cla_call_place_workspace(call, args->workspace, args->workspace_bytes, error);
    return status ? status : cla_check_overlap(call, error);
}

clattn_status cla_check_waits(cl_uint wait_count, const cl_event *wait_list, struct cla_error *error)
{
    if (wait_count && !wait_list)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "wait_list is NULL with a wait_count of %u: it must hold that many events, or wait_count be 0",
                        (unsigned)wait_count);
    for (cl_uint i = 0; i < wait_count; i++) {
        if (!wait_list[i])
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "wait_list[%u] is NULL: it must be a cl_event",
                            (unsigned)i);
    }
    return CLATTN_SUCCESS;
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
