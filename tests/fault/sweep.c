/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* setenv, mkdtemp */
#include "fault/sweep.h"
#include "fault/scenario.h"
#include "support/unit.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 20000, STRIDE = 5, GPU_STRIDE = 17 };

static const struct fault_control *faults;
static struct test_device *device;
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
    struct scene scene = {.device = device, .cache_directory = directory};
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
    bool good = scene_open(&scene, device, directory_of(attempt), attempt->scenario) ||
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
    *good = scene_open(scene, device, directory_of(attempt), attempt->scenario);
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
    bool good = scene_open(&scene, device, directory_of(attempt), attempt->scenario);
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

static bool is_gpu(void)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_GPU;
}

/* How many calls to go on by. CLBlast's, which are most of standard attention's, are all alike. */
static long stride_of(const struct attempt *attempt, int mode)
{
    if (test_is_full())
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
    if (faults_met == met)
        print_error("%s: none of its calls was made to fail\n", attempt.scenario->name);
    return failures + (faults_met == met);
}

void sweep_scenario(const char *name)
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

bool sweep_begin(const struct fault_control *control, struct test_device *on)
{
    faults = control;
    device = on;
    return mkdtemp(directory) != NULL;
}

void sweep_clear(void)
{
    clattn_cache_clear(directory, NULL);
}

long sweep_end(void)
{
    rmdir(directory);
    return faults_met;
}
