/* SPDX-License-Identifier: BSD-2-Clause
 *
 * CDNA's registers by number: between s_set_gpr_idx_on and s_set_gpr_idx_off v_mov_b32 counts one of its registers from
 * an index. */
#ifndef SIMULATED_RELATIVE_H
#define SIMULATED_RELATIVE_H

#include "machine.h"

/* Decodes the two; false where it is neither, or not understood. */
bool relative_decode(const char *name, const char *operands, struct program *program, struct instruction *i);

/* Makes a decoded instruction one of those that stand between them; false where it is none that is known there. */
bool relative_make(const char *name, enum relative relative, struct instruction *i);

#endif
