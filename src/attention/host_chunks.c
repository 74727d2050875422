/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_chunks.h"
#include "attention/host_score.h"
#include "attention/state.h"
#include "device/clcall.h"

/* Two slots take turns: while the device works on the keys of one, the next keys are copied into the other. */
enum { SLOTS = 2 };

struct stream {
    struct cla_host_job *job;
    const struct clattn_host_forward_args *args;
    struct clattn_score_args score;
    cl_mem state;
    int64_t n_kv, chunk;
    cl_event ready; /* what the next accumulation waits for beside its keys; not owned */
    cl_event begun;
    cl_event copied[SLOTS][2];   /* the copies of K and V */
    cl_event accumulated[SLOTS]; /* NULL: the slot is free */
    int64_t end[SLOTS];          /* one past the slot's last key */
};

static struct cla_sizes chunk_sizes(const struct cla_operand *operand, int64_t keys)
{
    struct cla_sizes sizes = operand->sizes;
    sizes.rows = keys;
    return sizes;
}

static clattn_status make_slots(struct cla_host_job *job, int64_t chunk, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    const uint64_t limit = host->context->capabilities.max_allocation_bytes;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < 2 * SLOTS && !status; i++) {
        const int which = i % 2 ? CLA_V : CLA_K;
        const struct cla_operand *operand = &job->call.operands[which];
        const struct cla_sizes sizes = chunk_sizes(operand, chunk);
        struct cla_host_slot *slot = &host->slots[i / 2][i % 2];
        struct cla_piece piece = {0};
        if (!cla_piece_of(&operand->layout, &sizes, operand->element_bytes, false, &piece))
            piece.bytes = SIZE_MAX;
        if (piece.bytes > limit)
            return cla_fail(error, CLATTN_TOO_LARGE,
                            "%s takes %zu bytes for a kv_chunk of %lld keys, and the device can allocate at most %llu "
                            "at once: take a smaller kv_chunk",
                            cla_operand_names[which], piece.bytes, (long long)chunk, (unsigned long long)limit);
        status = cla_device_block_grow(&slot->block, host->context->context, piece.bytes, error);
        if (!status && !piece.as_it_lies)
            status = cla_host_block_grow(&slot->staged, piece.bytes, error);
    }
    return status;
}

static int64_t chunk_of(const struct cla_host_job *job)
{
    const struct clattn_host_forward_args *args = job->args;
    return args->kv_chunk < job->call.shape.n_kv ? args->kv_chunk : job->call.shape.n_kv;
}

clattn_status cla_host_chunks_prepare(struct cla_host_job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    const uint64_t limit = host->context->capabilities.max_allocation_bytes;
    size_t bytes = 0;
    clattn_status status = cla_state_bytes(job->plan, &job->call.shape, &bytes, error);
    if (!status && bytes > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "the state of all rows takes %zu bytes on the device, which can allocate at most %llu at once: "
                        "take fewer rows or a smaller batch",
                        bytes, (unsigned long long)limit);
    if (!status)
        status = cla_device_block_grow(&host->blocks[CLA_STATE], host->context->context, bytes, error);
    if (!status)
        status = make_slots(job, chunk_of(job), error);
    if (!status && !host->copy_queue)
        status = cla_cl_queue(host->context->context, host->context->device, CL_QUEUE_PROFILING_ENABLE,
                              &host->copy_queue, error);
    return status;
}

/* Waits until a slot's keys are done, and says so. */
static clattn_status free_slot(struct stream *stream, int turn, struct cla_error *error)
{
    if (!stream->accumulated[turn])
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_wait(1, &stream->accumulated[turn], error);
    if (status)
        return status;
    stream->job->compute_ms += cla_host_milliseconds(stream->accumulated[turn]);
    if (stream->ready == stream->accumulated[turn])
        stream->ready = NULL;
    cla_cl_release_event(stream->accumulated[turn]);
    stream->accumulated[turn] = NULL;
    for (int i = 0; i < 2; i++) {
        stream->job->copy_in_ms += cla_host_milliseconds(stream->copied[turn][i]);
        cla_cl_release_event(stream->copied[turn][i]);
        stream->copied[turn][i] = NULL;
    }
    if (stream->args->progress)
        stream->args->progress(stream->args->progress_user, stream->end[turn], stream->n_kv);
    return CLATTN_SUCCESS;
}

/* Starts the copy of some keys of K or V into a free slot. */
static clattn_status copy_keys(struct stream *stream, int turn, int which, int64_t first, int64_t keys,
                               struct clattn_tensor *tensor, struct cla_error *error)
{
    const struct cla_operand *operand = &stream->job->call.operands[which];
    const struct cla_sizes sizes = chunk_sizes(operand, keys);
    struct cla_host_slot *slot = &stream->job->host->slots[turn][which == CLA_V];
    struct clattn_layout layout = operand->layout;
    struct cla_piece piece = {0};
    layout.offset += first * layout.row;
    cla_piece_of(&layout, &sizes, operand->element_bytes, false, &piece); /* a part of one that fits */
    const char *array = cla_host_array_of(stream->job, which);
    const void *from = array + layout.offset * operand->element_bytes;
    if (!piece.as_it_lies) {
        /* The last chunk is shorter, and may lie otherwise than the others. */
        const clattn_status status = cla_host_block_grow(&slot->staged, piece.bytes, error);
        if (status)
            return status;
        cla_gather(slot->staged.data, array, &layout, &piece.sizes, operand->element_bytes);
        from = slot->staged.data;
    }
    *tensor = (struct clattn_tensor){slot->block.buffer, piece.layout};
    return cla_cl_enqueue_write(stream->job->host->copy_queue, slot->block.buffer, 0, piece.bytes, from, 0, NULL,
                                &stream->copied[turn][which == CLA_V], error);
}

static clattn_status accumulate(struct stream *stream, int turn, int64_t first, int64_t keys, struct cla_error *error)
{
    const struct cla_host_job *job = stream->job;
    struct clattn_accumulate_args args = {.shape = job->call.shape,
                                          .first_key = first,
                                          .key_count = keys,
                                          .q = cla_host_tensor_of(job, CLA_Q),
                                          .state = stream->state,
                                          .score = stream->score,
                                          .workspace = job->host->blocks[CLA_WORKSPACE].buffer,
                                          .workspace_bytes = job->host->blocks[CLA_WORKSPACE].bytes};
    clattn_status status = copy_keys(stream, turn, CLA_K, first, keys, &args.k, error);
    if (!status)
        status = copy_keys(stream, turn, CLA_V, first, keys, &args.v, error);
    if (!status)
        status = cla_cl_flush(job->host->copy_queue, error);
    if (status)
        return status;
    const cl_event waits[] = {stream->copied[turn][0], stream->copied[turn][1], stream->ready};
    status = cla_state_accumulate(job->plan, job->host->queue, &args, stream->ready ? 3 : 2, waits,
                                  &stream->accumulated[turn], error);
    if (status)
        return status;
    stream->ready = stream->accumulated[turn];
    stream->end[turn] = first + keys;
    return cla_cl_flush(job->host->queue, error);
}

static clattn_status stream_keys(struct stream *stream, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    int turn = 0;
    for (int64_t first = 0; first < stream->n_kv && !status; first += stream->chunk) {
        const int64_t left = stream->n_kv - first;
        status = free_slot(stream, turn, error);
        if (!status)
            status = accumulate(stream, turn, first, left < stream->chunk ? left : stream->chunk, error);
        turn = 1 - turn;
    }
    for (int i = 0; i < SLOTS && !status; i++)
        status = free_slot(stream, (turn + i) % SLOTS, error);
    return status;
}

static clattn_status finish(struct stream *stream, struct cla_error *error)
{
    struct cla_host_job *job = stream->job;
    const struct clattn_finish_args args = {.shape = job->call.shape,
                                            .state = stream->state,
                                            .o = cla_host_tensor_of(job, CLA_O),
                                            .lse = cla_host_tensor_of(job, CLA_LSE),
                                            .m = cla_host_tensor_of(job, CLA_M),
                                            .l = cla_host_tensor_of(job, CLA_L),
                                            .score = stream->score};
    return cla_state_finish(job->plan, job->host->queue, &args, stream->ready != NULL, &stream->ready, &job->computed,
                            error);
}

/* Copies that were enqueued still use the caller's arrays. */
static void end_stream(struct stream *stream, bool failed)
{
    struct cla_error ignored;
    if (failed) {
        cla_cl_finish(stream->job->host->copy_queue, &ignored);
        cla_cl_finish(stream->job->host->queue, &ignored);
    }
    cla_cl_release_event(stream->begun);
    for (int i = 0; i < SLOTS; i++) {
        cla_cl_release_event(stream->accumulated[i]);
        cla_cl_release_event(stream->copied[i][0]);
        cla_cl_release_event(stream->copied[i][1]);
    }
}

clattn_status cla_host_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                      struct cla_error *error)
{
    const struct clattn_host_forward_args *args = job->args;
    struct stream stream = {.job = job,
                            .args = args,
                            .score = cla_host_score_device(job, &args->score),
                            .state = job->host->blocks[CLA_STATE].buffer,
                            .n_kv = job->call.empty ? 0 : job->call.shape.n_kv,
                            .chunk = chunk_of(job)};
    clattn_status status = cla_state_begin(job->plan, job->host->queue, &job->call.shape, stream.state, wait_count,
                                           waits, &stream.begun, error);
    stream.ready = stream.begun;
    if (!status)
        status = stream_keys(&stream, error);
    if (!status)
        status = finish(&stream, error);
    end_stream(&stream, status != CLATTN_SUCCESS);
    return status;
}
