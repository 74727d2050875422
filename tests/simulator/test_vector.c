/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector instructions with more words, masks and modifiers, each against its definition (definitions_vector.c); and
 * that each row of the simulator's tables has one. */
#include "bench.h"
#include "definitions.h"
#include "operations.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t pair(int low, int high)
{
    return edges[low % EDGES] | (uint64_t)edges[high % EDGES] << 32;
}

static void put(int first, int lane, uint64_t value)
{
    for (int word = 0; word < 2; word++) {
        bench.registers[first + word][lane] = (uint32_t)(value >> 32 * word);
        bench.registers[ACCUMULATORS + first + word][lane] = (uint32_t)(value >> 32 * word);
        if (lane == 0)
            bench.wave.s[first + word] = (uint32_t)(value >> 32 * word);
    }
}

static uint64_t mask_at(int first)
{
    return bench.wave.s[first] | (uint64_t)bench.wave.s[first + 1] << 32;
}

/* Where a row leaves its result, and how much. */
static uint32_t word_of(const struct vector_definition *row, int word, int lane)
{
    return row->operands[0] == 's' ? bench.wave.s[20 + word]
                                   : bench.registers[(row->operands[0] == 'a' ? ACCUMULATORS : 0) + 20 + word][lane];
}

/* A result is a float, whose NaNs are all one, or its upper half is (of halves, which are rounded). */
static bool is_right(const char *name, uint32_t got, uint32_t wanted)
{
    const bool functions =
        strstr(name, "exp_f32") || strstr(name, "log_f32") || strstr(name, "rcp") || strstr(name, "rsq");
    if (got == wanted || (strstr(name, "f32") && same_number(got, wanted)))
        return true;
    if (strncmp(name, "fma_mix", 7) == 0 && strstr(name, "_f16")) {
        const bool high = strstr(name, "mixhi");
        const uint32_t kept = high ? 0xffff : 0xffff0000, half = (high ? got >> 16 : got) & 0x7fff;
        return (got & kept) == (wanted & kept) && half > 0x7c00 && ((high ? wanted >> 16 : wanted) & 0x7fff) > 0x7c00;
    }
    return functions && abs((int32_t)(got - wanted)) <= 1;
}

static void check_lane(const struct vector_definition *row, const char *text, int lane, struct given of)
{
    const bool wide = strstr(row->operands, "[20:21]"), has_mask = strstr(row->operands, "s[12:13]");
    const struct made wanted = row->function(of);
    const uint64_t got = word_of(row, 0, lane) | (wide ? (uint64_t)word_of(row, 1, lane) << 32 : 0);
    const bool flag = mask_at(12) >> lane & 1, low = is_right(text + 2, (uint32_t)got, (uint32_t)wanted.value);
    if (!low || (wide && !is_right(text + 2, (uint32_t)(got >> 32), (uint32_t)(wanted.value >> 32))))
        fail_msg("%s of 0x%llx, 0x%llx, 0x%llx, %d is 0x%llx, not 0x%llx", text, (unsigned long long)of.a,
                 (unsigned long long)of.b, (unsigned long long)of.c, of.in, (unsigned long long)got,
                 (unsigned long long)wanted.value);
    if (has_mask && flag != wanted.flag)
        fail_msg("%s of 0x%llx, 0x%llx, 0x%llx, %d: its bit is %d", text, (unsigned long long)of.a,
                 (unsigned long long)of.b, (unsigned long long)of.c, of.in, flag);
}

/* Lanes have one source's edges each. */
static void check_round(const struct vector_definition *row, const char *text, int b, int c)
{
    const bool scalar = row->operands[0] == 's';
    struct given of[MOST_LANES];
    const uint64_t in = scalar ? 0 : 0x9c5a3f0f6a965a96 ^ (uint64_t)(b * 0x10001);
    for (int first = 0; first < EDGES; first += scalar ? 1 : MOST_LANES) {
        for (int l = 0; l < MOST_LANES; l++) {
            const int a = first + l;
            of[l] = (struct given){pair(a, a + b + 5), pair(b, 7 * b + a + c), pair(c, c + 3 * a + 1),
                                   pair(a + b + c, b + 2), in >> l & 1};
            put(0, l, of[l].a);
            put(2, l, of[l].b);
            put(4, l, of[l].c);
            put(20, l, of[l].old);
        }
        for (int word = 0; word < 2; word++)
            bench.wave.s[10 + word] = bench.wave.s[VCC + word] = (uint32_t)(in >> 32 * word);
        bench_run();
        for (int l = 0; l < (scalar ? 1 : MOST_LANES); l++)
            check_lane(row, text, l, of[l]);
    }
}

static void each_is_what_it_is_defined_to_be(void **state)
{
    (void)state;
    for (const struct vector_definition *row = vector_definitions; row->names; row++) {
        char name[64], text[200];
        const bool second = strpbrk(row->operands, "2") && strchr(strpbrk(row->operands, "2") + 1, '2');
        const bool third = strstr(row->operands, "v4") || strstr(row->operands, "v[4:5]");
        for (int n = 0; definition_name(row->names, n, name, sizeof name); n++) {
            snprintf(text, sizeof text, "v_%s %s", name, row->operands);
            if (!bench_prepare(&bench_cdna3, text))
                fail_msg("%s is not known", text);
            for (int b = 0; b < (second ? EDGES : 1); b++)
                for (int c = 0; c < (third ? EDGES : 1); c++)
                    check_round(row, text, b, c);
            program_free(&bench.program);
        }
    }
}

/* A quotient as LLVM makes it (AMDGPU's lowering of fdiv), of which the scaling, undoing and fixing are one's own. */
static void divisions_come_out_right(void **state)
{
    (void)state;
    static const char text[] = "v_div_scale_f32 v10, s[12:13], v2, v2, v0\nv_div_scale_f32 v11, vcc, v0, v2, v0\n"
                               "v_rcp_f32_e32 v12, v10\nv_fma_f32 v13, -v10, v12, 1.0\nv_fma_f32 v12, v13, v12, v12\n"
                               "v_mul_f32_e32 v13, v11, v12\nv_fma_f32 v14, -v10, v13, v11\n"
                               "v_fma_f32 v13, v14, v12, v13\nv_fma_f32 v10, -v10, v13, v11\n"
                               "v_div_fmas_f32 v10, v10, v12, v13\nv_div_fixup_f32 v20, v10, v2, v0";
    assert_true(bench_prepare(&bench_cdna3, text));
    uint32_t random = 1;
    for (int round = 0; round < 4000; round++) {
        for (int l = 0; l < MOST_LANES; l++) {
            random = random * 1664525 + 1013904223;
            bench.registers[0][l] = round < EDGES ? edges[l % EDGES] : random ^ random >> 15;
            random = random * 1664525 + 1013904223;
            bench.registers[2][l] = round < EDGES ? edges[round] : random ^ random >> 13;
        }
        bench_run();
        for (int l = 0; l < MOST_LANES; l++) {
            const uint32_t a = bench.registers[0][l], b = bench.registers[2][l], got = bench.registers[20][l];
            if (!same_number(got, as_bits(as_float(a) / as_float(b))))
                fail_msg("0x%x / 0x%x is 0x%x, not 0x%x", a, b, got, as_bits(as_float(a) / as_float(b)));
        }
    }
    program_free(&bench.program);
}

/* A case's sources and result, or the instruction that follows. */
static int check_folded_line(const char *line, char *text, size_t size)
{
    uint32_t of[3], wanted;
    if (line[0] == '=') {
        snprintf(text, size, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        program_free(&bench.program);
        const bool known = bench_prepare(&bench_cdna3, text);
        if (!known)
            print_error("%s is not known\n", text);
        return !known;
    }
    if (!bench.program.code || sscanf(line, "%x %x %x %x", &of[0], &of[1], &of[2], &wanted) != 4)
        return 1;
    for (int n = 0; n < 3; n++)
        bench.registers[n][0] = bench.wave.s[n] = of[n];
    set_exec(&bench.wave, UINT64_MAX);
    bench_run();
    const bool compares = strstr(text, "s[20:21]"), halves = strncmp(text, "v_cvt_f16", 9) == 0;
    const uint32_t got = compares ? bench.wave.s[20] & 1 : text[0] == 's' ? bench.wave.s[3] : bench.registers[3][0];
    const bool none = halves && (got & 0x7fff) > 0x7c00 && (wanted & 0x7fff) > 0x7c00;
    if (got == wanted || none || (strstr(text, "f32") && !compares && !halves && same_number(got, wanted)))
        return 0;
    print_error("%s of 0x%x, 0x%x, 0x%x is 0x%x, by LLVM 0x%x\n", text, of[0], of[1], of[2], got, wanted);
    return 1;
}

int check_folded(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[200], text[200] = "";
    int wrong = !file;
    while (file && fgets(line, sizeof line, file) && wrong < 20)
        wrong += check_folded_line(line, text, sizeof text);
    program_free(&bench.program);
    if (file)
        fclose(file);
    return wrong;
}

/* The name of a definition's text, without prefix and suffix. */
static bool is_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(text, "v_", 2) == 0 && strncmp(text + 2, name, length) == 0 &&
           (text[2 + length] == ' ' || strncmp(text + 2 + length, "_e32 ", 5) == 0);
}

bool vector_is_checked(const char *name)
{
    char other[64];
    for (const struct definition *row = definitions; row->text; row++)
        if (is_of(row->text, name))
            return true;
    for (const struct vector_definition *row = vector_definitions; row->names; row++)
        for (int n = 0; definition_name(row->names, n, other, sizeof other); n++)
            if (strcmp(other, name) == 0)
                return true;
    return strcmp(name, "div_fmas_f32") == 0; /* divisions_come_out_right */
}

static void each_row_has_a_second_source(void **state)
{
    (void)state;
    static const struct operation *const tables[] = {float_operations,  integer_operations, conversion_operations,
                                                     packed_operations, wide_operations,    cross_lane_operations,
                                                     matrix_operations};
    int missing = 0;
    EACH (n, tables)
        for (const struct operation *row = tables[n]; row->name; row++)
            if (!vector_is_checked(row->name) && !crossing_is_checked(row->name) && !product_is_checked(row->name)) {
                print_error("v_%s has no definition\n", row->name);
                missing++;
            }
    assert_int_equal(missing, 0);
}

int run_vector_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_a_second_source),
        cmocka_unit_test(each_is_what_it_is_defined_to_be),
        cmocka_unit_test(divisions_come_out_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
