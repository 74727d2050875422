/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/backward.h"
#include "attention/arguments.h"
#include "attention/forward.h"
#include "attention/score.h"
#include "attention/sums.h"
#include "attention/workspace.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/heads_together.h"
#include "plan/reserved.h"

/* A backward pass, checked. */
struct pass {
    struct cla_call call;
    struct cla_sums sums;
    struct cla_layout statistics;
    int b_r, b_c, chains;
    size_t groups[CLA_MOST_KERNELS]; /* 0: the kernel has nothing to do */
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
    return status ? status : cla_call_place_workspace(call, args->workspace, args->workspace_bytes, error);
}

clattn_status cla_backward_extend(const struct clattn_plan *plan, struct cla_call *call, struct cla_error *error)
{
    struct cla_sums sums;
    call->sums_byte = call->workspace_bytes;
    const clattn_status status = cla_sums_locate(plan, &call->shape, call->sums_byte, &sums, error);
    call->workspace_bytes = sums.end_byte;
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

/* Keys of one sequence that the call may have to do with. */
static int64_t most_keys(const struct cla_call *call)
{
    return call->key_count < call->shape.n_kv ? call->key_count : call->shape.n_kv;
}

/* A kernel that stays takes one block after the other. */
static size_t at_most(size_t groups, size_t most)
{
    return most && groups > most ? most : groups;
}

static clattn_status count_groups(const struct clattn_plan *plan, struct pass *pass, struct cla_error *error)
{
    const struct cla_operand *operands = pass->call.operands;
    const struct clattn_shape *shape = &pass->call.shape;
    const struct cla_sizes *d_bias = &operands[CLA_BIAS_GRAD].sizes;
    const int64_t row_blocks = cla_ceil_div(shape->n_q, plan->info.b_r);
    const int64_t key_blocks = cla_ceil_div(most_keys(&pass->call), plan->info.b_c);
    const int64_t bias_columns = cla_ceil_div(shape->n_kv, plan->info.b_c);
    const bool wants_keys = operands[CLA_D_K].end || operands[CLA_D_V].end;
    size_t key_groups = 0;
    clattn_status status = CLATTN_SUCCESS;
    if (operands[CLA_D_Q].end)
        status =
            cla_plan_groups(plan, shape->batch, shape->heads, row_blocks, "n_q / B_r", &pass->groups[CLA_DQ], error);
    if (!status && (wants_keys || (plan->sum_floats && operands[CLA_D_Q].end)))
        status = cla_plan_groups(plan, shape->batch, shape->kv_heads, key_blocks, "n_kv / B_c", &key_groups, error);
    pass->groups[CLA_DK_DV] = at_most(key_groups, plan->most_groups);
    pass->groups[CLA_ORDER] = plan->orders_blocks && key_groups ? (size_t)(shape->batch * shape->kv_heads) : 0;
    pass->groups[CLA_DK_DV_AGAIN] = wants_keys && plan->kernels->skeleton[CLA_DK_DV_AGAIN].kernel ? key_groups : 0;
    if (!status && operands[CLA_BIAS_GRAD].end) /* both counts are below 2^31 */
        status = cla_plan_groups(plan, d_bias->batch, d_bias->heads, row_blocks * bias_columns,
                                 "n_q / B_r x n_kv / B_c", &pass->groups[CLA_D_BIAS], error);
    if (!status)
        status =
            cla_rows_check(&plan->kernels->rows, &pass->call, plan->context->capabilities.address_bits == 32, error);
    return status;
}

/* Heads whose blocks of keys take turns, by what they read and add to. */
static int32_t heads_together(const struct pass *pass)
{
    const struct clattn_shape *shape = &pass->call.shape;
    const struct clattn_problem *problem = pass->call.problem;
    const int64_t share = shape->kv_heads ? shape->heads / shape->kv_heads : 0;
    const int64_t row_bytes = 2 * ((int64_t)problem->d + problem->d_v) + 4 * (int64_t)pass->chains * problem->d;
    struct cla_together work = {.heads = shape->batch * shape->kv_heads,
                                .blocks = cla_ceil_div(most_keys(&pass->call), pass->b_c),
                                .groups = (int64_t)pass->groups[CLA_DK_DV]};
    if (!cla_multiply(shape->n_q, share * row_bytes, &work.bytes))
        work.bytes = INT64_MAX;
    return cla_heads_together(&work);
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
                                        .sums = pass->sums.sums,
                                        .counters = pass->sums.counters,
                                        .flags = pass->sums.flags,
                                        .tickets = pass->sums.tickets,
                                        .maps = pass->sums.maps,
                                        .order = pass->sums.order,
                                        .batch = (int32_t)shape->batch,
                                        .heads = (int32_t)(shape->heads ? shape->heads : shape->kv_heads),
                                        .kv_heads = (int32_t)shape->kv_heads,
                                        .n_q = shape->heads ? (int32_t)shape->n_q : 0,
                                        .n_kv = (int32_t)most_keys(call),
                                        .scale = call->problem->scale,
                                        .scale_log2e = call->problem->scale * 1.44269504088896341f,
                                        .heads_together = heads_together(pass)};
}

/* The outputs of each kernel; -1: none. */
static const int outputs_of[CLA_MOST_KERNELS][2] = {[CLA_DQ] = {CLA_D_Q, -1},
                                                    [CLA_DK_DV] = {CLA_D_K, CLA_D_V},
                                                    [CLA_D_BIAS] = {CLA_BIAS_GRAD, -1},
                                                    [CLA_DK_DV_AGAIN] = {CLA_D_K, CLA_D_V},
                                                    [CLA_ORDER] = {-1, -1}};

static clattn_status launch(const struct clattn_plan *plan, struct cla_chain *chain, const struct pass *pass,
                            int number, struct cla_error *error)
{
    static const int inputs[] = {CLA_Q, CLA_K, CLA_V, CLA_D_O, CLA_WORKSPACE};
    const struct cla_operand *operands = pass->call.operands;
    const struct cla_backward_params params = params_of(pass);
    struct cla_argument arguments[9 + CLA_SCORE_ARGUMENTS];
    cl_uint count = 0;
    if (!pass->groups[number])
        return CLATTN_SUCCESS;
    cla_chain_next(chain);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const cl_mem *buffer = &operands[inputs[i]].buffer;
        arguments[count++] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    for (int i = 0; i < 2 && outputs_of[number][i] >= 0; i++) {
        const cl_mem *buffer = &operands[outputs_of[number][i]].buffer;
        arguments[count++] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    arguments[count++] = (struct cla_argument){sizeof params, &params};
    if (number == CLA_D_BIAS)
        arguments[count++] =
            (struct cla_argument){sizeof operands[CLA_BIAS_GRAD].layout, &operands[CLA_BIAS_GRAD].layout};
    count +=
        cla_score_arguments(&pass->call, plan->features, cla_problem_accumulates(&plan->problem), arguments + count);
    return cla_chain_launch(chain, &plan->kernels->skeleton[number], arguments, count, pass->groups[number],
                            (size_t)plan->work_group_sizes[number], error);
}

static clattn_status run(const struct clattn_plan *plan, struct cla_chain *chain, const struct pass *pass,
                         struct cla_error *error)
{
    struct cla_rows *rows = &plan->kernels->rows;
    clattn_status status = cla_rows_expand(rows, chain, &pass->call, error);
    cla_chain_next(chain);
    if (!status)
        status = cla_rows_statistics(rows, chain, &pass->call, &pass->statistics, &pass->sums.cleared, error);
    /* One after the other, each by itself enough for the device, so that the last one's event is the pass's. */
    if (!status)
        status = launch(plan, chain, pass, CLA_ORDER, error);
    if (!status)
        status = launch(plan, chain, pass, CLA_DK_DV, error);
    if (!status)
        status = launch(plan, chain, pass, CLA_DK_DV_AGAIN, error);
    if (!status)
        status = launch(plan, chain, pass, CLA_DQ, error);
    if (!status)
        status = launch(plan, chain, pass, CLA_D_BIAS, error);
    if (status || !pass->call.operands[CLA_SINKS_GRAD].end)
        return status;
    cla_chain_next(chain);
    return cla_rows_d_sinks(rows, chain, &pass->call, &pass->statistics, error);
}

clattn_status cla_backward_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                                   const struct clattn_backward_args *args, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event, struct cla_error *error)
{
    struct pass pass = {.b_r = plan->info.b_r, .b_c = plan->info.b_c, .chains = plan->chains};
    struct cla_chain chain;
    clattn_status status =
        cla_backward_arguments(&plan->problem, plan->features, plan, CLA_BUFFERS, args, &pass.call, error);
    if (!status)
        status = cla_sums_locate(plan, &pass.call.shape, pass.call.sums_byte, &pass.sums, error);
    if (!status)
        status = count_groups(plan, &pass, error);
    if (!status)
        status = cla_enqueue_checks(plan, queue, &pass.call, wait_count, wait_list, error);
    if (status)
        return status;
    pass.statistics = statistics_layout(&pass.call);
    cla_chain_start(&chain, queue, wait_count, wait_list, args->first_event);
    status = run(plan, &chain, &pass, error);
    if (!status)
        status = cla_chain_event(&chain, event, error);
    cla_chain_finish(&chain, status);
    return status;
}

clattn_status clattn_backward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                      const struct clattn_backward_args *args, cl_uint wait_count,
                                      const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const bool chunks = plan && plan->problem.pass == CLATTN_BACKWARD_ACCUMULATE;
    clattn_status status = cla_plan_check_pass(plan, chunks ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD,
                                               "clattn_backward_enqueue", &error);
    if (!status)
        status = cla_backward_enqueue(plan, queue, args, wait_count, wait_list, event, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
