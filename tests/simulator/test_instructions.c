/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Single instructions of the simulated GPUs against what their definition says, in another way of computing it, for all
 * pairs and triples of values at the edges; and that what is not known is refused. */
#include "bench.h"
#include "control.h"
#include "definitions.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool are_close(uint32_t got, uint32_t wanted, int close)
{
    if (wanted == 0x7e00 || wanted == 0xfe00) /* a half that is none: any */
        return (got & 0x7c00) == 0x7c00 && (got & 0x3ff);
    return same_number(got, wanted) || (close && abs((int32_t)(got - wanted)) <= close);
}

/* Lanes have one source's edges each, rounds the others'. */
static void check(const struct definition *row, uint32_t b, uint32_t c)
{
    for (int first = 0; first < EDGES; first += bench.wave.lanes) {
        for (int l = 0; l < bench.wave.lanes; l++) {
            bench.registers[0][l] = edges[(first + l) % EDGES];
            bench.registers[1][l] = b;
            bench.registers[2][l] = c;
        }
        bench_run();
        for (int l = 0; l < bench.wave.lanes; l++) {
            const uint32_t a = bench.registers[0][l], wanted = row->function(a, b, c);
            if (!are_close(bench.registers[3][l], wanted, row->close))
                fail_msg("%s of 0x%x, 0x%x, 0x%x is 0x%x, not 0x%x", row->text, a, b, c, bench.registers[3][l], wanted);
        }
    }
}

static void instructions_are_what_they_are_defined_to_be(void **state)
{
    (void)state;
    for (const struct definition *row = definitions; row->text; row++) {
        if (!bench_prepare(&bench_rdna3, row->text))
            fail_msg("%s is not known", row->text);
        for (int b = 0; b < (row->sources > 1 ? EDGES : 1); b++)
            for (int c = 0; c < (row->sources > 2 ? EDGES : 1); c++)
                check(row, edges[b], edges[c]);
        program_free(&bench.program);
    }
}

/* Each relation, by the sign of a difference. */
static bool related(const char *relation, __float128 a, __float128 b)
{
    const bool known = a == a && b == b;
    const int sign = a == b ? 0 : a - b > 0 ? 1 : -1;
    const struct {
        const char *name;
        bool holds;
    } table[] = {{"lt", known && sign < 0},
                 {"eq", known && sign == 0},
                 {"le", known && sign <= 0},
                 {"gt", known && sign > 0},
                 {"ge", known && sign >= 0},
                 {"lg", known && sign != 0},
                 {"o", known},
                 {"u", !known},
                 {"nge", !known || sign < 0},
                 {"nlg", !known || sign == 0},
                 {"ngt", !known || sign <= 0},
                 {"nle", !known || sign > 0},
                 {"nlt", !known || sign >= 0},
                 {"neq", !known || sign != 0},
                 {"ne", known && sign != 0}};
    EACH (n, table)
        if (strcmp(table[n].name, relation) == 0)
            return table[n].holds;
    fail_msg("%s", relation);
    return false;
}

/* The last of a type's digits is where its width ends. */
static __float128 number(const char *type, uint64_t x)
{
    const int bits = atoi(type + 1);
    const __float128 all = bits == 64 ? 0x1p64 : bits == 32 ? 0x1p32 : 0x1p16;
    const uint64_t part = bits == 64 ? x : x % (1ull << bits);
    if (type[0] == 'f')
        return (__float128)definition_float(bits == 32 ? (uint32_t)x : definition_of_half((uint32_t)part, 0, 0));
    return type[0] == 'i' && part >> (bits - 1) ? (__float128)part - all : (__float128)part;
}

/* The classes by their bits: a NaN that signals, one that does not, -infinity, -normal, -denormal, -0, and so on up. */
static int class_of(const char *type, uint64_t x)
{
    const bool half = strcmp(type, "f16") == 0;
    const double value = (double)number(type, x), least = half ? 0x1p-14 : 0x1p-126;
    const int place = isinf(value) ? 0 : fabs(value) >= least ? 1 : value != 0 ? 2 : 3;
    if (isnan(value))
        return x / (half ? 0x200 : 0x400000) % 2 ? 1 : 0;
    return signbit(value) ? 2 + place : 9 - place;
}

static bool holds(const char *relation, const char *type, uint64_t a, uint64_t b)
{
    return strcmp(relation, "class") == 0 ? b >> class_of(type, a) & 1
                                          : related(relation, number(type, a), number(type, b));
}

static uint64_t of_pair(int low, int high)
{
    return edges[low % EDGES] | (uint64_t)edges[high % EDGES] << 32;
}

static uint64_t mask_at(int first)
{
    return bench.wave.s[first] | (uint64_t)bench.wave.s[first + 1] << 32;
}

/* To a mask; v_cmpx to the lanes that are on, of which some were off, and on CDNA to a mask beside. */
static void check_comparison(const struct chip *chip, const char *relation, const char *type, bool sets)
{
    const uint64_t all = chip->lanes == 64 ? UINT64_MAX : UINT32_MAX, on = all - 0x50,
                   random[] = {0x1f8, 0x2a5, 0x3ff, 0};
    const bool wide = strstr(type, "64"), keeps_mask = sets && chip->lanes == 32,
               classes = strcmp(relation, "class") == 0;
    char text[64];
    snprintf(text, sizeof text, "v_cmp%s_%s_%s_e64 %s%s, %s", sets ? "x" : "", relation, type,
             keeps_mask          ? ""
             : chip->lanes == 64 ? "s[20:21], "
                                 : "s20, ",
             wide ? "v[0:1]" : "v0", wide ? "v[2:3]" : "v2");
    if (!bench_prepare(chip, text))
        fail_msg("%s is not known", text);
    for (int b = 0; b < EDGES; b++) {
        uint64_t wanted = 0;
        for (int l = 0; l < chip->lanes; l++) {
            const uint64_t x = of_pair(l, l / 3), y = classes ? random[b % 4] : of_pair(b, b / 2);
            bench.registers[0][l] = (uint32_t)x;
            bench.registers[1][l] = (uint32_t)(x >> 32);
            bench.registers[2][l] = (uint32_t)y;
            bench.registers[3][l] = (uint32_t)(y >> 32);
            wanted |= (uint64_t)holds(relation, type, x, y) << l & on;
        }
        set_exec(&bench.wave, on);
        bench_run();
        if ((!keeps_mask && (mask_at(20) & all) != wanted) || (bench.wave.exec & all) != (sets ? wanted : on))
            fail_msg("%s of 0x%llx", text, (unsigned long long)of_pair(b, b / 2));
    }
    program_free(&bench.program);
}

static void comparisons_are_what_they_are_defined_to_be(void **state)
{
    (void)state;
    static const char *const floats[] = {"lt",  "eq",  "le",  "gt",  "ge",  "lg",  "o",    "u",
                                         "nge", "nlg", "ngt", "nle", "nlt", "neq", "class"};
    static const char *const integers[] = {"lt", "eq", "le", "gt", "ge", "ne"};
    static const char *const types[] = {"i32", "u32", "i16", "u16", "i64", "u64"};
    const struct chip *const chips[] = {&bench_rdna3, &bench_cdna3};
    EACH (chip, chips)
        for (int sets = 0; sets < 2; sets++) {
            EACH (n, floats) {
                check_comparison(chips[chip], floats[n], "f32", sets);
                check_comparison(chips[chip], floats[n], "f16", sets);
            }
            EACH (n, integers)
                EACH (t, types)
                    check_comparison(chips[chip], integers[n], types[t], sets);
        }
}

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"v_unheard_of_f32 v3, v0, v1",
                                        "v_add_f32_e32 v3, v0",
                                        "v_add_f32_e32 v3, v0, v1, v2",
                                        "v_add_f32_e64 v3, v0, v1 op_sel:[1,0,0]",
                                        "v_add_f32_dpp v3, v0, v1 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
                                        "v_and_b32_e32 v3, -v0, v1",
                                        "v_mov_b32_e32 v600, v1",
                                        "global_load_b32 v1, v[2:3], off unknown:1",
                                        "ds_load_b32 v1, v2 gds",
                                        "s_unheard_of s1, s2",
                                        "s_and_b64 s[0:1], s2, s[4:5]",
                                        "ds_load_2addr_u16 v[4:5], v0",
                                        "buffer_load_dwordx2 v[4:5], off, s[0:3], 0",
                                        "v_pk_add_u16 v3, v0, v1 neg_lo:[1,0]",
                                        "v_cmp_o_i32_e64 s20, v0, v1",
                                        "v_cmp_ne_f32_e64 s20, v0, v1",
                                        "image_load v0, v1, s[0:7]"};
    EACH (n, texts) {
        if (bench_prepare(&bench_rdna3, texts[n]))
            fail_msg("%s is taken", texts[n]);
        program_free(&bench.program);
    }
}

/* Each branch goes where its condition says, of the flag, the lanes that are on and vcc. */
static void branches_follow_their_conditions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int scc, lanes, vcc; /* with which it goes; -1: any */
    } rows[] = {{"s_branch", -1, -1, -1},       {"s_cbranch_scc0", 0, -1, -1},   {"s_cbranch_scc1", 1, -1, -1},
                {"s_cbranch_execz", -1, 0, -1}, {"s_cbranch_execnz", -1, 1, -1}, {"s_cbranch_vccz", -1, -1, 0},
                {"s_cbranch_vccnz", -1, -1, 1}};
    EACH (n, rows)
        for (int of = 0; of < 16; of++) {
            char text[80];
            snprintf(text, sizeof text, "%s 1\ns_nop 0\ns_nop 0", rows[n].name);
            assert_true(bench_prepare(of & 8 ? &bench_rdna3 : &bench_cdna3, text));
            set_exec(&bench.wave, of & 2 ? 1u << 31 : 0);
            bench.wave.scc = of & 1;
            bench.wave.s[VCC] = of & 4 && of & 8 ? 2 : 0; /* the upper half counts where there are 64 lanes */
            bench.wave.s[VCC + 1] = of & 4 || of & 8 ? 2 : 0;
            bench.wave.pc = 1;
            bench.program.code[0].run(&bench.wave, &bench.program.code[0]);
            const bool goes = (rows[n].scc < 0 || rows[n].scc == (of & 1)) &&
                              (rows[n].lanes < 0 || rows[n].lanes == (of >> 1 & 1)) &&
                              (rows[n].vcc < 0 || rows[n].vcc == (of >> 2 & 1));
            if (bench.wave.pc != (goes ? 2 : 1))
                fail_msg("%s with %d", rows[n].name, of);
            program_free(&bench.program);
        }
    /* beside these there are barriers and the end, which launches show */
    for (int n = 0; control_name(n); n++) {
        bool found = strstr(control_name(n), "barrier") || strcmp(control_name(n), "s_endpgm") == 0;
        EACH (k, rows)
            found = found || strcmp(control_name(n), rows[k].name) == 0;
        if (!found)
            fail_msg("%s has no definition", control_name(n));
    }
}

/* What a wait leaves under way, by its text: loads, stores, local memory, scalar loads; -1: as many as there are. */
static void waits_leave_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *name, *operands;
        int left[COUNTERS];
    } rows[] = {{"s_waitcnt", " vmcnt(3) lgkmcnt(2)", {3, -1, 2, 2}},
                {"s_waitcnt", " lgkmcnt(0)", {-1, -1, 0, 0}},
                {"s_waitcnt", " vmcnt(63)", {63, -1, -1, -1}},
                {"s_waitcnt_vscnt", " null, 0x5", {-1, 5, -1, -1}},
                {"s_wait_loadcnt", " 0x7", {7, -1, -1, -1}},
                {"s_wait_storecnt", " 0x0", {-1, 0, -1, -1}},
                {"s_wait_dscnt", " 0x1", {-1, -1, 1, -1}},
                {"s_wait_kmcnt", " 0x0", {-1, -1, -1, 0}},
                {"s_wait_loadcnt_dscnt", " 0x203", {2, -1, 3, -1}},
                {"s_wait_storecnt_dscnt", " 0x104", {-1, 1, 4, -1}}};
    EACH (n, rows) {
        int counts[COUNTERS];
        assert_true(wait_counts(rows[n].name, rows[n].operands, counts));
        EACH (k, counts)
            assert_int_equal(counts[k], rows[n].left[k]);
    }
    for (int n = 0; wait_name(n); n++) {
        bool found = false;
        EACH (k, rows)
            found = found || strcmp(rows[k].name, wait_name(n)) == 0;
        if (!found)
            fail_msg("%s has no definition", wait_name(n));
    }
}

static bool is_refused(void)
{
    bench.group.fault[0] = '\0';
    if (!setjmp(bench.group.ended))
        check_arrived(&bench.wave, &bench.program.code[0]);
    return bench.group.fault[0] != '\0';
}

static void check_waits(const char *text, bool refused)
{
    assert_true(bench_prepare(&bench_rdna3, text));
    bench.wave.issued[LOADS] = 2;
    bench.wave.vector_waits[0] = (struct pending){2, LOADS};
    bench.wave.covered[LOADS] = 1;
    assert_int_equal(is_refused(), refused);
    bench.wave.covered[LOADS] = 2;
    assert_false(is_refused());
    program_free(&bench.program);
}

/* A load's register is not to be touched before a wait that covers it. */
static void registers_wait_for_what_is_under_way(void **state)
{
    (void)state;
    check_waits("v_add_f32_e32 v3, v0, v1", true);
    check_waits("v_mov_b32_e32 v0, 0", true);
    check_waits("v_add_f32_e32 v3, v1, v2", false);
}
int main(int count, char **words)
{
    if (count > 1)
        return check_folded(words[1]) != 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_what_they_are_defined_to_be),
        cmocka_unit_test(comparisons_are_what_they_are_defined_to_be),
        cmocka_unit_test(branches_follow_their_conditions),
        cmocka_unit_test(waits_leave_what_they_say),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(registers_wait_for_what_is_under_way),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const int others[] = {run_scalar_tests(), run_vector_tests(), run_crossing_tests(), run_memory_tests()};
    return failed || others[0] || others[1] || others[2] || others[3];
}
