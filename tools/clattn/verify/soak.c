/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/soak.h"
#include "child.h"
#include "flow.h"
#include "progress.h"
#include "system/system.h"
#include "verify/draw.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A driver loads, a context is made and probed. */
#define OPEN_SECONDS 180.0

enum {
    BUILDS = 4,                /* times the deadline is what building may take: a plan has several programs */
    PROGRAMS_PER_PROCESS = 64, /* a driver's memory grows with each */
    MOST_PROGRAMS = 10000000,  /* of one seed */
    MOST_MISSES = 300000       /* programs in a row that are not asked for: the rarest wish is granted much earlier */
};

/* BUILT: it waits until it may run. */
enum job_stage { IDLE, OPENING, BUILDING, BUILT, RUNNING };

/* A process, the program whose cases it is at, and the case. */
struct job {
    struct child child;
    enum job_stage stage;
    double since; /* when the stage began, */
    double begun; /* and the case */
    int programs; /* that the process has had */
    int64_t program;
    int next; /* of its cases; as many as there are: it has no program */
    const char *skeleton;
    int number; /* of the skeleton in the log */
    struct soak_record record;
};

struct run {
    struct soak *soak;
    struct soak_log log;
    struct job jobs[SOAK_MOST_JOBS];
    struct progress progress;
    struct failure *failure;
    int status;      /* what has stopped it */
    int64_t program; /* the next one */
    int64_t begun;   /* cases */
    int failed, opens_failed;
    double start;
};

/* --- which cases */

static uint64_t seed_of(const struct soak *soak, int64_t program, int number)
{
    return ((uint64_t)soak->seed * MOST_PROGRAMS + (uint64_t)program) * VERIFY_PER_PROGRAM + (uint64_t)number;
}

static void draw(const struct soak *soak, uint64_t seed, const char *skeleton, struct verify_case *item)
{
    verify_draw(seed, skeleton, item);
    item->unordered = item->unordered || (soak->unordered && verify_is_backward(item));
}

/* Whether the program has cases to do, from job->next on; one that is not asked for is counted in *missed. */
static bool has_case(const struct run *run, struct job *job, int *missed)
{
    const struct soak *soak = run->soak;
    for (; job->next < soak->per_program; job->next++) {
        struct verify_case item;
        const uint64_t seed = seed_of(soak, job->program, job->next);
        draw(soak, seed, job->skeleton, &item);
        const unsigned traits = verify_traits_of(&item);
        if ((traits & soak->require) != soak->require || traits & soak->without) {
            job->next = soak->per_program; /* so it is with all of the program */
            (*missed)++;
            return false;
        }
        if (!soak_log_has(&run->log, seed, job->number, traits))
            return true;
    }
    return false;
}

/* The job's next case; false where there is none any more. */
static bool find_case(struct run *run, struct job *job)
{
    int missed = 0;
    while (!has_case(run, job, &missed)) {
        if (run->program == MOST_PROGRAMS || missed == MOST_MISSES)
            return false;
        job->skeleton = run->soak->skeletons[run->program % run->soak->skeleton_count];
        job->number = soak_log_skeleton(&run->log, job->skeleton);
        job->program = run->program++;
        job->next = 0;
    }
    return true;
}

/* --- processes */

static bool start_process(struct job *job)
{
    char program[4096];
    if (!system_program(program, sizeof program))
        return false;
    char *const argv[] = {program, "verify", "--worker", NULL};
    const struct process_spec spec = {.argv = argv, .quiet = true};
    job->programs = 0;
    return child_start(&spec, &job->child);
}

static bool tell_job(struct job *job, json_t *request)
{
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    const bool told = text && child_tell(&job->child, text);
    free(text);
    return told;
}

static void enter(struct job *job, enum job_stage stage)
{
    job->stage = stage;
    job->since = system_clock();
}

static void stop_with(struct run *run, int status)
{
    if (!run->status)
        run->status = status;
}

/* The first request of a process: the device. */
static void open_process(struct run *run, struct job *job)
{
    const struct option_device *device = &run->soak->device;
    enter(job, OPENING);
    if (!start_process(job) || !tell_job(job, json_pack("{s:s, s:i, s:i}", "op", "open", "platform", device->platform,
                                                        "device", device->device)))
        stop_with(
            run, fail(run->failure, STATUS_DEVICE, "a process to run cases in cannot be started: %s", strerror(errno)));
}

static void begin_case(struct run *run, struct job *job)
{
    struct verify_case item;
    char name[512];
    const uint64_t seed = seed_of(run->soak, job->program, job->next);
    draw(run->soak, seed, job->skeleton, &item);
    verify_case_name(&item, name, sizeof name);
    job->record = (struct soak_record){
        .seed = seed, .skeleton = job->number, .traits = verify_traits_of(&item), .name = malloc(strlen(name) + 1)};
    if (job->record.name)
        strcpy(job->record.name, name);
    job->programs += !job->next;
    job->next++;
    job->begun = system_clock();
    enter(job, BUILDING);
    run->begun++;
    /* One that is gone before it hears of the case is seen as one that died with it. */
    tell_job(job, json_pack("{s:s, s:I, s:s, s:b}", "op", "case", "seed", (json_int_t)seed, "skeleton", job->skeleton,
                            "unordered", item.unordered));
}

/* --- outcomes */

static void print_failure(struct run *run, const struct soak_record *record)
{
    char command[320];
    soak_reproducer(run->soak, &run->log, record, command, sizeof command);
    progress_clear(&run->progress);
    flow(stdout, "%s: %s\n  %s\n", soak_outcome_name(record->outcome), record->name ? record->name : "?",
         record->text ? record->text : "");
    printf("  reproduce: %s\n", command); /* (in one line, to be copied) */
    fflush(stdout);
}

static void end_case(struct run *run, struct job *job, enum soak_outcome outcome, const char *text)
{
    struct soak_record *record = &job->record;
    const bool fails = soak_outcome_fails(outcome);
    record->outcome = outcome;
    record->seconds = system_clock() - job->begun;
    if (outcome == SOAK_OK) {
        free(record->name);
        record->name = NULL;
    } else if ((record->text = malloc(strlen(text) + 1))) {
        strcpy(record->text, text);
    }
    run->failed += fails;
    if (fails && !run->soak->json)
        print_failure(run, record);
    job->stage = IDLE;
    const int status = soak_log_add(&run->log, record, run->failure);
    if (status)
        stop_with(run, status);
    /* What a process is like after that is not known; and its memory grows. */
    if (fails || (job->programs >= PROGRAMS_PER_PROCESS && job->next == run->soak->per_program))
        child_leave(&job->child);
}

/* No case is to blame where the device cannot be opened; that it can was seen before, so a few tries are left. */
static void opening_failed(struct run *run, struct job *job, const char *text)
{
    child_end(&job->child);
    job->stage = IDLE;
    if (++run->opens_failed > 2 * run->soak->jobs)
        stop_with(run,
                  fail(run->failure, STATUS_DEVICE, "the device cannot be opened in a process of its own: %s", text));
}

static void process_died(struct run *run, struct job *job)
{
    char text[160];
    snprintf(text, sizeof text, "the process ended with %s%s", child_death(),
             job->stage == BUILDING ? ", building it" : "");
    if (job->stage == OPENING)
        opening_failed(run, job, text);
    else
        end_case(run, job, SOAK_CRASH, text);
}

static void deadline_passed(struct run *run, struct job *job)
{
    char text[160];
    snprintf(text, sizeof text, "it was still being %s after %.0f s", job->stage == BUILDING ? "built" : "run",
             system_clock() - job->since);
    child_leave(&job->child);
    if (job->stage == OPENING)
        opening_failed(run, job, "it took too long");
    else
        end_case(run, job, SOAK_HANG, text);
}

static bool read_answer(const json_t *answer, struct soak_record *record, enum soak_outcome *outcome, const char **text)
{
    const char *name = json_string_value(json_object_get(answer, "outcome"));
    const char *program = json_string_value(json_object_get(answer, "program"));
    int i = 0;
    while (name && i < SOAK_OUTCOMES && strcmp(soak_outcome_name((enum soak_outcome)i), name) != 0)
        i++;
    *outcome = (enum soak_outcome)i;
    *text = json_string_value(json_object_get(answer, "text"));
    record->share = json_number_value(json_object_get(answer, "share"));
    if (program)
        snprintf(record->program, sizeof record->program, "%s", program);
    return name && i < SOAK_OUTCOMES;
}

/* A process has said something: that the device is open, that the case is built, or how it went. */
static void hear(struct run *run, struct job *job, const char *line)
{
    json_t *answer = json_loads(line, 0, NULL);
    enum soak_outcome outcome;
    const char *text, *error = json_string_value(json_object_get(answer, "error"));
    if (job->stage == OPENING && !error && json_is_true(json_object_get(answer, "opened"))) {
        job->stage = IDLE;
        run->opens_failed = 0;
    } else if (job->stage == OPENING) {
        opening_failed(run, job, error ? error : "its answer is no answer");
    } else if (job->stage == BUILDING && json_is_true(json_object_get(answer, "built"))) {
        enter(job, BUILT);
    } else if (read_answer(answer, &job->record, &outcome, &text)) {
        end_case(run, job, outcome, text ? text : "");
    } else {
        child_end(&job->child);
        end_case(run, job, SOAK_CRASH, "the process talked nonsense");
    }
    json_decref(answer);
}

/* What it has said by now. */
static enum child_result listen(struct run *run, struct job *job)
{
    char *line;
    enum child_result result = CHILD_OK;
    while (child_is_there(&job->child) && job->stage != IDLE && (result = child_next(&job->child, &line)) == CHILD_OK &&
           line)
        hear(run, job, line);
    return result;
}

static void attend(struct run *run, struct job *job)
{
    const double deadline = run->soak->deadline;
    const double allowed = job->stage == OPENING ? OPEN_SECONDS : job->stage == BUILDING ? BUILDS * deadline : deadline;
    const bool ended =
        child_is_there(&job->child) && child_has_ended(&job->child); /* seen before its last words are heard */
    const enum child_result result = listen(run, job);
    if (job->stage == IDLE)
        return;
    if (ended)
        child_end(&job->child);
    if (result != CHILD_OK || !child_is_there(&job->child))
        process_died(run, job);
    else if (job->stage != BUILT && system_clock() - job->since > allowed)
        deadline_passed(run, job);
}

/* Lets a case that is built run, where not too many do. */
static void let_run(struct run *run, struct job *job)
{
    int running = 0;
    for (int i = 0; i < run->soak->jobs; i++)
        running += run->jobs[i].stage == RUNNING;
    if (job->stage != BUILT || (run->soak->running && running >= run->soak->running))
        return;
    enter(job, RUNNING);
    tell_job(job, json_pack("{s:s}", "op", "run"));
}

/* --- the loop */

static bool may_begin(const struct run *run)
{
    const struct soak *soak = run->soak;
    return !run->status && !*soak->stop && system_clock() - run->start < soak->seconds &&
           (!soak->cases || run->begun < soak->cases);
}

/* Gives a process that has nothing to do something to do. False where there is nothing for it. */
static bool feed(struct run *run, struct job *job)
{
    if (!may_begin(run) || !find_case(run, job))
        return false;
    if (child_is_there(&job->child) && child_has_ended(&job->child)) /* after its last answer: no case is to blame */
        child_end(&job->child);
    if (child_is_there(&job->child))
        begin_case(run, job);
    else
        open_process(run, job);
    return true;
}

static void show(const struct run *run)
{
    char text[128];
    const struct soak *soak = run->soak;
    const double spent = system_clock() - run->start, in_time = spent / soak->seconds;
    const double share = soak->cases ? (double)run->begun / (double)soak->cases : in_time;
    snprintf(text, sizeof text, "%d cases, %d of them new, %d failed, %.0f of %.0f s", run->log.count,
             run->log.count - run->log.earlier, run->failed, spent, soak->seconds);
    progress_show(&run->progress, share > in_time ? share : in_time, text);
}

static void loop(struct run *run)
{
    struct child *children[SOAK_MOST_JOBS];
    bool busy = true;
    for (int i = 0; i < run->soak->jobs; i++)
        children[i] = &run->jobs[i].child;
    while (busy && !run->status && !*run->soak->stop) {
        busy = false;
        for (int i = 0; i < run->soak->jobs && !run->status; i++) {
            struct job *job = &run->jobs[i];
            if (job->stage != IDLE)
                attend(run, job);
            let_run(run, job);
            /* Again at once, for an answer may have been there. */
            if (job->stage != IDLE || (!run->status && feed(run, job)))
                busy = true;
        }
        show(run);
        if (busy)
            child_wait(children, run->soak->jobs, 0.2);
    }
}

static void end_processes(struct run *run)
{
    for (int i = 0; i < run->soak->jobs; i++) {
        struct job *job = &run->jobs[i];
        child_end(&job->child);
        if (job->stage == BUILDING || job->stage == BUILT ||
            job->stage == RUNNING) /* stopped amid a case, which counts for nothing */
            free(job->record.name);
    }
}

int soak_run(struct soak *soak, struct failure *failure)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return fail(failure, STATUS_DEVICE, "no memory for a soak");
    *run = (struct run){.soak = soak, .failure = failure, .start = system_clock()};
    for (int i = 0; i < SOAK_MOST_JOBS; i++)
        run->jobs[i].next = soak->per_program;
    int status = soak_log_open(&run->log, soak->file, &soak->identity, &soak->seed, failure);
    if (!status && soak->skeleton_count == 0)
        status = fail(failure, STATUS_DEVICE, "no skeleton suits the device");
    if (!status) {
        progress_start(&run->progress, 1, soak->quiet);
        loop(run);
        end_processes(run);
        progress_clear(&run->progress);
        status = run->status;
        struct failure printing = {.command = NULL};
        const int reported = soak_report(soak, &run->log, system_clock() - run->start, status ? &printing : failure);
        status = status ? status : reported;
        if (!status && !run->log.count)
            status = fail(failure, STATUS_USAGE, "no case was done: none has what --require and --without say");
    }
    soak_log_close(&run->log);
    free(run);
    return status;
}
