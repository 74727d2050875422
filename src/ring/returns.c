/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "plan/types.h"
#include "ring/visits.h"
#include <string.h>

/* What comes of rows that pass, on its way home: their states, which are merged there; or dQ, which is added up in fp32
 * as dK and dV are where keys pass, and the bias's gradient, each column of which comes from one rank. */

static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

uint64_t cla_returns_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t by, int64_t owner)
{
    return cla_visits_bytes(ring, job, owner, by, true);
}

/* All of a guest's output on the device, in its type. */
static clattn_status fetch(clattn_ring *ring, struct cla_turn *turn, const struct cla_job *job, int run, int which,
                           size_t elements, void *to, struct cla_error *error)
{
    struct cla_run *guest = &turn->guests[run];
    const struct cla_way way = {ring->back_queue, &turn->events};
    cl_mem buffer = NULL;
    const clattn_status status = cla_run_round(ring, guest, job, which, elements, &way, &buffer, error);
    return status
               ? status
               : cla_cl_enqueue_read(ring->back_queue, buffer, 0, elements * (size_t)cla_size_of(job->problem, which),
                                     to, 0, NULL, cla_events_next(&turn->events), error);
}

static size_t elements_of(const struct cla_sizes *sizes, int64_t columns)
{
    return (size_t)sizes->batch * (size_t)sizes->heads * (size_t)sizes->rows * (size_t)columns;
}

/* The bias's gradient as the device has it: of all keys. */
static clattn_status fetch_d_bias(clattn_ring *ring, struct cla_turn *turn, const struct cla_visit *visit,
                                  const struct cla_visit_piece *piece, struct cla_error *error)
{
    const size_t elements = elements_of(&piece->sizes, visit->job->shape.n_kv);
    struct cla_pinned_block *to = &turn->guests[visit->run].results[CLA_BIAS_GRAD];
    const clattn_status status =
        cla_pinned_block_grow(to, ring->cl, ring->back_queue, elements * (size_t)piece->element_bytes, error);
    return status ? status : fetch(ring, turn, visit->job, visit->run, CLA_BIAS_GRAD, elements, to->data, error);
}

static clattn_status fetch_sinks(clattn_ring *ring, struct cla_turn *turn, const struct cla_visit *visit,
                                 struct cla_error *error)
{
    struct cla_run *guest = &turn->guests[visit->run];
    const cl_mem sinks = guest->tensors[CLA_SINKS_GRAD].buffer;
    const size_t elements = (size_t)visit->job->shape.heads;
    if (!sinks)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_pinned_block_grow(&guest->results[CLA_SINKS_GRAD], ring->cl, ring->back_queue,
                                                       elements * sizeof(float), error);
    return status ? status
                  : cla_cl_enqueue_read(ring->back_queue, sinks, 0, elements * sizeof(float),
                                        guest->results[CLA_SINKS_GRAD].data, 0, NULL, cla_events_next(&turn->events),
                                        error);
}

static clattn_status take_run(clattn_ring *ring, struct cla_turn *turn, const struct cla_visit *visit,
                              struct cla_error *error)
{
    char *const message = (char *)turn->given.data + cla_visit_at(visit);
    struct cla_visit_piece piece = {.number = -1};
    bool has_d_bias = false;
    clattn_status status = CLATTN_SUCCESS;
    while (!status && cla_visit_next(visit, &piece)) {
        if (piece.which == CLA_STATE)
            status =
                cla_cl_enqueue_read(ring->back_queue, turn->guests[visit->run].state.buffer, 0, (size_t)piece.bytes,
                                    message + piece.offset, 0, NULL, cla_events_next(&turn->events), error);
        else if (piece.which == CLA_D_Q)
            status = fetch(ring, turn, visit->job, visit->run, CLA_D_Q, elements_of(&piece.sizes, piece.sizes.columns),
                           message + piece.offset, error);
        else if (!has_d_bias)
            status = fetch_d_bias(ring, turn, visit, &piece, error);
        has_d_bias = has_d_bias || piece.which == CLA_BIAS_GRAD;
    }
    return status ? status : fetch_sinks(ring, turn, visit, error);
}

clattn_status cla_returns_take(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                               struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int run = 0; run < CLA_RUNS && turn->part != ring->wire.rank && !status; run++) {
        const struct cla_visit visit = {ring, job, turn->part, run, ring->wire.rank, true};
        if (cla_rows_visit(ring, job, turn->part, run, ring->wire.rank))
            status = take_run(ring, turn, &visit, error);
    }
    return status ? status : cla_cl_flush(ring->back_queue, error);
}

/* The columns of the own keys go into the message. */
static void pack_d_bias(struct cla_turn *turn, const struct cla_visit *visit)
{
    char *const message = (char *)turn->given.data + cla_visit_at(visit);
    struct cla_visit_piece piece = {.number = -1};
    while (cla_visit_next(visit, &piece)) {
        struct cla_layout layout = cla_layout_dense(piece.sizes.heads, piece.sizes.rows, visit->job->shape.n_kv);
        layout.offset = piece.column;
        if (piece.which == CLA_BIAS_GRAD)
            cla_gather(message + piece.offset, turn->guests[visit->run].results[CLA_BIAS_GRAD].data, &layout,
                       &piece.sizes, piece.element_bytes);
    }
}

void cla_returns_pack(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn)
{
    float *const sums = ring->guest_sinks.data;
    for (int run = 0; run < CLA_RUNS && turn->part != ring->wire.rank; run++) {
        const struct cla_visit visit = {ring, job, turn->part, run, ring->wire.rank, true};
        const struct cla_run *guest = &turn->guests[run];
        const float *sinks = guest->results[CLA_SINKS_GRAD].data;
        if (!cla_rows_visit(ring, job, turn->part, run, ring->wire.rank))
            continue;
        pack_d_bias(turn, &visit);
        for (int64_t h = 0; guest->tensors[CLA_SINKS_GRAD].buffer && h < job->shape.heads; h++)
            sums[h] += sinks[h];
    }
}

/* Where what a rank gave of d_bias lies among what all did. */
static uint64_t d_bias_at(const clattn_ring *ring, const struct cla_job *job, int run, int64_t by)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < by; i++) {
        const struct cla_visit visit = {ring, job, ring->wire.rank, run, i, true};
        struct cla_visit_piece piece = {.number = -1};
        while (i != ring->wire.rank && cla_visit_next(&visit, &piece))
            at += piece.which == CLA_BIAS_GRAD ? piece.bytes : 0;
    }
    return at;
}

static clattn_status keep_d_bias(clattn_ring *ring, const struct cla_visit *visit, const struct cla_visit_piece *piece,
                                 uint64_t at, const char *from, struct cla_error *error)
{
    struct cla_host_block *block = &ring->runs[visit->run].gathered;
    const clattn_status status =
        cla_host_block_grow(block, (size_t)d_bias_at(ring, visit->job, visit->run, ring->wire.ranks), error);
    if (!status)
        memcpy((char *)block->data + at, from, (size_t)piece->bytes);
    return status;
}

static clattn_status add_state(clattn_ring *ring, struct cla_run *run, const char *from, size_t bytes,
                               struct cla_events *events, struct cla_error *error)
{
    clattn_status status = cla_device_block_grow(&run->returned, ring->cl, bytes, error);
    if (!status)
        status = cla_gift_upload(ring, run->returned.buffer, 0, from, bytes, events, error);
    return status ? status
                  : said(clattn_state_merge_enqueue(ring->plan, ring->back_queue, &run->shape, run->state.buffer,
                                                    run->returned.buffer, 0, NULL, cla_events_next(events)),
                         error);
}

static clattn_status add_d_q(clattn_ring *ring, const struct cla_visit *visit, const struct cla_visit_piece *piece,
                             const char *from, struct cla_events *events, struct cla_error *error)
{
    const struct cla_run *run = &ring->runs[visit->run];
    const struct cla_piece into = {run->blocks[CLA_D_Q].buffer, 0};
    const uint64_t at = cla_visit_at(visit) + piece->offset;
    const struct cla_piece given = {ring->gift.buffer, (int64_t)(at / (uint64_t)piece->element_bytes)};
    const clattn_status status =
        cla_gift_upload(ring, ring->gift.buffer, (size_t)at, from, (size_t)piece->bytes, events, error);
    if (status)
        return status;
    const struct cla_dispatch to = cla_to_queue(ring->back_queue, 0, NULL, cla_events_next(events));
    return cla_sums_add(&ring->sums, &to, &into, &given, (int64_t)(piece->bytes / (uint64_t)piece->element_bytes),
                        cla_type_of(visit->job->problem, CLA_D_Q), error);
}

static clattn_status add_run(clattn_ring *ring, const struct cla_visit *visit, const char *gift,
                             struct cla_events *events, struct cla_error *error)
{
    struct cla_visit_piece piece = {.number = -1};
    uint64_t at = d_bias_at(ring, visit->job, visit->run, visit->to);
    const char *const message = gift + cla_visit_at(visit);
    clattn_status status = CLATTN_SUCCESS;
    while (!status && cla_visit_next(visit, &piece)) {
        const char *const from = message + piece.offset;
        if (piece.which == CLA_STATE)
            status = add_state(ring, &ring->runs[visit->run], from, (size_t)piece.bytes, events, error);
        else if (piece.which == CLA_D_Q)
            status = add_d_q(ring, visit, &piece, from, events, error);
        else {
            status = keep_d_bias(ring, visit, &piece, at, from, error);
            at += piece.bytes;
        }
    }
    return status;
}

clattn_status cla_returns_add(clattn_ring *ring, const struct cla_job *job, int64_t by, const void *gift,
                              struct cla_error *error)
{
    struct cla_events events = {.count = 0};
    clattn_status status = CLATTN_SUCCESS;
    for (int run = 0; run < CLA_RUNS && !status; run++) {
        const struct cla_visit visit = {ring, job, ring->wire.rank, run, by, true};
        if (cla_rows_visit(ring, job, ring->wire.rank, run, by))
            status = add_run(ring, &visit, gift, &events, error);
    }
    return cla_gift_wait(ring, &events, status, error);
}

/* Over the zeros that the own device has in these columns. */
void cla_returns_deliver(clattn_ring *ring, const struct cla_job *job)
{
    const struct cla_array *array = &job->arrays[CLA_BIAS_GRAD];
    for (int64_t i = 0; array->data && i < (int64_t)ring->wire.ranks * CLA_RUNS; i++) {
        const int run = (int)(i % CLA_RUNS);
        const struct cla_visit visit = {ring, job, ring->wire.rank, run, i / CLA_RUNS, true};
        struct cla_visit_piece piece = {.number = -1};
        struct cla_slice slice;
        uint64_t at = d_bias_at(ring, job, run, visit.to);
        if (visit.to == ring->wire.rank || !cla_rows_visit(ring, job, visit.from, run, visit.to) ||
            cla_run_slice(&ring->runs[run], job, CLA_BIAS_GRAD, array, &slice, NULL))
            continue;
        while (cla_visit_next(&visit, &piece)) {
            struct cla_layout layout = slice.layout;
            layout.offset += piece.column * layout.column;
            if (piece.which != CLA_BIAS_GRAD)
                continue;
            cla_scatter((void *)array->data, (char *)ring->runs[run].gathered.data + at, &layout, &piece.sizes,
                        piece.element_bytes);
            at += piece.bytes;
        }
    }
}
