/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"
#include "system/system.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20, MOST_WAITED = 64, NO_ROOM = -2 };

/* Between two looks at *stop. */
#define STOP_SECONDS 0.05

static char death[96];

const char *child_death(void)
{
    return death;
}

bool child_start(const struct process_spec *spec, struct child *child)
{
    *child = (struct child){.length = 0};
    return process_start(spec, &child->process);
}

bool child_is_there(const struct child *child)
{
    return child->process.id != 0;
}

/* Gives everything back. With `at_once`, or if what it started still runs, the whole group is ended. */
static struct process_end finish(struct child *child, bool at_once)
{
    const struct process_end end = process_finish(&child->process, at_once);
    strcpy(death, end.text);
    free(child->text);
    *child = (struct child){.length = 0};
    return end;
}

void child_end(struct child *child)
{
    if (child_is_there(child))
        finish(child, true);
}

void child_leave(struct child *child)
{
    if (!child_is_there(child))
        return;
    process_leave(&child->process);
    free(child->text);
    *child = (struct child){.length = 0};
}

static bool reserve(struct child *child)
{
    if (child->length + 4096 < child->capacity)
        return true;
    const size_t capacity = child->capacity ? 2 * child->capacity : 16384;
    char *text = capacity <= MOST_BYTES ? realloc(child->text, capacity) : NULL;
    if (!text)
        return false;
    child->text = text;
    child->capacity = capacity;
    return true;
}

/* Adds to its text what it has said by now: how many bytes; -1: there will be no more. */
static ptrdiff_t take(struct child *child)
{
    if (!reserve(child))
        return NO_ROOM;
    const ptrdiff_t count =
        process_receive(&child->process, child->text + child->length, child->capacity - child->length - 1);
    if (count > 0)
        child->length += (size_t)count;
    child->text[child->length] = '\0';
    return count;
}

/* Waits for more of the child's text. CHILD_DIED also at the end of it. */
static enum child_result receive(struct child *child, double until, const volatile sig_atomic_t *stop)
{
    for (;;) {
        const double left = until - system_clock();
        if (stop && *stop)
            return CHILD_STOPPED;
        if (left <= 0)
            return CHILD_TIMEOUT;
        child_wait(&child, 1, left < STOP_SECONDS ? left + 1e-3 : STOP_SECONDS);
        const ptrdiff_t count = take(child);
        if (count)
            return count < 0 ? CHILD_DIED : CHILD_OK;
    }
}

static bool say(const struct child *child, const char *request)
{
    return process_send(&child->process, request, strlen(request)) && process_send(&child->process, "\n", 1);
}

enum child_result child_ask(struct child *child, const char *request, double deadline_seconds,
                            const volatile sig_atomic_t *stop, char **answer)
{
    const double until = system_clock() + deadline_seconds;
    enum child_result result = CHILD_OK;
    child->length = child->taken = 0;
    if (request && (!say(child, request)))
        result = CHILD_DIED;
    char *end = NULL;
    while (result == CHILD_OK && !end) {
        const size_t before = child->length;
        result = receive(child, until, stop);
        if (result == CHILD_OK)
            end = memchr(child->text + before, '\n', child->length - before);
    }
    if (result != CHILD_OK) {
        finish(child, result != CHILD_DIED || child->capacity >= MOST_BYTES);
        return result;
    }
    *end = '\0';
    *answer = child->text;
    return CHILD_OK;
}

bool child_tell(struct child *child, const char *request)
{
    if (say(child, request))
        return true;
    finish(child, true);
    return false;
}

void child_wait(struct child *const *children, int count, double seconds)
{
    const struct process *processes[MOST_WAITED];
    const int waited = count < MOST_WAITED ? count : MOST_WAITED;
    for (int i = 0; i < waited; i++)
        processes[i] = &children[i]->process;
    process_wait(processes, waited, seconds);
}

/* Drops the line that was taken last, and finds the next one. */
static char *take_line(struct child *child)
{
    child->length -= child->taken;
    if (child->taken)
        memmove(child->text, child->text + child->taken, child->length);
    char *end = child->length ? memchr(child->text, '\n', child->length) : NULL;
    child->taken = end ? (size_t)(end - child->text) + 1 : 0;
    if (end)
        *end = '\0';
    return end ? child->text : NULL;
}

enum child_result child_next(struct child *child, char **line)
{
    while (!(*line = take_line(child))) {
        const ptrdiff_t count = take(child);
        if (count < 0) {
            finish(child, count == NO_ROOM);
            return CHILD_DIED;
        }
        if (!count)
            return CHILD_OK;
    }
    return CHILD_OK;
}

bool child_has_ended(const struct child *child)
{
    return process_has_ended(&child->process);
}

int child_hear(struct child *child)
{
    int lines = 0;
    char text[4096];
    for (ptrdiff_t count; (count = process_receive(&child->process, text, sizeof text));) {
        if (count < 0) {
            finish(child, true);
            return -1;
        }
        for (ptrdiff_t i = 0; i < count; i++)
            lines += text[i] == '\n';
    }
    return lines;
}

/* Whether a child that ended so has said what it was asked for. */
static bool ended_well(const struct process_end *end, int *exit_status)
{
    if (exit_status)
        *exit_status = end->status;
    return end->exited && (exit_status || !end->status);
}

enum child_result child_read_all(struct child *child, double deadline_seconds, const volatile sig_atomic_t *stop,
                                 char **text, size_t *size, int *exit_status)
{
    const double until = system_clock() + deadline_seconds;
    enum child_result result = reserve(child) ? CHILD_OK : CHILD_DIED;
    child->length = 0;
    if (result == CHILD_OK)
        child->text[0] = '\0';
    while (result == CHILD_OK)
        result = receive(child, until, stop);
    *text = child->text;
    *size = child->length;
    const bool too_much = child->capacity >= MOST_BYTES;
    child->text = NULL;
    const struct process_end end = finish(child, result != CHILD_DIED || too_much);
    if (result == CHILD_DIED && !too_much && ended_well(&end, exit_status))
        return CHILD_OK;
    free(*text);
    *text = NULL;
    return result;
}
