/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/state.h"
#include "attention/arguments.h"
#include "attention/forward.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"

static clattn_status place_state(struct cla_call *call, int which, struct cla_bytes given, bool output,
                                 struct cla_state_places *places, struct cla_error *error)
{
    const clattn_status status = cla_state_locate(call->problem->d_v, &call->shape, 1, places, error);
    if (status)
        return status;
    given.bytes = (size_t)places->end * sizeof(float);
    return cla_call_place_bytes(call, which, given, output, error);
}

/* A call on states alone: no tensors, no score modifications. */
static clattn_status begin_call(const struct clattn_plan *plan, const struct clattn_shape *shape, struct cla_call *call,
                                struct cla_error *error)
{
    if (!shape)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "shape is NULL: it must point to a struct clattn_shape");
    return cla_call_begin(call, &plan->problem, 0, CLA_BUFFERS, shape, NULL, error);
}

static clattn_status last_checks(const struct clattn_plan *plan, const struct cla_dispatch *to, struct cla_call *call,
                                 struct cla_error *error)
{
    clattn_status status =
        cla_rows_check(&plan->kernels->rows, call, plan->context->capabilities.address_bits == 32, error);
    if (!status)
        status = cla_check_overlap(call, error);
    return status ? status : cla_dispatch_checks(plan->context, to, call, error);
}

clattn_status cla_state_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                              struct cla_error *error)
{
    struct cla_call call;
    struct cla_state_places places = {0};
    if (!bytes)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "bytes is NULL: it must point to the size_t to be set");
    clattn_status status = begin_call(plan, shape, &call, error);
    if (!status)
        status = cla_state_locate(plan->problem.d_v, &call.shape, 1, &places, error);
    if (!status)
        *bytes = (size_t)places.end * sizeof(float);
    return status;
}

typedef clattn_status (*rows_function)(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                                       const struct cla_state_places *places, struct cla_error *error);

static clattn_status results(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                             const struct cla_state_places *places, struct cla_error *error)
{
    return cla_rows_results(rows, chain, call, CLA_STATE, places, error);
}

/* One kernel that goes over rows, or a marker where there are none. */
static clattn_status launch(const struct clattn_plan *plan, const struct cla_dispatch *to, rows_function function,
                            const struct cla_call *call, const struct cla_state_places *places, struct cla_error *error)
{
    struct cla_chain chain;
    cla_chain_start(&chain, to, NULL);
    clattn_status status = call->empty ? CLATTN_SUCCESS : function(&plan->kernels->rows, &chain, call, places, error);
    if (!status)
        status = cla_chain_event(&chain, error);
    cla_chain_finish(&chain, status);
    return status;
}

clattn_status cla_state_begin(const struct clattn_plan *plan, const struct clattn_shape *shape, struct cla_bytes state,
                              const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_state_places places = {0};
    clattn_status status = begin_call(plan, shape, &call, error);
    if (!status)
        status = place_state(&call, CLA_STATE, state, true, &places, error);
    if (!status)
        status = last_checks(plan, to, &call, error);
    return status ? status : launch(plan, to, cla_rows_begin, &call, &places, error);
}

clattn_status cla_state_merge(const struct clattn_plan *plan, const struct clattn_shape *shape, struct cla_bytes into,
                              struct cla_bytes from, const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_state_places places = {0};
    clattn_status status = begin_call(plan, shape, &call, error);
    if (status)
        return status;
    if (!into.buffer && !call.empty)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "into is NULL: it must be the cl_mem of a state");
    if (into.buffer && into.buffer == from.buffer)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "from is the same %s as into: a state cannot be merged with itself",
                        into.memory ? "address" : "cl_mem");
    status = place_state(&call, CLA_STATE, into, true, &places, error);
    if (!status)
        status = place_state(&call, CLA_FROM, from, false, &places, error);
    if (!status)
        status = last_checks(plan, to, &call, error);
    return status ? status : launch(plan, to, cla_rows_merge, &call, &places, error);
}

static clattn_status place_chunk(const struct clattn_plan *plan, const struct clattn_accumulate_args *args,
                                 struct cla_call *call, struct cla_state_places *places, struct cla_error *error)
{
    clattn_status status = cla_check_reserved(&cla_struct_accumulate_args, "args", args, error);
    if (!status)
        status = cla_call_begin(call, &plan->problem, plan->features, CLA_BUFFERS, &args->shape, &args->score, error);
    if (!status)
        status = cla_call_take_chunk(call, args->first_key, args->key_count, error);
    if (!status)
        status = cla_call_place(call, CLA_Q, &args->q, CLA_INPUT, error);
    if (!status)
        status = cla_call_place(call, CLA_K, &args->k, CLA_INPUT, error);
    if (!status)
        status = cla_call_place(call, CLA_V, &args->v, CLA_INPUT, error);
    if (!status)
        status =
            place_state(call, CLA_STATE, (struct cla_bytes){args->state, args->state_memory, 0}, true, places, error);
    const struct cla_bytes workspace = {args->workspace, args->workspace_memory, args->workspace_bytes};
    return status ? status : cla_call_place_rest(call, &args->score, workspace, error);
}

clattn_status cla_state_accumulate(const struct clattn_plan *plan, const struct clattn_accumulate_args *args,
                                   const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_state_places places = {0};
    struct cla_recipe recipe;
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "args is NULL: it must point to a struct clattn_accumulate_args");
    clattn_status status = place_chunk(plan, args, &call, &places, error);
    if (!status)
        status = cla_recipe_make(plan, &call.shape, &call, 0, &recipe, error);
    if (!status)
        status = cla_stages_count(plan, &recipe, error);
    if (!status)
        status = last_checks(plan, to, &call, error);
    if (status)
        return status;
    if (call.empty || !call.key_count)
        return cla_chain_nothing(to, args->first_event, error);
    call.first_event = args->first_event;
    cla_point_into_states(&call, CLA_STATE, &places);
    return cla_forward_launch(plan, to, &call, &recipe, error);
}

static clattn_status place_results(const struct clattn_plan *plan, const struct clattn_finish_args *args,
                                   struct cla_call *call, struct cla_state_places *places, struct cla_error *error)
{
    /* What finishing depends on, and no keys: a kernel's view of the head wants their numbers, but uses none. */
    const struct clattn_score_args *given = &args->score;
    const unsigned features = plan->features & CLA_FINISH_FEATURES;
    struct clattn_score_args score = {0};
    struct clattn_shape shape = args->shape;
    if (features & CLATTN_SINKS)
        score.sinks = given->sinks;
    if (features & CLATTN_QUERY_LENGTHS) {
        score.query_lengths = given->query_lengths;
        score.query_lengths_offset = given->query_lengths_offset;
        score.query_lengths_memory = given->query_lengths_memory;
    }
    if (features & CLATTN_DROPOUT)
        score.dropout_p = given->dropout_p;
    if (features & CLATTN_VARLEN) {
        score.cu_seqlens_q = score.cu_seqlens_kv = given->cu_seqlens_q;
        score.total_q = score.total_kv = given->total_q;
        shape.n_kv = shape.n_q;
    }
    clattn_status status = cla_check_reserved(&cla_struct_finish_args, "args", args, error);
    if (!status)
        status = cla_call_begin(call, &plan->problem, features, CLA_BUFFERS, &shape, &score, error);
    if (!status)
        status =
            place_state(call, CLA_STATE, (struct cla_bytes){args->state, args->state_memory, 0}, false, places, error);
    if (!status)
        status = cla_call_place(call, CLA_O, &args->o, CLA_OUTPUT, error);
    if (!status)
        status = cla_call_place(call, CLA_LSE, &args->lse, CLA_OUTPUT | CLA_OPTIONAL, error);
    if (!status)
        status = cla_call_place(call, CLA_M, &args->m, CLA_OUTPUT | CLA_OPTIONAL, error);
    if (!status)
        status = cla_call_place(call, CLA_L, &args->l, CLA_OUTPUT | CLA_OPTIONAL, error);
    return status ? status : cla_score_place(call, &score, error);
}

clattn_status cla_state_finish(const struct clattn_plan *plan, const struct clattn_finish_args *args,
                               const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_state_places places = {0};
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_finish_args");
    clattn_status status = place_results(plan, args, &call, &places, error);
    if (!status)
        status = last_checks(plan, to, &call, error);
    return status ? status : launch(plan, to, results, &call, &places, error);
}

/* The public functions: the plan, then the report. */

static clattn_status report(const struct clattn_plan *plan, clattn_status status, const struct cla_error *error)
{
    return status ? cla_report(plan ? &plan->context->log : NULL, error) : CLATTN_SUCCESS;
}

clattn_status clattn_state_bytes(const clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes)
{
    struct cla_error error;
    clattn_status status = cla_plan_check_pass(plan, CLATTN_ACCUMULATE, "clattn_state_bytes", &error);
    if (!status)
        status = cla_state_bytes(plan, shape, bytes, &error);
    return report(plan, status, &error);
}

static clattn_status begin_from(const char *function, const clattn_plan *plan, cl_command_queue queue,
                                const struct clattn_shape *shape, struct cla_bytes state, cl_uint wait_count,
                                const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    clattn_status status = cla_plan_check_pass(plan, CLATTN_ACCUMULATE, function, &error);
    if (!status)
        status = cla_state_begin(plan, shape, state, &to, &error);
    return report(plan, status, &error);
}

clattn_status clattn_state_begin_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                         const struct clattn_shape *shape, cl_mem state, cl_uint wait_count,
                                         const cl_event *wait_list, cl_event *event)
{
    return begin_from(__func__, plan, queue, shape, (struct cla_bytes){state, CLATTN_BUFFER, 0}, wait_count, wait_list,
                      event);
}

clattn_status clattn_state_begin_memory_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                const struct clattn_shape *shape, cl_mem state,
                                                enum clattn_memory state_memory, cl_uint wait_count,
                                                const cl_event *wait_list, cl_event *event)
{
    return begin_from(__func__, plan, queue, shape, (struct cla_bytes){state, state_memory, 0}, wait_count, wait_list,
                      event);
}

clattn_status clattn_state_accumulate_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                              const struct clattn_accumulate_args *args, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    clattn_status status = cla_plan_check_pass(plan, CLATTN_ACCUMULATE, "clattn_state_accumulate_enqueue", &error);
    if (!status)
        status = cla_state_accumulate(plan, args, &to, &error);
    return report(plan, status, &error);
}

static clattn_status merge_from(const char *function, const clattn_plan *plan, cl_command_queue queue,
                                const struct clattn_shape *shape, struct cla_bytes into, struct cla_bytes from,
                                cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    clattn_status status = cla_plan_check_pass(plan, CLATTN_ACCUMULATE, function, &error);
    if (!status)
        status = cla_state_merge(plan, shape, into, from, &to, &error);
    return report(plan, status, &error);
}

clattn_status clattn_state_merge_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                         const struct clattn_shape *shape, cl_mem into, cl_mem from, cl_uint wait_count,
                                         const cl_event *wait_list, cl_event *event)
{
    return merge_from(__func__, plan, queue, shape, (struct cla_bytes){into, CLATTN_BUFFER, 0},
                      (struct cla_bytes){from, CLATTN_BUFFER, 0}, wait_count, wait_list, event);
}

clattn_status clattn_state_merge_memory_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                const struct clattn_shape *shape, cl_mem into,
                                                enum clattn_memory into_memory, cl_mem from,
                                                enum clattn_memory from_memory, cl_uint wait_count,
                                                const cl_event *wait_list, cl_event *event)
{
    return merge_from(__func__, plan, queue, shape, (struct cla_bytes){into, into_memory, 0},
                      (struct cla_bytes){from, from_memory, 0}, wait_count, wait_list, event);
}

clattn_status clattn_state_finish_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                          const struct clattn_finish_args *args, cl_uint wait_count,
                                          const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    clattn_status status = cla_plan_check_pass(plan, CLATTN_ACCUMULATE, "clattn_state_finish_enqueue", &error);
    if (!status)
        status = cla_state_finish(plan, args, &to, &error);
    return report(plan, status, &error);
}
