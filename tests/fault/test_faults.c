/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes the first OpenCL call of an operation fail, then the second, the third, ... until the operation runs through
 * without having met a fault. Each time: the right status, no crash, nothing leaked, and the same objects still good
 * for the same operation without a fault.
 *
 * One way to fail meets every call; the others, which leave by the same ways out, and builds under a sanitizer meet one
 * in STRIDE, from another first one each time. On a GPU, whose driver takes seconds for what PoCL compiles in tenths, all
 * meet one in GPU_STRIDE. CLATTN_TEST_FULL=1 takes them all.
 *
 * An operation is made of steps, of which one meets the fault. Building programs takes nearly all of the time, and on
 * some drivers making OpenCL contexts to probe the device in: objects are made anew for each fault only where that
 * changes which calls there are to fail.
 *
 *     test_faults LAYER.so [PART...]      all parts, or those
 *     test_faults --all PART...           are these all parts? */
#define _GNU_SOURCE /* setenv, mkdtemp */
#include "fault/layer.h"
#include "fault/passes.h"
#include "fault/scenario.h"
#include "support/unit.h"
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 20000, STRIDE = 5, GPU_STRIDE = 17 };

static const struct fault_control *faults;
static struct test_device device;
static char directory[] = "/tmp/clattn-test-fault-XXXXXX";
static char probed[NAME_MAX + 1]; /* the name of the file in it that keeps the probe's answer */
static long faults_met;           /* by all attempts */

/* How the disk cache stands when an operation begins. */
enum cache { CACHE_OFF, CACHE_COLD, CACHE_WARM };
static const char *const cache_names[] = {"no cache", "cold cache", "warm cache"};

/* What is made to fail, and how. */
struct attempt {
    const struct scenario *scenario;
    enum cache cache;
    int step; /* the one that meets the fault */
    long nth; /* of its calls */
    bool sticky;
    cl_int code;
};

static bool complain(const struct attempt *attempt, const char *step, const char *what)
{
    print_error("%s, %s, %s, call %ld (%s) %s %d: %s: %s\n", attempt->scenario->name, cache_names[attempt->cache],
                attempt->scenario->steps[attempt->step].name, attempt->nth, faults->victim(),
                attempt->sticky ? "and all later ones answer" : "answers", attempt->code, step, what);
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

/* Leaves what the device answered when it was probed, where that is known: only the programs are unknown again. */
static void forget_programs(void)
{
    char path[sizeof directory + NAME_MAX + 2];
    DIR *entries = opendir(directory);
    if (!entries || !probed[0])
        clattn_cache_clear(directory, NULL);
    for (struct dirent *entry; entries && probed[0] && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, probed) == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (entries)
        closedir(entries);
}

/* The file that making a context has left in the empty cache. */
static void learn_what_the_probe_keeps(void)
{
    struct scene scene = {.device = &device, .cache_directory = directory};
    clattn_cache_clear(directory, NULL);
    assert_int_equal(scene_make_context(&scene), CLATTN_SUCCESS);
    clattn_context_destroy(&scene.context);
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            snprintf(probed, sizeof probed, "%s", entry->d_name);
    closedir(entries);
}

static void set_cache(const struct attempt *attempt)
{
    if (attempt->cache == CACHE_COLD && attempt->step == 0)
        clattn_cache_clear(directory, NULL);
    else if (attempt->cache == CACHE_COLD)
        forget_programs();
}

static const char *directory_of(const struct attempt *attempt)
{
    return attempt->cache == CACHE_OFF ? "" : directory;
}

static bool run_without_fault(const struct attempt *attempt, const struct step *step, struct scene *scene)
{
    return step->run(scene) == CLATTN_SUCCESS || complain(attempt, step->name, clattn_error_message());
}

/* What came of an attempt. */
struct outcome {
    bool good, injected;
    long calls; /* of the step */
};

static void run_with_fault(const struct attempt *attempt, struct scene *scene, struct outcome *outcome)
{
    faults->arm(attempt->nth, attempt->sticky, attempt->code);
    faults->pause();
    outcome->good = run_step(attempt, &attempt->scenario->steps[attempt->step], scene);
    outcome->injected = faults->injected() > 0;
    outcome->calls = faults->calls();
}

/* On objects of its own. What fails from a call on goes on failing in the steps after it. */
static struct outcome try_attempt(const struct attempt *attempt)
{
    const struct step *const steps = attempt->scenario->steps;
    long before[FAULT_OBJECTS];
    struct outcome outcome = {0};
    struct scene scene;
    set_cache(attempt);
    faults->references(before);
    bool good = scene_open(&scene, &device, directory_of(attempt), attempt->scenario) ||
                complain(attempt, "before", "no memory");
    for (int i = 0; i < attempt->step && good; i++)
        good = run_without_fault(attempt, &steps[i], &scene);
    if (good) {
        run_with_fault(attempt, &scene, &outcome);
        good = outcome.good;
    }
    const bool enough = outcome.injected && attempt->step == 0 && !attempt->scenario->whole;
    for (int i = attempt->step + 1; steps[i].run && good && !enough; i++)
        good = run_step(attempt, &steps[i], &scene);
    if (good && !enough && !scene_right(&scene))
        good = complain(attempt, "afterwards", "the results are wrong");
    scene_close(&scene);
    outcome.good = nothing_leaked(attempt, before) && good;
    return outcome;
}

/* A scene whose steps have all run: its last one can be tried again and again, if that makes the calls that it made the
 * first time. Where it makes others (programs that are there by now), each attempt needs objects of its own. *good: all
 * went well, which without a fault it has to. */
static bool keep_scene(const struct attempt *attempt, struct scene *scene, long references[FAULT_OBJECTS], bool *good)
{
    struct attempt clean = *attempt;
    clean.nth = MOST_CALLS;
    unsigned long traces[2] = {0, 1};
    struct outcome outcome;
    set_cache(attempt);
    *good = scene_open(scene, &device, directory_of(attempt), attempt->scenario);
    for (int i = 0; i < attempt->step && *good; i++)
        *good = run_without_fault(&clean, &attempt->scenario->steps[i], scene);
    for (int i = 0; i < 2 && *good; i++) {
        run_with_fault(&clean, scene, &outcome);
        traces[i] = faults->trace();
        *good = outcome.good && scene_right(scene) && scene_rewind(scene);
    }
    faults->references(references);
    if (*good && traces[0] == traces[1])
        return true;
    scene_close(scene);
    return false;
}

/* On a kept scene. */
static struct outcome try_again(const struct attempt *attempt, struct scene *scene, const long before[FAULT_OBJECTS])
{
    struct outcome outcome;
    run_with_fault(attempt, scene, &outcome);
    if (outcome.good && !scene_right(scene))
        outcome.good = complain(attempt, "afterwards", "the results are wrong");
    outcome.good = scene_rewind(scene) && nothing_leaked(attempt, before) && outcome.good;
    return outcome;
}

/* One run without a fault whose references do not count. */
static bool warm_up(const struct attempt *attempt)
{
    struct scene scene;
    bool good = scene_open(&scene, &device, directory_of(attempt), attempt->scenario);
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

static bool is_gpu(void)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device.device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_GPU;
}

/* How many calls to go on by. CLBlast's, which are most of standard attention's, are all alike. */
static long stride_of(const struct attempt *attempt, int mode)
{
    if (is_full())
        return 1;
    if (is_gpu())
        return GPU_STRIDE;
    const bool few =
        attempt->scenario->clblast || (attempt->scenario->sparse && attempt->scenario->steps[attempt->step + 1].run);
    return mode == 0 && !sanitized() && !few ? 1 : STRIDE;
}

/* The calls of one step, from number attempt.nth on. Answers how many of them did harm; *calls: how many it makes. */
static int sweep_step(struct attempt *attempt, int mode, long *calls)
{
    const bool last = !attempt->scenario->steps[attempt->step + 1].run;
    const long stride = stride_of(attempt, mode);
    if (stride == 1)
        attempt->nth = 1;
    long references[FAULT_OBJECTS];
    struct outcome outcome = {.injected = true};
    struct scene scene;
    bool clean = true;
    const bool keep = last && keep_scene(attempt, &scene, references, &clean);
    int failures = !clean;
    for (; outcome.injected && attempt->nth < MOST_CALLS && failures < 10;
         attempt->nth += outcome.injected ? stride : 0) {
        outcome = keep ? try_again(attempt, &scene, references) : try_attempt(attempt);
        failures += !outcome.good;
        faults_met += outcome.injected;
    }
    if (keep)
        scene_close(&scene);
    *calls = outcome.calls;
    return failures + (outcome.injected && !failures);
}

/* The calls of one operation, one after the other. Answers how many of them did harm. */
static int sweep(struct attempt attempt, int mode)
{
    int failures = 0;
    long calls = 0, all = 0;
    const long met = faults_met;
    attempt.nth = 1 + (mode + 4 * (long)attempt.cache) % stride_of(&attempt, mode);
    for (attempt.step = 0; attempt.scenario->steps[attempt.step].run && failures < 10; attempt.step++) {
        failures += sweep_step(&attempt, mode, &calls);
        attempt.nth -= calls; /* the next step's calls go on where this one's end */
        all += calls;
    }
    print_message("%s, %s, %s %d: %ld of %ld calls\n", attempt.scenario->name, cache_names[attempt.cache],
                  attempt.sticky ? "from call N on" : "call N alone", attempt.code, faults_met - met, all);
    return failures;
}

static void survives(const char *name)
{
    if (!probed[0])
        learn_what_the_probe_keeps();
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY};
    int failures = 0;
    const bool few = scenario_named(name)->clblast || scenario_named(name)->warm_only;
    for (int cache = scenario_named(name)->warm_only ? CACHE_WARM : CACHE_OFF; cache <= CACHE_WARM; cache++) {
        struct attempt attempt = {.scenario = scenario_named(name), .cache = (enum cache)cache, .nth = MOST_CALLS};
        /* Without a fault first. CLBlast keeps what it compiles: its references count from the second time on. */
        if (attempt.scenario->clblast)
            assert_true(warm_up(&attempt));
        assert_true(try_attempt(&attempt).good);
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

static void gradients_in_pieces_survive(void **state)
{
    (void)state;
    survives("gradients with keys in pieces, host level");
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

/* The tests by part: each part is a run of its own, beside the others. */
static const struct {
    const char *name;
    struct CMUnitTest tests[5];
    size_t count;
} parts[] = {
    {"layer",
     {cmocka_unit_test(the_layer_works), cmocka_unit_test(a_chosen_read_lies),
      cmocka_unit_test(wrong_score_arguments_reach_no_call), cmocka_unit_test(the_dropout_mask_makes_no_call)},
     4},
    {"device", {cmocka_unit_test(device_level_survives)}, 1},
    {"host", {cmocka_unit_test(host_level_survives)}, 1},
    {"splits", {cmocka_unit_test(split_keys_survive)}, 1},
    {"pieces", {cmocka_unit_test(keys_in_pieces_survive)}, 1},
    {"state", {cmocka_unit_test(state_survives)}, 1},
    {"backward", {cmocka_unit_test(backward_survives)}, 1},
    {"backward_host", {cmocka_unit_test(backward_at_host_level_survives)}, 1},
    {"backward_pieces", {cmocka_unit_test(gradients_in_pieces_survive)}, 1},
    {"standard", {cmocka_unit_test(standard_attention_survives)}, 1},
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
    clattn_cache_clear(directory, NULL);
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
    if (!find_layer(argv[1]) || !mkdtemp(directory))
        return 1;
    int failures = 0;
    for (int i = 2; i < argc; i++)
        failures += run_part(part_named(argv[i]));
    for (int i = 0; argc == 2 && i < PARTS; i++)
        failures += run_part(i);
    printf("%ld faults met\n", faults_met);
    rmdir(directory);
    test_device_close(&device);
    return failures != 0;
}
