/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes the first OpenCL call of an operation fail, then the second, the third, ... until the operation runs through
 * without having met a fault. Each time: the right status, no crash, nothing leaked, and the same objects still good
 * for the same operation without a fault.
 *
 * One way to fail meets every call; the others, which leave by the same ways out, and builds under a sanitizer meet one
 * in STRIDE, from another first one each time. CLATTN_TEST_FULL=1 takes them all.
 *
 *     test_faults LAYER.so [NAME_PATTERN] */
#define _GNU_SOURCE /* setenv, mkdtemp */
#include "fault/layer.h"
#include "fault/passes.h"
#include "fault/scenario.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 20000, STRIDE = 5 };

static const struct fault_control *faults;
static struct test_device device;
static char directory[] = "/tmp/clattn-test-fault-XXXXXX";

/* How the disk cache stands when an operation begins. */
enum cache { CACHE_OFF, CACHE_COLD, CACHE_WARM };
static const char *const cache_names[] = {"no cache", "cold cache", "warm cache"};

/* What is made to fail, and how. */
struct attempt {
    const struct scenario *scenario;
    enum cache cache;
    long nth;
    bool sticky;
    cl_int code;
};

static bool complain(const struct attempt *attempt, const char *step, const char *what)
{
    print_error("%s, %s, call %ld (%s) %s %d: %s: %s\n", attempt->scenario->name, cache_names[attempt->cache],
                attempt->nth, faults->victim(), attempt->sticky ? "and all later ones answer" : "answers",
                attempt->code, step, what);
    return false;
}

/* The injected code, a code of the library's own, or CLBlast's for it. */
static bool status_is_right(const struct attempt *attempt, clattn_status status)
{
    const bool clblast = attempt->scenario->clblast && status <= -1003 && status >= -2048;
    return status == attempt->code || (status <= CLATTN_INVALID_ARGUMENT && status >= CLATTN_TOO_LARGE) || clblast;
}

static bool run_step(const struct attempt *attempt, const struct step *step, struct scene *scene)
{
    char text[256];
    faults->resume();
    const long before = faults->injected();
    const clattn_status status = step->run(scene);
    faults->pause();
    if (!status)
        return scene_consistent(scene) || complain(attempt, step->name, "succeeded, but left something behind");
    snprintf(text, sizeof text, "answers %s (%d): %.150s", clattn_status_name(status), status, clattn_error_message());
    if (faults->injected() == before)
        return complain(attempt, step->name, text);
    if (!status_is_right(attempt, status))
        return complain(attempt, step->name, text);
    if (!clattn_error_message()[0])
        return complain(attempt, step->name, "fails without a message");
    if (!scene_untouched(scene))
        return complain(attempt, step->name, "fails, but has touched its outputs");
    if (step->run(scene) != CLATTN_SUCCESS) {
        snprintf(text, sizeof text, "does not work any more after the fault: %.150s", clattn_error_message());
        return complain(attempt, step->name, text);
    }
    return true;
}

static bool nothing_leaked(const struct attempt *attempt, const long before[FAULT_OBJECTS])
{
    static const char *const names[FAULT_OBJECTS] = {"context", "device", "queue", "buffer",
                                                     "program", "kernel", "event"};
    long after[FAULT_OBJECTS];
    char text[64];
    bool same = true;
    faults->references(after);
    for (int i = 0; i < FAULT_OBJECTS; i++)
        if (after[i] != before[i]) {
            snprintf(text, sizeof text, "%+ld references to a %s", after[i] - before[i], names[i]);
            same = complain(attempt, "leaks", text);
        }
    return same;
}

/* *injected: whether the operation met the fault at all. */
static bool try_attempt(const struct attempt *attempt, bool *injected)
{
    long before[FAULT_OBJECTS];
    struct scene scene;
    if (attempt->cache == CACHE_COLD)
        clattn_cache_clear(directory, NULL);
    faults->references(before);
    if (!scene_open(&scene, &device, attempt->cache == CACHE_OFF ? "" : directory, attempt->scenario))
        return complain(attempt, "before", "no memory");
    faults->arm(attempt->nth, attempt->sticky, attempt->code);
    faults->pause();
    bool good = true;
    for (const struct step *step = attempt->scenario->steps; step->run && good; step++)
        good = run_step(attempt, step, &scene);
    *injected = faults->injected() > 0;
    if (good && !scene_right(&scene))
        good = complain(attempt, "afterwards", "the results are wrong");
    scene_close(&scene);
    return nothing_leaked(attempt, before) && good;
}

/* One run without a fault whose references do not count. */
static bool warm_up(const struct attempt *attempt)
{
    struct scene scene;
    bool good = scene_open(&scene, &device, attempt->cache == CACHE_OFF ? "" : directory, attempt->scenario);
    for (const struct step *step = attempt->scenario->steps; step->run && good; step++)
        good = step->run(&scene) == CLATTN_SUCCESS;
    good = good && scene_right(&scene);
    scene_close(&scene);
    return good;
}

static bool sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return false;
#endif
}

static bool is_full(void)
{
    const char *wanted = getenv("CLATTN_TEST_FULL");
    return wanted && strcmp(wanted, "1") == 0;
}

/* How many calls to go on by. CLBlast's, which are most of standard attention's, are all alike. */
static long stride_of(const struct attempt *attempt, int mode)
{
    if (is_full())
        return 1;
    return mode == 0 && !sanitized() && !attempt->scenario->clblast ? 1 : STRIDE;
}

/* The calls of one operation, one after the other. Answers how many of them did harm. */
static int sweep(struct attempt attempt, int mode)
{
    int failures = 0;
    bool injected = true;
    const long stride = stride_of(&attempt, mode);
    for (attempt.nth = 1 + (mode + attempt.cache) % stride; injected && attempt.nth < MOST_CALLS && failures < 10;
         attempt.nth += stride)
        failures += !try_attempt(&attempt, &injected);
    print_message("%s, %s, %s %d: up to call %ld, one in %ld\n", attempt.scenario->name, cache_names[attempt.cache],
                  attempt.sticky ? "from call N on" : "call N alone", attempt.code, attempt.nth - 2 * stride, stride);
    return failures + (injected && !failures);
}

static void survives(const char *name)
{
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY};
    int failures = 0;
    bool injected = false;
    const bool few = scenario_named(name)->clblast || scenario_named(name)->warm_only;
    for (int cache = scenario_named(name)->warm_only ? CACHE_WARM : CACHE_OFF; cache <= CACHE_WARM; cache++) {
        struct attempt attempt = {.scenario = scenario_named(name), .cache = (enum cache)cache, .nth = MOST_CALLS};
        /* Without a fault first. CLBlast keeps what it compiles: its references count from the second time on. */
        if (attempt.scenario->clblast)
            assert_true(warm_up(&attempt));
        assert_true(try_attempt(&attempt, &injected));
        /* CLBlast has most of the calls and its own code on most of the ways out: half of the ways to fail will do. */
        for (int mode = 0; mode < 4; mode += few ? 3 : 1) {
            attempt.sticky = mode % 2 != 0;
            attempt.code = codes[mode / 2];
            failures += sweep(attempt, mode);
        }
    }
    assert_int_equal(failures, 0);
}

static void device_level_survives(void **state)
{
    (void)state;
    survives("device level");
}

static void host_level_survives(void **state)
{
    (void)state;
    survives("host level");
}

static void standard_attention_survives(void **state)
{
    (void)state;
    survives("standard attention");
}

static void backward_survives(void **state)
{
    (void)state;
    survives("backward");
}

static void backward_at_host_level_survives(void **state)
{
    (void)state;
    survives("backward, host level");
}

static void state_survives(void **state)
{
    (void)state;
    survives("state");
}

static void split_keys_survive(void **state)
{
    (void)state;
    survives("keys split");
}

static void keys_in_pieces_survive(void **state)
{
    (void)state;
    survives("keys in pieces, host level");
}

/* No call may fail for it, since there is none. */
static void wrong_score_arguments_reach_no_call(void **state)
{
    (void)state;
    faults->arm(0, false, CL_OUT_OF_RESOURCES);
    assert_true(pass_refuses_wrong_arguments(&device, faults->calls));
    faults->pause();
}

static void the_dropout_mask_makes_no_call(void **state)
{
    (void)state;
    uint8_t mask[12];
    faults->arm(1, true, CL_OUT_OF_RESOURCES);
    assert_int_equal(clattn_dropout_mask(0.5f, 1, 0, 2, 0, 1, 0, 3, 0, 4, mask), CLATTN_SUCCESS);
    faults->pause();
    assert_int_equal(faults->calls(), 0);
}

/* That the layer is there and does what it says, or everything else here would pass unseen. */
static void the_layer_works(void **state)
{
    (void)state;
    cl_int code = CL_SUCCESS;
    long before[FAULT_OBJECTS], after[FAULT_OBJECTS];
    faults->references(before);
    faults->arm(2, false, CL_OUT_OF_RESOURCES);
    cl_mem first = clCreateBuffer(device.context, CL_MEM_READ_WRITE, 16, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_null(clCreateBuffer(device.context, CL_MEM_READ_WRITE, 16, NULL, &code));
    assert_int_equal(code, CL_OUT_OF_RESOURCES);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_int_equal(faults->calls(), 3);
    assert_int_equal(faults->injected(), 1);
    assert_string_equal(faults->victim(), "clCreateBuffer");
    faults->pause();
    faults->references(after);
    assert_int_equal(after[FAULT_BUFFER], before[FAULT_BUFFER] + 1);
    clReleaseMemObject(first);
    faults->references(after);
    assert_int_equal(after[FAULT_BUFFER], before[FAULT_BUFFER]);
}

/* The command's tests rely on it, to see `clattn verify` find a wrong result. */
static void a_chosen_read_lies(void **state)
{
    (void)state;
    cl_int code = CL_SUCCESS;
    float sent[7] = {0.0f, 1.0f, -2.0f, 3.0f, 0.5f, 6.0f, 7.0f}, got[7];
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof sent, sent, &code);
    assert_int_equal(code, CL_SUCCESS);
    faults->corrupt_read(2);
    for (int i = 1; i <= 3; i++) {
        code = clEnqueueReadBuffer(device.queue, buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL);
        assert_int_equal(code, CL_SUCCESS);
        assert_int_equal(memcmp(sent, got, sizeof sent) == 0, i != 2);
    }
    clReleaseMemObject(buffer);
}

static bool find_layer(const char *path)
{
    void *layer = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    faults = layer ? dlsym(layer, "fault_control") : NULL;
    if (!faults)
        fprintf(stderr, "the OpenCL loader did not load the layer %s\n", path);
    return faults != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: test_faults LAYER.so [NAME_PATTERN]\n");
        return 2;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    setenv("OPENCL_LAYERS", argv[1], 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layer_works),
        cmocka_unit_test(a_chosen_read_lies),
        cmocka_unit_test(device_level_survives),
        cmocka_unit_test(host_level_survives),
        cmocka_unit_test(backward_survives),
        cmocka_unit_test(backward_at_host_level_survives),
        cmocka_unit_test(state_survives),
        cmocka_unit_test(keys_in_pieces_survive),
        cmocka_unit_test(split_keys_survive),
        cmocka_unit_test(wrong_score_arguments_reach_no_call),
        cmocka_unit_test(the_dropout_mask_makes_no_call),
        cmocka_unit_test(standard_attention_survives),
    };
    test_device_open(&device);
    if (!find_layer(argv[1]) || !mkdtemp(directory))
        return 1;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    clattn_cache_clear(directory, NULL);
    rmdir(directory);
    test_device_close(&device);
    return failures;
}
