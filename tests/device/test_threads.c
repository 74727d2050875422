/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the headers promise to threads. Most of it is for the thread sanitizer to see; what can be seen without it is
 * that every thread gets the bits that one thread alone gets. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "support/compare.h"
#include "support/unit.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct test_device device;

enum { THREADS = 8, ROUNDS = 6 };

/* What one thread has to do, and with what. */
struct worker {
    struct test_device device; /* its own queue where it has one; context and library are shared */
    const clattn_plan *plan;   /* NULL: makes its own */
    struct forward_case forward;
    const struct forward_arrays *expected; /* NULL: judged by the reference */
    pthread_barrier_t *start;
    bool right;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct forward_arrays arrays;
    worker->right = forward_arrays_make(&worker->forward, &arrays);
    pthread_barrier_wait(worker->start);
    for (int round = 0; round < ROUNDS && worker->right; round++)
        worker->right = forward_run(&worker->device, worker->plan, &worker->forward, &arrays) &&
                        (worker->expected ? compare_bits(&worker->forward, worker->expected, &arrays)
                                          : compare_outputs(&worker->forward, &arrays));
    forward_arrays_free(&arrays);
    return NULL;
}

/* Starts all at one moment; answers how many were wrong. */
static int run_all(struct worker workers[THREADS])
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    int wrong = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].start = &start;
        if (pthread_create(&threads[i], NULL, work, &workers[i]))
            abort(); /* the others would wait at the barrier for ever */
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += !workers[i].right;
    }
    pthread_barrier_destroy(&start);
    return wrong;
}

static const struct forward_case forward = {.problem = {.d = 32, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                            .shape = {.batch = 1, .heads = 4, .kv_heads = 2, .n_q = 33, .n_kv = 70},
                                            .seed = 41};

static void own_queues(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        workers[i].device.queue = clCreateCommandQueue(device.context, device.device, 0, NULL);
        assert_non_null(workers[i].device.queue);
    }
}

static void release_queues(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        clReleaseCommandQueue(workers[i].device.queue);
}

static void fill(struct worker workers[THREADS], struct worker with)
{
    for (int i = 0; i < THREADS; i++)
        workers[i] = with;
}

static void one_plan(bool many_queues)
{
    struct worker workers[THREADS];
    struct forward_arrays expected;
    clattn_plan *plan = NULL;
    assert_true(forward_arrays_make(&forward, &expected));
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &forward.problem), CLATTN_SUCCESS);
    assert_true(forward_run(&device, plan, &forward, &expected));
    assert_true(compare_outputs(&forward, &expected));
    fill(workers, (struct worker){.device = device, .plan = plan, .forward = forward, .expected = &expected});
    if (many_queues)
        own_queues(workers);
    const int wrong = run_all(workers);
    if (many_queues)
        release_queues(workers);
    clattn_plan_destroy(&plan);
    forward_arrays_free(&expected);
    assert_int_equal(wrong, 0);
}

static void one_plan_and_one_queue(void **state)
{
    (void)state;
    one_plan(false);
}

static void one_plan_and_many_queues(void **state)
{
    (void)state;
    one_plan(true);
}

/* A fresh context that keeps nothing on disk, so that plans are really built. */
static clattn_context *fresh_context(void)
{
    const struct clattn_context_params params = {
        .context = device.context, .device = device.device, .cache_directory = ""};
    clattn_context *context = NULL;
    assert_int_equal(clattn_context_create(&context, &params), CLATTN_SUCCESS);
    return context;
}

/* Thread i takes problem i % kinds. */
static void plans_made_at_once(int kinds, enum forward_path path)
{
    struct worker workers[THREADS];
    struct test_device fresh = device;
    fresh.clattn = fresh_context();
    fill(workers, (struct worker){.device = fresh, .forward = forward});
    for (int i = 0; i < THREADS; i++) {
        workers[i].forward.path = path;
        workers[i].forward.problem.d = 24 + 8 * (i % kinds);
        workers[i].forward.problem.dtype = (enum clattn_dtype)(i % kinds % 3);
    }
    own_queues(workers);
    const int wrong = run_all(workers);
    release_queues(workers);
    clattn_context_destroy(&fresh.clattn);
    assert_int_equal(wrong, 0);
}

static void plans_of_one_problem_made_at_once(void **state)
{
    (void)state;
    plans_made_at_once(1, PATH_DEVICE);
}

static void plans_of_many_problems_made_at_once(void **state)
{
    (void)state;
    plans_made_at_once(4, PATH_DEVICE);
}

static void hosts_of_one_context(void **state)
{
    (void)state;
    plans_made_at_once(2, PATH_HOST);
}

static void standard_attention_of_one_context(void **state)
{
    (void)state;
    plans_made_at_once(2, PATH_STANDARD);
}

/* Contexts, the disk cache and the last error message belong to no thread in particular, or to each. */
static void *make_contexts(void *argument)
{
    bool *right = argument;
    const struct clattn_context_params params = {.context = device.context, .device = device.device};
    for (int round = 0; round < ROUNDS && *right; round++) {
        clattn_context *context = NULL;
        clattn_plan *plan = NULL;
        *right = test_succeeded(clattn_context_create(&context, &params), "clattn_context_create") &&
                 test_succeeded(clattn_plan_create(&plan, context, &forward.problem), "clattn_plan_create") &&
                 clattn_plan_create(NULL, context, &forward.problem) == CLATTN_INVALID_ARGUMENT &&
                 clattn_error_message()[0] != '\0';
        clattn_plan_destroy(&plan);
        clattn_context_destroy(&context);
    }
    return NULL;
}

static void contexts_made_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    bool right[THREADS];
    for (int i = 0; i < THREADS; i++) {
        right[i] = true;
        assert_int_equal(pthread_create(&threads[i], NULL, make_contexts, &right[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(right[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_plan_and_one_queue),
        cmocka_unit_test(one_plan_and_many_queues),
        cmocka_unit_test(plans_of_one_problem_made_at_once),
        cmocka_unit_test(plans_of_many_problems_made_at_once),
        cmocka_unit_test(hosts_of_one_context),
        cmocka_unit_test(standard_attention_of_one_context),
        cmocka_unit_test(contexts_made_at_once),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
