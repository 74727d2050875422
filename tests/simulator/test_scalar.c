/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scalar instructions, each against its definition (definitions_scalar.c), for all pairs of values at the edges. */
#include "bench.h"
#include "definitions.h"
#include "operations.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_name(const struct scalar_definition *table, const char *wanted)
{
    char name[64];
    for (; table->names; table++)
        for (int n = 0; definition_name(table->names, n, name, sizeof name); n++)
            if (strcmp(name, wanted) == 0)
                return true;
    return false;
}

/* Those beside are the program counter, which has a test of its own, and what saves the lanes that are on, of which a
 * test takes all. */
static void each_has_a_definition(void **state)
{
    (void)state;
    for (const struct operation *operation = scalar_operations; operation->name; operation++)
        if (!has_name(scalar_definitions, operation->name) && !has_name(short_definitions, operation->name) &&
            strcmp(operation->name, "getpc_b64") != 0 && !strstr(operation->name, "_saveexec_"))
            fail_msg("s_%s has no definition", operation->name);
}

static void put(int at, uint64_t value)
{
    bench.wave.s[at] = (uint32_t)value;
    bench.wave.s[at + 1] = (uint32_t)(value >> 32);
}

static uint64_t of_both(int at)
{
    return bench.wave.s[at] | (uint64_t)bench.wave.s[at + 1] << 32;
}

static void check_outcome(const char *text, struct outcome wanted, uint64_t got, bool has_result, bool before)
{
    const bool flag = wanted.flag == KEEPS_FLAG ? before : wanted.flag;
    const bool same = same_number((uint32_t)got, (uint32_t)wanted.value) && got >> 32 == wanted.value >> 32;
    if ((has_result && !same) || bench.wave.scc != flag)
        fail_msg("%s: 0x%llx and flag %d, not 0x%llx and %d", text, (unsigned long long)got, bench.wave.scc,
                 (unsigned long long)wanted.value, flag);
}

/* One pair of values, with the flag before it clear and set. */
static void check_pair(const struct scalar_definition *row, const char *text, uint64_t a, uint64_t b)
{
    const bool result = strchr(row->operands, '4'), wide = strstr(row->operands, "4:5");
    const bool wide_a = strstr(row->operands, "0:1"), wide_b = strstr(row->operands, "2:3");
    a = wide_a ? a : (uint32_t)a;
    b = wide_b ? b : (uint32_t)b;
    for (int flag = 0; flag < 2; flag++) {
        put(0, a);
        put(2, b);
        put(4, b);
        bench.wave.scc = flag;
        bench_run();
        struct outcome wanted = row->function(a, b, flag);
        wanted.value = wide ? wanted.value : (uint32_t)wanted.value;
        check_outcome(text, wanted, wide ? of_both(4) : bench.wave.s[4], result, flag);
    }
}

static void each_is_what_it_is_defined_to_be(void **state)
{
    (void)state;
    for (const struct scalar_definition *row = scalar_definitions; row->names; row++) {
        char name[64], text[128];
        for (int n = 0; definition_name(row->names, n, name, sizeof name); n++) {
            snprintf(text, sizeof text, "s_%s %s", name, row->operands);
            if (!bench_prepare(&bench_rdna3, text))
                fail_msg("%s is not known", text);
            for (int a = 0; a < EDGES; a++)
                for (int b = 0; b < EDGES; b++)
                    check_pair(row, text, edges[a] | (uint64_t)edges[(a + b) % EDGES] << 32,
                               edges[b] | (uint64_t)edges[(a * b + 7) % EDGES] << 32);
            program_free(&bench.program);
        }
    }
}

static void check_short(const struct scalar_definition *row, const char *name, uint32_t bits)
{
    char text[128];
    const uint32_t number = row->operands[0] == 'i' && bits > 0x7fff ? bits | 0xffff0000 : bits;
    const bool moves = strncmp(name, "movk", 4) == 0, result = strncmp(name, "cmpk", 4) != 0;
    snprintf(text, sizeof text, "s_%s s4, 0x%x", name, bits);
    if (!bench_prepare(&bench_rdna3, text))
        fail_msg("%s is not known", text);
    for (int a = 0; a < EDGES; a++)
        for (int flag = 0; flag < 2; flag++) {
            bench.wave.s[4] = edges[a];
            bench.wave.scc = flag;
            bench_run();
            struct outcome wanted = row->function(moves ? number : edges[a], number, flag);
            wanted.value = (uint32_t)wanted.value;
            check_outcome(text, wanted, bench.wave.s[4], result, flag);
        }
    program_free(&bench.program);
}

static void numbers_of_their_own_are_what_they_are_defined_to_be(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {0, 1, 0x7fff, 0x8000, 0xffff};
    for (const struct scalar_definition *row = short_definitions; row->names; row++) {
        char name[64];
        for (int n = 0; definition_name(row->names, n, name, sizeof name); n++)
            EACH (k, numbers)
                check_short(row, name, numbers[k]);
    }
}

/* What becomes of the lanes that are on, by the instruction's name. */
static uint64_t remaining(const char *name, uint64_t a, uint64_t old)
{
    if (strncmp(name, "and_s", 5) == 0)
        return ~(~a | ~old);
    if (strncmp(name, "or_s", 4) == 0)
        return ~(~a & ~old);
    if (strncmp(name, "xor_s", 5) == 0)
        return (a | old) - (a & old);
    if (strncmp(name, "andn2_s", 7) == 0 || strncmp(name, "and_not1_s", 10) == 0)
        return a - (a & old);
    if (strncmp(name, "orn2_s", 6) == 0 || strncmp(name, "or_not1_s", 9) == 0)
        return ~(~a & old);
    fail_msg("s_%s has no definition", name);
    return 0;
}

/* Lanes that were on go to the result; those that are become a function of them and of the source. */
static void check_saved(const char *name, uint64_t a, uint64_t before)
{
    char text[128];
    const bool wide = strstr(name, "b64");
    const uint64_t all = wide ? UINT64_MAX : UINT32_MAX, after = remaining(name, a, before) & all;
    snprintf(text, sizeof text, wide ? "s_%s s[4:5], s[0:1]" : "s_%s s4, s0", name);
    assert_true(bench_prepare(wide ? &bench_cdna3 : &bench_rdna3, text));
    set_exec(&bench.wave, before);
    put(0, a);
    bench_run();
    if ((of_both(4) & all) != (before & all) || bench.wave.exec != after || bench.wave.scc != (after != 0))
        fail_msg("%s of 0x%llx and 0x%llx", text, (unsigned long long)a, (unsigned long long)before);
    program_free(&bench.program);
}

static void lanes_that_are_on_are_saved(void **state)
{
    (void)state;
    static const uint64_t masks[] = {0, 1, UINT64_MAX, 0xf0f0f0f00f0f0f0f, 0x8000000000000000, 0x80000000};
    for (const struct operation *operation = scalar_operations; operation->name; operation++)
        EACH (x, masks)
            EACH (y, masks)
                if (strstr(operation->name, "_saveexec_"))
                    check_saved(operation->name, masks[x], masks[y]);
}

/* Of the instruction behind. */
static void the_place_in_the_program_is_found(void **state)
{
    (void)state;
    assert_true(bench_prepare(&bench_rdna3, "s_getpc_b64 s[4:5]"));
    bench.launch.image = 0x123456789000;
    bench_run();
    assert_int_equal(of_both(4), 0x12345678a004);
    program_free(&bench.program);
}

int run_scalar_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_a_definition),
        cmocka_unit_test(each_is_what_it_is_defined_to_be),
        cmocka_unit_test(numbers_of_their_own_are_what_they_are_defined_to_be),
        cmocka_unit_test(lanes_that_are_on_are_saved),
        cmocka_unit_test(the_place_in_the_program_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
