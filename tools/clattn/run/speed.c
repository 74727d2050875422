/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/speed.h"
#include "random_pool.h"
#include <clattn/host.h>
#include <stdlib.h>

enum { LEAST_LENGTH = 256, LONG_MS = 10 };

struct trial {
    struct clattn_problem problem;
    struct clattn_shape shape;
    void *q, *k, *v, *o;
};

static bool make(struct trial *trial)
{
    const size_t rows = (size_t)(trial->shape.heads * trial->shape.n_q);
    const size_t keys = (size_t)(trial->shape.kv_heads * trial->shape.n_kv);
    const size_t d = (size_t)trial->problem.d, d_v = (size_t)trial->problem.d_v;
    trial->q = random_array(trial->problem.dtype, 1, rows * d);
    trial->k = random_array(trial->problem.dtype, 2, keys * d);
    trial->v = random_array(trial->problem.dtype, 3, keys * d_v);
    trial->o = calloc(rows * d_v + 1, sizeof(float));
    return trial->q && trial->k && trial->v && trial->o;
}

static void discard(struct trial *trial)
{
    free(trial->q);
    free(trial->k);
    free(trial->v);
    free(trial->o);
}

/* The first call compiles. */
static clattn_status run(clattn_host *host, const struct trial *trial, double *ms)
{
    const struct clattn_host_forward_args args = {
        .shape = trial->shape, .q = trial->q, .k = trial->k, .v = trial->v, .o = trial->o};
    struct clattn_host_info info;
    clattn_status code = clattn_host_forward(host, &trial->problem, &args);
    if (!code)
        code = clattn_host_forward(host, &trial->problem, &args);
    if (!code)
        code = clattn_host_last(host, NULL, &info);
    if (!code)
        *ms = info.compute_ms;
    return code;
}

static int try_length(clattn_host *host, struct trial *trial, int64_t length, double *ms, struct failure *failure)
{
    trial->shape.n_q = trial->shape.n_kv = length;
    const clattn_status code = make(trial) ? run(host, trial, ms) : CL_OUT_OF_HOST_MEMORY;
    discard(trial);
    return code ? fail_library(failure, "measuring a device's speed", code) : STATUS_OK;
}

int measure_speed(const struct session *session, const struct clattn_problem *problem, const struct clattn_shape *shape,
                  double *speed, struct failure *failure)
{
    const struct clattn_host_params params = {.context = session->clattn, .queue = session->queue};
    const int64_t most = shape->n_kv < LEAST_LENGTH ? LEAST_LENGTH : shape->n_kv;
    struct trial trial = {.problem = {.d = problem->d,
                                      .d_v = problem->d_v,
                                      .dtype = problem->dtype,
                                      .causal = problem->causal,
                                      .skeleton = problem->skeleton},
                          .shape = {.batch = 1, .heads = shape->heads, .kv_heads = shape->kv_heads}};
    clattn_host *host = NULL;
    double ms = 0.0;
    int64_t length = LEAST_LENGTH;
    int status = clattn_host_create(&host, &params)
                     ? fail_library(failure, "clattn_host_create", CLATTN_INVALID_ARGUMENT)
                     : STATUS_OK;
    for (; !status; length *= 2) {
        status = try_length(host, &trial, length, &ms, failure);
        if (status || ms > LONG_MS || length * 2 > most)
            break;
    }
    clattn_host_destroy(&host);
    *speed = (double)length * (double)length / (ms > 0.0 ? ms : 1e-3);
    return status;
}
