/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_SYSTEM_H
#define CLATTN_TOOL_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the operating system says of this process and its machine: system_posix.c and system_windows.c. What it does
 * with programs, files and terminals is in the headers beside this one. */

/* To be called first. Numbers are read and written with a point, whatever a driver does to the process's locale; a file
 * beyond the limit is an error of writing; lines end with a line feed alone. */
void system_begin(void);

/* The path of the program that runs. False, with errno set, where it cannot be told or is longer. */
bool system_program(char *path, size_t size);

/* Processors that are at work; 1 where nobody knows. */
int system_processors(void);

/* Bytes of memory that the machine has; 0 where nobody knows. */
uint64_t system_memory(void);

/* Lets this process take so much memory of its own beyond what it has now: what drivers hold from the start, often many
 * gigabytes of addresses, is not counted. False where that cannot be had. */
bool system_limit_memory(uint64_t bytes);

/* Seconds of a clock that only goes forward. */
double system_clock(void);

/* Sets a variable of the environment. */
void system_set_variable(const char *name, const char *value);

/* Has `function` called before a signal ends this process, from the signal's handler. */
void system_before_end(void (*function)(void));

/* Names of whoever runs this process, and where; "" where nobody knows. */
struct system_user {
    char name[256], host[256], home[4096], folder[4096];
};

void system_user(struct system_user *user);

struct system_kind {
    char name[128], release[128], machine[128];
};

void system_kind(struct system_kind *kind);

/* Where a loader of OpenCL looks for drivers, and how one is had. */
extern const char system_opencl_hint[];

#endif
