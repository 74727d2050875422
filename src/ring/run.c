/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/operands.h"
#include "device/clcall.h"
#include "plan/checked.h"
#include "plan/types.h"
#include "ring/ring.h"
#include <stdlib.h>
#include <string.h>

clattn_status cla_run_slice(const struct cla_run *run, const struct cla_job *job, int which,
                            const struct cla_array *array, struct cla_slice *slice, struct cla_error *error)
{
    const int64_t each = array->rows_each ? array->rows_each : 1, first = job->whole ? run->first : run->at;
    int64_t end, elements = 1;
    const clattn_status status = cla_layout_resolve(cla_operand_name(which), &array->layout, &array->sizes,
                                                    array->output, &slice->layout, &end, error);
    if (status)
        return status;
    slice->sizes = array->sizes;
    if (array->rows_each) {
        slice->sizes.rows = cla_ceil_div(run->count, each);
        slice->layout.offset += first / each * slice->layout.row;
    }
    /* What is broadcast is copied once. */
    const int64_t strides[] = {slice->layout.batch, slice->layout.head, slice->layout.row, slice->layout.column};
    int64_t *const counts[] = {&slice->sizes.batch, &slice->sizes.heads, &slice->sizes.rows, &slice->sizes.columns};
    for (int i = 0; i < 4; i++) {
        if (!array->output && !strides[i] && *counts[i] > 1)
            *counts[i] = 1;
        if (!cla_multiply(elements, *counts[i], &elements) || elements > INT64_MAX / 8)
            return cla_fail(error, CLATTN_TOO_LARGE, "%s has more elements than memory", cla_operand_name(which));
    }
    slice->elements = (size_t)elements;
    return CLATTN_SUCCESS;
}

/* Dense, but for what is broadcast (or of a gradient summed over). */
static struct cla_layout on_device(const struct cla_slice *slice)
{
    struct cla_layout dense = cla_layout_dense(slice->sizes.heads, slice->sizes.rows, slice->sizes.columns);
    dense.batch = slice->layout.batch ? dense.batch : 0;
    dense.head = slice->layout.head ? dense.head : 0;
    dense.row = slice->layout.row ? dense.row : 0;
    dense.column = slice->layout.column ? dense.column : 0;
    return dense;
}

/* Whole words, as buffers of outputs are filled. */
static size_t words(size_t bytes)
{
    return (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
}

static int device_element(const struct cla_array *array)
{
    return array->sum ? (int)sizeof(float) : array->element_bytes;
}

static clattn_status put(clattn_ring *ring, struct cla_run *run, const struct cla_job *job, int which,
                         const struct cla_array *array, const struct cla_way *way, struct cla_error *error)
{
    struct cla_slice slice;
    struct cla_device_block *block = &run->blocks[which];
    run->tensors[which] = (struct clattn_tensor){0};
    if (!array->data)
        return CLATTN_SUCCESS;
    clattn_status status = cla_run_slice(run, job, which, array, &slice, error);
    const size_t bytes = slice.elements * (size_t)device_element(array);
    if (status || !bytes)
        return status;
    status = cla_device_block_grow(block, ring->cl, words(bytes), error);
    if (status)
        return status;
    const struct cla_layout layout = on_device(&slice);
    run->tensors[which] = (struct clattn_tensor){.buffer = block->buffer, .layout = cla_layout_given(&layout)};
    if (array->output)
        return cla_cl_enqueue_fill(way->queue, block->buffer, 0, 0, words(bytes), cla_events_next(way->events), error);
    if (array->pinned)
        return cla_cl_enqueue_write(way->queue, block->buffer, 0, bytes, array->data, 0, NULL,
                                    cla_events_next(way->events), error);
    return cla_lane_write(&ring->lane, ring->cl, way->queue, block->buffer, array->data, &slice.layout, &slice.sizes,
                          array->element_bytes, error);
}

/* Numbers of this run alone. */
static clattn_status number_run(struct cla_run *run, const struct cla_job *job, struct cla_error *error)
{
    const int64_t batch = job->shape.batch;
    int32_t *const numbers = realloc(run->numbers, ((size_t)batch * 3 + 1) * sizeof *numbers);
    if (!numbers)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the numbers of %lld sequences",
                        (long long)batch);
    run->numbers = numbers;
    run->dropout_row = 0;
    numbers[2 * batch] = 0;
    for (int64_t b = 0; b < batch; b++) {
        const struct cla_rows_met met = cla_rows_met(&job->meeting, b, run->first, run->count);
        const int64_t shift = met.shift + met.first;
        numbers[b] = (int32_t)(shift < INT32_MIN / 2 ? INT32_MIN / 2 : shift > INT32_MAX / 2 ? INT32_MAX / 2 : shift);
        numbers[batch + b] = (int32_t)met.count;
        if (met.count && met.first)
            run->dropout_row = met.first;
        if (job->problem->features & CLATTN_VARLEN) {
            const int64_t end = job->score->cu_seqlens_q[b + 1] - run->first;
            numbers[2 * batch + b + 1] = (int32_t)(end < 0 ? 0 : end > run->count ? run->count : end);
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status put_numbers(clattn_ring *ring, struct cla_run *run, const struct cla_job *job,
                                 const struct cla_way *way, struct cla_error *error)
{
    const int64_t batch = job->shape.batch;
    const unsigned features = job->problem->features;
    struct cla_array numbers = {.sizes = {batch, 1, 1, 1}, .element_bytes = 4};
    numbers.data = run->numbers;
    clattn_status status = put(ring, run, job, CLA_ROW_SHIFTS, &numbers, way, error);
    numbers.data = run->numbers + batch;
    if (!status && (features & CLATTN_QUERY_LENGTHS))
        status = put(ring, run, job, CLA_QUERY_LENGTHS, &numbers, way, error);
    numbers.data = run->numbers + 2 * batch;
    numbers.sizes.batch = batch + 1;
    if (!status && (features & CLATTN_VARLEN))
        status = put(ring, run, job, CLA_CU_Q, &numbers, way, error);
    return status;
}

static bool is_put_elsewhere(int which)
{
    return which == CLA_K || which == CLA_V || which == CLA_D_K || which == CLA_D_V || which == CLA_ROW_SHIFTS ||
           which == CLA_QUERY_LENGTHS || which == CLA_CU_Q;
}

static void give_score(struct cla_run *run, const struct cla_job *job)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    run->more = (struct clattn_score_more){0};
    run->score = (struct clattn_score_args){.more = &run->more};
    cla_feature_give_numbers(job->score, &run->score);
    for (int i = 0; (row = cla_feature_tensor_after(row, &of)); i++)
        cla_feature_give(row, run->tensors[CLA_SCORE + i], &run->score);
    if (job->problem->features & CLATTN_VARLEN)
        run->score.total_q = run->count;
    if (job->problem->features & CLATTN_DROPOUT)
        run->score.dropout_row = run->dropout_row;
}

struct clattn_shape cla_run_shape(const struct cla_job *job, int64_t rows)
{
    const bool packed = job->problem->features & CLATTN_VARLEN;
    struct clattn_shape shape = job->shape;
    shape.n_q = packed && job->shape.n_q < rows ? job->shape.n_q : rows;
    return shape;
}

void cla_run_place(struct cla_run *run, const struct cla_job *job, const struct clattn_ring_part *rows, int number)
{
    run->first = rows->first[number];
    run->count = rows->count[number];
    run->at = cla_part_at(rows, number);
    run->shape = cla_run_shape(job, run->count);
    run->has_sinks = false;
}

clattn_status cla_run_open(clattn_ring *ring, const struct cla_job *job, struct cla_run *run, int number,
                           const struct cla_way *way, struct cla_error *error)
{
    cla_run_place(run, job, &job->rows, number);
    if (!run->count)
        return CLATTN_SUCCESS;
    clattn_status status = number_run(run, job, error);
    for (int i = 0; i < CLA_OPERANDS && !status; i++)
        if (!is_put_elsewhere(i))
            status = put(ring, run, job, i, &job->arrays[i], way, error);
    if (!status)
        status = put_numbers(ring, run, job, way, error);
    give_score(run, job);
    return status;
}

/* Sums in fp32 become what the caller's array holds; the rest is that already. */
clattn_status cla_run_round(clattn_ring *ring, struct cla_run *run, const struct cla_job *job, int which,
                            size_t elements, const struct cla_way *way, cl_mem *buffer, struct cla_error *error)
{
    const enum clattn_dtype type = cla_type_of(job->problem, which);
    *buffer = run->blocks[which].buffer;
    if (type == CLATTN_FP32)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_device_block_grow(&run->rounded[which], ring->cl,
                                                       elements * (size_t)cla_size_of(job->problem, which), error);
    if (status)
        return status;
    *buffer = run->rounded[which].buffer;
    const struct cla_dispatch to = cla_to_queue(way->queue, 0, NULL, cla_events_next(way->events));
    return cla_sums_round(&ring->sums, &to, *buffer, run->blocks[which].buffer, (int64_t)elements, type, error);
}

clattn_status cla_run_collect(clattn_ring *ring, const struct cla_job *job, int number, struct cla_error *error)
{
    struct cla_run *run = &ring->runs[number];
    const struct cla_way way = {ring->queue, &ring->events};
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && run->count && !status; i++) {
        const struct cla_array *array = &job->arrays[i];
        struct cla_slice slice;
        if (!array->data || !array->output || is_put_elsewhere(i))
            continue;
        status = cla_run_slice(run, job, i, array, &slice, error);
        const size_t bytes = slice.elements * (size_t)array->element_bytes;
        cl_mem buffer = run->blocks[i].buffer;
        if (status || !bytes)
            continue;
        status = cla_pinned_block_grow(&run->results[i], ring->cl, ring->queue, bytes, error);
        if (!status && array->sum)
            status = cla_run_round(ring, run, job, i, slice.elements, &way, &buffer, error);
        if (!status)
            status = cla_cl_enqueue_read(ring->queue, buffer, 0, bytes, run->results[i].data, 0, NULL,
                                         cla_events_next(&ring->events), error);
    }
    return status;
}

/* A sum over batch or heads is one over both runs, where these share its elements: they do not, as each has rows of its
 * own. d_sinks are summed over ranks (exchange.c). */
void cla_run_deliver(clattn_ring *ring, const struct cla_job *job, int number)
{
    struct cla_run *run = &ring->runs[number];
    for (int i = 0; i < CLA_OPERANDS && run->count; i++) {
        const struct cla_array *array = &job->arrays[i];
        struct cla_slice slice;
        if (!array->data || !array->output || is_put_elsewhere(i) || i == CLA_SINKS_GRAD ||
            cla_run_slice(run, job, i, array, &slice, NULL) || !slice.elements)
            continue;
        cla_scatter((void *)array->data, run->results[i].data, &slice.layout, &slice.sizes, array->element_bytes);
    }
}

void cla_run_free(struct cla_run *run)
{
    for (int i = 0; i < CLA_OPERANDS; i++) {
        cla_device_block_free(&run->blocks[i]);
        cla_device_block_free(&run->rounded[i]);
        cla_pinned_block_free(&run->results[i]);
    }
    cla_device_block_free(&run->state);
    cla_device_block_free(&run->returned);
    cla_host_block_free(&run->gathered);
    for (int i = 0; i <= CLA_BLOCK_MASK; i++)
        cla_host_block_free(&run->wide[i]);
    free(run->numbers);
    run->numbers = NULL;
}
