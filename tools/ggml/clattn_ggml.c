/* SPDX-License-Identifier: BSD-2-Clause */
#include "clattn_ggml.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, MASK, SINKS, RESULT, OPERANDS, SLOPES = OPERANDS, BUFFERS };

/* The tensors of a node, and where they lie. */
struct call {
    const struct ggml_tensor *of[OPERANDS]; /* NULL: left out */
    struct clattn_tensor at[OPERANDS];
    cl_mem made[BUFFERS]; /* buffers of this call's own */
    struct ggml_tensor expanded[2];
    float scale, max_bias, softcap;
};

static const struct {
    enum ggml_type ggml;
    enum clattn_operand_type clattn;
} types[] = {{GGML_TYPE_F32, CLATTN_AS_FP32},
             {GGML_TYPE_F16, CLATTN_AS_FP16},
             {GGML_TYPE_BF16, CLATTN_AS_BF16},
             {GGML_TYPE_Q8_0, CLATTN_AS_Q8_0},
             {GGML_TYPE_Q4_0, CLATTN_AS_Q4_0}};

static clattn_status check(struct clattn_ggml *ggml, clattn_status status, const char *what)
{
    if (status)
        ggml->message = what;
    return status;
}

/* CLATTN_AS_DTYPE: there is none such, or no tensor. */
static enum clattn_operand_type type_of(const struct ggml_tensor *tensor)
{
    for (size_t i = 0; tensor && i < sizeof types / sizeof *types; i++)
        if (types[i].ggml == tensor->type)
            return types[i].clattn;
    return CLATTN_AS_DTYPE;
}

static struct call read_node(const struct ggml_tensor *node)
{
    struct call call = {.of = {[RESULT] = node}};
    memcpy(call.of, node->src, RESULT * sizeof *call.of);
    float numbers[3];
    memcpy(numbers, node->op_params, sizeof numbers);
    call.scale = numbers[0];
    call.max_bias = node->src[MASK] ? numbers[1] : 0; /* it is about the mask */
    call.softcap = fabsf(numbers[2]);                 /* softcap * tanh(s / softcap) is even in it */
    return call;
}

/* Elements in so many bytes; -1: they are no whole number of elements, or of blocks. */
static int64_t elements(const struct ggml_tensor *tensor, size_t bytes)
{
    const size_t unit = ggml_type_size(tensor->type);
    return bytes % unit ? -1 : (int64_t)(bytes / unit) * ggml_blck_size(tensor->type);
}

/* ggml's dimensions are columns, rows, heads, batch; of the result columns, heads, rows, batch; of sinks heads. */
static struct clattn_layout layout_of(const struct ggml_tensor *tensor, int which)
{
    const int row = which == RESULT ? 2 : 1, head = which == RESULT ? 1 : which == SINKS ? 0 : 2;
    return (struct clattn_layout){.column = elements(tensor, tensor->nb[0]) / ggml_blck_size(tensor->type),
                                  .row = elements(tensor, tensor->nb[row]),
                                  .head = elements(tensor, tensor->nb[head]),
                                  .batch = elements(tensor, tensor->nb[3]),
                                  .strided = 1};
}

const char *clattn_ggml_refusal(const struct ggml_tensor *node, bool on_device)
{
    const struct call call = read_node(node);
    if (node->op != GGML_OP_FLASH_ATTN_EXT || !call.of[Q] || !call.of[K] || !call.of[V])
        return "the node is no GGML_OP_FLASH_ATTN_EXT";
    if (call.of[K]->ne[0] > CLATTN_MAX_LATENT_D || call.of[V]->ne[0] > CLATTN_MAX_D)
        return "k has more than 576 columns, or v more than 512";
    for (int i = 0; i < OPERANDS; i++) {
        const struct ggml_tensor *tensor = call.of[i];
        const bool keys = i == K || i == V;
        if (!tensor || (keys && !type_of(tensor) && !on_device && ggml_get_type_traits(tensor->type)->to_float))
            continue;
        if (!type_of(tensor) || (!keys && ggml_blck_size(tensor->type) > 1))
            return "q, mask and the result are f32, f16 or bf16; k and v these, q8_0 or q4_0";
        const struct clattn_layout layout = layout_of(tensor, i);
        if (layout.column < 0 || layout.row < 0 || layout.head < 0 || layout.batch < 0)
            return "a stride is no whole number of elements, or of blocks";
    }
    return NULL;
}

static struct clattn_problem problem_of(const struct call *call)
{
    struct clattn_problem problem;
    memset(&problem, 0, sizeof problem); /* its bytes are compared */
    problem.d = (int)call->of[K]->ne[0];
    problem.d_v = (int)call->of[V]->ne[0];
    problem.scale = call->scale != 0 ? call->scale : FLT_MIN; /* 0 would be the default; this makes scores 0 */
    problem.features = (call->of[MASK] ? CLATTN_BIAS : 0u) | (call->softcap > 0 ? CLATTN_SOFTCAP : 0u) |
                       (call->of[SINKS] ? CLATTN_SINKS : 0u) | (call->max_bias > 0 ? CLATTN_BIAS_SLOPES : 0u);
    problem.bias_type = type_of(call->of[MASK]);
    problem.q_type = type_of(call->of[Q]);
    problem.k_type = type_of(call->of[K]);
    problem.v_type = type_of(call->of[V]);
    problem.o_type = type_of(call->of[RESULT]);
    problem.splits = CLATTN_SPLITS_BY_SHAPE;
    return problem;
}

static clattn_status find_plan(struct clattn_ggml *ggml, const struct clattn_problem *problem, const clattn_plan **plan)
{
    for (int i = 0; i < CLATTN_GGML_PLANS; i++) {
        *plan = ggml->plans[i];
        if (*plan && !memcmp(&ggml->problems[i], problem, sizeof *problem))
            return CLATTN_SUCCESS;
    }
    clattn_plan **const oldest = &ggml->plans[ggml->next_plan++ % CLATTN_GGML_PLANS];
    clattn_plan_destroy(oldest);
    const clattn_status status = clattn_plan_create(oldest, ggml->context, problem);
    ggml->problems[oldest - ggml->plans] = *problem;
    *plan = *oldest;
    return check(ggml, status, clattn_error_message());
}

/* Commands run in order, so that one workspace suffices; those that still use the old one keep it. */
static clattn_status grow_workspace(struct clattn_ggml *ggml, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    if (bytes <= ggml->workspace_bytes)
        return CLATTN_SUCCESS;
    if (ggml->workspace)
        clReleaseMemObject(ggml->workspace);
    ggml->workspace = clCreateBuffer(ggml->cl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    ggml->workspace_bytes = code ? 0 : bytes;
    return check(ggml, code, "there is no memory for a workspace");
}

/* An operand begins at this byte. The library counts elements: where blocks do not come out even, a sub-buffer begins
 * some blocks before, where the device lets one begin. */
static clattn_status put(struct clattn_ggml *ggml, struct call *call, int which, cl_mem buffer, size_t offset)
{
    const struct ggml_tensor *tensor = call->of[which];
    const size_t unit = ggml_type_size(tensor->type);
    size_t origin = offset % unit ? offset : 0;
    cl_uint bits = 8;
    cl_int code = clGetDeviceInfo(ggml->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    while (origin % (bits / 8) && origin >= unit)
        origin -= unit;
    if (origin && !code) {
        const cl_buffer_region region = {origin, offset - origin + ggml_nbytes(tensor)};
        buffer = call->made[which] = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    }
    call->at[which] = (struct clattn_tensor){buffer, layout_of(tensor, which)};
    call->at[which].layout.offset = elements(tensor, offset - origin);
    return check(ggml, code, "no sub-buffer can begin at k's or v's place, or some blocks before");
}

/* The tensor from this batch element and head on. Heads of k and v are each shared by some that follow each other; the
 * mask's dimensions are gone through again and again. */
static struct clattn_tensor from(const struct call *call, int which, int64_t b, int64_t h)
{
    struct clattn_tensor part = call->at[which];
    const struct ggml_tensor *tensor = call->of[which];
    if (tensor && which == MASK) {
        b %= tensor->ne[3];
        h %= tensor->ne[2];
        part.layout.batch *= tensor->ne[3] > 1;
        part.layout.head *= tensor->ne[2] > 1;
    }
    if (which == K || which == V)
        h /= call->of[Q]->ne[2] / tensor->ne[2];
    part.layout.offset += b * part.layout.batch + h * part.layout.head;
    return part;
}

static clattn_status enqueue_part(struct clattn_ggml *ggml, const struct call *call, const clattn_plan *plan,
                                  const struct clattn_shape *shape, int64_t b, int64_t h)
{
    struct clattn_forward_args args = {.shape = *shape,
                                       .q = from(call, Q, b, h),
                                       .k = from(call, K, b, h),
                                       .v = from(call, V, b, h),
                                       .o = from(call, RESULT, b, h),
                                       .score = {.softcap = call->softcap,
                                                 .bias = from(call, MASK, b, h),
                                                 .sinks = from(call, SINKS, b, h),
                                                 .bias_slopes = call->made[SLOPES],
                                                 .bias_slopes_offset = call->made[SLOPES] ? h : 0}};
    clattn_status status = clattn_plan_workspace_bytes(plan, shape, &args.workspace_bytes);
    if (!status && (status = grow_workspace(ggml, args.workspace_bytes)))
        return status;
    args.workspace = ggml->workspace;
    args.workspace_bytes = ggml->workspace_bytes;
    if (!status)
        status = clattn_forward_enqueue(plan, ggml->queue, &args, 0, NULL, NULL);
    return check(ggml, status, clattn_error_message());
}

/* As one call, or where mask or values are shared otherwise than the library knows it, one for each batch element or
 * head. */
static clattn_status enqueue_placed(struct clattn_ggml *ggml, const struct call *call)
{
    const struct ggml_tensor *q = call->of[Q], *k = call->of[K], *mask = call->of[MASK] ? call->of[MASK] : q;
    const bool together = k->ne[2] == call->of[V]->ne[2] && (mask->ne[2] == 1 || mask->ne[2] == q->ne[2]);
    const struct clattn_shape shape = {.batch = mask->ne[3] == 1 || mask->ne[3] == q->ne[3] ? q->ne[3] : 1,
                                       .heads = together ? q->ne[2] : 1,
                                       .kv_heads = together ? k->ne[2] : 1,
                                       .n_q = q->ne[1],
                                       .n_kv = k->ne[1]};
    const struct clattn_problem problem = problem_of(call);
    const clattn_plan *plan = NULL;
    clattn_status status = find_plan(ggml, &problem, &plan);
    for (int64_t b = 0; b < q->ne[3] && !status; b += shape.batch)
        for (int64_t h = 0; h < q->ne[2] && !status; h += shape.heads)
            status = enqueue_part(ggml, call, plan, &shape, b, h);
    return status;
}

/* A buffer over the tensor's own memory. K and V of a type that clattn has not are f32 first. */
static clattn_status wrap(struct clattn_ggml *ggml, struct call *call, int which)
{
    struct ggml_tensor *expanded = &call->expanded[which == V];
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    if (!type_of(call->of[which])) {
        if (!clattn_ggml_expand(call->of[which], expanded))
            return check(ggml, code, "there is no memory for k or v as f32");
        call->of[which] = expanded;
    }
    const size_t bytes = ggml_nbytes(call->of[which]);
    call->made[which] = clCreateBuffer(ggml->cl, CL_MEM_READ_WRITE | (bytes ? CL_MEM_USE_HOST_PTR : 0),
                                       bytes ? bytes : 1, bytes ? call->of[which]->data : NULL, &code);
    return code ? check(ggml, code, "no buffer can be over a tensor") : put(ggml, call, which, call->made[which], 0);
}

/* Without `place` the tensors are in the host's memory. */
static clattn_status place_all(struct clattn_ggml *ggml, struct call *call, clattn_ggml_place place, void *user)
{
    ggml->message = clattn_ggml_refusal(call->of[RESULT], place);
    clattn_status status = ggml->message ? CLATTN_INVALID_ARGUMENT : CLATTN_SUCCESS;
    for (int i = 0; i < OPERANDS && !status; i++) {
        cl_mem buffer = NULL;
        size_t offset = 0;
        if (!call->of[i])
            continue;
        if (place && !place(user, call->of[i], &buffer, &offset))
            status = check(ggml, CLATTN_INVALID_ARGUMENT, "a tensor of the node is not on the device");
        else
            status = place ? put(ggml, call, i, buffer, offset) : wrap(ggml, call, i);
    }
    if (status || call->max_bias <= 0)
        return status;
    call->made[SLOPES] = clattn_ggml_slopes(ggml->cl, call->max_bias, (size_t)call->of[Q]->ne[2], &status);
    return check(ggml, status, "there is no memory for the mask's slopes");
}

/* Waits; only behind this does the host see what was written. */
static clattn_status see(struct clattn_ggml *ggml, cl_mem result, size_t bytes)
{
    cl_int code;
    void *seen = clEnqueueMapBuffer(ggml->queue, result, CL_TRUE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, &code);
    if (!code)
        code = clEnqueueUnmapMemObject(ggml->queue, result, seen, 0, NULL, NULL);
    return check(ggml, code ? code : clFinish(ggml->queue), "the result does not come");
}

clattn_status clattn_ggml_enqueue(struct clattn_ggml *ggml, const struct ggml_tensor *node, clattn_ggml_place place,
                                  void *user)
{
    struct call call = read_node(node);
    clattn_status status = place_all(ggml, &call, place, user);
    if (!status)
        status = enqueue_placed(ggml, &call);
    if (!status && !place)
        status = see(ggml, call.made[RESULT], ggml_nbytes(node));
    /* The last one first: a driver of NVIDIA's wants it so of sub-buffers (tests/drivers/sub_buffers.c). */
    for (int i = BUFFERS - 1; i >= 0; i--)
        if (call.made[i])
            clReleaseMemObject(call.made[i]);
    free(call.expanded[0].data);
    free(call.expanded[1].data);
    return status;
}

clattn_status clattn_ggml_compute(struct clattn_ggml *ggml, const struct ggml_tensor *node)
{
    return ggml_nbytes(node) ? clattn_ggml_enqueue(ggml, node, NULL, NULL) : CLATTN_SUCCESS;
}

void clattn_ggml_clear(struct clattn_ggml *ggml)
{
    for (int i = 0; i < CLATTN_GGML_PLANS; i++)
        clattn_plan_destroy(&ggml->plans[i]);
    if (ggml->workspace)
        clReleaseMemObject(ggml->workspace);
}
