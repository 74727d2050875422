/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/stage.h"
#include <clattn/state.h>
#include <stdlib.h>
#include <string.h>

/* The streaming state: keys in chunks, into one state or into two that are merged. States hold NaN before, and have
 * guards behind them. */

enum { STATE_GUARD = 256 }; /* bytes */

struct states {
    const struct session *session;
    const clattn_plan *plan;
    const struct verify_case *item;
    struct stage *stage;
    cl_mem memory[2];
    size_t bytes;
    cl_mem workspace;
    size_t workspace_bytes;
};

static clattn_status create(struct states *states)
{
    const struct clattn_shape *shape = &states->stage->problem->shape;
    clattn_status code = clattn_state_bytes(states->plan, shape, &states->bytes);
    if (!code)
        code = verify_workspace(states->session, states->plan, shape, &states->workspace, &states->workspace_bytes);
    const cl_uint poison = 0xffffffffu;
    const size_t size = (states->bytes + sizeof poison - 1) / sizeof poison * sizeof poison + STATE_GUARD;
    for (int i = 0; !code && i < 2; i++) {
        states->memory[i] = clCreateBuffer(states->session->context, CL_MEM_READ_WRITE, size, NULL, &code);
        if (!code)
            code = clEnqueueFillBuffer(states->session->queue, states->memory[i], &poison, sizeof poison, 0, size, 0,
                                       NULL, NULL);
    }
    return code;
}

static void destroy(struct states *states)
{
    const cl_mem all[] = {states->memory[0], states->memory[1], states->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            clReleaseMemObject(all[i]);
}

/* Keys first .. first + count - 1 of a tensor. */
static struct clattn_tensor keys_from(const struct states *states, enum stage_tensor which, int64_t first)
{
    struct clattn_tensor tensor = stage_tensor(states->stage, which);
    tensor.layout.offset += first * tensor.layout.row;
    return tensor;
}

static clattn_status accumulate(const struct states *states, int64_t first, int64_t count, cl_mem state)
{
    const struct clattn_accumulate_args args = {.shape = states->stage->problem->shape,
                                                .first_key = first,
                                                .key_count = count,
                                                .q = stage_tensor(states->stage, STAGE_Q),
                                                .k = keys_from(states, STAGE_K, first),
                                                .v = keys_from(states, STAGE_V, first),
                                                .state = state,
                                                .score = stage_score(states->stage),
                                                .workspace = states->workspace,
                                                .workspace_bytes = states->workspace_bytes};
    return clattn_state_accumulate_enqueue(states->plan, states->session->queue, &args, 0, NULL, NULL);
}

static clattn_status finish(const struct states *states)
{
    const struct clattn_finish_args args = {.shape = states->stage->problem->shape,
                                            .state = states->memory[0],
                                            .o = stage_tensor(states->stage, STAGE_O),
                                            .lse = stage_tensor(states->stage, STAGE_LSE),
                                            .m = stage_tensor(states->stage, STAGE_M),
                                            .l = stage_tensor(states->stage, STAGE_L),
                                            .score = stage_score(states->stage)};
    return clattn_state_finish_enqueue(states->plan, states->session->queue, &args, 0, NULL, NULL);
}

static clattn_status stream(const struct states *states)
{
    const struct clattn_shape *shape = &states->stage->problem->shape;
    const cl_command_queue queue = states->session->queue;
    const struct reference_score *score = &states->stage->problem->score;
    const int64_t keys = score->features & CLATTN_VARLEN ? score->total_kv : shape->n_kv, chunk = states->item->chunk;
    const int count = states->item->merged ? 2 : 1;
    clattn_status code = CLATTN_SUCCESS;
    for (int i = 0; !code && i < count; i++)
        code = clattn_state_begin_enqueue(states->plan, queue, shape, states->memory[i], 0, NULL, NULL);
    for (int64_t at = 0, turn = 0; !code && at < keys; at += chunk, turn++)
        code = accumulate(states, at, keys - at < chunk ? keys - at : chunk, states->memory[turn % count]);
    if (!code && states->item->merged)
        code =
            clattn_state_merge_enqueue(states->plan, queue, shape, states->memory[0], states->memory[1], 0, NULL, NULL);
    return code ? code : finish(states);
}

static bool guards_intact(const struct states *states, struct verify_result *result)
{
    unsigned char guard[STATE_GUARD];
    for (int i = 0; i < 2; i++) {
        const cl_int code = clEnqueueReadBuffer(states->session->queue, states->memory[i], CL_TRUE, states->bytes,
                                                sizeof guard, guard, 0, NULL, NULL);
        if (code)
            return verify_error(result, "clEnqueueReadBuffer: %s", clattn_status_name(code));
        for (size_t j = 0; j < sizeof guard; j++)
            if (guard[j] != 0xff)
                return verify_fail(result, "state: byte %zu behind it was written", j);
    }
    return true;
}

static bool run(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                struct verify_data *data, struct verify_result *result)
{
    struct stage stage;
    bool good = stage_open(session, item, &item->problem, CLATTN_ACCUMULATE, data, &stage, result);
    struct states states = {.session = session, .plan = plan, .item = item, .stage = &stage};
    if (good) {
        clattn_status code = create(&states);
        if (!code)
            code = stream(&states);
        const char *text = code ? clattn_error_message() : "";
        if (!code)
            code = clFinish(session->queue);
        good = code ? verify_error(result, "state: %s %s", clattn_status_name(code), text)
                    : guards_intact(&states, result) && stage_collect(session, &stage, result);
    }
    clFinish(session->queue);
    destroy(&states);
    stage_close(&stage);
    return good;
}

/* The same chunks in the same order give the same bits. */
bool verify_state(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                  struct verify_data *data, struct verify_result *result)
{
    const size_t count = reference_o_count(&item->problem), rows = reference_row_count(&item->problem);
    float *first = malloc((count + rows + 1) * sizeof *first);
    bool good = first ? run(session, plan, item, data, result) : verify_error(result, "no memory for its arrays");
    if (good) {
        memcpy(first, data->o, count * sizeof *first);
        memcpy(first + count, data->lse, rows * sizeof *first);
    }
    for (int i = 1; good && i < item->runs; i++)
        good = run(session, plan, item, data, result) && verify_same_bits("o", first, data->o, count, result) &&
               verify_same_bits("lse", first + count, data->lse, rows, result);
    free(first);
    return good;
}
