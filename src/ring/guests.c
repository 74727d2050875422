/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/visits.h"
#include <string.h>

/* Rows that pass: messages of the own ones, and those of other ranks on the device. */

static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

const void *cla_rows_message(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run, int64_t to)
{
    const struct cla_visit visit = {ring, job, ring->wire.rank, run, to, false};
    char *const message = (char *)turn->out.data + cla_visit_at(&visit);
    struct cla_visit_piece piece = {.number = -1};
    struct cla_error ignored; /* the same slices were right as the own run's */
    struct cla_slice slice;
    while (cla_visit_next(&visit, &piece)) {
        const struct cla_array *array = &job->arrays[piece.which];
        if (cla_run_slice(&ring->runs[run], job, piece.which, array, &slice, &ignored))
            continue;
        slice.layout.offset += piece.column * slice.layout.column;
        cla_gather(message + piece.offset, array->data, &slice.layout, &piece.sizes, piece.element_bytes);
    }
    return message;
}

/* Of all keys, though the columns of the own ones alone have come: kernels look at these. */
static clattn_status widen(const struct cla_visit *visit, struct cla_host_block *wide, struct cla_array *array,
                           const struct cla_visit_piece *piece, const char *message, struct cla_error *error)
{
    const struct clattn_layout *layout = &array->layout;
    const struct cla_layout at = {piece->column * layout->column, layout->batch, layout->head, layout->row,
                                  layout->column};
    const size_t bytes = (size_t)piece->sizes.batch * (size_t)piece->sizes.heads * (size_t)piece->sizes.rows *
                         (size_t)visit->job->arrays[piece->which].sizes.columns * (size_t)piece->element_bytes;
    if (bytes > wide->bytes) {
        const clattn_status status = cla_host_block_grow(wide, bytes, error);
        if (status)
            return status;
        memset(wide->data, 0, bytes);
    }
    cla_scatter(wide->data, message + piece->offset, &at, &piece->sizes, piece->element_bytes);
    array->data = wide->data;
    return CLATTN_SUCCESS;
}

/* The message's pieces become the arrays of the guest's job. */
static clattn_status take_pieces(const struct cla_visit *visit, struct cla_run *run, const char *message,
                                 struct cla_job *guest, struct cla_error *error)
{
    struct cla_visit_piece piece = {.number = -1};
    clattn_status status = CLATTN_SUCCESS;
    while (!status && cla_visit_next(visit, &piece)) {
        struct cla_array *array = &guest->arrays[piece.which];
        if (!array->data)
            *array = cla_visit_array(visit, piece.which);
        if (piece.of_keys)
            status = widen(visit, &run->wide[piece.which], array, &piece, message, error);
        else {
            array->data = message + piece.offset;
            array->pinned = !visit->ring->wire.transport->lends;
        }
    }
    return status;
}

/* Where d_sinks of a run are computed, which are of all keys: by the first rank on its way whose keys it meets. */
static bool has_sinks_here(const struct cla_visit *visit)
{
    const int64_t ranks = visit->ring->wire.ranks;
    for (int64_t i = 0; i < ranks; i++) {
        const int64_t to = (visit->from + i) % ranks;
        if (cla_rows_visit(visit->ring, visit->job, visit->from, visit->run, to))
            return to == visit->to;
    }
    return false;
}

/* What this rank computes of them. */
static void take_outputs(const struct cla_visit *visit, const void *any, struct cla_job *guest)
{
    static const int outputs[] = {CLA_D_Q, CLA_BIAS_GRAD};
    for (int i = 0; i < 2; i++)
        if (visit->ring->given[visit->from][outputs[i]] & CLA_IS_GIVEN) {
            guest->arrays[outputs[i]] = cla_visit_array(visit, outputs[i]);
            guest->arrays[outputs[i]].data = any;
        }
    guest->arrays[CLA_SINKS_GRAD].data = has_sinks_here(visit) ? visit->job->arrays[CLA_SINKS_GRAD].data : NULL;
}

/* Nothing of this rank's own rows. */
static struct cla_job guest_of(const struct cla_visit *visit)
{
    const struct clattn_ring_part *rows = &visit->ring->rows[visit->from];
    struct cla_job guest = *visit->job;
    guest.rows = (struct clattn_ring_part){.first = {rows->first[visit->run]}, .count = {rows->count[visit->run]}};
    guest.whole = false;
    for (int i = 0; i < CLA_OPERANDS; i++)
        if (guest.arrays[i].rows_each)
            guest.arrays[i] = (struct cla_array){0};
    return guest;
}

static clattn_status open_guest(clattn_ring *ring, const struct cla_visit *visit, struct cla_turn *turn,
                                const char *message, struct cla_error *error)
{
    struct cla_run *run = &turn->guests[visit->run];
    const struct cla_way way = {ring->copy_queue, &turn->events};
    struct cla_job guest = guest_of(visit);
    clattn_status status = take_pieces(visit, run, message, &guest, error);
    if (status)
        return status;
    take_outputs(visit, message, &guest);
    status = cla_run_open(ring, &guest, run, 0, &way, error);
    run->has_sinks = !guest.arrays[CLA_SINKS_GRAD].data;
    return status;
}

clattn_status cla_guest_open(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run,
                             const void *message, cl_event *there, struct cla_error *error)
{
    const struct cla_visit visit = {ring, job, turn->part, run, ring->wire.rank, false};
    clattn_status status = open_guest(ring, &visit, turn, message, error);
    if (!status && job->problem->pass == CLATTN_FORWARD)
        status = cla_open_state(ring, &turn->guests[run], &turn->events, error);
    if (status)
        return status;
    cl_event *const event = cla_events_next(&turn->events);
    status = cla_cl_enqueue_marker(ring->copy_queue, 0, NULL, event, error);
    *there = *event;
    return status ? status : cla_cl_flush(ring->copy_queue, error);
}

/* The workspace that a visit needs: no kernel runs yet that uses the one there is. */
static clattn_status make_room(clattn_ring *ring, const struct cla_job *job, int64_t from, int number,
                               struct cla_error *error)
{
    struct cla_run *run = &ring->turns[0].guests[number];
    size_t bytes = 0;
    cla_run_place(run, job, &ring->rows[from], number);
    clattn_status status = said(clattn_plan_workspace_bytes(ring->plan, &run->shape, &bytes), error);
    if (!status)
        status = cla_device_block_grow(&ring->workspace, ring->cl, bytes, error);
    return status ? status : cla_pairs_open(ring, job, run, error);
}

static clattn_status open_sinks(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const size_t bytes = (size_t)job->shape.heads * sizeof(float);
    if (!job->arrays[CLA_SINKS_GRAD].data)
        return CLATTN_SUCCESS;
    for (int i = 0; i < CLA_RUNS; i++) {
        const struct cla_visit stay = {ring, job, ring->wire.rank, i, ring->wire.rank, false};
        ring->runs[i].has_sinks = !has_sinks_here(&stay);
    }
    const clattn_status status = cla_host_block_grow(&ring->guest_sinks, bytes, error);
    if (!status && bytes)
        memset(ring->guest_sinks.data, 0, bytes);
    return status;
}

clattn_status cla_visits_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const int64_t own = ring->wire.rank;
    uint64_t come = 0, gone = 0;
    clattn_status status = open_sinks(ring, job, error);
    for (int64_t i = 0; i < ring->wire.ranks && !status; i++) {
        const uint64_t from = cla_visits_bytes(ring, job, i, own, false),
                       to = cla_visits_bytes(ring, job, own, i, false);
        if (i == own)
            continue;
        come = from > come ? from : come;
        gone = to > gone ? to : gone;
        for (int run = 0; run < CLA_RUNS && !status; run++)
            if (cla_rows_visit(ring, job, i, run, own))
                status = make_room(ring, job, i, run, error);
    }
    for (int i = 0; i < CLA_TURNS && !status; i++) {
        status = cla_pinned_block_grow(&ring->turns[i].out, ring->cl, ring->queue, gone, error);
        if (!status && !ring->wire.transport->lends)
            status = cla_pinned_block_grow(&ring->turns[i].keys, ring->cl, ring->queue, come, error);
    }
    return status;
}
