/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/measure.h"
#include "bench/buffers.h"
#include "child.h"
#include "system/system.h"
#include "verify/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20240607 };
#define WARM_SECONDS 0.05 /* of runs that are not timed, before the first that is */
#define RUN_SECONDS  0.2  /* of short runs that are, together */

struct kept_plan {
    struct tune_candidate candidate;
    clattn_plan *plan;
};

struct tune_bench {
    const struct session *session;
    struct tune_problem problem;
    bool filled; /* there are buffers, for `problem` */
    struct bench_buffers buffers;
    cl_mem workspace; /* the largest that a plan has asked for; NULL: none has */
    size_t workspace_bytes;
    struct kept_plan plans[TUNE_MOST];
    int plan_count;
};

struct clattn_problem tune_library_problem(const struct tune_problem *problem)
{
    return (struct clattn_problem){.pass = problem->pass,
                                   .dtype = problem->dtype,
                                   .d = problem->d,
                                   .d_v = problem->d_v,
                                   .causal = problem->causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL,
                                   .expected_n_q = problem->n_q,
                                   .expected_n_kv = problem->n_kv,
                                   .expected_heads = problem->kv_heads ? problem->batch * problem->heads : 0,
                                   .expected_kv_heads = problem->batch * problem->kv_heads};
}

static struct clattn_problem forced_problem(const struct tune_problem *problem, const struct tune_candidate *candidate)
{
    struct clattn_problem forced = tune_library_problem(problem);
    forced.skeleton = candidate->skeleton;
    forced.b_r = candidate->b_r;
    forced.b_c = candidate->b_c;
    forced.work_group_size = candidate->work_group_size;
    forced.knobs = candidate->knobs[0] ? candidate->knobs : NULL;
    return forced;
}

static bool same_problem(const struct tune_problem *a, const struct tune_problem *b)
{
    return a->pass == b->pass && a->dtype == b->dtype && a->d == b->d && a->d_v == b->d_v && a->causal == b->causal &&
           a->batch == b->batch && a->heads == b->heads && a->kv_heads == b->kv_heads && a->n_q == b->n_q &&
           a->n_kv == b->n_kv;
}

static void empty(struct tune_bench *bench)
{
    clFinish(bench->session->queue);
    for (int i = 0; i < bench->plan_count; i++)
        clattn_plan_destroy(&bench->plans[i].plan);
    bench->plan_count = 0;
    if (bench->workspace)
        clReleaseMemObject(bench->workspace);
    bench->workspace = NULL;
    bench->workspace_bytes = 0;
    if (bench->filled)
        bench_buffers_destroy(&bench->buffers);
    bench->filled = false;
}

struct tune_bench *tune_bench_create(const struct session *session)
{
    struct tune_bench *bench = calloc(1, sizeof *bench);
    if (bench)
        bench->session = session;
    return bench;
}

void tune_bench_destroy(struct tune_bench *bench)
{
    if (bench)
        empty(bench);
    free(bench);
}

static clattn_status reserve_workspace(struct tune_bench *bench, const clattn_plan *plan)
{
    size_t bytes = 0;
    cl_int code = clattn_plan_workspace_bytes(plan, &bench->buffers.args.shape, &bytes);
    if (code || bytes <= bench->workspace_bytes)
        return code;
    if (bench->workspace)
        clReleaseMemObject(bench->workspace);
    bench->workspace_bytes = 0;
    bench->workspace = clCreateBuffer(bench->session->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (!code)
        bench->workspace_bytes = bytes;
    return code;
}

static clattn_status enqueue_forward(struct tune_bench *bench, const clattn_plan *plan, cl_event *first,
                                     cl_event *event)
{
    struct clattn_forward_args args = bench->buffers.args;
    args.workspace = bench->workspace;
    args.workspace_bytes = bench->workspace_bytes;
    args.first_event = first;
    return clattn_forward_enqueue(plan, bench->session->queue, &args, 0, NULL, event);
}

/* Gradients are taken of what a forward pass left: by the planner's own choice, once. */
static clattn_status run_forward(struct tune_bench *bench)
{
    struct clattn_problem problem = tune_library_problem(&bench->problem);
    clattn_plan *plan = NULL;
    problem.pass = CLATTN_FORWARD;
    clattn_status code = clattn_plan_create(&plan, bench->session->clattn, &problem);
    if (!code)
        code = reserve_workspace(bench, plan);
    if (!code)
        code = enqueue_forward(bench, plan, NULL, NULL);
    if (!code)
        code = clFinish(bench->session->queue);
    clattn_plan_destroy(&plan);
    return code;
}

static int prepare(struct tune_bench *bench, const struct tune_problem *problem, struct failure *failure)
{
    if (bench->filled && same_problem(&bench->problem, problem))
        return STATUS_OK;
    empty(bench);
    const struct bench_shape shape = {.dtype = problem->dtype,
                                      .sizes = {.batch = problem->batch,
                                                .heads = problem->heads,
                                                .kv_heads = problem->kv_heads ? problem->kv_heads : problem->heads,
                                                .n_q = problem->n_q,
                                                .n_kv = problem->n_kv},
                                      .d = problem->d,
                                      .d_v = problem->d_v,
                                      .causal = problem->causal,
                                      .pass = problem->pass};
    const int status = bench_buffers_create(bench->session, &shape, &bench->buffers, failure);
    if (status)
        return status;
    bench->problem = *problem;
    bench->filled = true;
    const clattn_status code = problem->pass == CLATTN_BACKWARD ? run_forward(bench) : CLATTN_SUCCESS;
    return code ? fail_library(failure, "the forward pass before gradients", code) : STATUS_OK;
}

static clattn_status enqueue_backward(struct tune_bench *bench, const clattn_plan *plan, cl_event *first,
                                      cl_event *event)
{
    struct clattn_backward_args args = bench->buffers.backward;
    args.workspace = bench->workspace;
    args.workspace_bytes = bench->workspace_bytes;
    args.first_event = first;
    return clattn_backward_enqueue(plan, bench->session->queue, &args, 0, NULL, event);
}

/* From when the call's first command starts to when its last one ends: splits are merged by a kernel of their own, and
 * a backward pass is several. */
static clattn_status run_once(struct tune_bench *bench, const clattn_plan *plan, double *ms)
{
    cl_event first = NULL, last = NULL;
    cl_ulong start = 0, end = 0;
    clattn_status code = bench->problem.pass == CLATTN_BACKWARD ? enqueue_backward(bench, plan, &first, &last)
                                                                : enqueue_forward(bench, plan, &first, &last);
    if (!code)
        code = clWaitForEvents(1, &last);
    if (!code)
        code = clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    if (!code)
        code = clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    if (first)
        clReleaseEvent(first);
    if (last)
        clReleaseEvent(last);
    *ms = end > start ? (double)(end - start) * 1e-6 : 0.0;
    return code;
}

static clattn_status find_plan(struct tune_bench *bench, const struct tune_candidate *candidate, clattn_plan **plan)
{
    for (int i = 0; i < bench->plan_count; i++)
        if (!memcmp(&bench->plans[i].candidate, candidate, sizeof *candidate)) {
            *plan = bench->plans[i].plan;
            return CLATTN_SUCCESS;
        }
    if (bench->plan_count == TUNE_MOST) /* not the first ones, of which one is what others are compared with */
        clattn_plan_destroy(&bench->plans[--bench->plan_count].plan);
    struct kept_plan *kept = &bench->plans[bench->plan_count];
    const struct clattn_problem problem = forced_problem(&bench->problem, candidate);
    const clattn_status code = clattn_plan_create(&kept->plan, bench->session->clattn, &problem);
    if (code)
        return code;
    kept->candidate = *candidate;
    *plan = kept->plan;
    bench->plan_count++;
    return CLATTN_SUCCESS;
}

/* A small problem of the class, of more blocks than one both ways and with ragged ends, against the reference. */
static bool verify(const struct tune_bench *bench, const struct tune_candidate *candidate,
                   struct tune_measured *measured)
{
    const struct tune_problem *problem = &bench->problem;
    const bool backward = problem->pass == CLATTN_BACKWARD;
    const struct verify_case item = {.kind = backward ? VERIFY_BACKWARD : VERIFY_RULE,
                                     .problem = {.dtype = problem->dtype,
                                                 .d = problem->d,
                                                 .d_v = problem->d_v,
                                                 .shape = {.batch = 1,
                                                           .heads = 2,
                                                           .kv_heads = 1,
                                                           .n_q = candidate->b_r + 19,
                                                           .n_kv = (backward ? 1 : 2) * candidate->b_c + 37},
                                                 .causal = problem->causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL,
                                                 .scale = 1.0 / sqrt(problem->d)},
                                     .layout = VERIFY_BHND,
                                     .gain = 1.0,
                                     .skeleton = candidate->skeleton,
                                     .b_r = candidate->b_r,
                                     .b_c = candidate->b_c,
                                     .work_group_size = candidate->work_group_size,
                                     .knobs = candidate->knobs[0] ? candidate->knobs : NULL};
    const struct verify_result result = verify_check(bench->session, &item, SEED);
    if (result.outcome == VERIFY_PASS)
        return true;
    measured->state = result.outcome == VERIFY_SKIP ? CLATTN_TUNING_INFEASIBLE : CLATTN_TUNING_WRONG;
    snprintf(measured->text, sizeof measured->text, "%.500s", result.text);
    return false;
}

static clattn_status time_runs(struct tune_bench *bench, const clattn_plan *plan, const clattn_plan *base,
                               const struct tune_request *request, struct tune_measured *measured)
{
    double start = system_clock(), ms = 0;
    clattn_status code;
    do {
        code = run_once(bench, plan, &ms);
        if (!code && base)
            code = run_once(bench, base, &ms);
    } while (!code && system_clock() - start < WARM_SECONDS);
    start = system_clock();
    while (!code && measured->runs < TUNE_MOST_RUNS &&
           (measured->runs < request->runs || system_clock() - start < RUN_SECONDS)) {
        double *taken = &measured->ms[measured->runs], *beside = &measured->base_ms[measured->runs];
        code = run_once(bench, plan, taken);
        if (!code && base)
            code = run_once(bench, base, beside);
        measured->runs++;
        if (base && request->limit > 0 && *taken > request->limit * *beside)
            break;
    }
    return code;
}

/* What says that the device will not have this candidate, against what says that the device is in trouble. */
static bool is_refusal(clattn_status code)
{
    return code == CLATTN_NOTHING_FITS || code == CLATTN_BUILD_FAILED || code == CLATTN_INVALID_ARGUMENT;
}

int tune_bench_measure(struct tune_bench *bench, const struct tune_problem *problem,
                       const struct tune_candidate *candidate, const struct tune_candidate *base,
                       const struct tune_request *request, struct tune_measured *measured, struct failure *failure)
{
    clattn_plan *plan = NULL, *base_plan = NULL;
    *measured = (struct tune_measured){.state = CLATTN_TUNING_OK};
    const int status = prepare(bench, problem, failure);
    if (status)
        return status;
    clattn_status code = request->paired ? find_plan(bench, base, &base_plan) : CLATTN_SUCCESS;
    if (code)
        return fail_library(failure, "the choice without tuning, which has worked before", code);
    code = find_plan(bench, candidate, &plan);
    if (!code)
        code = reserve_workspace(bench, plan);
    if (!code && request->first && !verify(bench, candidate, measured))
        return STATUS_OK;
    if (!code)
        code = time_runs(bench, plan, base_plan, request, measured);
    if (code) {
        measured->state = CLATTN_TUNING_INFEASIBLE;
        measured->broken = !is_refusal(code);
        measured->runs = 0;
        snprintf(measured->text, sizeof measured->text, "%s: %.440s", clattn_status_name(code), clattn_error_message());
    }
    return STATUS_OK;
}

bool tune_bench_build(const struct session *session, const struct tune_problem *problem,
                      const struct tune_candidate *candidate)
{
    const struct clattn_problem forced = forced_problem(problem, candidate);
    clattn_plan *plan = NULL;
    const clattn_status code = clattn_plan_create(&plan, session->clattn, &forced);
    clattn_plan_destroy(&plan);
    return !code;
}
