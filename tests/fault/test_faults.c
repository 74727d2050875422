/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations whose OpenCL calls fail, one after the other (fault/sweep.h).
 *
 *     test_faults LAYER.so [PART...]      all parts, or those
 *     test_faults --all PART...           are these all parts? */
#define _GNU_SOURCE /* setenv */
#include "fault/capped.h"
#include "fault/mutants.h"
#include "fault/passes.h"
#include "fault/stuck.h"
#include "fault/sweep.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fault_control *faults;
static struct test_device device;

static void device_level_survives(void **state)
{
    (void)state;
    sweep_scenario("device level");
}

static void host_level_survives(void **state)
{
    (void)state;
    sweep_scenario("host level");
}

static void standard_attention_survives(void **state)
{
    (void)state;
    sweep_scenario("standard attention");
}

static void backward_survives(void **state)
{
    (void)state;
    sweep_scenario("backward");
}

static void backward_at_host_level_survives(void **state)
{
    (void)state;
    sweep_scenario("backward, host level");
}

static void state_survives(void **state)
{
    (void)state;
    sweep_scenario("state");
}

static void records_survive(void **state)
{
    (void)state;
    sweep_scenario("records");
}

static void split_keys_survive(void **state)
{
    (void)state;
    sweep_scenario("keys split");
}

static void keys_in_pieces_survive(void **state)
{
    (void)state;
    sweep_scenario("keys in pieces, host level");
}

static void gradients_in_pieces_survive(void **state)
{
    (void)state;
    sweep_scenario("gradients with keys in pieces, host level");
}

static void a_cache_survives(void **state)
{
    (void)state;
    sweep_scenario("host cache");
}

static void appending_survives(void **state)
{
    (void)state;
    sweep_scenario("append");
}

/* All scenarios, with faults of one source. */
static void sweep_all(enum fault_source source, bool all_codes)
{
    int failures = 0;
    for (int i = 0; scenario_at(i); i++)
        failures += sweep_source(scenario_at(i), source, all_codes);
    assert_int_equal(failures, 0);
}

static void each_code_is_survived(void **state)
{
    (void)state;
    sweep_all(FAULT_CALLS, true);
}

static void mutants_are_seen(void **state)
{
    (void)state;
    assert_int_equal(mutants_not_seen(), 0);
}

/* At the device level events are the caller's: the host level waits for them. */
static void events_that_fail_are_seen(void **state)
{
    (void)state;
    static const char *const names[] = {"host level",
                                        "keys split",
                                        "backward, host level",
                                        "gradients with keys in pieces, host level",
                                        "keys in pieces, host level",
                                        "host cache"};
    int failures = 0;
    EACH (i, names)
        failures += sweep_source(scenario_named(names[i]), FAULT_EVENTS, false);
    assert_int_equal(failures, 0);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    sweep_all(FAULT_MEMORY, false);
}

static void files_that_fail_are_survived(void **state)
{
    (void)state;
    int failures = sweep_source(scenario_named("device level"), FAULT_FILES, true);
    failures += sweep_source(scenario_named("records"), FAULT_FILES, true);
    failures += sweep_source(scenario_named("host cache"), FAULT_FILES, true);
    assert_int_equal(failures, 0);
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

static void a_kernel_that_gives_up_is_told_at_host_level(void **state)
{
    (void)state;
    if (!test_is_for(&cla_backward_fused_emulated))
        skip();
    assert_true(stuck_is_told(device.clattn, faults));
}

static void capped_calls_stay_in_their_bounds(void **state)
{
    (void)state;
    assert_true(capped_calls_stay_within(device.clattn, faults));
}

static bool find_layer(const char *path)
{
    void *layer = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    faults = layer ? dlsym(layer, "fault_control") : NULL;
    if (!faults)
        fprintf(stderr, "the OpenCL loader did not load the layer %s\n", path);
    return faults != NULL;
}

/* The tests by part: each part is a run of its own, beside the others. */
static const struct {
    const char *name;
    struct CMUnitTest tests[6];
    size_t count;
} parts[] = {
    {"layer",
     {cmocka_unit_test(the_layer_works), cmocka_unit_test(a_chosen_read_lies),
      cmocka_unit_test(wrong_score_arguments_reach_no_call), cmocka_unit_test(the_dropout_mask_makes_no_call),
      cmocka_unit_test(a_kernel_that_gives_up_is_told_at_host_level),
      cmocka_unit_test(capped_calls_stay_in_their_bounds)},
     6},
    {"device", {cmocka_unit_test(device_level_survives)}, 1},
    {"host", {cmocka_unit_test(host_level_survives)}, 1},
    {"splits", {cmocka_unit_test(split_keys_survive)}, 1},
    {"pieces", {cmocka_unit_test(keys_in_pieces_survive)}, 1},
    {"state", {cmocka_unit_test(state_survives)}, 1},
    {"backward", {cmocka_unit_test(backward_survives)}, 1},
    {"backward_host", {cmocka_unit_test(backward_at_host_level_survives)}, 1},
    {"backward_pieces", {cmocka_unit_test(gradients_in_pieces_survive)}, 1},
    {"standard", {cmocka_unit_test(standard_attention_survives)}, 1},
    {"cache", {cmocka_unit_test(a_cache_survives), cmocka_unit_test(appending_survives)}, 2},
    {"records", {cmocka_unit_test(records_survive)}, 1},
    {"codes", {cmocka_unit_test(each_code_is_survived)}, 1},
    {"events", {cmocka_unit_test(events_that_fail_are_seen)}, 1},
    {"mutants", {cmocka_unit_test(mutants_are_seen)}, 1},
    {"memory", {cmocka_unit_test(no_memory_is_survived)}, 1},
    {"files", {cmocka_unit_test(files_that_fail_are_survived)}, 1},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static int part_named(const char *name)
{
    for (int i = 0; i < PARTS; i++)
        if (strcmp(parts[i].name, name) == 0)
            return i;
    return -1;
}

/* The names that are given are all of the parts, each once: none of them is left out of the runs. */
static int check_names(int count, char **names)
{
    bool named[PARTS] = {false};
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        const int part = part_named(names[i]);
        if (part < 0 || named[part])
            wrong += fprintf(stderr, "%s: no such part, or named twice\n", names[i]) > 0;
        else
            named[part] = true;
    }
    for (int i = 0; i < PARTS; i++)
        if (!named[i])
            wrong += fprintf(stderr, "no run has the part %s\n", parts[i].name) > 0;
    return wrong != 0;
}

static int run_part(int part)
{
    const int failures = _cmocka_run_group_tests(parts[part].name, parts[part].tests, parts[part].count, NULL, NULL);
    sweep_clear();
    return failures;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--all") == 0)
        return check_names(argc - 2, argv + 2);
    if (argc < 2) {
        fprintf(stderr, "usage: test_faults LAYER.so [PART...]\n       test_faults --all PART...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        if (part_named(argv[i]) < 0) {
            fprintf(stderr, "%s: no such part\n", argv[i]);
            return 2;
        }
    setenv("OPENCL_LAYERS", argv[1], 1);
    test_device_open(&device);
    if (!find_layer(argv[1]) || !sweep_begin(faults, &device))
        return 1;
    int failures = 0;
    for (int i = 2; i < argc; i++)
        failures += run_part(part_named(argv[i]));
    for (int i = 0; argc == 2 && i < PARTS; i++)
        failures += run_part(i);
    printf("%ld faults met\n", sweep_end());
    test_device_close(&device);
    return failures != 0;
}
