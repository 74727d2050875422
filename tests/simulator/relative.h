/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers by number. CDNA: between s_set_gpr_idx_on and s_set_gpr_idx_off v_mov_b32 counts one of its registers from
 * an index. RDNA: v_movrels_b32 counts its source from m0, v_movreld_b32 its result. */
#ifndef SIMULATED_RELATIVE_H
#define SIMULATED_RELATIVE_H

#include "machine.h"

/* Decodes the two; false where it is neither, or not understood. */
bool relative_decode(const char *name, const char *operands, struct program *program, struct instruction *i);

/* How an instruction of that name counts, while the program is in a state. */
enum relative relative_of(const char *name, enum relative state);

/* Makes a decoded instruction one of those that stand between them; false where it is none that is known there. */
bool relative_make(const char *name, enum relative relative, struct instruction *i);

#endif
