/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/mutants.h"
#include "fault/sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 8 };

static clattn_status (*right_step)(struct scene *scene);
static bool broken;
static void *kept;

static clattn_status another_status(struct scene *scene)
{
    const clattn_status status = right_step(scene);
    return status ? -9999 : status;
}

/* Without an event, at the device level; with results that nobody vouches for, at the host level. */
static clattn_status success_anyway(struct scene *scene)
{
    right_step(scene);
    scene->done = true;
    return CLATTN_SUCCESS;
}

static clattn_status writes_first(struct scene *scene)
{
    const clattn_status status = right_step(scene);
    if (status)
        scene->output[0] = 1;
    return status;
}

static clattn_status never_again(struct scene *scene)
{
    const clattn_status status = broken ? CL_OUT_OF_RESOURCES : right_step(scene);
    broken = broken || status;
    return status;
}

static clattn_status keeps_a_reference(struct scene *scene)
{
    const clattn_status status = right_step(scene);
    if (status)
        clRetainMemObject(scene->buffers[0]);
    return status;
}

static clattn_status keeps_memory(struct scene *scene)
{
    const clattn_status status = right_step(scene);
    if (!status)
        return status;
    void **block = malloc(sizeof *block);
    if (block)
        *block = kept; /* a list, so that no sanitizer takes it for lost */
    kept = block ? block : kept;
    return status;
}

static clattn_status wrong_from_then_on(struct scene *scene)
{
    const clattn_status status = right_step(scene);
    if (!status && broken)
        scene->output[0] += 1;
    broken = broken || status;
    return status;
}

static const struct {
    const char *name, *scenario;
    clattn_status (*step)(struct scene *scene);
    enum fault_source source;
    enum complaint kind;
} mutants[] = {
    {"another status", "host level", another_status, FAULT_CALLS, COMPLAINT_STATUS},
    {"another status without memory", "records", another_status, FAULT_MEMORY, COMPLAINT_STATUS},
    {"success without an event", "device level", success_anyway, FAULT_CALLS, COMPLAINT_INCONSISTENT},
    {"success after a failed event", "host level", success_anyway, FAULT_EVENTS, COMPLAINT_SILENT},
    {"writes to an output", "host level", writes_first, FAULT_CALLS, COMPLAINT_TOUCHED},
    {"never works again", "host level", never_again, FAULT_CALLS, COMPLAINT_UNUSABLE},
    {"keeps a reference", "host level", keeps_a_reference, FAULT_CALLS, COMPLAINT_LEAK},
    {"keeps memory", "host level", keeps_memory, FAULT_CALLS, COMPLAINT_LEAK},
    {"wrong results", "host level", wrong_from_then_on, FAULT_CALLS, COMPLAINT_WRONG},
};

int mutants_not_seen(void)
{
    int unseen = 0;
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        struct step steps[MOST_STEPS] = {{0}};
        struct scenario scenario = *scenario_named(mutants[i].scenario);
        int last = 0;
        for (; scenario.steps[last].run; last++)
            steps[last] = scenario.steps[last];
        right_step = steps[last - 1].run;
        steps[last - 1].run = mutants[i].step;
        scenario.steps = steps;
        scenario.warm_only = true;
        broken = false;
        const long seen = sweep_mutant(&scenario, mutants[i].source, mutants[i].kind);
        printf("%s: %ld complaints\n", mutants[i].name, seen);
        unseen += seen == 0;
    }
    return unseen;
}
