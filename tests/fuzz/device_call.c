/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/device_call.h"
#include <stdio.h>

enum { PAGED_STATE = 64 << 20 };

static int64_t roll(const struct call *call, int64_t below)
{
    return dice(call->dice, below);
}

/* A number that may be anything. */
static int64_t wrong(const struct call *call, int64_t right)
{
    static const int64_t pool[] = {0,
                                   -1,
                                   1,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX / 2,
                                   INT64_MAX / 16,
                                   INT64_C(1) << 31,
                                   (INT64_C(1) << 31) - 4097,
                                   (INT64_C(1) << 32) + 1,
                                   INT64_C(1) << 62,
                                   65536};
    switch (roll(call, 4)) {
    case 0:
        return pool[roll(call, sizeof pool / sizeof pool[0])];
    case 1:
        return right + roll(call, 5) - 2;
    case 2:
        return right * 2;
    default:
        return roll(call, 100);
    }
}

void call_spoil(struct call *call, int64_t *value)
{
    if (roll(call, call->spoil_rate))
        return;
    *value = wrong(call, *value);
    call->spoilt++;
}

static bool is_empty(const int64_t sizes[4])
{
    return !sizes[0] || !sizes[1] || !sizes[2] || !sizes[3];
}

static int64_t last(int64_t size, int64_t stride)
{
    return size ? (size - 1) * stride : 0;
}

/* Strides with gaps, in one of two orders; those of an input may be 0 but for one. */
static struct clattn_layout strided(struct call *call, const struct call_tensor *what)
{
    const int64_t *n = what->sizes, column = what->vector ? 0 : 1 + (!what->dense && !roll(call, 6));
    const int64_t row_span = last(n[3], column) + 1;
    struct clattn_layout at = {
        .column = column, .row = row_span + roll(call, 3), .offset = roll(call, 3) ? 0 : roll(call, 9)};
    if (roll(call, 2)) { /* [batch, heads, n, d] */
        at.head = last(n[2], at.row) + row_span + roll(call, 5);
        at.batch = last(n[1], at.head) + last(n[2], at.row) + row_span + roll(call, 5);
    } else { /* [batch, n, heads, d] */
        at.head = at.row;
        at.row = last(n[1], at.head) + row_span + roll(call, 3);
        at.batch = last(n[2], at.row) + last(n[1], at.head) + row_span + roll(call, 3);
    }
    if (what->role != MEMORY_OUTPUT) {
        at.batch *= roll(call, 5) != 0;
        at.head *= roll(call, 5) != 0;
        at.row *= roll(call, 8) != 0;
    }
    return at;
}

/* One behind the last element. All strides 0 mean dense. */
static int64_t end_of(const struct clattn_layout *at, const int64_t n[4])
{
    if (is_empty(n))
        return 0;
    if (!at->batch && !at->head && !at->row && !at->column)
        return at->offset + n[0] * n[1] * n[2] * n[3];
    return at->offset + last(n[0], at->batch) + last(n[1], at->head) + last(n[2], at->row) + last(n[3], at->column) + 1;
}

static void spoil_layout(struct call *call, struct clattn_layout *at)
{
    CALL_SPOIL(call, at->offset);
    CALL_SPOIL(call, at->batch);
    CALL_SPOIL(call, at->head);
    CALL_SPOIL(call, at->row);
    CALL_SPOIL(call, at->column);
}

/* No buffer, or another argument's. (What another call of the same pass read, a state's end may overwrite.) */
static void spoil_buffer(struct call *call, struct clattn_tensor *tensor, enum memory_role role)
{
    const int64_t which = roll(call, call->spoil_rate * 6);
    if (which > 1 || (which == 1 && role == MEMORY_OUTPUT && call->problem->pass == CLATTN_ACCUMULATE))
        return;
    tensor->buffer = which ? call->memories->items[roll(call, call->memories->count)].buffer : NULL;
    call->spoilt++;
}

/* What a block of ggml's begins with has 2 bytes. */
static size_t align_of(int unit)
{
    return unit > 4 ? 2 : (size_t)unit;
}

/* From blocks, which lie one behind the other, to elements. */
static void count_elements(struct clattn_layout *at, int block)
{
    at->offset *= block;
    at->batch *= block;
    at->head *= block;
    at->row *= block;
}

struct clattn_tensor call_tensor(struct call *call, const struct call_tensor *what)
{
    const int block = what->block ? what->block : 1;
    struct clattn_tensor tensor = {0};
    if (roll(call, 4) && !(what->role == MEMORY_OUTPUT && is_empty(what->sizes)))
        tensor.layout = strided(call, what);
    size_t bytes = (size_t)end_of(&tensor.layout, what->sizes) * (size_t)what->unit;
    if (bytes && !roll(call, call->spoil_rate * 2)) {
        bytes -= roll(call, 2) ? 1 : (size_t)what->unit;
        call->spoilt++;
    }
    count_elements(&tensor.layout, block);
    tensor.buffer = memory_make(call->memories, call->dice, what->name, bytes, align_of(what->unit), what->role);
    spoil_layout(call, &tensor.layout);
    spoil_buffer(call, &tensor, what->role);
    return tensor;
}

struct clattn_tensor call_list(struct call *call, const char *name, int64_t count, enum memory_role role)
{
    return (struct clattn_tensor){.buffer = memory_make(call->memories, call->dice, name, 4 * (size_t)count, 4, role)};
}

static void choose_sizes(struct call *call)
{
    struct clattn_shape *sizes = &call->sizes;
    const bool packed = call->problem->features & CLATTN_VARLEN;
    *sizes = (struct clattn_shape){.batch = 1 + roll(call, 3), .heads = 1 + roll(call, 4)};
    sizes->n_q = roll(call, 10) ? 1 + roll(call, 50) : 0;
    sizes->n_kv = roll(call, 10) ? 1 + roll(call, 70) : 0;
    sizes->kv_heads = roll(call, 2) ? 0 : sizes->heads % 2 ? 1 : sizes->heads / 2;
    call->kv_heads = sizes->kv_heads ? sizes->kv_heads : sizes->heads;
    call->batch = packed ? 1 : sizes->batch;
    call->rows = packed ? roll(call, sizes->batch * sizes->n_q + 1) : sizes->n_q;
    const bool packed_keys = packed && !(call->problem->features & CLATTN_PAGES);
    call->keys = packed_keys ? roll(call, sizes->batch * sizes->n_kv + 1) : sizes->n_kv;
    call->total_keys = call->keys;
    call->first_key = 0;
    call->key_count = call->keys;
}

/* The chunk of keys that the tensors hold, where the pass takes one. */
static void choose_chunk(struct call *call)
{
    if (call->problem->pass < CLATTN_ACCUMULATE)
        return;
    call->first_key = roll(call, call->keys + 1);
    call->key_count = roll(call, call->keys - call->first_key + 1);
    call->keys = call->key_count;
    CALL_SPOIL(call, call->first_key);
    CALL_SPOIL(call, call->key_count);
}

static void say_shape(struct call *call)
{
    call->shape = call->sizes;
    CALL_SPOIL(call, call->shape.batch);
    CALL_SPOIL(call, call->shape.heads);
    CALL_SPOIL(call, call->shape.kv_heads);
    CALL_SPOIL(call, call->shape.n_q);
    CALL_SPOIL(call, call->shape.n_kv);
}

static cl_mem workspace_of(struct call *call, size_t *bytes)
{
    *bytes = 0;
    clattn_plan_workspace_bytes(call->plan, &call->sizes, bytes);
    if (*bytes && !roll(call, call->spoil_rate)) {
        --*bytes;
        call->spoilt++;
    }
    return *bytes ? memory_make(call->memories, call->dice, "workspace", *bytes, 16, MEMORY_SCRATCH) : NULL;
}

static clattn_status run_forward(struct call *call)
{
    const struct clattn_problem *problem = call->problem;
    struct clattn_forward_args args = {.score = call_score(call)};
    args.workspace = workspace_of(call, &args.workspace_bytes);
    args.q = call_rows(call, "q", problem->d, problem->q_type, MEMORY_INPUT);
    args.k = call_keys(call, "k", problem->d, problem->k_type, MEMORY_INPUT);
    args.v = call_keys(call, "v", call_d_v(call), problem->v_type, MEMORY_INPUT);
    args.o = call_rows(call, "o", call_d_v(call), problem->o_type, MEMORY_OUTPUT);
    if (roll(call, 2))
        args.lse = call_vector(call, "lse", MEMORY_OUTPUT);
    if (!roll(call, 3))
        args.m = call_vector(call, "m", MEMORY_OUTPUT);
    if (!roll(call, 3))
        args.l = call_vector(call, "l", MEMORY_OUTPUT);
    say_shape(call);
    args.shape = call->shape;
    return clattn_forward_enqueue(call->plan, call->queue, &args, 0, NULL, NULL);
}

static clattn_status run_backward(struct call *call)
{
    const struct clattn_problem *problem = call->problem;
    const struct clattn_shape *sizes = &call->sizes;
    const bool sums = problem->pass == CLATTN_BACKWARD_ACCUMULATE;
    struct clattn_backward_args args = {.score = call_score(call)};
    args.workspace = workspace_of(call, &args.workspace_bytes);
    args.q = call_rows(call, "q", problem->d, problem->q_type, MEMORY_INPUT);
    args.k = call_keys(call, "k", problem->d, problem->k_type, MEMORY_INPUT);
    args.v = call_keys(call, "v", call_d_v(call), problem->v_type, MEMORY_INPUT);
    args.o = call_rows(call, "o", call_d_v(call), problem->o_type, MEMORY_INPUT);
    args.d_o = call_rows(call, "d_o", call_d_v(call), CLATTN_AS_DTYPE, MEMORY_INPUT);
    args.lse = call_vector(call, "lse", MEMORY_INPUT);
    if (roll(call, 4))
        args.d_q = call_rows(call, "d_q", problem->d, sums ? CLATTN_AS_FP32 : problem->q_type, MEMORY_OUTPUT);
    if (roll(call, 4))
        args.d_k = call_keys(call, "d_k", problem->d, problem->k_type, MEMORY_OUTPUT);
    if (roll(call, 4))
        args.d_v = call_keys(call, "d_v", call_d_v(call), problem->v_type, MEMORY_OUTPUT);
    if (problem->features & CLATTN_BIAS && roll(call, 2)) {
        const struct call_tensor what = {"d_bias",
                                         {sizes->batch, sizes->heads, sizes->n_q, sizes->n_kv},
                                         sums ? 4 : clattn_dtype_size(problem->dtype),
                                         MEMORY_OUTPUT,
                                         .vector = false};
        args.d_bias = call_tensor(call, &what);
    }
    if (problem->features & CLATTN_SINKS && roll(call, 2))
        args.d_sinks = call_list(call, "d_sinks", sizes->heads, MEMORY_OUTPUT);
    say_shape(call);
    args.shape = call->shape;
    if (problem->pass == CLATTN_BACKWARD_ACCUMULATE) {
        args.first_key = call->first_key;
        args.key_count = call->key_count;
    }
    return clattn_backward_enqueue(call->plan, call->queue, &args, 0, NULL, NULL);
}

static cl_mem state_of(struct call *call, const char *name, size_t bytes)
{
    if (bytes && !roll(call, call->spoil_rate)) {
        bytes--;
        call->spoilt++;
    }
    return memory_make(call->memories, call->dice, name, bytes, 4, MEMORY_SCRATCH);
}

static clattn_status accumulate(struct call *call, cl_mem state, const struct clattn_score_args *score)
{
    struct clattn_accumulate_args args = {.shape = call->shape,
                                          .first_key = call->first_key,
                                          .key_count = call->key_count,
                                          .state = state,
                                          .score = *score};
    args.workspace = workspace_of(call, &args.workspace_bytes);
    args.q = call_rows(call, "q", call->problem->d, call->problem->q_type, MEMORY_INPUT);
    args.k = call_keys(call, "k", call->problem->d, call->problem->k_type, MEMORY_INPUT);
    args.v = call_keys(call, "v", call_d_v(call), call->problem->v_type, MEMORY_INPUT);
    return clattn_state_accumulate_enqueue(call->plan, call->queue, &args, 0, NULL, NULL);
}

static clattn_status merge(struct call *call, cl_mem state, size_t bytes)
{
    cl_mem other = state_of(call, "other state", bytes);
    const clattn_status status =
        clattn_state_begin_enqueue(call->plan, call->queue, &call->shape, other, 0, NULL, NULL);
    if (status)
        return status;
    if (!roll(call, call->spoil_rate)) {
        other = state;
        call->spoilt++;
    }
    return clattn_state_merge_enqueue(call->plan, call->queue, &call->shape, state, other, 0, NULL, NULL);
}

static clattn_status finish(struct call *call, cl_mem state, const struct clattn_score_args *score)
{
    struct clattn_finish_args args = {.shape = call->shape, .state = state, .score = *score};
    args.o = call_rows(call, "o", call_d_v(call), call->problem->o_type, MEMORY_OUTPUT);
    if (roll(call, 2))
        args.lse = call_vector(call, "lse", MEMORY_OUTPUT);
    if (!roll(call, 3))
        args.m = call_vector(call, "m", MEMORY_OUTPUT);
    if (!roll(call, 3))
        args.l = call_vector(call, "l", MEMORY_OUTPUT);
    return clattn_state_finish_enqueue(call->plan, call->queue, &args, 0, NULL, NULL);
}

static clattn_status run_state(struct call *call)
{
    const struct clattn_score_args score = call_score(call);
    size_t bytes = 0;
    say_shape(call);
    clattn_status status = clattn_state_bytes(call->plan, &call->shape, &bytes);
    if (status)
        return status;
    if (bytes > PAGED_STATE) /* a spoilt shape that is right, but large */
        return CLATTN_TOO_LARGE;
    cl_mem state = state_of(call, "state", bytes);
    status = clattn_state_begin_enqueue(call->plan, call->queue, &call->shape, state, 0, NULL, NULL);
    if (!status)
        status = accumulate(call, state, &score);
    if (!status)
        status = merge(call, state, bytes);
    return status ? status : finish(call, state, &score);
}

clattn_status call_run(struct call *call)
{
    call->spoilt = 0;
    call->spoil_rate = roll(call, 3) ? 400 : 40;
    choose_sizes(call);
    choose_chunk(call);
    if (call->problem->pass == CLATTN_FORWARD)
        return run_forward(call);
    return call->problem->pass == CLATTN_ACCUMULATE ? run_state(call) : run_backward(call);
}

void call_describe(const struct call *call, char *text, size_t size)
{
    const struct clattn_shape *shape = &call->shape, *sizes = &call->sizes;
    snprintf(text, size,
             "shape %lld %lld/%lld %lld x %lld, made for %lld %lld/%lld %lld x %lld, tensors %lld x %lld, chunk %lld + "
             "%lld, %d spoilt",
             (long long)shape->batch, (long long)shape->heads, (long long)shape->kv_heads, (long long)shape->n_q,
             (long long)shape->n_kv, (long long)sizes->batch, (long long)sizes->heads, (long long)sizes->kv_heads,
             (long long)sizes->n_q, (long long)sizes->n_kv, (long long)call->rows, (long long)call->keys,
             (long long)call->first_key, (long long)call->key_count, call->spoilt);
}
