/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"
#include "plan/half.h"
#include "plan/types.h"
#include <string.h>

/* K and V, in this order; their gradients likewise. */
static const int inputs[CLA_OF_KV] = {CLA_K, CLA_V}, gradients[CLA_OF_KV] = {CLA_D_K, CLA_D_V};

enum { ALIGNMENT = 64 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct cla_sizes cla_keys_sizes(const struct cla_job *job, int which, int64_t count)
{
    return (struct cla_sizes){cla_job_batch(job), job->shape.kv_heads, count,
                              which ? job->problem->d_v : job->problem->d};
}

static uint64_t elements(const struct cla_job *job, int which, int64_t count)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, count);
    return (uint64_t)sizes.batch * (uint64_t)sizes.heads * (uint64_t)sizes.rows * (uint64_t)sizes.columns;
}

static uint64_t stored_bytes(const struct cla_job *job, int which, int64_t count)
{
    return elements(job, which, count) * (uint64_t)cla_size_of(job->problem, inputs[which]);
}

/* `which` 1: where V begins; CLA_OF_KV: all of the message. */
uint64_t cla_keys_bytes(const struct cla_job *job, int which, int64_t count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < which; i++)
        bytes += aligned(stored_bytes(job, i, count));
    return bytes;
}

uint64_t cla_sums_bytes(const struct cla_job *job, int which, int64_t count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < which; i++)
        if (job->arrays[gradients[i]].data)
            bytes += elements(job, i, count) * sizeof(float);
    return bytes;
}

static bool is_backward(const struct cla_job *job)
{
    return job->problem->pass == CLATTN_BACKWARD;
}

static clattn_status open_gradients(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int64_t most,
                                    struct cla_error *error)
{
    clattn_status status = cla_host_block_grow(&turn->sums, cla_sums_bytes(job, CLA_OF_KV, most), error);
    for (int run = 0; run < CLA_RUNS && !status; run++) {
        for (int i = 0; i < CLA_OF_KV && !status; i++)
            if (job->arrays[gradients[i]].data)
                status = cla_device_block_grow(&turn->d_kv[run][i], ring->cl, stored_bytes(job, i, most), error);
        if (!status)
            status = cla_host_block_grow(&turn->d_kv_staged[run], cla_keys_bytes(job, CLA_OF_KV, most), error);
    }
    return status;
}

/* Runs of the own keys, from the caller's array to the message, or back. */
static clattn_status copy_own(clattn_ring *ring, const struct cla_job *job, int which, bool out,
                              struct cla_error *error)
{
    const struct cla_array *array = &job->arrays[(out ? gradients : inputs)[which]];
    const int64_t count = cla_part_count(&job->keys);
    const struct cla_sizes all = cla_keys_sizes(job, which, count);
    const struct cla_layout dense = cla_layout_dense(all.heads, all.rows, all.columns);
    char *message = ring->turns[0].keys.data;
    struct cla_layout layout;
    clattn_status status = cla_job_layout(job, (out ? gradients : inputs)[which], &layout, error);
    message += cla_keys_bytes(job, which, count);
    for (int64_t b = 0; b < all.batch && !status; b++)
        for (int64_t h = 0; h < all.heads; h++)
            for (int run = 0; run < CLA_RUNS; run++) {
                const struct cla_sizes one = {1, 1, job->keys.count[run], all.columns};
                const int64_t at = cla_part_at(&job->keys, run);
                char *const within =
                    message + (b * dense.batch + h * dense.head + at * dense.row) * array->element_bytes;
                struct cla_layout place = layout;
                place.offset +=
                    b * layout.batch + h * layout.head + (job->whole ? job->keys.first[run] : at) * layout.row;
                if (out)
                    cla_scatter((void *)array->data, within, &place, &one, array->element_bytes);
                else
                    cla_gather(within, array->data, &place, &one, array->element_bytes);
            }
    return status;
}

static int64_t largest_part(const clattn_ring *ring)
{
    int64_t most = 0;
    for (int i = 0; i < ring->wire.ranks; i++)
        most = cla_part_count(&ring->keys[i]) > most ? cla_part_count(&ring->keys[i]) : most;
    return most;
}

clattn_status cla_keys_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const int64_t most = largest_part(ring);
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_TURNS && !status; i++) {
        struct cla_turn *turn = &ring->turns[i];
        status = cla_host_block_grow(&turn->keys, cla_keys_bytes(job, CLA_OF_KV, most), error);
        for (int which = 0; which < CLA_OF_KV && !status; which++)
            status = cla_device_block_grow(&turn->kv[which], ring->cl, stored_bytes(job, which, most), error);
        if (!status && is_backward(job))
            status = open_gradients(ring, job, turn, most, error);
    }
    if (!status && is_backward(job))
        status = cla_host_block_grow(&ring->home, cla_sums_bytes(job, CLA_OF_KV, most), error);
    for (int which = 0; which < CLA_OF_KV && !status && cla_part_count(&job->keys); which++)
        status = copy_own(ring, job, which, false, error);
    return status;
}

clattn_status cla_keys_upload(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, cl_event copied[2],
                              struct cla_error *error)
{
    const int64_t count = cla_part_count(&ring->keys[turn->part]);
    clattn_status status = CLATTN_SUCCESS;
    for (int which = 0; which < CLA_OF_KV && !status; which++) {
        cl_event *event = cla_events_next(&turn->events);
        const char *from = (const char *)turn->keys.data + cla_keys_bytes(job, which, count);
        status = cla_cl_enqueue_write(ring->copy_queue, turn->kv[which].buffer, 0,
                                      (size_t)stored_bytes(job, which, count), from, 0, NULL, event, error);
        copied[which] = *event;
    }
    return status ? status : cla_cl_flush(ring->copy_queue, error);
}

struct clattn_tensor cla_keys_tensor(const struct cla_job *job, cl_mem buffer, int which, int64_t count, int64_t at)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, count);
    struct cla_layout layout = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    layout.offset = at * layout.row;
    return (struct clattn_tensor){.buffer = buffer, .layout = cla_layout_given(&layout)};
}

static bool has_met(const struct cla_turn *turn, int run)
{
    return turn->met[run][0] || turn->met[run][1];
}

clattn_status cla_sums_fetch(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                             struct cla_error *error)
{
    const int64_t count = cla_part_count(&ring->keys[turn->part]);
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_RUNS * CLA_OF_KV && !status; i++) {
        const int run = i / CLA_OF_KV, which = i % CLA_OF_KV;
        if (!has_met(turn, run) || !job->arrays[gradients[which]].data)
            continue;
        status =
            cla_cl_enqueue_read(ring->queue, turn->d_kv[run][which].buffer, 0, (size_t)stored_bytes(job, which, count),
                                (char *)turn->d_kv_staged[run].data + cla_keys_bytes(job, which, count), 0, NULL,
                                cla_events_next(&turn->events), error);
    }
    return status;
}

static float widened(const char *at, enum clattn_dtype type)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == CLATTN_FP16 ? cla_half_to_float(bits) : cla_bf16_to_float(bits);
}

static void add(float *sums, const char *from, size_t count, enum clattn_dtype type)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        if (type == CLATTN_FP32)
            memcpy(&value, from + i * sizeof value, sizeof value);
        else
            value = widened(from + i * sizeof(uint16_t), type);
        sums[i] += value;
    }
}

/* What a run of rows gave for a run of keys, to the sums of that part. */
static void add_run(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run, int keys, int which)
{
    const struct clattn_ring_part *part = &ring->keys[turn->part];
    const struct cla_sizes sizes = cla_keys_sizes(job, which, cla_part_count(part));
    const struct cla_layout dense = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    const enum clattn_dtype type = cla_type_of(job->problem, gradients[which]);
    const size_t bytes = (size_t)cla_size_of(job->problem, gradients[which]);
    float *const sums = (float *)((char *)turn->sums.data + cla_sums_bytes(job, which, sizes.rows));
    const char *const staged = (const char *)turn->d_kv_staged[run].data + cla_keys_bytes(job, which, sizes.rows);
    for (int64_t b = 0; b < sizes.batch; b++)
        for (int64_t h = 0; h < sizes.heads; h++) {
            const int64_t at = b * dense.batch + h * dense.head + cla_part_at(part, keys) * dense.row;
            add(sums + at, staged + (size_t)at * bytes, (size_t)(part->count[keys] * dense.row), type);
        }
}

void cla_sums_add(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn)
{
    for (int i = 0; i < CLA_RUNS * CLA_RUNS * CLA_OF_KV; i++) {
        const int run = i / (CLA_RUNS * CLA_OF_KV), keys = i / CLA_OF_KV % CLA_RUNS, which = i % CLA_OF_KV;
        if (turn->met[run][keys] && job->arrays[gradients[which]].data)
            add_run(ring, job, turn, run, keys, which);
    }
}

static void narrow(char *to, const float *from, uint64_t count, enum clattn_dtype type)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint16_t bits = type == CLATTN_FP16 ? cla_half_from_float(from[i]) : cla_bf16_from_float(from[i]);
        if (type == CLATTN_FP32)
            memcpy(to + i * sizeof *from, &from[i], sizeof *from);
        else
            memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
}

/* By the first turn's message, which nobody needs any more. */
void cla_sums_deliver(clattn_ring *ring, const struct cla_job *job)
{
    const int64_t count = cla_part_count(&job->keys);
    struct cla_error ignored;
    for (int which = 0; which < CLA_OF_KV && count; which++) {
        if (!job->arrays[gradients[which]].data)
            continue;
        narrow((char *)ring->turns[0].keys.data + cla_keys_bytes(job, which, count),
               (const float *)((const char *)ring->home.data + cla_sums_bytes(job, which, count)),
               elements(job, which, count), cla_type_of(job->problem, gradients[which]));
        copy_own(ring, job, which, true, &ignored); /* its layout has been resolved before */
    }
}
