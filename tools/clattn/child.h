/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_CHILD_H
#define CLATTN_TOOL_CHILD_H

#include "system/process.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Programs that may hang, crash or want all memory, and what they say (system/process.h). */

struct child {
    struct process process;
    char *text; /* what has come and was not asked for yet */
    size_t length, capacity;
    size_t taken; /* of it, by child_next() */
};

enum child_result {
    CHILD_OK,
    CHILD_TIMEOUT, /* the deadline passed: the child was ended */
    CHILD_DIED,    /* it ended, or was ended for saying more than 64 MiB; child_death() says how */
    CHILD_STOPPED  /* *stop became true: the child was ended */
};

/* False, with errno set, where it cannot be started. A program that does not exist may be seen at the first question.
 */
bool child_start(const struct process_spec *spec, struct child *child);

bool child_is_there(const struct child *child);

/* Sends `request` (NULL: nothing) with a line feed and waits for a line, which *answer (terminated, valid until the
 * next call) gets without its line feed. After anything but CHILD_OK there is no child any more. `stop` may be NULL. */
enum child_result child_ask(struct child *child, const char *request, double deadline_seconds,
                            const volatile sig_atomic_t *stop, char **answer);

/* Sends a request whose answer is not waited for. False where it cannot be sent: there is no child any more. */
bool child_tell(struct child *child, const char *request);

/* Waits up to so many seconds, or for a signal, until one of `count` children has said something or ended. Those that
 * are not there are passed over. */
void child_wait(struct child *const *children, int count, double seconds);

/* The next line that a child has said by now, for one that is told and not asked: *line (terminated, valid until the
 * next call) is NULL where there is none. After anything but CHILD_OK there is no child any more. */
enum child_result child_next(struct child *child, char **line);

/* Whether it has ended by now, even if what it started still holds its pipes open. child_end() then says how. */
bool child_has_ended(const struct child *child);

/* Drops the lines that a child has said by now, and counts them; -1: it has ended, and there is no child any more. */
int child_hear(struct child *child);

/* Everything that a child says until it ends. *text is malloc'ed and terminated; CHILD_OK where it exits with 0, or,
 * where `exit_status` is not NULL, with any status, which *exit_status gets. `stop` may be NULL. There is no child any
 * more. */
enum child_result child_read_all(struct child *child, double deadline_seconds, const volatile sig_atomic_t *stop,
                                 char **text, size_t *size, int *exit_status);

/* Ends it at once; accepts one that is not there. */
void child_end(struct child *child);

/* The same without waiting until it is gone. */
void child_leave(struct child *child);

/* How the last child that died or was ended went: "exit status 3", "signal 11 (Segmentation fault)". */
const char *child_death(void);

#endif
