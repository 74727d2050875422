/* SPDX-License-Identifier: BSD-2-Clause */
#include "relative.h"
#include "access.h"
#include "decode.h"
#include "lanes.h"
#include <stdlib.h>
#include <string.h>

static void set_index(struct wave *wave, const struct instruction *i)
{
    wave->index = scalar_of(wave, &i->source[0]) & 0xff;
}

static void end_index(struct wave *wave, const struct instruction *i)
{
    (void)i;
    wave->index = 0;
}

/* "s13, gpr_idx(SRC0)" */
static bool read_index(const char *operands, struct program *program, struct instruction *i)
{
    char text[32] = "";
    const char *comma = strchr(operands, ',');
    operands += strspn(operands, " \t");
    if (!comma || comma - operands >= (ptrdiff_t)sizeof text)
        return false;
    memcpy(text, operands, (size_t)(comma - operands));
    program->relative = strstr(comma, "(SRC0)") ? FROM_INDEX : strstr(comma, "(DST)") ? TO_INDEX : NOT_RELATIVE;
    i->run = set_index;
    i->sources = 1;
    return program->relative && operand_read(text, 's', program->chip->lanes, &i->source[0]);
}

bool relative_decode(const char *name, const char *operands, struct program *program, struct instruction *i)
{
    if (strcmp(name, "s_set_gpr_idx_on") == 0)
        return read_index(operands, program, i);
    if (strcmp(name, "s_set_gpr_idx_off") != 0)
        return false;
    program->relative = NOT_RELATIVE;
    i->run = end_index;
    return true;
}

static bool is_source(enum relative relative)
{
    return relative == FROM_INDEX || relative == FROM_M0;
}

static void run_relative(struct wave *wave, const struct instruction *i)
{
    const enum relative relative = (enum relative)i->target;
    const uint32_t index = relative == FROM_M0 || relative == TO_M0 ? wave->s[M0] : wave->index;
    struct instruction moved = *i->other;
    struct source *counted = is_source(relative) ? &moved.source[0] : &moved.to;
    if (index >= (uint32_t)(ACCUMULATORS - counted->first))
        fault(wave, i, "there is no register %u behind v%d", index, counted->first);
    counted->first += (int)index;
    moved.touches = 0;
    touch(&moved, &moved.source[0], false);
    touch(&moved, &moved.to, true);
    check_arrived(wave, &moved);
    moved.run(wave, &moved);
}

static const char *const names[] = {
    [FROM_INDEX] = "v_mov_b32_e32",
    [TO_INDEX] = "v_mov_b32_e32",
    [FROM_M0] = "v_movrels_b32_e32",
    [TO_M0] = "v_movreld_b32_e32",
};

enum relative relative_of(const char *name, enum relative state)
{
    return state                           ? state
           : strstr(name, "v_movrels_b32") ? FROM_M0
           : strstr(name, "v_movreld_b32") ? TO_M0
                                           : NOT_RELATIVE;
}

bool relative_make(const char *name, enum relative relative, struct instruction *i)
{
    const struct source *counted = is_source(relative) ? &i->source[0] : &i->to;
    struct instruction *other = malloc(sizeof *other);
    if (!other || strcmp(name, names[relative]) != 0 || counted->place != VECTOR || counted->first >= ACCUMULATORS) {
        free(other);
        return false;
    }
    *other = *i;
    i->other = other;
    i->run = run_relative;
    i->target = (int)relative;
    i->touches = 0;
    return true;
}
