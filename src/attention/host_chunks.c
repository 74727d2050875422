/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_chunks.h"
#include "attention/backward.h"
#include "attention/host_score.h"
#include "attention/host_stream.h"
#include "attention/state.h"
#include "device/clcall.h"

/* Forward */

clattn_status cla_host_chunks_prepare(struct cla_host_job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    const uint64_t limit = host->context->capabilities.max_allocation_bytes;
    const size_t bytes = job->state_bytes;
    if (bytes > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "the state of all rows takes %zu bytes on the device, which can allocate at most %llu at once: "
                        "take fewer rows or a smaller batch",
                        bytes, (unsigned long long)limit);
    const clattn_status status = cla_device_block_grow(&host->blocks[CLA_STATE], host->context->context, bytes, error);
    return status ? status : cla_host_stream_prepare(job, job->kv_chunk, error);
}

static clattn_status accumulate(struct cla_host_stream *stream, const struct cla_host_chunk *chunk, cl_uint wait_count,
                                const cl_event *waits, cl_event *started, cl_event *done, struct cla_error *error)
{
    const struct cla_host_job *job = stream->job;
    const struct cla_device_block *workspace = &job->host->blocks[CLA_WORKSPACE];
    const struct clattn_accumulate_args args = {.shape = job->call.shape,
                                                .first_key = chunk->first,
                                                .key_count = chunk->count,
                                                .q = cla_host_tensor_of(job, CLA_Q),
                                                .k = chunk->tensors[0],
                                                .v = chunk->tensors[1],
                                                .state = job->host->blocks[CLA_STATE].buffer,
                                                .score = *(const struct clattn_score_args *)stream->details,
                                                .workspace = workspace->buffer,
                                                .workspace_bytes = workspace->bytes,
                                                .first_event = started};
    const struct cla_dispatch to = cla_to_queue(job->host->queue, wait_count, waits, done);
    return cla_state_accumulate(job->plan, &args, &to, error);
}

static clattn_status finish(struct cla_host_stream *stream, struct cla_error *error)
{
    struct cla_host_job *job = stream->job;
    const struct clattn_finish_args args = {.shape = job->call.shape,
                                            .state = job->host->blocks[CLA_STATE].buffer,
                                            .o = cla_host_tensor_of(job, CLA_O),
                                            .lse = cla_host_tensor_of(job, CLA_LSE),
                                            .m = cla_host_tensor_of(job, CLA_M),
                                            .l = cla_host_tensor_of(job, CLA_L),
                                            .score = *(const struct clattn_score_args *)stream->details};
    const struct cla_dispatch to =
        cla_to_queue(job->host->queue, stream->ready != NULL, &stream->ready, &job->computed);
    return cla_state_finish(job->plan, &args, &to, error);
}

clattn_status cla_host_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                      struct cla_error *error)
{
    const struct clattn_host_forward_args *args = job->args;
    const struct clattn_score_args score = cla_host_score_device(job, &args->score);
    struct cla_host_stream stream = {.job = job,
                                     .work = accumulate,
                                     .keys = job->call.empty ? 0 : cla_host_keys(job),
                                     .chunk = job->kv_chunk,
                                     .details = &score};
    const struct cla_dispatch to = cla_to_queue(job->host->queue, wait_count, waits, &job->begun[0]);
    clattn_status status = cla_state_begin(
        job->plan, &job->call.shape, (struct cla_bytes){.buffer = job->host->blocks[CLA_STATE].buffer}, &to, error);
    stream.ready = job->begun[0];
    if (!status)
        status = cla_host_stream_run(&stream, error);
    if (!status)
        status = finish(&stream, error);
    cla_host_stream_end(&stream, status != CLATTN_SUCCESS);
    return status;
}

/* Backward */

clattn_status cla_host_backward_chunks_prepare(struct cla_host_job *job, struct cla_error *error)
{
    return cla_host_stream_prepare(job, job->kv_chunk, error);
}

static clattn_status add_gradients(struct cla_host_stream *stream, const struct cla_host_chunk *chunk,
                                   cl_uint wait_count, const cl_event *waits, cl_event *started, cl_event *done,
                                   struct cla_error *error)
{
    const struct cla_host_job *job = stream->job;
    struct clattn_backward_args args = cla_host_backward_arguments(job);
    args.first_key = chunk->first;
    args.key_count = chunk->count;
    args.k = chunk->tensors[0];
    args.v = chunk->tensors[1];
    args.d_k = chunk->tensors[2];
    args.d_v = chunk->tensors[3];
    args.first_event = started;
    if (chunk->first) /* of all keys, so that once is enough */
        args.d_sinks = (struct clattn_tensor){0};
    const struct cla_dispatch to = cla_to_queue(job->host->queue, wait_count, waits, done);
    return cla_backward_dispatch(job->plan, &args, &to, error);
}

/* What is added to begins with 0. */
static clattn_status clear_sums(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                struct cla_error *error)
{
    static const int sums[] = {CLA_D_Q, CLA_BIAS_GRAD};
    clattn_status status = CLATTN_SUCCESS;
    cl_event all[CLA_OPERANDS + 2], *const filled = job->begun + 1;
    cl_uint count = 0;
    for (; count < wait_count; count++)
        all[count] = waits[count];
    for (int i = 0; i < 2 && !status; i++) {
        const size_t bytes = cla_host_device_bytes(job, sums[i]);
        if (bytes)
            status = cla_cl_enqueue_fill(job->host->queue, job->host->blocks[sums[i]].buffer, 0, 0, bytes, &filled[i],
                                         error);
        if (filled[i])
            all[count++] = filled[i];
    }
    if (!status)
        status = cla_cl_enqueue_marker(job->host->queue, count, all, &job->begun[0], error);
    return status;
}

clattn_status cla_host_backward_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                               struct cla_error *error)
{
    struct cla_host_stream stream = {.job = job,
                                     .work = add_gradients,
                                     .even_without_keys = true,
                                     .keys = cla_host_keys(job),
                                     .chunk = job->kv_chunk};
    clattn_status status = clear_sums(job, wait_count, waits, error);
    stream.ready = job->begun[0];
    if (!status)
        status = cla_host_stream_run(&stream, error);
    if (!status) /* all is done: what remains is to copy what was added up */
        status = cla_cl_enqueue_marker(job->host->queue, 0, NULL, &job->computed, error);
    cla_host_stream_end(&stream, status != CLATTN_SUCCESS);
    return status;
}
