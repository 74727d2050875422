/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* setenv, mkdtemp */
#include "fault/sweep.h"
#include "fault/codes.h"
#include "fault/host_calls.h"
#include "fault/scenario.h"
#include "fault/share.h"
#include "support/cases.h"
#include "support/unit.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 20000, STRIDE = 5, GPU_STRIDE = 17, CODES_STRIDE = 29 };

static const struct fault_control *layer;  /* of OpenCL */
static const struct fault_control *faults; /* the one in use */
static long complaints[COMPLAINTS];
static bool quiet; /* complaints are counted alone */
static struct test_device *device;
static char directory[] = "/tmp/clattn-test-fault-XXXXXX";
static char probed[NAME_MAX + 1]; /* the name of the file in it that keeps the probe's answer */
static long faults_met;           /* by all attempts */
static struct sweep_share share = {0, 1};
static long sample; /* which of the calls those are that a stride meets */

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
    enum fault_source source;
    bool all_codes; /* not one code, but those that the specification has */
};

static bool complain(const struct attempt *attempt, enum complaint kind, const char *step, const char *what)
{
    complaints[kind]++;
    if (quiet)
        return false;
    print_error("%s, %s, %s, call %ld (%s) %s %d: %s: %s\n", attempt->scenario->name, cache_names[attempt->cache],
                attempt->scenario->steps[attempt->step].name, attempt->nth, faults->victim(),
                attempt->sticky ? "and all later ones answer" : "answers", attempt->code, step, what);
    return false;
}

static bool is_files_status(clattn_status status)
{
    return status == CLATTN_FILE_FAILED || status == CLATTN_FILE_DAMAGED;
}

/* The injected code, a code of the library's own, or CLBlast's for it. */
static bool status_is_right(const struct attempt *attempt, clattn_status status)
{
    const bool clblast = attempt->scenario->clblast && status <= -1003 && status >= -2048;
    const bool own = status <= CLATTN_INVALID_ARGUMENT && status >= CLATTN_TOO_LARGE;
    switch (attempt->source) {
    case FAULT_MEMORY:
        return status == CL_OUT_OF_HOST_MEMORY || (attempt->scenario->files && is_files_status(status));
    case FAULT_FILES: /* a cache that cannot be read or written is no error */
        return attempt->scenario->files && (is_files_status(status) || status == CL_OUT_OF_HOST_MEMORY);
    case FAULT_EVENTS:
        return status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST || status == attempt->code;
    default:
        return own || clblast || (attempt->code < 0 && status == attempt->code) || layer->gave(status);
    }
}

/* Whether an event that ends in an error must end the call in one. (The work is done all the same here, but nobody can
 * know that.) Kernels of one pass wait for each other, and the library for the last of them: that it hears of the
 * others is the driver's part, so they count where errors spread. */
static bool must_be_seen(const struct attempt *attempt)
{
    return attempt->source == FAULT_EVENTS &&
           (attempt->sticky || strcmp(faults->victim(), "clEnqueueNDRangeKernel") != 0);
}

static bool run_step(const struct attempt *attempt, const struct step *step, struct scene *scene)
{
    char text[256];
    faults->resume();
    const long before = faults->injected();
    const clattn_status status = step->run(scene);
    faults->pause();
    if (!status && faults->injected() > before && must_be_seen(attempt))
        return complain(attempt, COMPLAINT_SILENT, step->name, "succeeds, though an event ended in an error");
    if (!status)
        return scene_consistent(scene) ||
               complain(attempt, COMPLAINT_INCONSISTENT, step->name, "succeeded, but left something behind");
    snprintf(text, sizeof text, "answers %s (%d): %.150s", clattn_status_name(status), status, clattn_error_message());
    if (faults->injected() == before)
        return complain(attempt, COMPLAINT_STATUS, step->name, text);
    if (!status_is_right(attempt, status))
        return complain(attempt, COMPLAINT_STATUS, step->name, text);
    if (!clattn_error_message()[0])
        return complain(attempt, COMPLAINT_STATUS, step->name, "fails without a message");
    if (!scene_untouched(scene))
        return complain(attempt, COMPLAINT_TOUCHED, step->name, "fails, but has touched its outputs");
    if (step->run(scene) != CLATTN_SUCCESS) {
        snprintf(text, sizeof text, "does not work any more after the fault: %.150s", clattn_error_message());
        return complain(attempt, COMPLAINT_UNUSABLE, step->name, text);
    }
    return true;
}

/* What is held at a time. */
struct census {
    long references[FAULT_OBJECTS];
    long blocks; /* of memory */
};

static struct census take_census(void)
{
    struct census census;
    layer->references(census.references);
    census.blocks = host_live_blocks();
    return census;
}

static bool nothing_leaked(const struct attempt *attempt, const struct census *before)
{
    static const char *const names[FAULT_OBJECTS] = {"context", "device", "queue", "buffer",
                                                     "program", "kernel", "event"};
    const struct census after = take_census();
    char text[64];
    bool same = true;
    for (int i = 0; i < FAULT_OBJECTS; i++)
        if (after.references[i] != before->references[i]) {
            snprintf(text, sizeof text, "%+ld references to a %s", after.references[i] - before->references[i],
                     names[i]);
            same = complain(attempt, COMPLAINT_LEAK, "leaks", text);
        }
    if (after.blocks > before->blocks) {
        snprintf(text, sizeof text, "%+ld blocks of memory", after.blocks - before->blocks);
        same = complain(attempt, COMPLAINT_LEAK, "leaks", text);
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
    return step->run(scene) == CLATTN_SUCCESS ||
           complain(attempt, COMPLAINT_STATUS, step->name, clattn_error_message());
}

/* What came of an attempt. */
struct outcome {
    bool good, injected;
    long calls; /* of the step */
};

static void run_with_fault(const struct attempt *attempt, struct scene *scene, struct outcome *outcome)
{
    if (attempt->source == FAULT_EVENTS)
        faults->arm_event(attempt->nth, attempt->sticky, attempt->code);
    else
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
    struct outcome outcome = {0};
    struct scene scene;
    set_cache(attempt);
    const struct census before = take_census();
    bool good = scene_open(&scene, device, directory_of(attempt), attempt->scenario) ||
                complain(attempt, COMPLAINT_STATUS, "before", "no memory");
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
        good = complain(attempt, COMPLAINT_WRONG, "afterwards", "the results are wrong");
    scene_close(&scene);
    outcome.good = nothing_leaked(attempt, &before) && good;
    return outcome;
}

/* A scene whose steps have all run: its last one can be tried again and again, if that makes the calls that it made the
 * first time. Where it makes others (programs that are there by now), each attempt needs objects of its own. *good: all
 * went well, which without a fault it has to. */
static bool keep_scene(const struct attempt *attempt, struct scene *scene, struct census *census, bool *good)
{
    struct attempt clean = *attempt;
    clean.nth = MOST_CALLS;
    clean.sticky = false;
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
    *census = take_census();
    if (*good && traces[0] == traces[1])
        return true;
    scene_close(scene);
    return false;
}

/* On a kept scene. */
static struct outcome try_again(const struct attempt *attempt, struct scene *scene, const struct census *before)
{
    struct outcome outcome;
    run_with_fault(attempt, scene, &outcome);
    if (outcome.good && !scene_right(scene))
        outcome.good = complain(attempt, COMPLAINT_WRONG, "afterwards", "the results are wrong");
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

static bool is_gpu(void)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_GPU;
}

/* How many calls to go on by. CLBlast's, which are most of standard attention's, are all alike. Without a warm cache
 * every attempt compiles, and half as many are made. */
static long stride_of(const struct attempt *attempt, int mode)
{
    if (test_is_full())
        return share.of;
    if (is_gpu())
        return GPU_STRIDE;
    const bool last = !attempt->scenario->steps[attempt->step + 1].run;
    if (attempt->all_codes || (quiet && !last))
        return attempt->source != FAULT_FILES ? CODES_STRIDE : attempt->scenario->sparse ? 3 : 2;
    const bool warm = attempt->cache == CACHE_WARM;
    if (attempt->source != FAULT_CALLS)
        return (last ? 1 : 2) << attempt->sticky;
    const bool few = attempt->scenario->clblast || (attempt->scenario->sparse && !last);
    return mode == 0 && !few ? (warm ? 1 : 2 * STRIDE) : (warm ? STRIDE : 6 * STRIDE);
}

/* How many codes the function that met the fault may answer with. */
static int codes_of(const struct attempt *attempt)
{
    const cl_int *list = fault_codes_of(faults->victim());
    int count = 0;
    if (attempt->source == FAULT_FILES)
        return host_file_codes(faults->victim());
    while (list[count])
        count++;
    return count;
}

/* All codes where everything is asked for, else one after the other. */
static int code_number(const struct attempt *attempt, int number)
{
    const int one = test_is_full() ? number : 1 + (int)(attempt->nth + 3 * (long)attempt->step) % 7;
    return attempt->source == FAULT_FILES ? -one : one;
}

/* What a step is tried on. */
struct stand {
    bool keep;
    struct scene scene; /* where it is kept */
    struct census census;
};

/* One call: with one code, or with all. Answers whether it was met. */
static struct outcome try_call(struct attempt *attempt, struct stand *stand, int *failures)
{
    struct outcome outcome = {.injected = true};
    int count = 1;
    for (int i = 1; i <= count && outcome.injected; i++) {
        if (attempt->all_codes)
            attempt->code = code_number(attempt, i);
        outcome = stand->keep ? try_again(attempt, &stand->scene, &stand->census) : try_attempt(attempt);
        *failures += !outcome.good;
        faults_met += outcome.injected;
        if (attempt->all_codes && test_is_full() && outcome.injected)
            count = codes_of(attempt);
    }
    return outcome;
}

/* The calls of one step, from number attempt.nth on. Answers how many of them did harm; *calls: how many it makes. */
static int sweep_step(struct attempt *attempt, int mode, long *calls)
{
    const bool last = !attempt->scenario->steps[attempt->step + 1].run;
    const long stride = stride_of(attempt, mode);
    if (stride == 1)
        attempt->nth = 1;
    struct outcome outcome = {.injected = true};
    struct stand stand;
    bool clean = true;
    stand.keep = last && keep_scene(attempt, &stand.scene, &stand.census, &clean);
    int failures = !clean;
    for (; outcome.injected && attempt->nth < MOST_CALLS && failures < 10;
         attempt->nth += outcome.injected ? stride : 0)
        outcome = try_call(attempt, &stand, &failures);
    if (stand.keep)
        scene_close(&stand.scene);
    *calls = outcome.calls;
    return failures + (outcome.injected && !failures);
}

/* The calls of one operation, one after the other. Answers how many of them did harm. */
static int sweep(struct attempt attempt, int mode)
{
    static const char *const things[] = {"calls", "events", "allocations", "calls on files"};
    int failures = 0;
    long calls = 0, all = 0;
    const long met = faults_met;
    attempt.nth = 1 + (sample + mode + 4 * (long)attempt.cache + share.number) % stride_of(&attempt, mode);
    for (attempt.step = 0; attempt.scenario->steps[attempt.step].run && failures < 10; attempt.step++) {
        failures += sweep_step(&attempt, mode, &calls);
        attempt.nth -= calls; /* the next step's calls go on where this one's end */
        if (attempt.nth < 1)
            attempt.nth = 1;
        all += calls;
    }
    if (quiet)
        return failures;
    print_message("%s, %s, %s %d: %ld of %ld %s\n", attempt.scenario->name, cache_names[attempt.cache],
                  attempt.sticky ? "from call N on" : "call N alone", attempt.all_codes ? 0 : attempt.code,
                  faults_met - met, all, things[attempt.source]);
    return failures;
}

/* Without a fault first. CLBlast keeps what it compiles: its references count from the second time on. */
static void try_without(struct attempt attempt)
{
    attempt.nth = MOST_CALLS;
    attempt.sticky = false;
    if (attempt.scenario->clblast)
        assert_true(warm_up(&attempt));
    assert_true(try_attempt(&attempt).good);
}

static void begin_scenario(enum fault_source source)
{
    faults = layer;
    if (!probed[0])
        learn_what_the_probe_keeps();
    faults = source == FAULT_MEMORY ? &host_memory : source == FAULT_FILES ? &host_files : layer;
}

void sweep_scenario(const char *name)
{
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY};
    const struct scenario *scenario = scenario_named(name);
    int failures = 0;
    const bool few = scenario->clblast || scenario->warm_only;
    begin_scenario(FAULT_CALLS);
    for (int cache = scenario->warm_only ? CACHE_WARM : CACHE_OFF; cache <= CACHE_WARM; cache++) {
        struct attempt attempt = {.scenario = scenario, .cache = (enum cache)cache};
        const long met = faults_met;
        try_without(attempt);
        /* CLBlast has most of the calls and its own code on most of the ways out: half of the ways to fail will do. */
        for (int mode = 0; mode < 4; mode += few ? 3 : 1) {
            attempt.sticky = mode % 2 != 0;
            attempt.code = codes[mode / 2];
            failures += sweep(attempt, mode);
        }
        assert_true(faults_met > met || share.of > 1);
    }
    assert_int_equal(failures, 0);
}

int sweep_source(const struct scenario *scenario, enum fault_source source, bool all_codes)
{
    int failures = 0;
    const long met = faults_met;
    begin_scenario(source);
    /* Files are met where the cache is cold (written) and where it is warm (read). */
    const enum cache first = source == FAULT_FILES && !scenario->warm_only ? CACHE_COLD
                             : test_is_full() && !scenario->warm_only      ? CACHE_OFF
                                                                           : CACHE_WARM;
    for (int cache = first; cache <= CACHE_WARM; cache++)
        for (int sticky = 0; sticky < 2; sticky++) {
            const struct attempt attempt = {
                .scenario = scenario,
                .cache = (enum cache)cache,
                .sticky = sticky,
                .code = source == FAULT_EVENTS || source == FAULT_CALLS ? CL_OUT_OF_RESOURCES : 0,
                .source = source,
                .all_codes = all_codes};
            if (!sticky && !quiet)
                try_without(attempt);
            failures += sweep(attempt, sticky);
        }
    return failures + (faults_met == met && share.of == 1);
}

long sweep_mutant(const struct scenario *scenario, enum fault_source source, enum complaint kind)
{
    memset(complaints, 0, sizeof complaints);
    quiet = true;
    sweep_source(scenario, source, false);
    quiet = false;
    return complaints[kind];
}

bool sweep_begin(const struct fault_control *control, struct test_device *on)
{
    layer = faults = control;
    device = on;
    sample = test_is_full() ? 0 : (long)(case_seed() % (6 * STRIDE));
    return sweep_take_share(&share) && mkdtemp(directory) != NULL;
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
