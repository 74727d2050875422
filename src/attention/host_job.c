/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_job.h"
#include "device/clcall.h"
#include "plan/checked.h"
#include "plan/half.h"
#include "plan/types.h"
#include <string.h>

struct clattn_tensor cla_host_array(const void *array, const struct clattn_layout *layout)
{
    struct clattn_tensor tensor = {.buffer = (cl_mem)(uintptr_t)array};
    if (layout)
        tensor.layout = *layout;
    return tensor;
}

char *cla_host_array_of(const struct cla_host_job *job, int which)
{
    return (char *)(uintptr_t)job->call.operands[which].buffer;
}

bool cla_piece_of(const struct cla_layout *layout, const struct cla_sizes *sizes, int element_bytes, bool output,
                  struct cla_piece *piece)
{
    struct cla_sizes once = *sizes;
    int64_t *const counts[] = {&once.batch, &once.heads, &once.rows, &once.columns};
    const int64_t strides[] = {layout->batch, layout->head, layout->row, layout->column};
    int64_t bytes = element_bytes;
    for (int i = 0; i < 4; i++) {
        if (!output && !strides[i] && *counts[i] > 1)
            *counts[i] = 1;
        if (!cla_multiply(bytes, *counts[i], &bytes))
            return false;
    }
    *piece = (struct cla_piece){
        .sizes = once, .layout = *layout, .bytes = (size_t)bytes, .as_it_lies = cla_layout_is_dense(layout, &once)};
    if (!piece->as_it_lies) {
        const struct cla_layout dense = cla_layout_dense(once.heads, once.rows, once.columns);
        /* What is broadcast stays so; and of a gradient what is summed over. */
        piece->layout = (struct cla_layout){.batch = layout->batch ? dense.batch : 0,
                                            .head = layout->head ? dense.head : 0,
                                            .row = layout->row ? dense.row : 0,
                                            .column = layout->column ? dense.column : 0};
    }
    piece->layout.offset = 0;
    return (uint64_t)bytes <= SIZE_MAX;
}

/* Outputs would overwrite each other. (They may overwrite inputs: these have been copied by then.) */
static clattn_status check_overlap(const struct cla_host_job *job, struct cla_error *error)
{
    for (int i = 0; i < CLA_OPERANDS; i++) {
        for (int j = 0; j < i; j++) {
            const struct cla_operand *a = &job->call.operands[i], *b = &job->call.operands[j];
            const uintptr_t at_a = (uintptr_t)a->buffer, at_b = (uintptr_t)b->buffer;
            if (!a->output || !b->output || !a->end || !b->end)
                continue;
            const bool overlap =
                at_a + (uintptr_t)(a->layout.offset * a->element_bytes) <
                    at_b + (uintptr_t)(b->end * b->element_bytes) &&
                at_b + (uintptr_t)(b->layout.offset * b->element_bytes) < at_a + (uintptr_t)(a->end * a->element_bytes);
            if (overlap)
                return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                                "%s at %p overlaps %s at %p: each output needs an array of its own",
                                cla_operand_name(i), (void *)a->buffer, cla_operand_name(j), (void *)b->buffer);
        }
    }
    return CLATTN_SUCCESS;
}

static bool is_streamed(const struct cla_host_job *job, int which)
{
    return job->streamed && (which == CLA_K || which == CLA_V || which == CLA_D_K || which == CLA_D_V);
}

/* Sums over chunks: on the device, and until they are handed over, in float. */
static bool is_sum(const struct cla_host_job *job, int which)
{
    return job->streamed && (which == CLA_D_Q || which == CLA_BIAS_GRAD);
}

/* Of an output, what its values take until they are handed over. */
static size_t wide_bytes(const struct cla_host_job *job, int which)
{
    const size_t bytes = job->pieces[which].bytes;
    return is_sum(job, which) ? bytes / (size_t)job->call.operands[which].element_bytes * sizeof(float) : bytes;
}

size_t cla_host_device_bytes(const struct cla_host_job *job, int which)
{
    return is_streamed(job, which) ? 0 : wide_bytes(job, which);
}

clattn_status cla_host_measure(struct cla_host_job *job, struct cla_error *error)
{
    const uint64_t limit = job->host->context->capabilities.max_allocation_bytes;
    const clattn_status status = check_overlap(job, error);
    if (status)
        return status;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &job->call.operands[i];
        struct cla_piece *piece = &job->pieces[i];
        *piece = (struct cla_piece){0};
        if (!operand->end || (is_streamed(job, i) && !operand->output))
            continue;
        if (!cla_piece_of(&operand->layout, &operand->sizes, operand->element_bytes, operand->output, piece) ||
            piece->bytes > SIZE_MAX / sizeof(float))
            piece->bytes = SIZE_MAX / sizeof(float);
        if (cla_host_device_bytes(job, i) > limit)
            return cla_fail(error, CLATTN_TOO_LARGE,
                            "%s takes %zu bytes on the device, which can allocate at most %llu at once: take shorter "
                            "sequences or a smaller batch%s",
                            cla_operand_name(i), cla_host_device_bytes(job, i), (unsigned long long)limit,
                            i == CLA_K || i == CLA_V || i == CLA_D_K || i == CLA_D_V ? ", or stream the keys (kv_chunk)"
                                                                                     : "");
    }
    return CLATTN_SUCCESS;
}

static clattn_status make_room(struct cla_host_job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        const struct cla_piece *piece = &job->pieces[i];
        status = cla_device_block_grow(&host->blocks[i], host->context->context, cla_host_device_bytes(job, i), error);
        /* Outputs are never copied straight to their arrays, so that an error while copying leaves these as they were.
         */
        if (!status && (!piece->as_it_lies || job->call.operands[i].output))
            status = cla_host_block_grow(&host->staged[i], wide_bytes(job, i), error);
    }
    if (!status)
        status = cla_device_block_grow(&host->blocks[CLA_WORKSPACE], host->context->context, job->call.workspace_bytes,
                                       error);
    return status;
}

/* Where the elements of an array that is copied as it lies begin. */
static char *first_element(const struct cla_host_job *job, int which)
{
    const struct cla_operand *operand = &job->call.operands[which];
    return cla_host_array_of(job, which) + operand->layout.offset * operand->element_bytes;
}

static clattn_status copy_in(struct cla_host_job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        const struct cla_operand *operand = &job->call.operands[i];
        const struct cla_piece *piece = &job->pieces[i];
        const void *from = host->staged[i].data;
        if (!piece->bytes || operand->output)
            continue;
        if (piece->as_it_lies)
            from = first_element(job, i);
        else
            cla_gather(host->staged[i].data, cla_host_array_of(job, i), &operand->layout, &piece->sizes,
                       operand->element_bytes);
        status = cla_cl_enqueue_write(host->queue, host->blocks[i].buffer, 0, piece->bytes, from, 0, NULL,
                                      &job->copied[i], error);
    }
    return status;
}

static void count_elements(struct clattn_layout *layout, int block)
{
    layout->batch *= block;
    layout->head *= block;
    layout->row *= block;
}

struct clattn_tensor cla_host_tensor_of(const struct cla_host_job *job, int which)
{
    struct clattn_tensor tensor = {0};
    if (cla_host_device_bytes(job, which))
        tensor = cla_tensor_of(job->host->blocks[which].buffer, &job->pieces[which].layout);
    if (job->call.operands[which].block > 1) /* callers count elements */
        count_elements(&tensor.layout, job->call.operands[which].block);
    return tensor;
}

static clattn_status compute_after_copies(struct cla_host_job *job, cla_host_compute compute, struct cla_error *error)
{
    cl_event waits[CLA_OPERANDS];
    cl_uint count = 0;
    for (int i = 0; i < CLA_OPERANDS; i++)
        if (job->copied[i])
            waits[count++] = job->copied[i];
    return compute(job, count, waits, error);
}

/* Whether all commands ended well. What waited for one that did not may have run all the same: that is the driver's
 * choice. */
static clattn_status wait_for_all(const struct cla_host_job *job, struct cla_error *error)
{
    cl_event waits[CLA_OPERANDS + CLA_BEGUN + 2];
    cl_uint count = 0;
    for (int i = 0; i < CLA_OPERANDS; i++)
        if (job->copied[i])
            waits[count++] = job->copied[i];
    for (int i = 0; i < CLA_BEGUN; i++)
        if (job->begun[i])
            waits[count++] = job->begun[i];
    if (job->started)
        waits[count++] = job->started;
    waits[count++] = job->computed;
    return cla_cl_wait(count, waits, error);
}

/* Brings the outputs to the host. Until all are here, no array of the caller's is written to. */
static clattn_status copy_out(struct cla_host_job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        const size_t bytes = cla_host_device_bytes(job, i);
        if (bytes && job->call.operands[i].output)
            status = cla_cl_enqueue_read(host->queue, host->blocks[i].buffer, 0, bytes, host->staged[i].data, 1,
                                         &job->computed, &job->copied[i], error);
    }
    return status ? status : wait_for_all(job, error);
}

/* Sums become elements of the gradient's type, in place: none lies before the number that it comes from. */
static void narrow(const struct cla_host_job *job, int which)
{
    char *data = job->host->staged[which].data;
    const size_t count = wide_bytes(job, which) / sizeof(float);
    const enum clattn_dtype dtype = cla_type_of(job->call.problem, which);
    for (size_t i = 0; i < count && dtype != CLATTN_FP32; i++) {
        float value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        const uint16_t bits = dtype == CLATTN_FP16 ? cla_half_from_float(value) : cla_bf16_from_float(value);
        memcpy(data + i * sizeof bits, &bits, sizeof bits);
    }
}

static void hand_over(const struct cla_host_job *job)
{
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &job->call.operands[i];
        if (!job->pieces[i].bytes || !operand->output)
            continue;
        if (is_sum(job, i))
            narrow(job, i);
        if (job->pieces[i].as_it_lies)
            memcpy(first_element(job, i), job->host->staged[i].data, job->pieces[i].bytes);
        else
            cla_scatter(cla_host_array_of(job, i), job->host->staged[i].data, &operand->layout, &operand->sizes,
                        operand->element_bytes);
    }
}

static int32_t number_at(const struct cla_host_job *job, int which, int64_t at)
{
    int32_t number;
    memcpy(&number, cla_host_array_of(job, which) + (size_t)at * sizeof number, sizeof number);
    return number;
}

/* Rows that do not exist, of which the device has written nothing (score.query_lengths), become 0. */
static void clear_rows_beyond(const struct cla_host_job *job, int which)
{
    const struct cla_operand *operand = &job->call.operands[which];
    const bool packed = job->call.features & CLATTN_VARLEN;
    for (int64_t b = 0; b < job->call.shape.batch && operand->output && job->pieces[which].bytes; b++) {
        const int64_t length = number_at(job, CLA_QUERY_LENGTHS, b);
        const int64_t first = packed ? number_at(job, CLA_CU_Q, b) : 0;
        const int64_t rows = packed ? number_at(job, CLA_CU_Q, b + 1) - first : operand->sizes.rows;
        const struct cla_sizes beyond = {1, operand->sizes.heads, rows - length, operand->sizes.columns};
        struct cla_layout layout = operand->layout;
        layout.offset += (packed ? 0 : b * layout.batch) + (first + length) * layout.row;
        cla_clear(cla_host_array_of(job, which), &layout, &beyond, operand->element_bytes);
    }
}

static void clear_all_beyond(const struct cla_host_job *job)
{
    static const int outputs[] = {CLA_O, CLA_LSE, CLA_M, CLA_L, CLA_D_Q};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && cla_host_array_of(job, CLA_QUERY_LENGTHS); i++)
        clear_rows_beyond(job, outputs[i]);
}

/* NVIDIA's driver has 0 for both times of a marker that waits for events. */
double cla_host_between(cl_event from, cl_event to)
{
    struct cla_error ignored;
    uint64_t start = 0, other = 0, end = 0;
    if (cla_cl_event_times(from, &start, &other, &ignored) || cla_cl_event_times(to, &other, &end, &ignored))
        return 0;
    return !start || end < start ? 0 : (double)(end - start) * 1e-6;
}

double cla_host_milliseconds(cl_event event)
{
    return event ? cla_host_between(event, event) : 0;
}

static double compute_milliseconds(const struct cla_host_job *job)
{
    return job->started ? cla_host_between(job->started, job->computed) : cla_host_milliseconds(job->computed);
}

static void take_down(const struct cla_host_job *job)
{
    struct clattn_host *host = job->host;
    struct clattn_host_info info = {.kv_chunk = job->kv_chunk,
                                    .splits = job->splits,
                                    .copy_in_ms = job->copy_in_ms,
                                    .copy_out_ms = job->copy_out_ms,
                                    .compute_ms = job->compute_ms + compute_milliseconds(job)};
    for (int i = 0; i < CLA_OPERANDS; i++) {
        info.device_bytes += host->blocks[i].bytes;
        *(job->call.operands[i].output ? &info.copy_out_ms : &info.copy_in_ms) += cla_host_milliseconds(job->copied[i]);
    }
    for (int i = 0; i < CLA_SLOTS * CLA_SLOT_TENSORS; i++)
        info.device_bytes += host->slots[i / CLA_SLOT_TENSORS][i % CLA_SLOT_TENSORS].block.bytes;
    host->last_info = info;
    host->last_plan = job->plan->info;
    host->succeeded = true;
}

int64_t cla_host_keys(const struct cla_host_job *job)
{
    return job->call.features & CLATTN_PAGES ? job->call.shape.n_kv : job->call.operands[CLA_K].sizes.rows;
}

clattn_status cla_host_ask(const struct cla_host_job *job, int64_t keys_done, struct cla_error *error)
{
    const int64_t keys = cla_host_keys(job);
    const int answer = job->watch.cancel ? job->watch.cancel(job->watch.user, keys_done, keys) : 0;
    if (!answer)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_CANCELLED,
                    "args.cancel answered %d after %lld of %lld keys: the call has ended, and no output was written",
                    answer, (long long)keys_done, (long long)keys);
}

clattn_status cla_host_run(struct cla_host_job *job, cla_host_compute compute, struct cla_error *error)
{
    clattn_status status = cla_host_ask(job, 0, error);
    if (!status)
        status = make_room(job, error);
    if (status)
        return status;
    status = copy_in(job, error);
    if (!status)
        status = compute_after_copies(job, compute, error);
    if (!status)
        status = copy_out(job, error);
    if (!status && job->judge)
        status = job->judge(job, error);
    if (!status)
        status = cla_host_ask(job, cla_host_keys(job), error);
    if (status) {
        /* Commands that were enqueued still use the caller's arrays. */
        struct cla_error ignored;
        cla_cl_finish(job->host->queue, &ignored);
    } else {
        hand_over(job);
        clear_all_beyond(job);
        take_down(job);
    }
    cla_cl_release_event(job->started);
    cla_cl_release_event(job->computed);
    for (int i = 0; i < CLA_BEGUN; i++)
        cla_cl_release_event(job->begun[i]);
    for (int i = 0; i < CLA_OPERANDS; i++)
        cla_cl_release_event(job->copied[i]);
    return status;
}
