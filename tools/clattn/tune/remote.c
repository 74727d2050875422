/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/fields.h"
#include "system/system.h"
#include "tune/wire.h"
#include "tune/worker.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver loads, a context is made and probed. */
#define OPEN_SECONDS 120.0

bool tune_worker_start(struct child *child)
{
    char program[4096];
    if (!system_program(program, sizeof program))
        return false;
    char *const argv[] = {program, "tune", "--worker", NULL};
    const struct process_spec spec = {.argv = argv, .quiet = true};
    return child_start(&spec, child);
}

static int start(struct tune_remote *remote, struct failure *failure)
{
    return tune_worker_start(&remote->child)
               ? STATUS_OK
               : fail(failure, STATUS_DEVICE, "a process to measure in cannot be started: %s", strerror(errno));
}

/* Asks, and reads the answer. NULL: there is none, *result says why. */
static json_t *ask(struct tune_remote *remote, json_t *request, double seconds, enum child_result *result)
{
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL, *answer;
    json_decref(request);
    *result = CHILD_DIED;
    json_t *read = NULL;
    if (text)
        *result = child_ask(&remote->child, text, seconds, remote->stop, &answer);
    if (*result == CHILD_OK && !(read = json_loads(answer, 0, NULL))) {
        child_end(&remote->child);
        *result = CHILD_DIED;
    }
    free(text);
    return read;
}

static int no_answer(enum child_result result, struct failure *failure)
{
    if (result == CHILD_TIMEOUT)
        return fail(failure, STATUS_DEVICE, "OpenCL did not answer within %.0f seconds", OPEN_SECONDS);
    if (result == CHILD_STOPPED)
        return fail(failure, STATUS_DEVICE, "stopped");
    return fail(failure, STATUS_DEVICE, "the process that works with OpenCL ended with %s", child_death());
}

/* The answer to a request that every device should give; a failure where it is an error. */
static int ask_surely(struct tune_remote *remote, json_t *request, json_t **answer, struct failure *failure)
{
    enum child_result result;
    int status = child_is_there(&remote->child) ? STATUS_OK : start(remote, failure);
    if (status) {
        json_decref(request);
        return status;
    }
    *answer = ask(remote, request, OPEN_SECONDS, &result);
    if (!*answer)
        return no_answer(result, failure);
    const char *error = json_string_value(json_object_get(*answer, "error"));
    if (!error)
        return STATUS_OK;
    status = fail(failure, STATUS_DEVICE, "%s", error);
    json_decref(*answer);
    return status;
}

int tune_remote_devices(struct tune_remote *remote, struct clinfo_devices *devices, struct failure *failure)
{
    json_t *answer;
    *devices = (struct clinfo_devices){.items = NULL};
    const int status = ask_surely(remote, json_pack("{s:s}", "op", "devices"), &answer, failure);
    if (status)
        return status;
    const json_t *list = json_object_get(answer, "devices");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct clinfo_device *device =
            clinfo_append(devices, (int)json_integer_value(json_object_get(item, "platform")),
                          (int)json_integer_value(json_object_get(item, "device")));
        if (!device || !wire_read_capabilities(json_object_get(item, "capabilities"), &device->capabilities)) {
            clinfo_free(devices);
            json_decref(answer);
            return fail(failure, STATUS_DEVICE, "no memory for a list of devices");
        }
    }
    json_decref(answer);
    return STATUS_OK;
}

int tune_remote_open(struct tune_remote *remote, struct clattn_capabilities *capabilities, struct failure *failure)
{
    json_t *answer;
    const int status = ask_surely(remote, wire_open(&remote->device, remote->memory_bytes), &answer, failure);
    if (status)
        return status;
    const bool read = wire_read_capabilities(json_object_get(answer, "capabilities"), capabilities);
    remote->device = (struct option_device){.given = true,
                                            .platform = (int)json_integer_value(json_object_get(answer, "platform")),
                                            .device = (int)json_integer_value(json_object_get(answer, "device"))};
    json_decref(answer);
    return read ? STATUS_OK : fail(failure, STATUS_DEVICE, "the process that works with OpenCL answered nonsense");
}

/* How a worker that is gone went with the candidate. */
static void judge_loss(enum child_result result, const struct tune_request *request, double deadline,
                       struct tune_answer *answer, char *text, size_t size)
{
    /* A call cut short for want of time says nothing about the candidate. */
    answer->given_up = result == CHILD_STOPPED || (result == CHILD_TIMEOUT && request->seconds < deadline);
    answer->state = result == CHILD_TIMEOUT ? CLATTN_TUNING_TIMEOUT : CLATTN_TUNING_INFEASIBLE;
    if (result == CHILD_TIMEOUT)
        snprintf(text, size, "took more than %.1f s", request->seconds);
    else
        snprintf(text, size, "the process that measured it ended with %s", child_death());
}

int tune_remote_measure(struct tune_remote *remote, const struct tune_problem *problem,
                        const struct tune_candidate *candidate, const struct tune_candidate *base,
                        const struct tune_request *request, double deadline, struct tune_answer *answer, char *text,
                        size_t size, struct failure *failure)
{
    enum child_result result;
    struct tune_measured measured;
    *answer = (struct tune_answer){.runs = 0};
    text[0] = '\0';
    if (!child_is_there(&remote->child)) { /* a worker before it was lost */
        struct clattn_capabilities unused;
        const int status = tune_remote_open(remote, &unused, failure);
        if (status)
            return status;
    }
    json_t *said = ask(remote, wire_measure(problem, candidate, base, request), request->seconds, &result);
    if (!said) {
        judge_loss(result, request, deadline, answer, text, size);
        return STATUS_OK;
    }
    const char *error = json_string_value(json_object_get(said, "error"));
    int status = STATUS_OK;
    if (error) {
        status = fail(failure, STATUS_DEVICE, "%s", error);
    } else if (!wire_read_measured(said, &measured)) {
        status = fail(failure, STATUS_DEVICE, "the process that works with OpenCL answered nonsense");
    } else {
        answer->state = measured.state;
        answer->runs = measured.runs;
        memcpy(answer->ms, measured.ms, sizeof answer->ms);
        memcpy(answer->base_ms, measured.base_ms, sizeof answer->base_ms);
        snprintf(text, size, "%s", measured.text);
        if (measured.broken)
            child_end(&remote->child);
    }
    json_decref(said);
    return status;
}

void tune_remote_close(struct tune_remote *remote)
{
    child_end(&remote->child);
}
