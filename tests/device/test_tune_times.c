/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The tuner times whole calls. Times are made up: a call of one kernel takes 100 us, one whose keys are split takes
 * 1000 until its kernel is done, and 1 for the kernel that merges the splits. Whoever looks at the last command alone
 * finds splits a thousand times as fast as they are. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "failure.h"
#include "support/device.h"
#include "support/unit.h"
#include "tune/measure.h"
#include <dlfcn.h>
#include <string.h>

enum {
    D = 16,
    FEW_ROWS = 8,
    MANY_ROWS = 16,
    KEYS = 2000,
    MOST = 512,
    WHOLE_US = 100,
    FIRST_US = 1000,
    SECOND_US = 1,
    GAP_US = 10
};

static struct test_device device;
static cl_command_queue queue;
static struct made_up {
    cl_event event;
    cl_ulong start, end;
} commands[MOST];
static int command_count, since_asked, split_calls;
static cl_ulong now;

static struct made_up *newest(void)
{
    return &commands[(command_count + MOST - 1) % MOST];
}

/* The second kernel since times were asked for makes the first one of a call with splits. */
static void note(cl_event event)
{
    since_asked++;
    if (since_asked == 2) {
        newest()->end += (FIRST_US - WHOLE_US) * 1000;
        now = newest()->end;
    }
    now += GAP_US * 1000;
    commands[command_count++ % MOST] =
        (struct made_up){event, now, now + (since_asked == 1 ? WHOLE_US : SECOND_US) * 1000};
    now = newest()->end;
}

cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue on, cl_kernel kernel, cl_uint dimensions,
                                          const size_t *offset, const size_t *global, const size_t *local,
                                          cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    static cl_int(CL_API_CALL * real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                                      const size_t *, cl_uint, const cl_event *, cl_event *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    const cl_int code = real(on, kernel, dimensions, offset, global, local, wait_count, wait_list, event);
    if (!code)
        note(event ? *event : NULL);
    return code;
}

/* (An event's place may be another's later on: the newest counts.) */
cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info name, size_t size, void *value,
                                           size_t *size_of_it)
{
    static cl_int(CL_API_CALL * real)(cl_event, cl_profiling_info, size_t, void *, size_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clGetEventProfilingInfo");
    cl_int code = real(event, name, size, value, size_of_it);
    split_calls += since_asked == 2;
    since_asked = 0;
    for (int i = command_count - 1; !code && i >= 0 && i > command_count - MOST; i--)
        if (commands[i % MOST].event == event) {
            const struct made_up *found = &commands[i % MOST];
            *(cl_ulong *)value = name == CL_PROFILING_COMMAND_END ? found->end : found->start;
            return code;
        }
    return CL_PROFILING_INFO_NOT_AVAILABLE;
}

/* Blocks of few rows keep every compute unit busy, blocks of twice as many half of them, so that keys are split. */
static struct tune_problem problem = {.pass = CLATTN_FORWARD,
                                      .dtype = CLATTN_FP32,
                                      .d = D,
                                      .d_v = D,
                                      .batch = 1,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .n_kv = KEYS};
static const struct tune_candidate whole = {"forward_simt", FEW_ROWS, 32, 0, ""},
                                   split = {"forward_simt", MANY_ROWS, 32, 0, ""};

struct run {
    struct tune_bench *bench;
    struct tune_candidate candidates[2];
    double seconds;
};

static struct tune_answer measure(void *user, const struct tune_request *request)
{
    struct run *run = user;
    struct tune_measured measured;
    struct failure failure;
    struct tune_answer answer = {.state = CLATTN_TUNING_OK};
    if (tune_bench_measure(run->bench, &problem, &run->candidates[request->index], &run->candidates[0], request,
                           &measured, &failure))
        fail_msg("%s", failure.text);
    if (measured.state != CLATTN_TUNING_OK)
        fail_msg("candidate %d: %s", request->index, measured.text);
    answer.runs = measured.runs;
    memcpy(answer.ms, measured.ms, sizeof answer.ms);
    memcpy(answer.base_ms, measured.base_ms, sizeof answer.base_ms);
    run->seconds += 1;
    return answer;
}

static double clock_of(void *user)
{
    return ((struct run *)user)->seconds;
}

static bool never(void *user)
{
    (void)user;
    return false;
}

/* Which one wins, and what it took. */
static int winner(const struct tune_candidate *first, const struct tune_candidate *second, double *ms)
{
    const struct session session = {.id = device.device,
                                    .context = device.context,
                                    .queue = queue,
                                    .clattn = device.clattn,
                                    .capabilities = clattn_context_capabilities(device.clattn)};
    struct run run = {.bench = tune_bench_create(&session), .candidates = {*first, *second}};
    struct tune_search search = {.count = 2,
                                 .budget = 1000,
                                 .deadline = 100,
                                 .measure = measure,
                                 .clock = clock_of,
                                 .stop = never,
                                 .user = &run};
    assert_non_null(run.bench);
    split_calls = 0;
    tune_search_run(&search);
    tune_bench_destroy(run.bench);
    *ms = search.best_ms;
    return search.best;
}

static void splits_are_timed_with_their_first_kernel(void **state)
{
    (void)state;
    const int units = (int)clattn_context_capabilities(device.clattn)->compute_units;
    double ms = 0;
    if (units < 2 || !test_is_on_cpu())
        skip(); /* splits do not help, or both candidates have some */
    problem.n_q = FEW_ROWS * (units - units % 2);
    const int second = winner(&split, &whole, &ms);
    assert_true(split_calls > 0);
    assert_int_equal(second, 1);
    assert_true(ms * 1000 > WHOLE_US - 1 && ms * 1000 < WHOLE_US + 1);
    assert_int_equal(winner(&whole, &split, &ms), 0);
    const int whole_alone = winner(&split, &split, &ms);
    assert_int_equal(whole_alone, 0);
    assert_true(ms * 1000 > FIRST_US + GAP_US + SECOND_US - 1 && ms * 1000 < FIRST_US + GAP_US + SECOND_US + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits_are_timed_with_their_first_kernel)};
    cl_int code = CL_SUCCESS;
    test_device_open(&device);
    queue = clCreateCommandQueue(device.context, device.device, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    clReleaseCommandQueue(queue);
    test_device_close(&device);
    return failed;
}
