/* SPDX-License-Identifier: BSD-2-Clause
 *
 * From the disassembler's text to instructions. */
#ifndef SIMULATED_DECODE_H
#define SIMULATED_DECODE_H

#include "machine.h"

/* One line, cut up: a name, operands between commas, and words such as offset:16 behind them. */
enum { MOST_OPERANDS = 8, MOST_MODIFIERS = 12 };
struct line {
    char *name;
    char *operands[MOST_OPERANDS], *modifiers[MOST_MODIFIERS];
    int operands_count, modifiers_count;
};

/* Cuts `text` up in place. False where there is too much of anything. */
bool line_cut(char *text, struct line *line);

/* The value of "name:value" among the modifiers, or "" where it stands alone; NULL: it is not there. What is asked for
 * is taken off, so that what is left is what nobody understands. */
const char *line_modifier(struct line *line, const char *name);

/* A list such as [0,1,1] as bits; `otherwise` where there is none. */
uint8_t line_bits(struct line *line, const char *name, uint8_t otherwise);

/* An operand of a kind (operations.h) that takes so many words; false where it is not understood. */
bool operand_read(const char *text, char kind, int lanes, struct source *source);

/* Decodes a kernel's listing, which the program then owns. On failure NULL is left in program->code, and `error` says
 * which line was not understood. */
bool program_decode(const struct chip *chip, char *listing, struct program *program, char *error, size_t error_bytes);
void program_free(struct program *program);

/* Loads and stores; false where `line` is none. `understood` becomes false where it is one of an unknown kind. */
bool memory_decode(const struct chip *chip, struct line *line, struct instruction *i, bool *understood);

/* Name number n of a load's or store's width, and of a change of local memory; NULL: there are no more. */
const char *width_name(int n);
const char *change_name(int n);

/* Adds registers to those that the instruction names. */
void touch(struct instruction *i, const struct source *source, bool written);

#endif
