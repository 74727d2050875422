/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify_case.h"
#include <stdlib.h>
#include <string.h>

/* A forward pass in guarded buffers. Around and between the elements of every tensor lie bytes 0xff: NaN in every type,
 * so that reading them shows in the outputs, and writing them shows afterwards. */

enum { GUARD = 67, TENSORS = 7 }; /* elements on each side; odd, so that nothing is aligned by accident */

struct guarded {
    enum clattn_dtype dtype;
    int64_t sizes[4];
    struct clattn_layout layout;
    size_t bytes;
    unsigned char *before, *after; /* host copies */
    cl_mem buffer;
    const float *input; /* NULL for an output */
    float *output;
};

static struct clattn_layout layout_of(enum verify_layout kind, const int64_t sizes[4])
{
    struct clattn_layout layout;
    const int64_t pitch = 2 * sizes[3] + 3;
    if (kind == VERIFY_BHND)
        layout = clattn_layout_bhnd(sizes[1], sizes[2], sizes[3]);
    else if (kind == VERIFY_BNHD)
        layout = clattn_layout_bnhd(sizes[1], sizes[2], sizes[3]);
    else
        layout = (struct clattn_layout){
            .batch = sizes[1] * sizes[2] * pitch + 5, .head = sizes[2] * pitch, .row = pitch, .column = 2};
    layout.offset = GUARD;
    return layout;
}

static struct guarded tensor(const struct verify_case *item, int64_t batch, int64_t heads, int64_t n, int64_t d)
{
    struct guarded guarded = {.dtype = item->problem.dtype, .sizes = {batch, heads, n, d}};
    guarded.layout = layout_of(item->layout, guarded.sizes);
    return guarded;
}

static struct guarded vector(const struct clattn_shape *shape, float *output)
{
    return (struct guarded){
        .dtype = CLATTN_FP32,
        .sizes = {shape->batch, shape->heads, shape->n_q, 1},
        .layout = {.offset = GUARD, .batch = shape->heads * shape->n_q, .head = shape->n_q, .row = 1},
        .output = output};
}

static void describe(const struct verify_case *item, const struct reference_problem *problem,
                     const struct verify_data *data, struct guarded tensors[TENSORS])
{
    const struct clattn_shape *s = &problem->shape;
    tensors[0] = tensor(item, s->batch, s->heads, s->n_q, problem->d);
    tensors[1] = tensor(item, s->batch, s->kv_heads, s->n_kv, problem->d);
    tensors[2] = tensor(item, s->batch, s->kv_heads, s->n_kv, problem->d_v);
    tensors[3] = tensor(item, s->batch, s->heads, s->n_q, problem->d_v);
    tensors[0].input = data->q;
    tensors[1].input = data->k;
    tensors[2].input = data->v;
    tensors[3].output = data->o;
    tensors[4] = vector(s, data->lse);
    tensors[5] = vector(s, data->m);
    tensors[6] = vector(s, data->l);
}

static bool upload(const struct session *session, struct guarded *guarded, struct verify_result *result)
{
    guarded->bytes =
        (reference_extent(guarded->sizes, &guarded->layout) + GUARD) * (size_t)clattn_dtype_size(guarded->dtype);
    guarded->before = malloc(guarded->bytes);
    guarded->after = malloc(guarded->bytes);
    if (!guarded->before || !guarded->after)
        return verify_fail(result, "no memory for %zu bytes", guarded->bytes);
    memset(guarded->before, 0xff, guarded->bytes);
    if (guarded->input)
        reference_scatter(guarded->dtype, guarded->sizes, &guarded->layout, guarded->input, guarded->before);
    cl_int code;
    guarded->buffer = clCreateBuffer(session->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, guarded->bytes,
                                     guarded->before, &code);
    return code ? verify_fail(result, "clCreateBuffer of %zu bytes: %s", guarded->bytes, clattn_status_name(code))
                : true;
}

static bool launch(const struct session *session, const clattn_plan *plan, const struct clattn_shape *shape,
                   const struct guarded tensors[TENSORS], struct verify_result *result)
{
    struct clattn_forward_args args = {.shape = *shape};
    struct clattn_tensor *const slots[TENSORS] = {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.m, &args.l};
    for (int i = 0; i < TENSORS; i++)
        *slots[i] = (struct clattn_tensor){.buffer = tensors[i].buffer, .layout = tensors[i].layout};
    cl_int code = clattn_plan_workspace_bytes(plan, shape, &args.workspace_bytes);
    if (!code && args.workspace_bytes)
        args.workspace = clCreateBuffer(session->context, CL_MEM_READ_WRITE, args.workspace_bytes, NULL, &code);
    if (!code)
        code = clattn_forward_enqueue(plan, session->queue, &args, 0, NULL, NULL);
    const char *text = code ? clattn_error_message() : "";
    if (!code)
        code = clFinish(session->queue);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return code ? verify_fail(result, "%s %s", clattn_status_name(code), text) : true;
}

/* What lies outside the elements, and every input as a whole, must be as it was. */
static bool untouched(const struct guarded *guarded, int index, struct verify_result *result)
{
    static const char *const names[TENSORS] = {"q", "k", "v", "o", "lse", "m", "l"};
    if (guarded->output)
        reference_erase(guarded->dtype, guarded->sizes, &guarded->layout, guarded->after);
    if (!memcmp(guarded->before, guarded->after, guarded->bytes))
        return true;
    size_t at = 0;
    while (guarded->before[at] == guarded->after[at])
        at++;
    return verify_fail(result,
                       guarded->output ? "%s: byte %zu of its buffer, outside the tensor, was written"
                                       : "%s: byte %zu of this input was changed",
                       names[index], at);
}

static bool download(const struct session *session, struct guarded *guarded, int index, struct verify_result *result)
{
    const cl_int code =
        clEnqueueReadBuffer(session->queue, guarded->buffer, CL_TRUE, 0, guarded->bytes, guarded->after, 0, NULL, NULL);
    if (code)
        return verify_fail(result, "clEnqueueReadBuffer: %s", clattn_status_name(code));
    if (guarded->output)
        reference_gather(guarded->dtype, guarded->sizes, &guarded->layout, guarded->after, guarded->output);
    return untouched(guarded, index, result);
}

bool verify_forward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                    const struct reference_problem *problem, struct verify_data *data, struct verify_result *result)
{
    struct guarded tensors[TENSORS] = {{.bytes = 0}};
    describe(item, problem, data, tensors);
    bool good = true;
    for (int i = 0; good && i < TENSORS; i++)
        good = upload(session, &tensors[i], result);
    good = good && launch(session, plan, &problem->shape, tensors, result);
    for (int i = 0; good && i < TENSORS; i++)
        good = download(session, &tensors[i], i, result);
    for (int i = 0; i < TENSORS; i++) {
        if (tensors[i].buffer)
            clReleaseMemObject(tensors[i].buffer);
        free(tensors[i].before);
        free(tensors[i].after);
    }
    return good;
}
