/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"
#include "ring/bench.h"
#include "ring/device.h"
#include "ring/gather.h"
#include "ring/options.h"
#include "run/rank.h"
#include "system/system.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `clattn ring`: a program of its own, so that the others need no MPI. */
struct job {
    const struct ring_values *values;
    struct ring_ranks ranks;
    struct run run;
    struct run_shared shared;
    struct clattn_ring_part *rows, *keys; /* of all ranks */
    struct progress bar;
    struct clattn_ring_info info;
};

static void show_keys(void *user, int64_t done, int64_t keys)
{
    struct job *job = user;
    char text[64];
    snprintf(text, sizeof text, "%lld of %lld keys", (long long)done, (long long)keys);
    progress_step(&job->bar, text);
}

static int compute(struct job *job, struct failure *failure)
{
    const int rank = job->ranks.rank;
    const enum clattn_ring_sharing sharing = (enum clattn_ring_sharing)job->values->sharing;
    const clattn_status code = run_share_out(&job->run, sharing, job->ranks.count, NULL, job->rows, job->keys);
    if (code)
        return fail_library(failure, "sharing out", code);
    struct run_rank of = {.run = &job->run,
                          .transport = job->ranks.transport,
                          .session = &job->shared.session,
                          .rows = job->rows[rank],
                          .keys = job->keys[rank],
                          .timeout_ms = job->values->timeout * 1000,
                          .progress = show_keys,
                          .progress_user = job};
    progress_start(&job->bar, job->ranks.count * (run_wants_gradients(&job->values->run) ? 2 : 1),
                   job->values->run.quiet || rank);
    const int status = run_rank_compute(&of, failure);
    progress_clear(&job->bar);
    job->info = of.info;
    return status;
}

/* Dimensions of an output behind that of its rows or keys, which ranks share. */
static int dimensions_behind(const struct job *job, enum run_output output)
{
    if (output >= RUN_LSE && output <= RUN_L)
        return 0;
    return job->values->run.layout == RUN_BNHD && output != RUN_D_BIAS ? 2 : 1;
}

/* Rank 0 gets what the others have of each output that has rows or keys. */
static void gather(struct job *job)
{
    for (int i = 0; i < RUN_D_SINKS; i++) {
        const struct npy_header *header = &job->run.headers[i];
        const int axis = header->dimensions - 1 - dimensions_behind(job, (enum run_output)i);
        struct ring_rows rows = {.times = 1, .bytes = npy_type_size(header->type)};
        if (!job->run.results[i])
            continue;
        rows.count = (size_t)header->shape[axis];
        for (int x = 0; x < axis; x++)
            rows.times *= (size_t)header->shape[x];
        for (int x = axis + 1; x < header->dimensions; x++)
            rows.bytes *= (size_t)header->shape[x];
        ring_gather(&job->ranks, job->run.results[i], &rows, i == RUN_D_K || i == RUN_D_V ? job->keys : job->rows);
    }
}

static void print_summary(const struct job *job)
{
    const struct clattn_shape *shape = &job->run.arrays.shape;
    fprintf(
        stderr,
        "%d ranks: batch %lld, heads %lld, n %lld x %lld in %.1f ms, of which rank 0 waited %.1f ms for messages with "
        "its device idle; %s passed, and it sent %.1f MB\n",
        job->ranks.count, (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q,
        (long long)shape->n_kv, job->info.call_ms, job->info.waited_ms,
        job->info.passing == CLATTN_RING_PASS_Q ? "Q" : "K and V", (double)job->info.bytes_sent * 1e-6);
}

static int run(struct job *job, struct failure *failure)
{
    job->run = (struct run){.values = &job->values->run, .shared = &job->shared, .without_files = job->ranks.rank != 0};
    job->rows = calloc((size_t)job->ranks.count, sizeof *job->rows);
    job->keys = calloc((size_t)job->ranks.count, sizeof *job->keys);
    int status = job->rows && job->keys ? run_open(&job->run, failure) : fail(failure, STATUS_DEVICE, "no memory");
    if (!status)
        status = ring_open_device(&job->ranks, &job->values->run.device, job->values->run.quiet, &job->shared.session,
                                  failure);
    status = ring_agree(&job->ranks, status, failure);
    if (!status) {
        status = compute(job, failure);
        if (!status)
            status = run_check_inputs(&job->run, failure);
        status = ring_agree(&job->ranks, status, failure);
    }
    if (!status) {
        gather(job);
        if (!job->ranks.rank)
            status = run_write_outputs(&job->run, failure);
        status = ring_agree(&job->ranks, status, failure);
    }
    if (!status && !job->ranks.rank && !job->values->run.quiet)
        print_summary(job);
    run_close(&job->run);
    session_close(&job->shared.session);
    free(job->rows);
    free(job->keys);
    return status;
}

static void say(const struct failure *failure)
{
    if (failure->text[0])
        fprintf(stderr, "clattn ring: %s\n", failure->text);
}

/* What a rank does, once MPI is there. Launchers end all ranks when one has ended with an error: what there is to say
 * comes before. */
static int as_rank(int (*work)(const struct ring_ranks *ranks, const void *values, struct failure *failure),
                   const void *values, struct failure *failure)
{
    struct ring_ranks ranks;
    MPI_Init(NULL, NULL);
    int status = ring_ranks_find(&ranks, failure);
    if (!status)
        status = work(&ranks, values, failure);
    say(failure);
    ring_ranks_close(&ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return status;
}

static int compute_arrays(const struct ring_ranks *ranks, const void *values, struct failure *failure)
{
    struct job job = {.values = values, .ranks = *ranks};
    return run(&job, failure);
}

static int measure(const struct ring_ranks *ranks, const void *values, struct failure *failure)
{
    return ring_bench(ranks, values, failure);
}

static int end_without_ranks(int status, const struct failure *failure)
{
    say(failure);
    return status == STATUS_HELP ? STATUS_OK : status;
}

/* Speed, with arrays of this program's own. */
static int bench(int argc, char **argv, struct failure *failure)
{
    struct ring_bench_values values;
    int status = ring_bench_parse(argc, argv, &values, failure);
    if (!status && !values.devices.count)
        return as_rank(measure, &values, failure);
    if (!status)
        status = ring_bench_devices(&values, failure);
    return end_without_ranks(status, failure);
}

int main(int argc, char **argv)
{
    struct failure failure = {.text = ""};
    struct ring_values values;
    system_begin();
    if (argc > 1 && !strcmp(argv[1], "bench"))
        return bench(argc - 1, argv + 1, &failure);
    const int status = ring_options_parse(argc, argv, &values, &failure);
    return status ? end_without_ranks(status, &failure) : as_rank(compute_arrays, &values, &failure);
}
