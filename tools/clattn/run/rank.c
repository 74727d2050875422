/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/rank.h"

/* Multiples at which parts of the rows may begin. */
static int64_t grain_of(const struct clattn_problem *problem)
{
    enum { DROPOUT = 16 };
    int64_t grain = problem->features & CLATTN_BLOCK_MASK ? problem->block_q : 1;
    const int64_t block = grain;
    while ((problem->features & CLATTN_DROPOUT) && grain % DROPOUT)
        grain += block;
    return grain;
}

clattn_status run_share_out(const struct run *run, enum clattn_ring_sharing sharing, int ranks, const double *weights,
                            struct clattn_ring_part *rows, struct clattn_ring_part *keys)
{
    const bool packed = run->score.values[SCORE_CU_SEQLENS_Q];
    const int64_t n_q = packed ? run->score.total_q : run->arrays.shape.n_q;
    const int64_t n_kv = packed ? run->score.total_kv : run->arrays.shape.n_kv;
    const struct clattn_problem problem = run_problem(run, CLATTN_FORWARD);
    const int64_t grain = grain_of(&problem);
    clattn_status code = CLATTN_SUCCESS;
    for (int i = 0; i < ranks && !code; i++) {
        code = clattn_ring_share(sharing, n_q, grain, ranks, i, weights, &rows[i]);
        if (!code)
            code = clattn_ring_share(sharing, n_kv, 1, ranks, i, weights, &keys[i]);
    }
    return code;
}

static clattn_status forward(const struct run_rank *rank, clattn_ring *ring)
{
    struct clattn_host_kv_scales scales = {.k_scales = NULL};
    struct clattn_ring_forward_args args = {
        .arrays = run_forward_args(rank->run, &scales), .rows = rank->rows, .keys = rank->keys, .whole = 1};
    args.arrays.progress = rank->progress;
    args.arrays.progress_user = rank->progress_user;
    return clattn_ring_forward(ring, &args);
}

static clattn_status backward(const struct run_rank *rank, clattn_ring *ring)
{
    struct clattn_host_kv_scales scales = {.k_scales = NULL};
    struct clattn_ring_backward_args args = {
        .arrays = run_backward_args(rank->run, &scales), .rows = rank->rows, .keys = rank->keys, .whole = 1};
    args.arrays.progress = rank->progress;
    args.arrays.progress_user = rank->progress_user;
    return clattn_ring_backward(ring, &args);
}

static clattn_status compute(struct run_rank *rank, enum clattn_pass pass)
{
    const struct clattn_problem problem = run_problem(rank->run, pass);
    const struct clattn_ring_params params = {.transport = rank->transport,
                                              .context = rank->session->clattn,
                                              .queue = rank->session->queue,
                                              .timeout_ms = rank->timeout_ms,
                                              .passing = rank->run->values->passing};
    clattn_ring *ring = NULL;
    clattn_status code = clattn_ring_create(&ring, &params, &problem);
    if (!code)
        code = pass == CLATTN_FORWARD ? forward(rank, ring) : backward(rank, ring);
    if (!code && pass == CLATTN_FORWARD)
        code = clattn_ring_last(ring, &rank->info);
    clattn_ring_destroy(&ring);
    return code;
}

int run_rank_compute(struct run_rank *rank, struct failure *failure)
{
    clattn_status code = compute(rank, CLATTN_FORWARD);
    if (code)
        return fail_library(failure, "attention", code);
    if (run_wants_gradients(rank->run->values))
        code = compute(rank, CLATTN_BACKWARD);
    return code ? fail_library(failure, "gradients", code) : STATUS_OK;
}
