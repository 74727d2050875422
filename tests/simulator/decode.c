/* SPDX-License-Identifier: BSD-2-Clause */
#include "decode.h"
#include "control.h"
#include "operations.h"
#include "relative.h"
#include "units.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct operation *const vector_tables[] = {float_operations,  integer_operations, conversion_operations,
                                                        packed_operations, wide_operations,    cross_lane_operations,
                                                        matrix_operations};

void touch(struct instruction *i, const struct source *source, bool written)
{
    if (source->place == CONSTANT || source->first == NULL_SCALAR || source->first >= M0 + 1 || !source->words)
        if (source->place != VECTOR)
            return;
    if (i->touches < MOST_TOUCHED)
        i->touched[i->touches++] = (struct touched){source->place, source->first, source->words, written};
}

static const struct operation *find_in(const struct operation *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static const struct operation *find_vector(const char *name)
{
    const struct operation *found = NULL;
    for (size_t n = 0; !found && n < sizeof vector_tables / sizeof *vector_tables; n++)
        found = find_in(vector_tables[n], name);
    return found;
}

/* "v_add_f32_e64", "v_dual_add_f32": add_f32 */
static void bare_name(const char *name, char *bare, size_t size)
{
    static const char *const suffixes[] = {"_e32", "_e64", "_sdwa"};
    name += strncmp(name, "v_dual_", 7) == 0 ? 7 : 2;
    snprintf(bare, size, "%s", name);
    const size_t length = strlen(bare);
    for (size_t n = 0; n < sizeof suffixes / sizeof *suffixes; n++) {
        const size_t tail = strlen(suffixes[n]);
        if (length > tail && strcmp(bare + length - tail, suffixes[n]) == 0) {
            bare[length - tail] = '\0';
            return;
        }
    }
}

/* Words that an operand of a kind has; 0: as many as the text says. */
static int words_of(char kind, int lanes)
{
    switch (kind) {
    case 'V':
    case 'D':
    case 'q':
    case 'd':
        return 2;
    case 'M':
    case 'm':
        return lanes == MOST_LANES ? 2 : 1;
    case 'r':
        return 0;
    default:
        return 1;
    }
}

static bool fits(const struct source *source, char kind, int lanes)
{
    const int words = words_of(kind, lanes);
    return source->place == CONSTANT || source->first == NULL_SCALAR || !words || source->words == words;
}

/* The 16-bit numbers of s_movk_i32 and others of that kind are signed. */
static bool is_short_constant(const char *name)
{
    return strstr(name, "k_i32") || strstr(name, "k_co_i32") ||
           (strncmp(name, "cmpk_", 5) == 0 && strstr(name, "_i32"));
}

static bool take_sources(struct line *line, const char *kinds, int next, int lanes, struct instruction *i)
{
    for (; *kinds; kinds++) {
        struct source *source = &i->source[i->sources++];
        if (i->sources > MOST_SOURCES)
            return false;
        if (*kinds == '+') {
            *source = i->to;
        } else if (*kinds == '%') {
            *source = (struct source){.place = SCALAR, .first = VCC, .words = lanes == MOST_LANES ? 2 : 1};
        } else {
            if (next >= line->operands_count || !operand_read(line->operands[next++], *kinds, lanes, source) ||
                !fits(source, *kinds, lanes))
                return false;
        }
        touch(i, source, false);
    }
    return next == line->operands_count;
}

static bool take_result(struct line *line, char kind, int next, int lanes, struct instruction *i)
{
    struct source *to = kind == 'M' ? &i->to_mask : &i->to;
    if (next >= line->operands_count || !operand_read(line->operands[next], kind, lanes, to) || to->place == CONSTANT ||
        !fits(to, kind, lanes))
        return false;
    touch(i, to, true);
    return true;
}

/* One result, or a vector and a mask of carries; then the sources. */
static bool take_operands(struct line *line, const struct operation *operation, int lanes, struct instruction *i)
{
    const char *kinds = operation->operands;
    int next = 0;
    if (*kinds == '-')
        kinds++;
    else if (strchr("vVSDMr", *kinds) && !take_result(line, *kinds++, next++, lanes, i))
        return false;
    if (next && *kinds == 'M' && !take_result(line, *kinds++, next++, lanes, i))
        return false;
    return take_sources(line, kinds, next, lanes, i);
}

/* Parts of registers (CDNA): WORD_1, BYTE_0 ... */
static bool take_select(const char *text, struct source *source)
{
    int number = 0;
    if (!text || strcmp(text, "DWORD") == 0)
        return true;
    const bool is_word = sscanf(text, "WORD_%d", &number) == 1;
    if (!is_word && sscanf(text, "BYTE_%d", &number) != 1)
        return false;
    source->part = is_word ? 0xffff : 0xff;
    source->shift = number * (is_word ? 16 : 8);
    return true;
}

static bool take_selects(struct line *line, struct instruction *i)
{
    const char *unused = line_modifier(line, "dst_unused"), *to = line_modifier(line, "dst_sel");
    i->has_select = to && strcmp(to, "DWORD") != 0;
    i->keeps_rest = unused && strcmp(unused, "UNUSED_PRESERVE") == 0;
    return take_select(line_modifier(line, "src0_sel"), &i->source[0]) &&
           take_select(line_modifier(line, "src1_sel"), &i->source[1]) && take_select(to, &i->to) &&
           (!unused || i->keeps_rest || strcmp(unused, "UNUSED_PAD") == 0);
}

static bool take_modifiers(struct line *line, const char *bare, struct instruction *i)
{
    const bool packed = strncmp(bare, "pk_", 3) == 0, shorts = packed && strstr(bare, "16");
    const char *mul = line_modifier(line, "mul"), *div = line_modifier(line, "div");
    i->op_sel_hi = line_bits(line, "op_sel_hi", packed ? 7 : 0);
    i->op_sel = line_bits(line, "op_sel", 0);
    i->neg_lo = line_bits(line, "neg_lo", 0);
    i->neg_hi = line_bits(line, "neg_hi", 0);
    i->clamp = line_modifier(line, "clamp") != NULL;
    i->scale = mul ? strtof(mul, NULL) : div ? 1 / strtof(div, NULL) : 0;
    if (strcmp(bare, "pk_mov_b32") == 0 && i->op_sel_hi == 0)
        i->op_sel_hi = 7;
    /* the rest of what these bits may mean is of instructions that are not known here */
    const bool may_select = packed || strncmp(bare, "fma_mix", 7) == 0 || strncmp(bare, "permlane", 8) == 0;
    const bool plain = may_select || (!i->op_sel && !i->neg_lo && !i->neg_hi);
    if ((i->clamp || i->scale != 0) && !strstr(bare, "_f32"))
        return false;
    return plain && !(shorts && (i->neg_lo || i->neg_hi)) && take_selects(line, i) && line->modifiers_count == 0;
}

static bool vector_decode(const struct chip *chip, struct line *line, struct instruction *i)
{
    char bare[64];
    bool sets_exec = false;
    struct operation compare;
    bare_name(line->name, bare, sizeof bare);
    const struct operation *operation = find_vector(bare);
    if (!operation && compare_find(bare, &compare, &sets_exec)) {
        operation = &compare;
        if (sets_exec && chip->generation >= RDNA3)
            compare.operands++; /* no mask is written beside */
    }
    if (!operation || !take_operands(line, operation, chip->lanes, i))
        return false;
    i->run = operation->run;
    i->target = sets_exec || (operation->operands[0] == 'r' && strstr(bare, "bf16"));
    i->high = strcmp(bare, "fma_mixhi_f16") == 0;
    if (operation->operands[0] == 'r' && i->source[2].place == CONSTANT)
        i->source[2].high = i->source[2].low;
    if (strncmp(bare, "fma_mixlo", 9) == 0 || i->high)
        touch(i, &i->to, false);
    if (strncmp(line->name, "v_dual_cndmask", 14) == 0 && i->sources == 2)
        return false;
    return take_modifiers(line, bare, i);
}

static bool scalar_decode(const struct chip *chip, struct line *line, struct instruction *i)
{
    const char *bare = line->name + 2;
    const struct operation *operation = find_in(scalar_operations, bare);
    if (!operation || !take_operands(line, operation, chip->lanes, i) || line->modifiers_count)
        return false;
    i->run = operation->run;
    struct source *last = &i->source[i->sources - 1];
    if (i->sources && is_short_constant(bare) && last->place == CONSTANT)
        last->low = (uint32_t)(int16_t)last->low;
    return true;
}

/* Both operations of a dual instruction read before either writes. */
static bool overlaps(const struct source *written, const struct instruction *reader)
{
    for (int n = 0; n < reader->sources; n++) {
        const struct source *source = &reader->source[n];
        if (source->place == written->place && source->first < written->first + written->words &&
            written->first < source->first + source->words)
            return true;
    }
    return false;
}

static void run_in_order(struct wave *wave, const struct instruction *i)
{
    i->other[0].run(wave, &i->other[0]);
    i->other[1].run(wave, &i->other[1]);
}

static void run_apart(struct wave *wave, const struct instruction *i)
{
    const size_t bytes = sizeof wave->v[0];
    uint32_t old[MOST_LANES], result[MOST_LANES];
    uint32_t *to = wave->v[i->other[0].to.first];
    memcpy(old, to, bytes);
    i->other[0].run(wave, &i->other[0]);
    memcpy(result, to, bytes);
    memcpy(to, old, bytes);
    i->other[1].run(wave, &i->other[1]);
    memcpy(to, result, bytes);
}

static bool dual_half(const struct chip *chip, char *text, struct instruction *half)
{
    struct line line;
    char implied[] = "vcc_lo";
    if (!line_cut(text, &line))
        return false;
    if (strcmp(line.name, "v_dual_cndmask_b32") == 0 && line.operands_count == 3)
        line.operands[line.operands_count++] = implied;
    return vector_decode(chip, &line, half) && half->to.place == VECTOR && half->to.words == 1;
}

static bool dual_decode(const struct chip *chip, char *first, char *second, struct instruction *i)
{
    struct instruction *halves = calloc(2, sizeof *halves);
    i->other = halves;
    if (!halves || !dual_half(chip, first, &halves[0]) || !dual_half(chip, second, &halves[1]))
        return false;
    i->run = overlaps(&halves[0].to, &halves[1]) ? run_apart : run_in_order;
    for (int half = 0; half < 2; half++)
        for (int n = 0; n < halves[half].touches; n++)
            if (i->touches < MOST_TOUCHED)
                i->touched[i->touches++] = halves[half].touched[n];
    return true;
}

/* What is neither arithmetic nor memory; false where it is such. */
static bool control_decode(const char *name, const char *rest, uint64_t address, struct instruction *i)
{
    if (is_hint(name)) {
        i->run = do_nothing;
        return true;
    }
    if (wait_counts(name, rest, i->counts)) {
        i->run = wait_for;
        return true;
    }
    i->run = control_find(name);
    if (strstr(name, "branch"))
        i->target = (int)(address + 4 + 4 * (uint64_t)(int64_t)(int16_t)strtol(rest, NULL, 0));
    return i->run != NULL;
}

/* The text of one instruction, which is cut up. */
static bool one_decode(struct program *program, char *text, struct instruction *i)
{
    const struct chip *chip = program->chip;
    char *second = strstr(text, " :: ");
    char name[64] = "";
    sscanf(text, "%63s", name);
    if (relative_decode(name, text + strlen(name), program, i) ||
        control_decode(name, text + strlen(name), i->address, i))
        return true;
    if (second) {
        *second = '\0';
        return dual_decode(chip, text, second + 4, i);
    }
    struct line line;
    bool understood = true;
    if (!line_cut(text, &line))
        return false;
    if (memory_decode(chip, &line, i, &understood))
        return understood && line.modifiers_count == 0;
    if (name[0] != 'v')
        return scalar_decode(chip, &line, i);
    const enum relative relative = relative_of(name, program->relative);
    return vector_decode(chip, &line, i) && (!relative || relative_make(name, relative, i));
}

static int index_at(const struct program *program, uint64_t address)
{
    for (int n = 0; n < program->count; n++)
        if (program->code[n].address == address)
            return n;
    return -1;
}

/* Branches go to numbers of instructions. */
static bool link_branches(struct program *program, char *error, size_t size)
{
    for (int n = 0; n < program->count; n++) {
        struct instruction *i = &program->code[n];
        if (strncmp(i->text, "s_branch", 8) != 0 && strncmp(i->text, "s_cbranch", 9) != 0)
            continue;
        const int target = index_at(program, (uint64_t)(uint32_t)i->target);
        if (target < 0) {
            snprintf(error, size, "a branch leads out of the kernel: %s", i->text);
            return false;
        }
        i->target = target;
    }
    return true;
}

static bool decode_line(char *line, struct program *program, char *error, size_t size)
{
    char *address = strstr(line, "//"), work[512];
    if (line[0] != '\t' || !address)
        return true;
    struct instruction *i = &program->code[program->count++];
    *address = '\0';
    line += strspn(line, "\t ");
    for (size_t length = strlen(line); length && isspace((unsigned char)line[length - 1]);)
        line[--length] = '\0';
    *i = (struct instruction){.text = line,
                              .address = strtoull(address + 2, NULL, 16),
                              .unit = unit_of(line),
                              .local_words = local_words_of(line)};
    snprintf(work, sizeof work, "%s", line);
    if (strlen(line) < sizeof work && one_decode(program, work, i))
        return true;
    snprintf(error, size, "an instruction that is not known: %s", line);
    return false;
}

bool program_decode(const struct chip *chip, char *listing, struct program *program, char *error, size_t error_bytes)
{
    int lines = 1;
    for (const char *at = listing; *at; at++)
        lines += *at == '\n';
    *program = (struct program){.chip = chip, .listing = listing, .code = calloc((size_t)lines, sizeof *program->code)};
    bool ok = program->code != NULL;
    for (char *line = listing, *next; ok && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        ok = decode_line(line, program, error, error_bytes);
    }
    return ok && link_branches(program, error, error_bytes);
}

void program_free(struct program *program)
{
    for (int n = 0; n < program->count; n++)
        free((void *)program->code[n].other);
    free(program->code);
    free(program->listing);
    *program = (struct program){0};
}
