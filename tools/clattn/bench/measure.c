/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/buffers.h"
#include "bench/keys.h"
#include "bench/pause.h"
#include "bench/score.h"
#include "bench/steady.h"
#include "child.h"
#include "system/system.h"
#include <math.h>
#include <string.h>

enum { MOST_ENQUEUES = 32 };

/* One row in the making. */
struct bench {
    const struct session *session;
    const struct bench_shape *shape;
    struct bench_ceilings *ceilings;
    const struct bench_peak *peak; /* of the unit that the plan's kernel runs on; NULL: not measured */
    struct clattn_problem problem;
    clattn_plan *plan;
    struct bench_buffers buffers;
    cl_mem workspace, standard_workspace; /* NULL: none needed; no baseline */
    size_t workspace_bytes, standard_workspace_bytes;
    struct bench_pause pause; /* where calls are timed together */
    int calls;
    double once, host_seconds; /* what the last call took, in ms; and what enqueueing all of `calls` did */
    struct bench_row *row;
    bool has_standard; /* the baseline takes turns */
    double flash[STEADY_MOST_REPETITIONS], standard[STEADY_MOST_REPETITIONS], peaks[STEADY_MOST_REPETITIONS];
    double reads[STEADY_MOST_REPETITIONS];
    double standard_total_ms;
    int standard_count;
    double disagreement, standard_disagreement; /* of the present round */
};

/* From a time of `from` to when `to` ended; by the device's clock. */
static cl_int elapsed(cl_event from, cl_profiling_info when, cl_event to, double *ms)
{
    cl_ulong start = 0, end = 0;
    cl_int code = clWaitForEvents(1, &to);
    if (!code)
        code = clGetEventProfilingInfo(from, when, sizeof start, &start, NULL);
    if (!code)
        code = clGetEventProfilingInfo(to, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    *ms = end > start ? (double)(end - start) * 1e-6 : 0.0;
    return code;
}

/* Where a pass is several kernels, its event is the last one's: a command of no length in front marks the start. */
static clattn_status mark_start(const struct bench *bench, cl_mem scratch, cl_event *event)
{
    const cl_float zero = 0.0f;
    return clEnqueueFillBuffer(bench->session->queue, scratch, &zero, sizeof zero, 0, sizeof zero, 0, NULL, event);
}

static clattn_status enqueue_forward(const struct bench *bench, const clattn_plan *plan, cl_command_queue queue,
                                     cl_mem workspace, size_t bytes, cl_event *first, cl_event *event)
{
    struct clattn_forward_args args = bench->buffers.args;
    args.workspace = workspace;
    args.workspace_bytes = bytes;
    args.first_event = first;
    return clattn_forward_enqueue(plan, queue, &args, 0, NULL, event);
}

static clattn_status enqueue_flash(const struct bench *bench, cl_command_queue queue, cl_event *first, cl_event *event)
{
    if (bench->shape->pass == CLATTN_FORWARD)
        return enqueue_forward(bench, bench->plan, queue, bench->workspace, bench->workspace_bytes, first, event);
    struct clattn_backward_args args = bench->buffers.backward;
    args.workspace = bench->workspace;
    args.workspace_bytes = bench->workspace_bytes;
    args.first_event = first;
    return clattn_backward_enqueue(bench->plan, queue, &args, 0, NULL, event);
}

/* What a call that was enqueued with `code` took between its two events, which are released. */
static clattn_status time_between(clattn_status code, cl_event first, cl_profiling_info from, cl_event last, double *ms)
{
    if (!code)
        code = elapsed(first, from, last, ms);
    if (last)
        clReleaseEvent(last);
    if (first)
        clReleaseEvent(first);
    return code;
}

/* From when the call's first command starts: a command in front would end before the host has enqueued the call, and
 * what that takes would be counted. */
static clattn_status time_flash(const struct bench *bench, double *ms)
{
    cl_event first = NULL, last = NULL;
    const clattn_status code = enqueue_flash(bench, bench->session->queue, &first, &last);
    return time_between(code, first, CL_PROFILING_COMMAND_START, last, ms);
}

/* Of calls one after the other, the mean: from when the first one's first command starts to the last one's end. A pause
 * in front keeps the device until all are enqueued, as those of a recorded graph are. It lasts twice as long as
 * `host_seconds`, what the host took for that last time; which then becomes what it took now. Only the first and the
 * last have events. */
static clattn_status time_calls(const struct bench *bench, double *host_seconds, double *ms)
{
    cl_event first = NULL, last = NULL;
    clattn_status code = bench_pause_enqueue(&bench->pause, 2.0 * *host_seconds + 1e-4);
    const double start = system_clock();
    for (int i = 0; i < bench->calls && !code; i++)
        code = enqueue_flash(bench, bench->session->queue, i ? NULL : &first, i + 1 < bench->calls ? NULL : &last);
    *host_seconds = system_clock() - start;
    code = time_between(code, first, CL_PROFILING_COMMAND_START, last, ms);
    if (!code)
        *ms /= bench->calls;
    return code;
}

/* How long the host is kept by the call that enqueues, as a program does that has one after the other to enqueue:
 * without an event, on a queue that keeps no times. At most so many as take a fifth of a second. */
static clattn_status time_enqueues(const struct bench *bench, double once_ms, struct statistics *us)
{
    double times[MOST_ENQUEUES];
    cl_int code = CL_SUCCESS;
    const cl_command_queue queue = clCreateCommandQueue(bench->session->context, bench->session->id, 0, &code);
    if (code)
        return code;
    const double fitting = once_ms > 0.0 ? 200.0 / once_ms : MOST_ENQUEUES;
    const int count = fitting < 3.0 ? 3 : fitting > MOST_ENQUEUES ? MOST_ENQUEUES : (int)fitting;
    clattn_status status = enqueue_flash(bench, queue, NULL, NULL); /* the first has more to do */
    for (int i = 0; !status && i < count; i++) {
        const double start = system_clock();
        status = enqueue_flash(bench, queue, NULL, NULL);
        times[i] = (system_clock() - start) * 1e6;
    }
    if (!status)
        status = clFinish(queue);
    clReleaseCommandQueue(queue);
    if (!status)
        *us = statistics_of(times, (size_t)count);
    return status;
}

static clattn_status time_standard(struct bench *bench, double *ms)
{
    struct clattn_forward_args args = bench->buffers.args;
    args.workspace = bench->standard_workspace;
    args.workspace_bytes = bench->standard_workspace_bytes;
    cl_event first = NULL, last = NULL;
    clattn_status code = mark_start(bench, bench->standard_workspace, &first);
    if (!code)
        code = clattn_standard_enqueue(bench->session->clattn, &bench->problem, bench->session->queue, &args, 0, NULL,
                                       &last);
    return time_between(code, first, CL_PROFILING_COMMAND_END, last, ms);
}

static int make_plan(struct bench *bench, const struct bench_options *options, struct bench_row *row,
                     struct failure *failure)
{
    const struct bench_shape *shape = bench->shape;
    bench->problem = (struct clattn_problem){.pass = shape->pass,
                                             .dtype = shape->dtype,
                                             .d = shape->d,
                                             .d_v = shape->d_v,
                                             .causal = shape->causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL,
                                             .expected_n_q = shape->sizes.n_q,
                                             .expected_n_kv = shape->sizes.n_kv,
                                             .expected_heads = shape->sizes.batch * shape->sizes.heads,
                                             .expected_kv_heads = shape->sizes.batch * shape->sizes.kv_heads,
                                             .packing = options->packing,
                                             .splits = options->splits,
                                             .split_keys = options->split_keys,
                                             .unordered = options->unordered,
                                             .skeleton = options->skeleton,
                                             .b_r = options->b_r,
                                             .b_c = options->b_c,
                                             .work_group_size = options->work_group_size,
                                             .knobs = options->knobs};
    bench_score_problem(shape, &bench->problem);
    bench_keys_problem(shape, &bench->problem);
    const double start = system_clock();
    clattn_status code = clattn_plan_create(&bench->plan, bench->session->clattn, &bench->problem);
    row->first_call_ms = (system_clock() - start) * 1e3;
    if (!code)
        code = clattn_plan_get_info(bench->plan, &row->plan);
    if (!code)
        code = clattn_plan_workspace_bytes(bench->plan, &shape->sizes, &bench->workspace_bytes);
    const struct clattn_traffic_params traffic = {.shape = shape->sizes,
                                                  .window_left = shape->window_left,
                                                  .window_right = shape->window_right,
                                                  .block_share = shape->block_density};
    if (!code)
        code = clattn_plan_traffic(&bench->problem, &row->plan, &traffic, &row->traffic);
    return code ? fail_library(failure, "plan", code) : STATUS_OK;
}

/* Whether the device has the memory; else says in row->problem what is missing. */
static bool fits(const struct bench *bench, struct bench_row *row)
{
    const struct clattn_capabilities *capabilities = bench->session->capabilities;
    const uint64_t total = row->tensor_bytes + row->extra_bytes;
    const uint64_t largest = bench_largest_tensor(bench->shape);
    if (largest > capabilities->max_allocation_bytes)
        snprintf(row->problem, sizeof row->problem,
                 "a tensor of %llu bytes is more than the %llu that one buffer may have", (unsigned long long)largest,
                 (unsigned long long)capabilities->max_allocation_bytes);
    else if (total > capabilities->global_memory_bytes)
        snprintf(row->problem, sizeof row->problem, "%llu bytes are more than the %llu of the device",
                 (unsigned long long)total, (unsigned long long)capabilities->global_memory_bytes);
    return !row->problem[0];
}

static int make_buffers(struct bench *bench, struct failure *failure)
{
    const int status = bench_buffers_create(bench->session, bench->shape, &bench->buffers, failure);
    cl_int code = CL_SUCCESS;
    if (!status && bench->workspace_bytes)
        bench->workspace =
            clCreateBuffer(bench->session->context, CL_MEM_READ_WRITE, bench->workspace_bytes, NULL, &code);
    return status ? status : code ? fail_code(failure, "clCreateBuffer (workspace)", code) : STATUS_OK;
}

/* O, m and l, which a backward pass starts from. */
static int prepare_backward(struct bench *bench, struct failure *failure)
{
    struct clattn_problem problem = bench->problem;
    clattn_plan *plan = NULL;
    cl_mem workspace = NULL;
    size_t bytes = 0;
    problem.pass = CLATTN_FORWARD;
    problem.splits = 1;
    problem.split_keys = 0;
    problem.packing = CLATTN_PACKING_PLANNED;
    problem.skeleton = problem.knobs = NULL;
    problem.b_r = problem.b_c = problem.work_group_size = 0;
    clattn_status code = clattn_plan_create(&plan, bench->session->clattn, &problem);
    if (!code)
        code = clattn_plan_workspace_bytes(plan, &bench->shape->sizes, &bytes);
    if (!code && bytes)
        workspace = clCreateBuffer(bench->session->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (!code)
        code = enqueue_forward(bench, plan, bench->session->queue, workspace, bytes, NULL, NULL);
    if (!code)
        code = clFinish(bench->session->queue);
    if (workspace)
        clReleaseMemObject(workspace);
    clattn_plan_destroy(&plan);
    return code ? fail_library(failure, "the forward pass", code) : STATUS_OK;
}

/* The baseline's bytes; false, with row->standard_problem, where it has no such row or more than a buffer may have. */
static bool plan_standard(struct bench *bench, const struct bench_options *options, struct bench_row *row)
{
    const uint64_t limit = bench->session->capabilities->max_allocation_bytes;
    const struct bench_texts *texts = bench->shape->texts;
    if (bench->shape->pass != CLATTN_FORWARD || bench->shape->features || bench_keys_are_apart(bench->shape) ||
        texts->score_mod || texts->mask_mod) {
        snprintf(row->standard_problem, sizeof row->standard_problem, "it is the plain forward pass");
        return false;
    }
    const struct clattn_forward_args args = {.shape = bench->shape->sizes};
    const clattn_status code = clattn_standard_workspace_bytes(bench->session->clattn, &bench->problem, &args,
                                                               &bench->standard_workspace_bytes);
    row->standard_bytes = code ? 0 : bench->standard_workspace_bytes;
    if (code)
        snprintf(row->standard_problem, sizeof row->standard_problem, "clattn_standard_workspace_bytes: %s",
                 clattn_status_name(code));
    else if (bench->standard_workspace_bytes > limit)
        snprintf(row->standard_problem, sizeof row->standard_problem,
                 "its workspace of %zu bytes is more than the %llu that one buffer may have",
                 bench->standard_workspace_bytes, (unsigned long long)limit);
    else if (!options->standard)
        snprintf(row->standard_problem, sizeof row->standard_problem, "not asked for");
    return !row->standard_problem[0];
}

/* Makes the baseline ready, or says in row->standard_problem why there is none: that is a finding, not an error. */
static bool prepare_standard(struct bench *bench, struct bench_row *row)
{
    double ms;
    const char *call = "its workspace";
    clattn_status code;
    bench->standard_workspace =
        clCreateBuffer(bench->session->context, CL_MEM_READ_WRITE, bench->standard_workspace_bytes, NULL, &code);
    if (!code) {
        call = "clattn_standard_enqueue";
        code = time_standard(bench, &ms); /* compiles CLBlast's kernels */
    }
    if (code)
        snprintf(row->standard_problem, sizeof row->standard_problem, "%s: %s", call, clattn_status_name(code));
    return !code;
}

static int choose_repetitions(const struct bench_options *options, double once_ms)
{
    if (options->repetitions)
        return options->repetitions < STEADY_MOST_REPETITIONS ? options->repetitions : STEADY_MOST_REPETITIONS;
    const double fitting = once_ms > 0.0 ? 1000.0 / once_ms : 15.0;
    return fitting < 3.0 ? 3 : fitting > 15.0 ? 15 : (int)fitting;
}

/* The baseline's turn of a repetition. Where it is slow it gets fewer turns than the others: a grid is not to take
 * hours. One that fails has none from then on, in no round. */
static void take_standard_turn(struct bench *bench)
{
    double *ms = &bench->standard[bench->standard_count];
    bench->standard_total_ms += bench->standard_count ? ms[-1] : 0.0;
    if (bench->standard_total_ms > 2000.0)
        return;
    if (!time_standard(bench, ms)) {
        bench->standard_count++;
        return;
    }
    snprintf(bench->row->standard_problem, sizeof bench->row->standard_problem, "failed in repetition %d",
             bench->standard_count + 1);
    bench->has_standard = false;
    bench->standard_count = bench->row->standard_repetitions = 0;
    bench->row->standard_ms = (struct statistics){.median = 0.0};
}

static clattn_status time_turn(struct bench *bench, double *ms)
{
    return bench->calls ? time_calls(bench, &bench->host_seconds, ms) : time_flash(bench, ms);
}

/* GB/s of a read of K and V. */
static double read_keys(const struct bench *bench)
{
    const struct clattn_forward_args *args = &bench->buffers.args;
    const cl_mem buffers[2] = {args->k.buffer, args->v.buffer};
    if (bench->calls && bench_pause_enqueue(&bench->pause, 1e-5 * bench->calls + 1e-4))
        return 0.0;
    return bench_read_sample(bench->ceilings->read, buffers, bench->row->calls);
}

/* All repetitions. In turns, so that a change of the clock or of the machine's load meets all. The peak is measured on
 * both sides of each repetition and the larger one counts: where none of the repetitions beats its own, the medians do
 * not either. */
static int take_round(void *context, double *disagreement)
{
    struct bench *bench = context;
    const int count = bench->row->repetitions;
    clattn_status code = CL_SUCCESS;
    bench->standard_count = 0;
    bench->standard_total_ms = 0.0;
    for (int i = 0; !code && i < count; i++) {
        const double before = bench->peak ? bench_peak_sample(bench->peak, bench->once) : 0.0;
        bench->reads[i] = read_keys(bench);
        code = time_turn(bench, &bench->flash[i]);
        bench->peaks[i] = bench->peak ? fmax(before, bench_peak_sample(bench->peak, bench->once)) : 0.0;
        if (bench->has_standard && !code)
            take_standard_turn(bench);
    }
    bench->disagreement = steady_disagreement(bench->flash, count);
    bench->standard_disagreement = steady_disagreement(bench->standard, bench->standard_count);
    *disagreement = fmax(bench->disagreement, bench->standard_disagreement);
    return code;
}

static void keep_round(void *context)
{
    struct bench *bench = context;
    struct bench_row *row = bench->row;
    row->disagreement = bench->disagreement;
    row->standard_disagreement = bench->standard_disagreement;
    row->standard_repetitions = bench->standard_count;
    row->ms = statistics_of(bench->flash, (size_t)row->repetitions);
    row->peak_tflops = statistics_of(bench->peaks, (size_t)row->repetitions);
    row->read_gbps = statistics_of(bench->reads, (size_t)row->repetitions).median;
    row->standard_ms = statistics_of(bench->standard, (size_t)bench->standard_count);
}

/* The second call, which is warm, says how many repetitions there are. */
static clattn_status prepare_rounds(struct bench *bench, const struct bench_options *options)
{
    clattn_status code = time_flash(bench, &bench->once);
    bench->calls = options->calls;
    bench->row->calls = options->calls ? options->calls : 1;
    if (!code && bench->calls)
        code = bench_pause_create(bench->session, &bench->pause);
    if (!code && bench->calls)
        code = time_turn(bench, &bench->once);
    bench->row->repetitions = choose_repetitions(options, bench->once);
    return code;
}

static int repeat(struct bench *bench, const struct bench_options *options, struct failure *failure)
{
    struct bench_row *row = bench->row;
    const struct steady_rounds rounds = {take_round, keep_round, bench};
    clattn_status code = prepare_rounds(bench, options);
    row->copy_gbps = bench_copy_sample(bench->ceilings->copy, row->traffic.least);
    if (!code)
        code = steady_measure(&rounds, options->again, &row->rounds);
    if (!code)
        code = time_enqueues(bench, bench->once, &row->enqueue_us);
    if (code)
        return fail_library(failure, "attention", code);
    row->copy_gbps = fmax(row->copy_gbps, bench_copy_sample(bench->ceilings->copy, row->traffic.least));
    return STATUS_OK;
}

static int measure(struct bench *bench, const struct bench_options *options, struct bench_row *row,
                   struct failure *failure)
{
    double ms;
    int status = make_plan(bench, options, row, failure);
    if (status)
        return status;
    row->tensor_bytes = bench_tensor_bytes(bench->shape);
    row->extra_bytes = bench_vector_bytes(bench->shape) + bench->workspace_bytes;
    const bool standard = plan_standard(bench, options, row);
    if (!fits(bench, row))
        return STATUS_OK;
    row->unit = bench_unit_of(&row->plan);
    struct failure no_peak = {.command = NULL}; /* row says that there is none */
    bench->peak = bench_ceilings_peak(bench->ceilings, row->unit, bench->shape->dtype, &no_peak);
    status = make_buffers(bench, failure);
    if (!status && bench->shape->pass == CLATTN_BACKWARD)
        status = prepare_backward(bench, failure);
    if (status)
        return status;
    const clattn_status code = time_flash(bench, &ms);
    if (code)
        return fail_library(failure, "attention", code);
    status = bench_check_finite(bench->session, bench->shape, &bench->buffers, failure);
    if (status)
        return status;
    bench->has_standard = standard && prepare_standard(bench, row);
    return repeat(bench, options, failure);
}

int bench_measure(const struct session *session, const struct bench_shape *shape, const struct bench_options *options,
                  struct bench_ceilings *ceilings, struct bench_row *row, struct failure *failure)
{
    struct bench bench = {.session = session, .shape = shape, .ceilings = ceilings, .row = row};
    *row = (struct bench_row){.shape = *shape};
    const int status = measure(&bench, options, row, failure);
    clFinish(session->queue);
    if (bench.standard_workspace)
        clReleaseMemObject(bench.standard_workspace);
    if (bench.workspace)
        clReleaseMemObject(bench.workspace);
    bench_pause_destroy(&bench.pause);
    bench_buffers_destroy(&bench.buffers);
    clattn_plan_destroy(&bench.plan);
    return status;
}
