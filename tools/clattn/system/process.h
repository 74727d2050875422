/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_PROCESS_H
#define CLATTN_TOOL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Programs that this one starts: process_posix.c and process_windows.c. One at the other ends of two pipes has a group
 * of its own, so that Ctrl-C meets this process alone and an end meets its children, too; it dies with this process. */

struct process_spec {
    char *const *argv; /* argv[0] is looked up in PATH unless it has a slash */
    bool quiet;        /* its standard error goes nowhere, */
    int errors;        /* or, where this is not 0, to this descriptor */
};

struct process {
    intptr_t id;       /* 0: none */
    intptr_t group;    /* of Windows: its job */
    intptr_t to, from; /* this process's ends of its standard input and output */
};

/* How one went. */
struct process_end {
    bool exited;   /* by itself, having run */
    int status;    /* then */
    char text[96]; /* "exit status 3", "signal 11 (Segmentation fault)" */
};

/* False, with errno set, where it cannot be started. On POSIX a program that does not exist starts, and ends at once.
 */
bool process_start(const struct process_spec *spec, struct process *process);

/* False where it does not listen any more. */
bool process_send(const struct process *process, const char *text, size_t size);

/* Waits up to so many seconds, or for a signal, until one of `count` has said something or ended. Those that are not
 * there are passed over. */
void process_wait(const struct process *const *processes, int count, double seconds);

/* Takes what it has said by now, without waiting: how many bytes; -1: there will be no more. */
ptrdiff_t process_receive(const struct process *process, char *text, size_t size);

/* Whether it has ended by now, even if what it started still holds its pipes open. */
bool process_has_ended(const struct process *process);

/* Waits until it is gone, and ends what it has started. `at_once`: ends it, too. */
struct process_end process_finish(struct process *process, bool at_once);

/* Ends it without waiting until it is gone, which takes long where it waits for a device. */
void process_leave(struct process *process);

/* Runs a program with its standard input and output on these descriptors, and waits for it. 0, and *well says whether
 * it exited with 0; or errno's value where it cannot be started. */
int process_run(char *const *argv, int input, int output, bool *well);

/* The program takes this process over, or this process waits for it and exits as it did. Returns where there is none.
 */
void process_become(const char *program, char *const *argv);

#endif
