/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bench.h"
#include "json_out.h"
#include "progress.h"
#include "ring/bench_row.h"
#include "ring/device.h"
#include "run/threads.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
                                              .timeout_ms = row->values->timeout * 1000,
                                              .passing = row->values->passing};
    return clattn_ring_create(ring, &params, &problem);
}

/* Of one call on one rank, and then of all. */
struct call_times {
    double ms, share, sent_mb;
};

/* What the slowest rank took, and the largest share of waiting. */
static int take_times(struct ring_bench_row *row, const struct clattn_ring_info *info, double *ms, double *share,
                      struct failure *failure)
{
    const struct call_times mine = {info->call_ms, info->call_ms > 0 ? info->waited_ms / info->call_ms : 0.0,
                                    (double)info->bytes_sent * 1e-6};
    struct call_times *const all = calloc((size_t)row->ranks->count, sizeof *all);
    if (!all)
        return fail(failure, STATUS_DEVICE, "no memory for the times of %d ranks", row->ranks->count);
    const int status = ring_exchange(row->ranks, &mine, sizeof mine, all, failure);
    *ms = *share = row->sent_mb = 0.0;
    for (int i = 0; i < row->ranks->count && !status; i++) {
        *ms = all[i].ms > *ms ? all[i].ms : *ms;
        *share = all[i].share > *share ? all[i].share : *share;
        row->sent_mb += all[i].sent_mb;
    }
    free(all);
    return status;
}

static int call(struct ring_bench_row *row, clattn_ring *ring, bool backward, struct clattn_ring_info *info,
                struct failure *failure)
{
    clattn_status code = backward ? call_backward(row, ring) : call_forward(row, ring);
    if (!code)
        code = clattn_ring_last(ring, info);
    return code ? fail_library(failure, backward ? "gradients" : "attention", code) : STATUS_OK;
}

/* The same on all ranks. */
static void take_bytes(struct ring_bench_row *row, const struct clattn_ring_info *info)
{
    row->rows_pass = info->passing == CLATTN_RING_PASS_Q;
    row->kv_mb = (double)info->kv_bytes * 1e-6;
    row->q_mb = (double)info->q_bytes * 1e-6;
}

static int repeat(struct ring_bench_row *row, clattn_ring *ring, bool backward, struct failure *failure)
{
    double ms[RING_MOST_REPETITIONS], shares[RING_MOST_REPETITIONS];
    const int64_t count = row->values->repetitions;
    int status = STATUS_OK;
    for (int64_t i = -1; i < count && !status; i++) { /* the first one compiles, and is not counted */
        struct clattn_ring_info info;
        status = call(row, ring, backward, &info, failure);
        if (!status && i >= 0)
            status = take_times(row, &info, &ms[i], &shares[i], failure);
        if (!status && i >= 0)
            take_bytes(row, &info);
    }
    if (status)
        return status;
    row->ms = statistics_of(ms, (size_t)count);
    row->waited = statistics_of(shares, (size_t)count).median;
    return STATUS_OK;
}

static int with_ring(struct ring_bench_row *row, enum clattn_pass pass, bool once, struct failure *failure)
{
    struct clattn_ring_info info;
    clattn_ring *ring = NULL;
    const clattn_status code = make_ring(row, pass, &ring);
    int status = code ? fail_library(failure, "clattn_ring_create", code) : STATUS_OK;
    if (!status)
        status = once ? call(row, ring, pass == CLATTN_BACKWARD, &info, failure)
                      : repeat(row, ring, pass == CLATTN_BACKWARD, failure);
    clattn_ring_destroy(&ring);
    return status;
}

/* Gradients are of what a forward pass left. */
static int measure(struct ring_bench_row *row, bool backward, struct failure *failure)
{
    int status = with_ring(row, CLATTN_FORWARD, backward, failure);
    if (!status && backward)
        status = with_ring(row, CLATTN_BACKWARD, false, failure);
    return status;
}

static int prepare(struct ring_bench_row *row, int64_t n, bool backward, struct failure *failure)
{
    const struct ring_bench_values *values = row->values;
    const enum clattn_ring_sharing sharing = (enum clattn_ring_sharing)values->sharing;
    const int64_t n_q = values->n_q ? values->n_q : n;
    row->problem = (struct clattn_problem){.d = (int)values->d,
                                           .d_v = (int)values->d_v,
                                           .dtype = (enum clattn_dtype)values->dtype,
                                           .causal = (enum clattn_causal)values->causal,
                                           .expected_n_q = n_q / row->ranks->count,
                                           .expected_n_kv = n / row->ranks->count};
    row->shape = (struct clattn_shape){
        .batch = values->batch, .heads = values->heads, .kv_heads = values->kv_heads, .n_q = n_q, .n_kv = n};
    double weights[OPTION_LIST_MAX];
    for (int i = 0; i < values->shares.count; i++)
        weights[i] = (double)values->shares.values[i];
    clattn_ring_share(sharing, n_q, 1, row->ranks->count, row->ranks->rank, values->shares.count ? weights : NULL,
                      &row->rows);
    clattn_ring_share(sharing, n, 1, row->ranks->count, row->ranks->rank, values->shares.count ? weights : NULL,
                      &row->keys);
    if (ring_data_make(&row->problem, &row->shape, count_of(&row->rows), count_of(&row->keys), backward,
                       row->ranks->rank, &row->data))
        return STATUS_OK;
    return fail(failure, STATUS_DEVICE, "n %" PRId64 ": no host memory for this rank's arrays", n);
}

static int run_row(struct ring_bench_row *row, int64_t n, bool backward, struct failure *failure)
{
    int status = ring_agree(row->ranks, prepare(row, n, backward, failure), failure);
    if (!status) {
        status = measure(row, backward, failure);
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
    int status = values->devices.count
                     ? session_open(&session, &values->devices.items[ranks->rank], values->quiet, failure)
                     : ring_open_device(ranks, &values->device, values->quiet, &session, failure);
    status = ring_agree(ranks, status, failure);
    if (!status)
        status = run_rows(&row, list, failure);
    if (!status && list && !ranks->rank)
        status = json_print(json_incref(list), values->json, failure);
    json_decref(list);
    session_close(&session);
    return status;
}

struct crew {
    const struct ring_bench_values *values;
    clattn_ring_group *group;
};

static int work(void *user, int number, struct failure *failure)
{
    const struct crew *crew = user;
    const struct ring_ranks ranks = {.rank = number,
                                     .count = crew->values->devices.count,
                                     .transport = clattn_ring_group_transport(crew->group, number)};
    return ring_bench(&ranks, crew->values, failure);
}

int ring_bench_devices(const struct ring_bench_values *values, struct failure *failure)
{
    struct crew crew = {.values = values};
    const clattn_status code = clattn_ring_group_create(&crew.group, values->devices.count);
    const int status = code ? fail_library(failure, "clattn_ring_group_create", code)
                            : threads_run(values->devices.count, work, &crew, failure);
    clattn_ring_group_destroy(&crew.group);
    return status;
}
