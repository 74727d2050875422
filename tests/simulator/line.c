/* SPDX-License-Identifier: BSD-2-Clause */
#include "decode.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

/* The end of an operand: a comma or the end outside brackets. */
static char *operand_end(char *at)
{
    int depth = 0;
    for (; *at && (*at != ',' || depth); at++)
        depth += (*at == '[') - (*at == ']');
    return at;
}

static void trim(char *text)
{
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
}

/* Behind the last operand stand the modifiers, parted by blanks. */
static bool take_modifiers(char *at, struct line *line)
{
    for (at = skip_blanks(at); *at; at = skip_blanks(at)) {
        if (line->modifiers_count == MOST_MODIFIERS)
            return false;
        line->modifiers[line->modifiers_count++] = at;
        at += strcspn(at, " \t");
        if (*at)
            *at++ = '\0';
    }
    return true;
}

bool line_cut(char *text, struct line *line)
{
    *line = (struct line){.name = skip_blanks(text)};
    trim(text);
    char *at = line->name + strcspn(line->name, " \t");
    if (*at)
        *at++ = '\0';
    for (at = skip_blanks(at); *at;) {
        char *end = operand_end(at);
        const bool last = !*end;
        *end = '\0';
        if (line->operands_count == MOST_OPERANDS)
            return false;
        line->operands[line->operands_count++] = at;
        trim(at);
        if (last) {
            char *behind = at + strcspn(at, " \t");
            const bool has = *behind;
            *behind = '\0';
            return !has || take_modifiers(behind + 1, line);
        }
        at = skip_blanks(end + 1);
    }
    return true;
}

const char *line_modifier(struct line *line, const char *name)
{
    const size_t length = strlen(name);
    for (int n = 0; n < line->modifiers_count; n++) {
        char *text = line->modifiers[n];
        if (strncmp(text, name, length) != 0 || (text[length] && text[length] != ':'))
            continue;
        line->modifiers[n] = line->modifiers[--line->modifiers_count];
        return text[length] ? text + length + 1 : text + length;
    }
    return NULL;
}

uint8_t line_bits(struct line *line, const char *name, uint8_t otherwise)
{
    const char *list = line_modifier(line, name);
    if (!list)
        return otherwise;
    uint8_t bits = 0;
    int n = 0;
    for (; *list; list++)
        if (isdigit((unsigned char)*list))
            bits |= (uint8_t)((*list == '1') << n++);
    return bits;
}

/* "v7", "s[4:5]", "a[0:3]" */
static bool read_register(const char *text, struct source *source)
{
    int first = -1, last = -1, used = 0;
    char kind = 0;
    if (sscanf(text, "%c[%d:%d]%n", &kind, &first, &last, &used) == 3 && !text[used])
        source->words = last - first + 1;
    else if (sscanf(text, "%c%d%n", &kind, &first, &used) == 2 && !text[used])
        source->words = 1;
    else
        return false;
    if (!strchr("vsa", kind) || first < 0 || source->words < 1)
        return false;
    source->place = kind == 's' ? SCALAR : VECTOR;
    source->first = first + (kind == 'a' ? ACCUMULATORS : 0);
    return source->first + source->words <= (kind == 's' ? VCC : VECTORS);
}

static bool read_special(const char *text, struct source *source)
{
    static const struct {
        const char *name;
        int first, words;
    } names[] = {{"vcc_lo", VCC, 1},       {"vcc_hi", VCC + 1, 1}, {"vcc", VCC, 2},    {"exec_lo", EXEC, 1},
                 {"exec_hi", EXEC + 1, 1}, {"exec", EXEC, 2},      {"m0", M0, 1},      {"null", NULL_SCALAR, 1},
                 {"off", NULL_SCALAR, 1},  {"scc", SCC, 1},        {"src_scc", SCC, 1}};
    int number = -1, used = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(names[n].name, text) == 0) {
            *source = (struct source){.place = SCALAR, .first = names[n].first, .words = names[n].words};
            return true;
        }
    if (sscanf(text, "ttmp%d%n", &number, &used) != 1 || text[used] || number < 0 || number > 15)
        return false;
    *source = (struct source){.place = SCALAR, .first = TTMP + number, .words = 1};
    return true;
}

/* Inline constants of floats have the operand's own type; integers are as they stand, 64-bit ones sign-extended. */
static bool read_constant(const char *text, char kind, struct source *source)
{
    char *end;
    source->place = CONSTANT;
    if (strchr(text, '.')) {
        const float value = strtof(text, &end);
        const double wide = value;
        uint64_t bits;
        uint32_t single;
        _Float16 half = (_Float16)value;
        uint16_t short_bits;
        memcpy(&bits, &wide, sizeof bits);
        memcpy(&single, &value, sizeof single);
        memcpy(&short_bits, &half, sizeof short_bits);
        source->low = kind == 'h' ? short_bits : single;
        source->high = kind == 'd' ? (uint32_t)(bits >> 32) : single;
        if (kind == 'd')
            source->low = (uint32_t)bits;
        return !*end;
    }
    const long long value = strtoll(text, &end, 0);
    source->low = (uint32_t)value;
    source->high = (uint32_t)((uint64_t)value >> 32);
    return end != text && !*end;
}

/* The sign's bit, where an operand may be negated. */
static uint32_t sign_of(char kind)
{
    return kind == 'h' ? 0x8000 : 0x80000000;
}

/* sext(v1) by "v1": the part of a register that is meant has a sign. */
static bool take_sign(char *text)
{
    const size_t length = strlen(text);
    if (strncmp(text, "sext(", 5) != 0 || text[length - 1] != ')')
        return false;
    memmove(text, text + 5, length - 6);
    text[length - 6] = '\0';
    return true;
}

bool operand_read(const char *text, char kind, int lanes, struct source *source)
{
    char inner[64];
    const size_t length = strlen(text);
    *source = (struct source){.place = CONSTANT, .words = 1};
    if (length >= sizeof inner)
        return false;
    strcpy(inner, text);
    const bool has_sign = take_sign(inner);
    char *at = inner;
    const bool is_number = isdigit((unsigned char)at[at[0] == '-']);
    bool negated = false, absolute = false;
    if (at[0] == '-' && !is_number) {
        negated = true;
        at++;
    }
    if (at[0] == '|' && at[strlen(at) - 1] == '|') {
        absolute = true;
        at++;
        at[strlen(at) - 1] = '\0';
    }
    if (!read_register(at, source) && !read_special(at, source) && !read_constant(at, kind, source))
        return false;
    if ((negated || absolute) && !strchr("fhq", kind))
        return false;
    source->sign_extended = has_sign;
    source->negate = negated ? sign_of(kind) : 0;
    source->absolute = absolute ? sign_of(kind) - 1 : 0;
    if (kind == 'h')
        source->absolute = absolute ? 0x7fff : 0;
    const int mask_words = lanes == MOST_LANES ? 2 : 1;
    if ((kind == 'm' || kind == 'M') && source->place == SCALAR && source->first != NULL_SCALAR)
        return source->words == mask_words;
    return true;
}
