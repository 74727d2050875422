/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tensor { Q, K, V, O, LSE, M, L };

static void lay_out(struct state_session *session, struct forward_arrays *arrays)
{
    static const char *const names[] = {"q", "k", "v", "o", "lse", "m", "l"};
    const struct forward_case *forward = session->forward;
    const struct clattn_layout *const layouts[] = {&forward->q,    &forward->k,    &forward->v,   &forward->o,
                                                   &forward->rows, &forward->rows, &forward->rows};
    const float *const inputs[] = {arrays->q, arrays->k, arrays->v, NULL, NULL, NULL, NULL};
    float *const outputs[] = {NULL, NULL, NULL, arrays->o, arrays->lse, arrays->m, arrays->l};
    for (int i = Q; i <= L; i++) {
        const struct guard_view view =
            forward_view(forward, arrays, i < LSE ? (enum forward_tensor)i : FORWARD_ROWS, layouts[i]);
        stage_add(&session->stage, names[i], &view, inputs[i], outputs[i]);
    }
}

bool state_open(struct state_session *session, const struct test_device *device, const struct forward_case *forward,
                struct forward_arrays *arrays)
{
    struct clattn_problem problem = forward->problem;
    problem.pass = CLATTN_ACCUMULATE;
    *session = (struct state_session){.device = device, .forward = forward, .arrays = arrays};
    lay_out(session, arrays);
    const bool open =
        test_succeeded(clattn_plan_create(&session->plan, device->clattn, &problem), "clattn_plan_create") &&
        test_succeeded(clattn_state_bytes(session->plan, &forward->shape, &session->bytes), "clattn_state_bytes") &&
        stage_make(&session->stage) && stage_upload(&session->stage, device) &&
        score_stage_make(device, &forward->problem, &arrays->score, &session->score);
    if (!open)
        state_close(session);
    return open;
}

void state_close(struct state_session *session)
{
    clattn_plan_destroy(&session->plan);
    stage_free(&session->stage);
    score_stage_free(&session->score);
}

/* A state is a sub-buffer, so that poison can lie on both sides of it; the device says how they may be aligned. */
static size_t guard_before(const struct state_session *session)
{
    cl_uint bits = 0;
    clGetDeviceInfo(session->device->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    return bits / 8 > GUARD_BYTES ? bits / 8 : GUARD_BYTES;
}

bool state_begin(const struct state_session *session, struct state *state)
{
    const size_t guard = guard_before(session), bytes = guard + session->bytes + guard_behind();
    const cl_buffer_region region = {guard, session->bytes};
    unsigned char *poison = malloc(bytes);
    cl_int code = poison ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    cl_event event = NULL;
    *state = (struct state){0};
    if (poison) {
        memset(poison, 0xff, bytes);
        state->parent =
            clCreateBuffer(session->device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, poison, &code);
    }
    if (state->parent && session->bytes)
        state->buffer =
            clCreateSubBuffer(state->parent, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    free(poison);
    return test_cl_succeeded(code, "clCreateBuffer") &&
           test_succeeded(clattn_state_begin_enqueue(session->plan, session->device->queue, &session->forward->shape,
                                                     state->buffer, 0, NULL, &event),
                          "clattn_state_begin_enqueue") &&
           stage_wait(event);
}

/* The tensor's keys from `first` on. */
static struct clattn_tensor chunk_of(const struct state_session *session, int which, int64_t first)
{
    struct clattn_tensor tensor = stage_at(&session->stage, which);
    const struct clattn_layout *layout = &tensor.layout;
    const bool dense = !layout->batch && !layout->head && !layout->row && !layout->column;
    if (dense) {
        const int64_t *sizes = session->stage.tensors[which].view.sizes, offset = layout->offset;
        tensor.layout = clattn_layout_bhnd(sizes[1], sizes[2], sizes[3]);
        tensor.layout.offset = offset;
    }
    tensor.layout.offset += first * tensor.layout.row;
    return tensor;
}

bool state_accumulate(const struct state_session *session, const struct state *state, int64_t first, int64_t count)
{
    const struct forward_case *forward = session->forward;
    struct clattn_accumulate_args args = {.shape = forward->shape,
                                          .first_key = first,
                                          .key_count = count,
                                          .q = stage_at(&session->stage, Q),
                                          .k = chunk_of(session, K, first),
                                          .v = chunk_of(session, V, first),
                                          .state = state->buffer};
    cl_event event = NULL;
    args.score = score_args(&forward->problem, &forward->score, &session->arrays->score, &session->score);
    const bool ran =
        test_succeeded(clattn_plan_workspace_bytes(session->plan, &args.shape, &args.workspace_bytes),
                       "clattn_plan_workspace_bytes") &&
        stage_workspace(session->device, args.workspace_bytes, &args.workspace) &&
        test_succeeded(clattn_state_accumulate_enqueue(session->plan, session->device->queue, &args, 0, NULL, &event),
                       "clattn_state_accumulate_enqueue") &&
        stage_wait(event);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return ran;
}

bool state_merge(const struct state_session *session, const struct state *into, const struct state *from)
{
    cl_event event = NULL;
    return test_succeeded(clattn_state_merge_enqueue(session->plan, session->device->queue, &session->forward->shape,
                                                     into->buffer, from->buffer, 0, NULL, &event),
                          "clattn_state_merge_enqueue") &&
           stage_wait(event);
}

/* Finish looks at sinks, dropout and sequences alone. */
static struct clattn_score_args finish_score(const struct state_session *session)
{
    const struct forward_case *forward = session->forward;
    return score_args(&forward->problem, &forward->score, &session->arrays->score, &session->score);
}

static bool guards_intact(const struct state_session *session, const struct state *state)
{
    const size_t guard = guard_before(session), end = guard + session->bytes, bytes = end + guard_behind();
    unsigned char *all = malloc(bytes);
    bool intact = all && test_cl_succeeded(clEnqueueReadBuffer(session->device->queue, state->parent, CL_TRUE, 0, bytes,
                                                               all, 0, NULL, NULL),
                                           "clEnqueueReadBuffer");
    for (size_t i = 0; i < bytes && intact; i++)
        intact = (i >= guard && i < end) || all[i] == 0xff;
    free(all);
    if (!intact)
        fprintf(stderr, "bytes beside the state were written\n");
    return intact;
}

bool state_finish(struct state_session *session, const struct state *state)
{
    const struct clattn_finish_args args = {.shape = session->forward->shape,
                                            .state = state->buffer,
                                            .o = stage_at(&session->stage, O),
                                            .lse = stage_at(&session->stage, LSE),
                                            .m = stage_at(&session->stage, M),
                                            .l = stage_at(&session->stage, L),
                                            .score = finish_score(session)};
    cl_event event = NULL;
    return test_succeeded(clattn_state_finish_enqueue(session->plan, session->device->queue, &args, 0, NULL, &event),
                          "clattn_state_finish_enqueue") &&
           stage_wait(event) && stage_collect(&session->stage, session->device) &&
           score_stage_intact(session->device, &session->score) && guards_intact(session, state);
}

bool state_serves(const struct test_device *device, struct clattn_problem problem)
{
    problem.pass = CLATTN_ACCUMULATE;
    return test_serves(device, &problem);
}

void state_free(struct state *state)
{
    if (state->buffer)
        clReleaseMemObject(state->buffer);
    if (state->parent)
        clReleaseMemObject(state->parent);
    *state = (struct state){0};
}

bool state_run(const struct test_device *device, const struct forward_case *forward, const int64_t *ends, int count,
               struct forward_arrays *arrays)
{
    struct state_session session;
    struct state state = {0};
    if (!state_open(&session, device, forward, arrays))
        return false;
    bool ran = state_begin(&session, &state);
    for (int i = 0; i < count && ran; i++) {
        const int64_t first = i ? ends[i - 1] : 0;
        ran = state_accumulate(&session, &state, first, ends[i] - first);
    }
    ran = ran && state_finish(&session, &state);
    state_free(&state);
    state_close(&session);
    return ran;
}
