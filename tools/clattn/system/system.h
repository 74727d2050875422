/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_SYSTEM_H
#define CLATTN_TOOL_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the operating system says of this process and its machine; system_posix.c has the answers of POSIX and Linux. */

/* The path of the program that runs. False, with errno set, where it cannot be told or is longer. */
bool system_program(char *path, size_t size);

/* Processors that are at work; 1 where nobody knows. */
int system_processors(void);

/* Bytes of memory that the machine has; 0 where nobody knows. */
uint64_t system_memory(void);

#endif
