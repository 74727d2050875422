/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/backward.h"
#include "attention/arguments.h"
#include "attention/forward.h"
#include "attention/score.h"
#include "attention/stages.h"
#include "attention/workspace.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"

/* A backward pass, checked. */
struct pass {
    struct cla_call call;
    struct cla_recipe recipe;
    struct cla_layout statistics;
};

static clattn_status refuse_without(const char *name, const char *feature, struct cla_error *error)
{
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s.buffer is given, and the problem has no %s: it must be NULL then", name, feature);
}

/* A stride of 0 stands for a sum over that dimension. */
static clattn_status place_d_bias(struct cla_call *call, const struct clattn_tensor *tensor, struct cla_error *error)
{
    const struct clattn_layout *layout = &tensor->layout;
    struct cla_sizes *sizes = &call->operands[CLA_BIAS_GRAD].sizes;
    if (!tensor->buffer)
        return CLATTN_SUCCESS;
    if (!(call->features & CLATTN_BIAS))
        return refuse_without("d_bias", "CLATTN_BIAS", error);
    if (!cla_layout_is_default(layout)) {
        sizes->batch = !layout->batch && sizes->batch ? 1 : sizes->batch;
        sizes->heads = !layout->head && sizes->heads ? 1 : sizes->heads;
        sizes->rows = !layout->row && sizes->rows ? 1 : sizes->rows;
    }
    return cla_call_place(call, CLA_BIAS_GRAD, tensor, CLA_OUTPUT, error);
}

static clattn_status place_d_sinks(struct cla_call *call, const struct clattn_tensor *tensor, struct cla_error *error)
{
    if (!tensor->buffer)
        return CLATTN_SUCCESS;
    if (!(call->features & CLATTN_SINKS))
        return refuse_without("d_sinks", "CLATTN_SINKS", error);
    return cla_call_place(call, CLA_SINKS_GRAD, tensor, CLA_OUTPUT, error);
}

/* What the forward pass tells of its softmax: m and l, which are exact, or LSE alone. */
static clattn_status place_softmax(struct cla_call *call, const struct clattn_backward_args *args,
                                   struct cla_error *error)
{
    const struct clattn_tensor *m = &args->m, *l = &args->l, *lse = &args->lse;
    const bool needed = call->source != CLA_LAYOUTS && call->operands[CLA_O].end;
    const char *suffix = call->source == CLA_ARRAYS ? "" : ".buffer";
    if (!m->buffer != !l->buffer)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s%s is given and %s%s is NULL: m and l are given together, or LSE alone",
                        m->buffer ? "m" : "l", suffix, m->buffer ? "l" : "m", suffix);
    if (m->buffer) {
        const clattn_status status = cla_call_place(call, CLA_M, m, CLA_INPUT, error);
        return status ? status : cla_call_place(call, CLA_L, l, CLA_INPUT, error);
    }
    if (!lse->buffer && needed)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "lse%s is NULL, and so are m and l: it must be what the forward pass gave, or these two must",
                        suffix);
    return cla_call_place(call, CLA_LSE, lse, CLA_INPUT, error);
}

static clattn_status place_tensors(struct cla_call *call, const struct clattn_backward_args *args,
                                   struct cla_error *error)
{
    const struct {
        int which, how;
        const struct clattn_tensor *tensor;
    } tensors[] = {{CLA_Q, CLA_INPUT, &args->q},
                   {CLA_K, CLA_INPUT, &args->k},
                   {CLA_V, CLA_INPUT, &args->v},
                   {CLA_O, CLA_INPUT, &args->o},
                   {CLA_D_O, CLA_INPUT, &args->d_o},
                   {CLA_D_Q, CLA_OUTPUT | CLA_OPTIONAL, &args->d_q},
                   {CLA_D_K, CLA_OUTPUT | CLA_OPTIONAL, &args->d_k},
                   {CLA_D_V, CLA_OUTPUT | CLA_OPTIONAL, &args->d_v}};
    clattn_status status = CLATTN_SUCCESS;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && !status; i++)
        status = cla_call_place(call, tensors[i].which, tensors[i].tensor, tensors[i].how, error);
    if (!status)
        status = place_softmax(call, args, error);
    if (!status)
        status = place_d_bias(call, &args->d_bias, error);
    return status ? status : place_d_sinks(call, &args->d_sinks, error);
}

/* What k and v hold; what sums over chunks of keys does so in float. */
static clattn_status place_chunk(struct cla_call *call, const struct clattn_backward_args *args,
                                 struct cla_error *error)
{
    if (cla_problem_accumulates(call->problem)) {
        call->operands[CLA_D_Q].element_bytes = call->operands[CLA_BIAS_GRAD].element_bytes = sizeof(float);
        return cla_call_take_chunk(call, args->first_key, args->key_count, error);
    }
    if (args->first_key || args->key_count)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "first_key is %lld and key_count %lld: chunks of keys need a plan whose problem.pass is "
                        "CLATTN_BACKWARD_ACCUMULATE, else both are 0",
                        (long long)args->first_key, (long long)args->key_count);
    return CLATTN_SUCCESS;
}

static clattn_status place_workspace(struct cla_call *call, const struct clattn_plan *plan,
                                     const struct clattn_backward_args *args, struct cla_error *error)
{
    const clattn_status status = plan ? cla_backward_extend(plan, call, error) : CLATTN_SUCCESS;
    const struct cla_bytes given = {args->workspace, args->workspace_memory, args->workspace_bytes};
    return status ? status : cla_call_place_workspace(call, given, error);
}

clattn_status cla_backward_extend(const struct clattn_plan *plan, struct cla_call *call, struct cla_error *error)
{
    struct cla_recipe recipe;
    call->recipe_byte = call->workspace_bytes;
    const clattn_status status = cla_recipe_make(plan, &call->shape, call, call->recipe_byte, &recipe, error);
    call->workspace_bytes = recipe.end_byte;
    return status;
}

clattn_status cla_backward_arguments(const struct clattn_problem *problem, unsigned features,
                                     const struct clattn_plan *plan, enum cla_source source,
                                     const struct clattn_backward_args *args, struct cla_call *call,
                                     struct cla_error *error)
{
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_backward_args");
    clattn_status status = cla_check_reserved(&cla_struct_backward_args, "args", args, error);
    if (status)
        return status;
    status = cla_call_begin(call, problem, features, source, &args->shape, &args->score, error);
    call->empty = false; /* without rows there are still gradients, of 0 */
    if (!status)
        status = place_chunk(call, args, error);
    if (!status)
        status = place_tensors(call, args, error);
    if (!status)
        status = cla_statistics_bytes(&call->shape, &call->workspace_bytes, error);
    if (!status)
        status = cla_score_place(call, &args->score, error);
    if (!status)
        status = place_workspace(call, plan, args, error);
    return status ? status : cla_check_overlap(call, error);
}

/* Statistics lie row after row, as a dense LSE does. */
static struct cla_layout statistics_layout(const struct cla_call *call)
{
    const struct clattn_shape *shape = &call->shape;
    if (call->features & CLATTN_VARLEN)
        return (struct cla_layout){.head = CLA_STATISTICS * (int64_t)call->score.total_q, .row = CLA_STATISTICS};
    return (struct cla_layout){.batch = CLA_STATISTICS * shape->heads * shape->n_q,
                               .head = CLA_STATISTICS * shape->n_q,
                               .row = CLA_STATISTICS};
}

/* Without query heads the gradients of K and V are those of heads without rows, of which the kernels know. */
static struct cla_backward_params params_of(const struct pass *pass)
{
    const struct cla_call *call = &pass->call;
    const struct cla_operand *operands = call->operands;
    const struct clattn_shape *shape = &call->shape;
    return (struct cla_backward_params){.q = operands[CLA_Q].layout,
                                        .k = operands[CLA_K].layout,
                                        .v = operands[CLA_V].layout,
                                        .d_o = operands[CLA_D_O].layout,
                                        .d_q = operands[CLA_D_Q].layout,
                                        .d_k = operands[CLA_D_K].layout,
                                        .d_v = operands[CLA_D_V].layout,
                                        .statistics = pass->statistics,
                                        .batch = (int32_t)shape->batch,
                                        .heads = (int32_t)(shape->heads ? shape->heads : shape->kv_heads),
                                        .kv_heads = (int32_t)shape->kv_heads,
                                        .n_q = shape->heads ? (int32_t)shape->n_q : 0,
                                        .n_kv =
                                            (int32_t)(call->key_count < shape->n_kv ? call->key_count : shape->n_kv),
                                        .scale = call->problem->scale,
                                        .scale_log2e = call->problem->scale * 1.44269504088896341f};
}

/* One after the other, each by itself enough for the device, so that the last one's event is the pass's. */
static clattn_status run(const struct clattn_plan *plan, struct cla_chain *chain, const struct pass *pass,
                         struct cla_error *error)
{
    struct cla_rows *rows = &plan->kernels->rows;
    const struct cla_words zeroed = cla_recipe_zeroed(&pass->recipe);
    struct cla_backward_params params = params_of(pass);
    clattn_status status = cla_rows_expand(rows, chain, &pass->call, error);
    cla_chain_next(chain);
    if (!status)
        status = cla_rows_statistics(rows, chain, &pass->call, &pass->statistics, &zeroed, error);
    cla_recipe_tell(&pass->recipe, &params);
    const struct cla_stage_call of = {.call = &pass->call, .block = &params, .block_bytes = sizeof params};
    if (!status)
        status = cla_stages_run(plan, chain, &pass->recipe, &of, error);
    if (status || !pass->call.operands[CLA_SINKS_GRAD].end)
        return status;
    cla_chain_next(chain);
    return cla_rows_d_sinks(rows, chain, &pass->call, &pass->statistics, error);
}

clattn_status cla_backward_dispatch(const struct clattn_plan *plan, const struct clattn_backward_args *args,
                                    const struct cla_dispatch *to, struct cla_error *error)
{
    struct pass pass;
    struct cla_chain chain;
    clattn_status status =
        cla_backward_arguments(&plan->problem, plan->features, plan, CLA_BUFFERS, args, &pass.call, error);
    if (!status)
        status = cla_recipe_make(plan, &pass.call.shape, &pass.call, pass.call.recipe_byte, &pass.recipe, error);
    if (!status)
        status = cla_stages_count(plan, &pass.recipe, error);
    if (!status)
        status =
            cla_rows_check(&plan->kernels->rows, &pass.call, plan->context->capabilities.address_bits == 32, error);
    if (!status)
        status = cla_dispatch_checks(plan->context, to, &pass.call, error);
    if (status)
        return status;
    pass.statistics = statistics_layout(&pass.call);
    cla_chain_start(&chain, to, args->first_event);
    status = run(plan, &chain, &pass, error);
    if (!status)
        status = cla_chain_event(&chain, error);
    cla_chain_finish(&chain, status);
    return status;
}

clattn_status clattn_backward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                      const struct clattn_backward_args *args, cl_uint wait_count,
                                      const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    const bool chunks = plan && plan->problem.pass == CLATTN_BACKWARD_ACCUMULATE;
    clattn_status status = cla_plan_check_pass(plan, chunks ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD,
                                               "clattn_backward_enqueue", &error);
    if (!status)
        status = cla_backward_dispatch(plan, args, &to, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
