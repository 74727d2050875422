/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bench.h"
#include "json_out.h"
#include "progress.h"
#include "ring/bench_row.h"
#include "ring/device.h"
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>

static int64_t count_of(const struct clattn_ring_part *part)
{
    return part->count[0] + part->count[1];
}

static clattn_status call_forward(struct ring_bench_row *row, clattn_ring *ring)
{
    void *const *const a = row->data.arrays;
    const struct clattn_ring_forward_args args = {.arrays = {.shape = row->shape,
                                                             .q = a[RING_Q],
                                                             .k = a[RING_K],
                                                             .v = a[RING_V],
                                                             .o = a[RING_O],
                                                             .lse = a[RING_LSE],
                                                             .m = a[RING_M],
                                                             .l = a[RING_L]},
                                                  .rows = row->rows,
                                                  .keys = row->keys};
    return clattn_ring_forward(ring, &args);
}

static clattn_status call_backward(struct ring_bench_row *row, clattn_ring *ring)
{
    void *const *const a = row->data.arrays;
    const struct clattn_ring_backward_args args = {.arrays = {.shape = row->shape,
                                                              .q = a[RING_Q],
                                                              .k = a[RING_K],
                                                              .v = a[RING_V],
                                                              .o = a[RING_O],
                                                              .d_o = a[RING_D_O],
                                                              .m = a[RING_M],
                                                              .l = a[RING_L],
                                                              .d_q = a[RING_D_Q],
                                                              .d_k = a[RING_D_K],
                                                              .d_v = a[RING_D_V]},
                                                   .rows = row->rows,
                                                   .keys = row->keys};
    return clattn_ring_backward(ring, &args);
}

static clattn_status make_ring(struct ring_bench_row *row, enum clattn_pass pass, clattn_ring **ring)
{
    struct clattn_problem problem = row->problem;
    problem.pass = pass;
    const struct clattn_ring_params params = {.transport = row->ranks->transport,
                                              .context = row->session->clattn,
                                              .queue = row->session->queue,
                                              .timeout_ms = row->values->timeout * 1000};
    return clattn_ring_create(ring, &params, &problem);
}

/* What the slowest rank took, and the largest share of waiting. */
static void take_times(struct ring_bench_row *row, const struct clattn_ring_info *info, double *ms, double *share)
{
    double worst[2] = {info->call_ms, info->call_ms > 0 ? info->waited_ms / info->call_ms : 0.0};
    double sent = (double)info->bytes_sent * 1e-6;
    MPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&sent, &row->sent_mb, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *ms = worst[0];
    *share = worst[1];
}

static clattn_status repeat(struct ring_bench_row *row, clattn_ring *ring, bool backward)
{
    double ms[RING_MOST_REPETITIONS], shares[RING_MOST_REPETITIONS];
    const int64_t count = row->values->repetitions;
    clattn_status code = CLATTN_SUCCESS;
    for (int64_t i = -1; i < count && !code; i++) { /* the first one compiles, and is not counted */
        struct clattn_ring_info info;
        code = backward ? call_backward(row, ring) : call_forward(row, ring);
        if (!code)
            code = clattn_ring_last(ring, &info);
        if (!code && i >= 0)
            take_times(row, &info, &ms[i], &shares[i]);
    }
    if (code)
        return code;
    row->ms = statistics_of(ms, (size_t)count);
    row->waited = statistics_of(shares, (size_t)count).median;
    return CLATTN_SUCCESS;
}

/* Each part of the keys goes on once for each other rank, and its sums once more, home. */
static double model_mb(const struct ring_bench_row *row, bool backward)
{
    const int ranks = row->ranks->count;
    const double keys = (double)(row->shape.batch * row->shape.kv_heads * row->shape.n_kv);
    const double columns = (double)(row->problem.d + row->problem.d_v);
    const double passed = (double)(ranks - 1) * clattn_dtype_size(row->problem.dtype);
    const double sums = backward && ranks > 1 ? (double)ranks * sizeof(float) : 0.0;
    return keys * columns * (passed + sums) * 1e-6;
}

/* Gradients are of what a forward pass left. */
static clattn_status measure(struct ring_bench_row *row, bool backward)
{
    clattn_ring *ring = NULL;
    clattn_status code = make_ring(row, CLATTN_FORWARD, &ring);
    if (!code)
        code = backward ? call_forward(row, ring) : repeat(row, ring, false);
    clattn_ring_destroy(&ring);
    if (!code && backward) {
        code = make_ring(row, CLATTN_BACKWARD, &ring);
        if (!code)
            code = repeat(row, ring, true);
        clattn_ring_destroy(&ring);
    }
    row->model_mb = model_mb(row, backward);
    return code;
}

static int prepare(struct ring_bench_row *row, int64_t n, bool backward, struct failure *failure)
{
    const struct ring_bench_values *values = row->values;
    const enum clattn_ring_sharing sharing = (enum clattn_ring_sharing)values->sharing;
    row->problem = (struct clattn_problem){.d = (int)values->d,
                                           .d_v = (int)values->d_v,
                                           .dtype = (enum clattn_dtype)values->dtype,
                                           .causal = (enum clattn_causal)values->causal,
                                           .expected_n_q = n / row->ranks->count,
                                           .expected_n_kv = n / row->ranks->count};
    row->shape = (struct clattn_shape){
        .batch = values->batch, .heads = values->heads, .kv_heads = values->kv_heads, .n_q = n, .n_kv = n};
    clattn_ring_share(sharing, n, 1, row->ranks->count, row->ranks->rank, &row->rows);
    clattn_ring_share(sharing, n, 1, row->ranks->count, row->ranks->rank, &row->keys);
    if (ring_data_make(&row->problem, &row->shape, count_of(&row->rows), count_of(&row->keys), backward,
                       row->ranks->rank, &row->data))
        return STATUS_OK;
    return fail(failure, STATUS_DEVICE, "n %" PRId64 ": no host memory for this rank's arrays", n);
}

static int run_row(struct ring_bench_row *row, int64_t n, bool backward, struct failure *failure)
{
    int status = ring_agree(row->ranks, prepare(row, n, backward, failure), failure);
    if (!status) {
        const clattn_status code = measure(row, backward);
        if (code)
            status = fail(failure, STATUS_DEVICE, "n %" PRId64 ": %s (%s)", n, clattn_error_message(),
                          clattn_status_name(code));
        status = ring_agree(row->ranks, status, failure);
    }
    ring_data_free(&row->data);
    return status;
}

/* All lengths and passes; rows of rank 0 go to `list`, or are printed where that is NULL. */
static int run_rows(struct ring_bench_row *row, json_t *list, struct failure *failure)
{
    const struct ring_bench_values *values = row->values;
    struct progress bar;
    int status = STATUS_OK;
    if (!list && !row->ranks->rank)
        ring_bench_print_head();
    progress_start(&bar, 2 * values->n.count, values->quiet || row->ranks->rank);
    for (int i = 0; i < 2 * values->n.count && !status; i++) {
        const bool backward = i % 2;
        char text[64];
        snprintf(text, sizeof text, "n %" PRId64, values->n.values[i / 2]);
        progress_step(&bar, text);
        if (!(values->pass & (backward ? RING_BENCH_BACKWARD : RING_BENCH_FORWARD)))
            continue;
        status = run_row(row, values->n.values[i / 2], backward, failure);
        progress_clear(&bar);
        if (!status && list)
            json_array_append_new(list, ring_bench_json(row, backward));
        else if (!status && !row->ranks->rank)
            ring_bench_print(row, backward);
    }
    return status;
}

int ring_bench(const struct ring_ranks *ranks, const struct ring_bench_values *values, struct failure *failure)
{
    struct session session = {.platform = 0};
    struct ring_bench_row row = {.values = values, .ranks = ranks, .session = &session};
    json_t *list = values->json ? json_array() : NULL;
    int status = ring_open_device(ranks, &values->device, values->quiet, &session, failure);
    status = ring_agree(ranks, status, failure);
    if (!status)
        status = run_rows(&row, list, failure);
    if (!status && list && !ranks->rank)
        status = json_print(json_incref(list), values->json, failure);
    json_decref(list);
    session_close(&session);
    return status;
}
