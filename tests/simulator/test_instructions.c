/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Single instructions of the simulated GPUs against what their definition says, in another way of computing it, for all
 * pairs and triples of values at the edges; and that what is not known is refused. */
#include "bench.h"
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
static bool related(const char *relation, double a, double b)
{
    const double difference = a - b;
    const bool known = !isnan(a) && !isnan(b);
    const int sign = a == b ? 0 : difference > 0 ? 1 : -1;
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

static double number(const char *type, uint32_t x)
{
    if (type[0] == 'f')
        return (double)definition_float(type[1] == '3' ? x : definition_of_half(x, 0, 0));
    if (type[0] == 'i')
        return type[1] == '1' ? (int16_t)x : (int32_t)x;
    return type[1] == '1' ? (uint16_t)x : x;
}

static void check_comparison(const char *relation, const char *type)
{
    char text[64];
    snprintf(text, sizeof text, "v_cmp_%s_%s_e64 s[20:21], v0, v1", relation, type);
    assert_true(bench_prepare(&bench_cdna3, text));
    for (int b = 0; b < EDGES; b++) {
        for (int l = 0; l < MOST_LANES; l++) {
            bench.registers[0][l] = edges[l % EDGES];
            bench.registers[1][l] = edges[b];
        }
        bench_run();
        const uint64_t mask = bench.wave.s[20] | (uint64_t)bench.wave.s[21] << 32;
        for (int l = 0; l < MOST_LANES; l++)
            if ((mask >> l & 1) != related(relation, number(type, edges[l % EDGES]), number(type, edges[b])))
                fail_msg("%s of 0x%x and 0x%x", text, edges[l % EDGES], edges[b]);
    }
    program_free(&bench.program);
}

static void comparisons_are_what_they_are_defined_to_be(void **state)
{
    (void)state;
    static const char *const floats[] = {"lt", "eq",  "le",  "gt",  "ge",  "lg", "o",
                                         "u",  "nge", "ngt", "nle", "nlt", "neq"};
    static const char *const integers[] = {"lt", "eq", "le", "gt", "ge", "ne"};
    static const char *const types[] = {"i32", "u32", "i16", "u16"};
    EACH (n, floats) {
        check_comparison(floats[n], "f32");
        check_comparison(floats[n], "f16");
    }
    EACH (n, integers)
        EACH (t, types)
            check_comparison(integers[n], types[t]);
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
                                        "image_load v0, v1, s[0:7]"};
    EACH (n, texts) {
        if (bench_prepare(&bench_rdna3, texts[n]))
            fail_msg("%s is taken", texts[n]);
        program_free(&bench.program);
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
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_what_they_are_defined_to_be),
        cmocka_unit_test(comparisons_are_what_they_are_defined_to_be),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(registers_wait_for_what_is_under_way),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const int others[] = {run_scalar_tests(), run_vector_tests(), run_crossing_tests(), run_memory_tests()};
    return failed || others[0] || others[1] || others[2] || others[3];
}
