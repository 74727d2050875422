/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_stream.h"
#include "device/clcall.h"

/* What the tensors of a slot are, in its order. */
static const int operands_of[CLA_SLOT_TENSORS] = {CLA_K, CLA_V, CLA_D_K, CLA_D_V};
enum { FIRST_GRADIENT = 2 };

static const struct cla_operand *operand_of(const struct cla_host_job *job, int which)
{
    return &job->call.operands[operands_of[which]];
}

static struct cla_sizes chunk_sizes(const struct cla_host_job *job, int which, int64_t keys)
{
    struct cla_sizes sizes = operand_of(job, which)->sizes;
    sizes.rows = keys;
    return sizes;
}

/* How keys `first` on of a tensor get to the device: gradients lie densely there. */
static bool piece_of(const struct cla_host_job *job, int which, int64_t keys, struct cla_piece *piece)
{
    const struct cla_operand *operand = operand_of(job, which);
    const struct cla_sizes sizes = chunk_sizes(job, which, keys);
    const struct cla_layout dense = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    const bool gradient = which >= FIRST_GRADIENT;
    return cla_piece_of(gradient ? &dense : &operand->layout, &sizes, operand->element_bytes, gradient, piece);
}

static uint64_t bytes_of(const struct cla_host_job *job, int which, int64_t keys)
{
    struct cla_piece piece;
    if (!operand_of(job, which)->end)
        return 0;
    return piece_of(job, which, keys, &piece) ? piece.bytes : UINT64_MAX / (CLA_SLOTS * CLA_SLOT_TENSORS);
}

/* Pieces of a quarter of what the device allocates at once, and so that all slots take a quarter of its memory at most;
 * larger ones than MOST_BYTES would only make the first copy, beside which nothing is computed, take longer. */
enum { MOST_BYTES = 1 << 28, WHOLE_TILES = 128 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool cla_host_must_stream(const struct cla_host_job *job)
{
    const struct clattn_capabilities *device = &job->host->context->capabilities;
    uint64_t most = 0, all = 0;
    for (int i = 0; i < CLA_SLOT_TENSORS; i++) {
        const uint64_t whole = bytes_of(job, i, cla_host_keys(job));
        all += whole;
        most = larger(most, whole);
    }
    return most > device->max_allocation_bytes || all > device->global_memory_bytes;
}

int64_t cla_host_chunk_within(const struct cla_host_job *job, uint64_t bytes)
{
    const struct clattn_capabilities *device = &job->host->context->capabilities;
    const uint64_t share = device->global_memory_bytes / ((uint64_t)4 * CLA_SLOTS * CLA_SLOT_TENSORS);
    const uint64_t most = smaller(smaller(device->max_allocation_bytes / 4, MOST_BYTES), share);
    uint64_t of_a_key = 1;
    for (int i = 0; i < CLA_SLOT_TENSORS; i++)
        of_a_key = larger(of_a_key, bytes_of(job, i, 1));
    const uint64_t keys = smaller(most / of_a_key, bytes / larger(cla_host_slots_bytes(job, 1), 1));
    return keys < WHOLE_TILES ? (int64_t)keys + !keys : (int64_t)(keys - keys % WHOLE_TILES);
}

/* What a tensor of a slot takes, with pieces of so many keys. */
static uint64_t slot_bytes(const struct cla_host_job *job, int which, int64_t keys)
{
    return bytes_of(job, which, keys < cla_host_keys(job) ? keys : cla_host_keys(job));
}

uint64_t cla_host_slots_bytes(const struct cla_host_job *job, int64_t keys)
{
    uint64_t bytes = 0;
    for (int i = 0; i < CLA_SLOT_TENSORS; i++)
        bytes += slot_bytes(job, i, keys);
    return bytes * CLA_SLOTS;
}

/* What this call needs of a slot. */
static uint64_t slot_needs(const struct cla_host_job *job, int which)
{
    return job->streamed ? slot_bytes(job, which, job->kv_chunk) : 0;
}

uint64_t cla_host_slots_held(const struct cla_host_job *job)
{
    uint64_t bytes = 0;
    for (int i = 0; i < CLA_SLOTS * CLA_SLOT_TENSORS; i++) {
        const int which = i % CLA_SLOT_TENSORS;
        bytes += larger(job->host->slots[i / CLA_SLOT_TENSORS][which].block.bytes, slot_needs(job, which));
    }
    return bytes;
}

void cla_host_slots_trim(struct cla_host_job *job)
{
    for (int i = 0; i < CLA_SLOTS * CLA_SLOT_TENSORS; i++) {
        const int which = i % CLA_SLOT_TENSORS;
        struct cla_device_block *block = &job->host->slots[i / CLA_SLOT_TENSORS][which].block;
        if (block->bytes > slot_needs(job, which))
            cla_device_block_free(block);
    }
}

static clattn_status make_slot(struct cla_host_job *job, int turn, int which, int64_t keys, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    const uint64_t limit = host->context->capabilities.max_allocation_bytes;
    struct cla_host_slot *slot = &host->slots[turn][which];
    struct cla_piece piece = {0};
    if (!operand_of(job, which)->end)
        return CLATTN_SUCCESS;
    if (!piece_of(job, which, keys, &piece))
        piece.bytes = SIZE_MAX;
    if (piece.bytes > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "%s takes %zu bytes for a kv_chunk of %lld keys, and the device can allocate at most %llu "
                        "at once: take a smaller kv_chunk",
                        cla_operand_name(operands_of[which]), piece.bytes, (long long)keys, (unsigned long long)limit);
    const clattn_status status = cla_device_block_grow(&slot->block, host->context->context, piece.bytes, error);
    if (status || (piece.as_it_lies && which < FIRST_GRADIENT))
        return status;
    return cla_host_block_grow(&slot->staged, piece.bytes, error);
}

clattn_status cla_host_stream_prepare(struct cla_host_job *job, int64_t kv_chunk, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    const int64_t keys = cla_host_keys(job), chunk = kv_chunk < keys ? kv_chunk : keys;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_SLOTS * CLA_SLOT_TENSORS && !status; i++)
        status = make_slot(job, i / CLA_SLOT_TENSORS, i % CLA_SLOT_TENSORS, chunk, error);
    if (!status && !host->copy_queue)
        status = cla_cl_queue(host->context->context, host->context->device, CL_QUEUE_PROFILING_ENABLE,
                              &host->copy_queue, error);
    return status;
}

/* Starts the copy of the chunk's keys of K or V into a free slot. */
static clattn_status bring(struct cla_host_stream *stream, int turn, int which, struct cla_error *error)
{
    struct cla_host_job *job = stream->job;
    struct cla_host_chunk *chunk = &stream->turns[turn].chunk;
    struct cla_host_slot *slot = &job->host->slots[turn][which];
    const struct cla_operand *operand = operand_of(job, which);
    struct cla_layout layout = operand->layout;
    struct cla_piece piece = {0};
    piece_of(job, which, chunk->count, &piece); /* a part of one that fits */
    chunk->tensors[which] = cla_tensor_of(NULL, &piece.layout);
    if (!piece.bytes)
        return CLATTN_SUCCESS;
    layout.offset += chunk->first * layout.row;
    const char *array = cla_host_array_of(job, operands_of[which]);
    const void *from = array + layout.offset * operand->element_bytes;
    if (!piece.as_it_lies) {
        /* The last chunk is shorter, and may lie otherwise than the others. */
        const clattn_status status = cla_host_block_grow(&slot->staged, piece.bytes, error);
        if (status)
            return status;
        cla_gather(slot->staged.data, array, &layout, &piece.sizes, operand->element_bytes);
        from = slot->staged.data;
    }
    chunk->tensors[which].buffer = slot->block.buffer;
    return cla_cl_enqueue_write(job->host->copy_queue, slot->block.buffer, 0, piece.bytes, from, 0, NULL,
                                &stream->turns[turn].copied[which], error);
}

static void place_gradient(struct cla_host_stream *stream, int turn, int which)
{
    struct cla_host_chunk *chunk = &stream->turns[turn].chunk;
    struct cla_piece piece = {0};
    chunk->tensors[which] = (struct clattn_tensor){0};
    if (!operand_of(stream->job, which)->end)
        return;
    piece_of(stream->job, which, chunk->count, &piece);
    chunk->tensors[which] = cla_tensor_of(stream->job->host->slots[turn][which].block.buffer, &piece.layout);
}

/* Starts the copies of a chunk's gradients, for when its work is done. */
static clattn_status take_leave(struct cla_host_stream *stream, struct cla_host_turn *turn, struct cla_error *error)
{
    struct clattn_host *host = stream->job->host;
    const int number = (int)(turn - stream->turns);
    clattn_status status = CLATTN_SUCCESS;
    if (!turn->done || turn->leaving)
        return CLATTN_SUCCESS;
    turn->leaving = true;
    for (int i = 0; i < 2 && !status; i++) {
        struct cla_host_slot *slot = &host->slots[number][FIRST_GRADIENT + i];
        struct cla_piece piece = {0};
        if (!turn->chunk.tensors[FIRST_GRADIENT + i].buffer)
            continue;
        piece_of(stream->job, FIRST_GRADIENT + i, turn->chunk.count, &piece);
        status = cla_cl_enqueue_read(host->copy_queue, slot->block.buffer, 0, piece.bytes, slot->staged.data, 1,
                                     &turn->done, &turn->left[i], error);
    }
    return status ? status : cla_cl_flush(host->copy_queue, error);
}

/* A chunk's gradient goes to its place in what the whole is handed over from. */
static void put_gradient(struct cla_host_stream *stream, const struct cla_host_turn *turn, int which)
{
    struct cla_host_job *job = stream->job;
    const struct cla_sizes sizes = chunk_sizes(job, which, turn->chunk.count);
    struct cla_layout layout = job->pieces[operands_of[which]].layout;
    layout.offset += turn->chunk.first * layout.row;
    cla_scatter(job->host->staged[operands_of[which]].data, job->host->slots[turn - stream->turns][which].staged.data,
                &layout, &sizes, operand_of(job, which)->element_bytes);
}

static void release_turn(struct cla_host_turn *turn)
{
    cl_event *const events[] = {&turn->copied[0], &turn->copied[1], &turn->started,
                                &turn->done,      &turn->left[0],   &turn->left[1]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        cla_cl_release_event(*events[i]);
        *events[i] = NULL;
    }
    turn->leaving = false;
}

/* Until a chunk's keys have come and its work is done, each without an error. */
static clattn_status wait_for_chunk(const struct cla_host_turn *turn, struct cla_error *error)
{
    const cl_event events[] = {turn->copied[0], turn->copied[1], turn->started, turn->done};
    cl_event waits[4];
    cl_uint count = 0;
    for (int i = 0; i < 4; i++)
        if (events[i])
            waits[count++] = events[i];
    return cla_cl_wait(count, waits, error);
}

/* Waits until a slot's chunk is done and its gradients are here, and says so. */
static clattn_status free_slot(struct cla_host_stream *stream, struct cla_host_turn *turn, struct cla_error *error)
{
    struct cla_host_job *job = stream->job;
    if (!turn->done)
        return CLATTN_SUCCESS;
    clattn_status status = take_leave(stream, turn, error);
    if (!status)
        status = wait_for_chunk(turn, error);
    for (int i = 0; i < 2 && !status; i++) {
        if (!turn->left[i])
            continue;
        status = cla_cl_wait(1, &turn->left[i], error);
        if (!status)
            put_gradient(stream, turn, FIRST_GRADIENT + i);
        job->copy_out_ms += cla_host_milliseconds(turn->left[i]);
    }
    if (status)
        return status;
    job->compute_ms += cla_host_between(turn->started, turn->done);
    job->copy_in_ms += cla_host_milliseconds(turn->copied[0]) + cla_host_milliseconds(turn->copied[1]);
    if (stream->ready == turn->done)
        stream->ready = NULL;
    release_turn(turn);
    const int64_t keys_done = turn->chunk.first + turn->chunk.count;
    if (job->watch.progress && stream->keys)
        job->watch.progress(job->watch.user, keys_done, stream->keys);
    return cla_host_ask(job, keys_done, error);
}

/* Copies a chunk to its slot and enqueues its work; behind the copies, the gradients of the chunk before leave. */
static clattn_status start(struct cla_host_stream *stream, int turn, int64_t first, struct cla_error *error)
{
    struct cla_host_turn *self = &stream->turns[turn];
    const int64_t left = stream->keys - first;
    cl_event waits[3];
    cl_uint count = 0;
    self->chunk = (struct cla_host_chunk){.first = first, .count = left < stream->chunk ? left : stream->chunk};
    place_gradient(stream, turn, FIRST_GRADIENT);
    place_gradient(stream, turn, FIRST_GRADIENT + 1);
    clattn_status status = bring(stream, turn, 0, error);
    if (!status)
        status = bring(stream, turn, 1, error);
    if (!status)
        status = take_leave(stream, &stream->turns[1 - turn], error);
    if (!status)
        status = cla_cl_flush(stream->job->host->copy_queue, error);
    if (status)
        return status;
    for (int i = 0; i < 2; i++)
        if (self->copied[i])
            waits[count++] = self->copied[i];
    if (stream->ready)
        waits[count++] = stream->ready;
    status = stream->work(stream, &self->chunk, count, waits, &self->started, &self->done, error);
    if (status)
        return status;
    stream->ready = self->done;
    return cla_cl_flush(stream->job->host->queue, error);
}

clattn_status cla_host_stream_run(struct cla_host_stream *stream, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    int turn = 0;
    bool more = stream->keys > 0 || stream->even_without_keys;
    for (int64_t first = 0; more && !status; first += stream->chunk) {
        status = free_slot(stream, &stream->turns[turn], error);
        if (!status)
            status = start(stream, turn, first, error);
        turn = 1 - turn;
        more = stream->keys - first > stream->chunk;
    }
    for (int i = 0; i < CLA_SLOTS && !status; i++)
        status = free_slot(stream, &stream->turns[(turn + i) % CLA_SLOTS], error);
    return status;
}

void cla_host_stream_end(struct cla_host_stream *stream, bool failed)
{
    struct cla_error ignored;
    if (failed) {
        cla_cl_finish(stream->job->host->copy_queue, &ignored);
        cla_cl_finish(stream->job->host->queue, &ignored);
    }
    for (int i = 0; i < CLA_SLOTS; i++)
        release_turn(&stream->turns[i]);
}
