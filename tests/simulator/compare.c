/* SPDX-License-Identifier: BSD-2-Clause
 *
 * v_cmp and v_cmpx: to a mask of lanes, or to the lanes that are on. */
#include "valu.h"
#include <stdio.h>

enum type { F32, F16, I32, U32, I64, U64, I16, U16, TYPES };
enum relation { LESS, EQUAL, LESS_EQUAL, GREATER, UNEQUAL, GREATER_EQUAL, ORDERED, UNORDERED, NOT = 8, RELATIONS = 16 };

static const struct {
    const char *name;
    int relation;
} relations[] = {
    {"lt", LESS},
    {"eq", EQUAL},
    {"le", LESS_EQUAL},
    {"gt", GREATER},
    {"lg", UNEQUAL},
    {"ne", UNEQUAL},
    {"ge", GREATER_EQUAL},
    {"o", ORDERED},
    {"u", UNORDERED},
    {"nge", NOT | GREATER_EQUAL},
    {"nlg", NOT | UNEQUAL},
    {"ngt", NOT | GREATER},
    {"nle", NOT | LESS_EQUAL},
    {"neq", NOT | EQUAL},
    {"nlt", NOT | LESS},
};

static const struct {
    const char *name, *operands;
} types[TYPES] = {{"f32", "Mff"}, {"f16", "Mhh"}, {"i32", "Muu"}, {"u32", "Muu"},
                  {"i64", "Mqq"}, {"u64", "Mqq"}, {"i16", "Mww"}, {"u16", "Mww"}};

/* For floats UNEQUAL is "less or greater", which a NaN is not. */
#define EACH(expression)                                                                                               \
    do {                                                                                                               \
        for (int l = 0; l < LANES(wave); l++)                                                                          \
            result[l] = (expression);                                                                                  \
    } while (0)
#define RELATED(a, b)                                                                                                  \
    do {                                                                                                               \
        const int is = relation & 7;                                                                                   \
        if (is == LESS)                                                                                                \
            EACH ((a) < (b))                                                                                           \
                ;                                                                                                      \
        else if (is == EQUAL)                                                                                          \
            EACH ((a) == (b))                                                                                          \
                ;                                                                                                      \
        else if (is == LESS_EQUAL)                                                                                     \
            EACH ((a) <= (b))                                                                                          \
                ;                                                                                                      \
        else if (is == GREATER)                                                                                        \
            EACH ((a) > (b))                                                                                           \
                ;                                                                                                      \
        else if (is == UNEQUAL)                                                                                        \
            EACH ((a) < (b) || (a) > (b))                                                                              \
                ;                                                                                                      \
        else if (is == GREATER_EQUAL)                                                                                  \
            EACH ((a) >= (b))                                                                                          \
                ;                                                                                                      \
        else if (is == ORDERED)                                                                                        \
            EACH ((a) == (a) && (b) == (b))                                                                            \
                ;                                                                                                      \
        else                                                                                                           \
            EACH ((a) != (a) || (b) != (b))                                                                            \
                ;                                                                                                      \
    } while (0)
#define WIDE(low, high) ((low)[l] | (uint64_t)(high)[l] << 32)

static uint64_t compared(const struct wave *wave, const struct instruction *i, enum type type, int relation)
{
    uint32_t room[4][MOST_LANES], result[MOST_LANES];
    const bool wide = type == I64 || type == U64;
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]);
    const uint32_t *c = wide ? lanes_of(wave, &i->source[0], 1, room[2]) : a,
                   *d = wide ? lanes_of(wave, &i->source[1], 1, room[3]) : b;
    if (type == F32)
        RELATED(as_float(a[l]), as_float(b[l]));
    else if (type == F16)
        RELATED(half_to_float(a[l]), half_to_float(b[l]));
    else if (type == I32)
        RELATED((int32_t)a[l], (int32_t)b[l]);
    else if (type == U32)
        RELATED(a[l], b[l]);
    else if (type == I16)
        RELATED((int16_t)a[l], (int16_t)b[l]);
    else if (type == U16)
        RELATED((uint16_t)a[l], (uint16_t)b[l]);
    else if (type == I64)
        RELATED((int64_t)WIDE(a, c), (int64_t)WIDE(b, d));
    else
        RELATED(WIDE(a, c), WIDE(b, d));
    const uint64_t mask = mask_from(wave, result);
    return (relation & NOT ? ~mask : mask) & wave->exec;
}

/* i->target: whether the lanes that are on are set. */
static void finish(struct wave *wave, const struct instruction *i, uint64_t mask, bool sets_exec)
{
    if (i->to_mask.words)
        put_mask(wave, &i->to_mask, mask);
    if (sets_exec)
        set_exec(wave, mask);
}

#define FOR_TYPE(type, relation)                                                                                       \
    static void compare_##type##_##relation(struct wave *wave, const struct instruction *i)                            \
    {                                                                                                                  \
        finish(wave, i, compared(wave, i, type, relation), i->target);                                                 \
    }
#define FOR_RELATIONS(type)                                                                                            \
    FOR_TYPE(type, 0)                                                                                                  \
    FOR_TYPE(type, 1)                                                                                                  \
    FOR_TYPE(type, 2)                                                                                                  \
    FOR_TYPE(type, 3)                                                                                                  \
    FOR_TYPE(type, 4)                                                                                                  \
    FOR_TYPE(type, 5)                                                                                                  \
    FOR_TYPE(type, 6)                                                                                                  \
    FOR_TYPE(type, 7)                                                                                                  \
    FOR_TYPE(type, 8) FOR_TYPE(type, 9) FOR_TYPE(type, 10) FOR_TYPE(type, 11) FOR_TYPE(type, 12) FOR_TYPE(type, 13)
FOR_RELATIONS(F32)
FOR_RELATIONS(F16)
FOR_RELATIONS(I32)
FOR_RELATIONS(U32)
FOR_RELATIONS(I64)
FOR_RELATIONS(U64)
FOR_RELATIONS(I16)
FOR_RELATIONS(U16)

#define ROW(type)                                                                                                      \
    {                                                                                                                  \
        compare_##type##_0, compare_##type##_1, compare_##type##_2, compare_##type##_3, compare_##type##_4,            \
            compare_##type##_5, compare_##type##_6, compare_##type##_7, compare_##type##_8, compare_##type##_9,        \
            compare_##type##_10, compare_##type##_11, compare_##type##_12, compare_##type##_13                         \
    }
static run_function *const functions[TYPES][14] = {ROW(F32), ROW(F16), ROW(I32), ROW(U32),
                                                   ROW(I64), ROW(U64), ROW(I16), ROW(U16)};

/* The kinds of floats, as bits: signalling and quiet NaN, -inf, negative normal, denormal, -0, 0 and so on. Of
 * the bits without the sign, by those of infinity, of the smallest normal number, and by the bit of a quiet NaN. */
static inline uint32_t kind_of(uint32_t size, bool negative, uint32_t infinity, uint32_t normal, uint32_t quiet)
{
    if (size > infinity)
        return size & quiet ? 2 : 1;
    const int place = size == infinity ? 0 : size >= normal ? 1 : size ? 2 : 3; /* from infinity to 0 */
    return negative ? 4u << place : 512u >> place;
}

static void classify(struct wave *wave, const struct instruction *i)
{
    uint32_t room[2][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]);
    for (int l = 0; l < LANES(wave); l++)
        result[l] = kind_of(a[l] & 0x7fffffff, a[l] >> 31, 0x7f800000, 0x800000, 0x400000) & b[l];
    finish(wave, i, mask_from(wave, result) & wave->exec, i->target);
}

static void classify_half(struct wave *wave, const struct instruction *i)
{
    uint32_t room[2][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]);
    for (int l = 0; l < LANES(wave); l++)
        result[l] = kind_of(a[l] & 0x7fff, a[l] >> 15 & 1, 0x7c00, 0x400, 0x200) & b[l];
    finish(wave, i, mask_from(wave, result) & wave->exec, i->target);
}

static int type_of(const char *name)
{
    for (int type = 0; type < TYPES; type++)
        if (strcmp(types[type].name, name) == 0)
            return type;
    return -1;
}

/* "cmp_lt_f32", "cmpx_class_f32" */
bool compare_find(const char *name, struct operation *operation, bool *sets_exec)
{
    char relation[8] = "", type[8] = "", extra;
    *sets_exec = strncmp(name, "cmpx_", 5) == 0;
    if (!*sets_exec && strncmp(name, "cmp_", 4) != 0)
        return false;
    if (sscanf(strchr(name, '_') + 1, "%7[a-z]_%7[a-z0-9]%c", relation, type, &extra) != 2 || type_of(type) < 0)
        return false;
    const enum type of = (enum type)type_of(type);
    *operation = (struct operation){name, of == F16 ? classify_half : classify, of == F16 ? "Mhu" : "Mfu"};
    if (strcmp(relation, "class") == 0)
        return of == F32 || of == F16;
    operation->operands = types[of].operands;
    const bool is_float = of == F32 || of == F16;
    for (size_t n = 0; n < sizeof relations / sizeof *relations; n++)
        if (strcmp(relations[n].name, relation) == 0) {
            const bool of_floats = strcmp(relation, "lg") == 0 || strlen(relation) != 2,
                       of_integers = strcmp(relation, "ne") == 0;
            if (is_float ? of_integers : of_floats)
                return false;
            operation->run = functions[of][relations[n].relation];
            return true;
        }
    return false;
}
