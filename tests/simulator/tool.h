/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The compiler and the disassembler, as processes of their own. $SIMULATED_CLANG, $SIMULATED_OBJDUMP and
 * $SIMULATED_LIBCLC name others than Debian's; what is compiled is kept in $SIMULATED_CACHE, where that is set. */
#ifndef SIMULATED_TOOL_H
#define SIMULATED_TOOL_H

#include "machine.h"

/* Text in, code object out (malloc'd); `log` (malloc'd) has what the compiler said. False where it failed. */
bool tool_compile(const struct chip *chip, const char *text, const char *options, uint8_t **object, size_t *bytes,
                  char **log);

/* The listing of one kernel, malloc'd; NULL where it failed. */
char *tool_disassemble(const uint8_t *object, size_t bytes, const char *kernel);

#endif
