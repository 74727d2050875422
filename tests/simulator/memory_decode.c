/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loads and stores by their names: those of RDNA say bits, those of CDNA double words. */
#include "access.h"
#include "decode.h"
#include <stdlib.h>

struct width {
    const char *name;
    int bytes;
    bool sign_extended, keeps_rest, high;
};

static const struct width widths[] = {
    {"b32", 4, 0, 0, 0},          {"b64", 8, 0, 0, 0},          {"b96", 12, 0, 0, 0},
    {"b128", 16, 0, 0, 0},        {"b256", 32, 0, 0, 0},        {"b512", 64, 0, 0, 0},
    {"dword", 4, 0, 0, 0},        {"dwordx2", 8, 0, 0, 0},      {"dwordx3", 12, 0, 0, 0},
    {"dwordx4", 16, 0, 0, 0},     {"dwordx8", 32, 0, 0, 0},     {"dwordx16", 64, 0, 0, 0},
    {"u16", 2, 0, 0, 0},          {"ushort", 2, 0, 0, 0},       {"i16", 2, 1, 0, 0},
    {"sshort", 2, 1, 0, 0},       {"u8", 1, 0, 0, 0},           {"ubyte", 1, 0, 0, 0},
    {"i8", 1, 1, 0, 0},           {"sbyte", 1, 1, 0, 0},        {"b16", 2, 0, 0, 0},
    {"short", 2, 0, 0, 0},        {"b8", 1, 0, 0, 0},           {"byte", 1, 0, 0, 0},
    {"d16_b16", 2, 0, 1, 0},      {"d16_hi_b16", 2, 0, 1, 1},   {"short_d16", 2, 0, 1, 0},
    {"short_d16_hi", 2, 0, 1, 1}, {"u16_d16", 2, 0, 1, 0},      {"u16_d16_hi", 2, 0, 1, 1},
    {"b16_d16_hi", 2, 0, 1, 1},   {"d16_u8", 1, 0, 1, 0},       {"d16_hi_u8", 1, 0, 1, 1},
    {"ubyte_d16", 1, 0, 1, 0},    {"ubyte_d16_hi", 1, 0, 1, 1}, {"u8_d16", 1, 0, 1, 0},
    {"u8_d16_hi", 1, 0, 1, 1},    {"d16_i8", 1, 1, 1, 0},       {"d16_hi_i8", 1, 1, 1, 1},
    {"sbyte_d16", 1, 1, 1, 0},    {"sbyte_d16_hi", 1, 1, 1, 1}, {"i8_d16", 1, 1, 1, 0},
    {"i8_d16_hi", 1, 1, 1, 1},    {"d16_hi_b8", 1, 0, 1, 1},    {"byte_d16_hi", 1, 0, 1, 1},
    {"b8_d16_hi", 1, 0, 1, 1},
};

const char *width_name(int n)
{
    return (size_t)n < sizeof widths / sizeof *widths ? widths[n].name : NULL;
}

static bool take_width(const char *name, struct instruction *i)
{
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++)
        if (strcmp(widths[n].name, name) == 0) {
            i->bytes = widths[n].bytes;
            i->to.sign_extended = widths[n].sign_extended;
            i->keeps_rest = widths[n].keeps_rest;
            i->high = widths[n].high;
            return true;
        }
    return false;
}

static int number_modifier(struct line *line, const char *name)
{
    const char *text = line_modifier(line, name);
    return text ? (int)strtol(text, NULL, 0) : 0;
}

/* Hints about caches, which say nothing of values. */
static void drop_hints(struct line *line)
{
    static const char *const hints[] = {"glc", "slc", "dlc", "sc0", "sc1", "nt", "scope", "th"};
    for (size_t n = 0; n < sizeof hints / sizeof *hints; n++)
        line_modifier(line, hints[n]);
}

static bool take(struct line *line, int operand, int words, struct instruction *i, struct source *to, bool written)
{
    const struct source kept = *to;
    if (operand >= line->operands_count || !operand_read(line->operands[operand], 'r', 32, to))
        return false;
    to->sign_extended = kept.sign_extended;
    touch(i, to, written);
    return !words || to->words == words || to->first == NULL_SCALAR;
}

static int words_of(const struct instruction *i)
{
    return i->bytes < 4 ? 1 : i->bytes / 4;
}

/* "global_load_b64 v[1:2], v[3:4], off", "global_store_b32 v1, v2, s[0:1]", "scratch_load_b32 v1, off, s32" */
static bool vector_memory(struct line *line, struct instruction *i, run_function *load, run_function *store)
{
    const char *kind = strchr(line->name, '_') + 1, *width = strchr(kind, '_');
    const bool loads = strncmp(kind, "load_", 5) == 0;
    if ((!loads && strncmp(kind, "store_", 6) != 0) || !take_width(width + 1, i) || i->bytes > 16)
        return false;
    i->run = loads ? load : store;
    i->sources = loads ? 2 : 3;
    i->offset[0] = number_modifier(line, "offset");
    drop_hints(line);
    if (loads && i->keeps_rest && line->operands_count)
        operand_read(line->operands[0], 'r', 32, &i->source[3]), touch(i, &i->source[3], true);
    const bool ok =
        loads ? take(line, 0, words_of(i), i, &i->to, true) : take(line, 1, words_of(i), i, &i->source[2], false);
    if (!loads)
        i->keeps_rest = false;
    return ok && take(line, loads ? 1 : 0, 0, i, &i->source[0], false) && take(line, 2, 0, i, &i->source[1], false) &&
           line->operands_count == 3;
}

/* "buffer_load_dword v1, off, s[96:99], 0 offset:4", "buffer_store_dword v1, v2, s[0:3], s33 offen": a lane's private
 * memory, as CDNA 2 has it. Wider accesses would be parted among places by the descriptor. */
static bool private_buffer(struct line *line, struct instruction *i)
{
    const char *kind = line->name + strlen("buffer_");
    const bool loads = strncmp(kind, "load_", 5) == 0, offset_in_register = line_modifier(line, "offen") != NULL;
    if ((!loads && strncmp(kind, "store_", 6) != 0) || !take_width(strchr(kind, '_') + 1, i) || i->bytes > 4)
        return false;
    i->run = loads ? buffer_load : buffer_store;
    i->offset[0] = number_modifier(line, "offset");
    drop_hints(line);
    i->sources = 5;
    const bool ok = take(line, 0, 1, i, loads ? &i->to : &i->source[2], loads) &&
                    take(line, 1, 1, i, &i->source[0], false) && take(line, 2, 4, i, &i->source[4], false) &&
                    take(line, 3, 1, i, &i->source[1], false) && line->operands_count == 4 &&
                    offset_in_register == (i->source[0].place == VECTOR);
    if (loads && i->keeps_rest)
        i->source[3] = i->to, touch(i, &i->to, false);
    i->keeps_rest &= loads;
    return ok;
}

static bool scalar_memory(struct line *line, struct instruction *i)
{
    if (!take_width(line->name + strlen("s_load_"), i) || i->keeps_rest)
        return false;
    i->run = scalar_load;
    i->sources = 2;
    i->offset[0] = number_modifier(line, "offset");
    drop_hints(line);
    return take(line, 0, words_of(i), i, &i->to, true) && take(line, 1, 2, i, &i->source[0], false) &&
           take(line, 2, 1, i, &i->source[1], false) && line->operands_count == 3;
}

/* "2addr_stride64_b32", "2st64_b32", "2addr_b64", "2_b64": two places, counted in elements or in 64 of them. */
static const char *take_pair(const char *name, int *stride)
{
    static const struct {
        const char *name;
        int stride;
    } forms[] = {{"2addr_stride64_", 64}, {"2st64_", 64}, {"2addr_", 1}, {"2_", 1}};
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        if (strncmp(name, forms[n].name, strlen(forms[n].name)) == 0) {
            *stride = forms[n].stride;
            return name + strlen(forms[n].name);
        }
    *stride = 0;
    return name + (*name == '_');
}

static bool local_access(struct line *line, struct instruction *i, const char *form, bool loads)
{
    int stride;
    const char *width = take_pair(form, &stride);
    if (!take_width(width, i) || i->bytes > 16 || (stride && i->bytes != 4 && i->bytes != 8))
        return false;
    const int places = stride ? 2 : 1, words = words_of(i);
    i->offset[0] = stride ? number_modifier(line, "offset0") * stride * i->bytes : number_modifier(line, "offset");
    i->offset[1] = stride ? number_modifier(line, "offset1") * stride * i->bytes : 0;
    i->sources = loads ? 1 : 1 + places;
    if (loads) {
        i->run = stride ? local_load_2 : local_load;
        return take(line, 0, words * places, i, &i->to, true) && take(line, 1, 1, i, &i->source[0], false) &&
               line->operands_count == 2;
    }
    i->run = stride ? local_store_2 : local_store;
    i->keeps_rest = false;
    return take(line, 0, 1, i, &i->source[0], false) && take(line, 1, words, i, &i->source[1], false) &&
           (!stride || take(line, 2, words, i, &i->source[2], false)) && line->operands_count == 1 + places;
}

static const struct {
    const char *name;
    enum change change;
} changes[] = {{"add_u32", CHANGE_ADD},
               {"and_b32", CHANGE_AND},
               {"or_b32", CHANGE_OR},
               {"xor_b32", CHANGE_XOR},
               {"max_i32", CHANGE_MAX_SIGNED},
               {"min_i32", CHANGE_MIN_SIGNED},
               {"max_u32", CHANGE_MAX},
               {"min_u32", CHANGE_MIN},
               {"add_f32", CHANGE_ADD_FLOAT},
               {"wrxchg_rtn_b32", CHANGE_SWAP},
               {"storexchg_rtn_b32", CHANGE_SWAP},
               {"add_rtn_u32", CHANGE_ADD},
               {"or_rtn_b32", CHANGE_OR},
               {"and_rtn_b32", CHANGE_AND},
               {"max_rtn_i32", CHANGE_MAX_SIGNED},
               {"max_rtn_u32", CHANGE_MAX},
               {"min_rtn_u32", CHANGE_MIN}};

const char *change_name(int n)
{
    return (size_t)n < sizeof changes / sizeof *changes ? changes[n].name : NULL;
}

static bool local_change(struct line *line, struct instruction *i, const char *form)
{
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++) {
        if (strcmp(changes[n].name, form) != 0)
            continue;
        const int returns = strstr(form, "_rtn") != NULL;
        i->run = local_atomic;
        i->target = (int)changes[n].change;
        i->bytes = 4;
        i->sources = 2;
        i->offset[0] = number_modifier(line, "offset");
        return (!returns || take(line, 0, 1, i, &i->to, true)) && take(line, returns, 1, i, &i->source[0], false) &&
               take(line, 1 + returns, 1, i, &i->source[1], false) && line->operands_count == 2 + returns;
    }
    return false;
}

static bool local_memory(struct line *line, struct instruction *i)
{
    static const struct {
        const char *name;
        bool loads;
    } forms[] = {{"load", true}, {"read", true}, {"store", false}, {"write", false}};
    const char *form = line->name + strlen("ds_");
    if (strcmp(form, "bpermute_b32") == 0) {
        i->run = local_bpermute;
        i->sources = 2;
        i->offset[0] = number_modifier(line, "offset");
        return take(line, 0, 1, i, &i->to, true) && take(line, 1, 1, i, &i->source[0], false) &&
               take(line, 2, 1, i, &i->source[1], false);
    }
    if (local_change(line, i, form))
        return true;
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        if (strncmp(form, forms[n].name, strlen(forms[n].name)) == 0)
            return local_access(line, i, form + strlen(forms[n].name) + (form[strlen(forms[n].name)] == '_'),
                                forms[n].loads);
    return false;
}

bool memory_decode(const struct chip *chip, struct line *line, struct instruction *i, bool *understood)
{
    (void)chip;
    const char *name = line->name;
    if (strncmp(name, "global_", 7) == 0)
        *understood = vector_memory(line, i, global_load, global_store);
    else if (strncmp(name, "scratch_", 8) == 0)
        *understood = vector_memory(line, i, scratch_load, scratch_store);
    else if (strncmp(name, "buffer_load_", 12) == 0 || strncmp(name, "buffer_store_", 13) == 0)
        *understood = private_buffer(line, i);
    else if (strncmp(name, "s_load_", 7) == 0)
        *understood = scalar_memory(line, i);
    else if (strncmp(name, "ds_", 3) == 0)
        *understood = local_memory(line, i);
    else
        return false;
    return true;
}
