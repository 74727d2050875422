/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Instructions in which lanes see each other, against what the ISA documents say of them: products of matrices, and
 * values that go from lane to lane; and registers that are found by a number. */
#include "bench.h"
#include "definitions.h"
#include <stdio.h>
#include <string.h>

/* Products of small whole numbers, which are exact, by the layouts that AMD publishes for each generation. */
struct layout {
    const char *names, *operands;
    const struct chip *chip;
    int side, depth, words, sums,
        k_together; /* words of an operand, sums, elements of k that a lane has side by side */
    int (*row)(int lane, int e);
};
static int rdna3_row(int lane, int e)
{
    return 2 * e + lane / 16;
}
static int rdna4_row(int lane, int e)
{
    return 8 * (lane / 16) + e;
}
static int cdna_row(int lane, int e)
{
    return 4 * (lane / 16) + e;
}
static int cdna_row_of_32(int lane, int e)
{
    return 8 * (e / 4) + 4 * (lane / 32) + e % 4;
}

static const struct layout layouts[] = {
    {"wmma_f32_16x16x16_f16 wmma_f32_16x16x16_bf16", "v[40:47], v[10:17], v[20:27], v[30:37]", &bench_rdna3, 16, 16, 8,
     8, 16, rdna3_row},
    {"wmma_f32_16x16x16_f16 wmma_f32_16x16x16_bf16", "v[40:47], v[10:13], v[20:23], v[30:37]", &bench_rdna4, 16, 16, 4,
     8, 8, rdna4_row},
    {"mfma_f32_16x16x16f16 mfma_f32_16x16x16_f16 mfma_f32_16x16x16bf16_1k mfma_f32_16x16x16_bf16",
     "v[40:43], v[10:11], v[20:21], v[30:33]", &bench_cdna3, 16, 16, 2, 4, 4, cdna_row},
    {"mfma_f32_32x32x8f16 mfma_f32_32x32x8_f16 mfma_f32_32x32x8bf16_1k mfma_f32_32x32x8_bf16",
     "v[60:75], v[10:11], v[20:21], v[40:55]", &bench_cdna2, 32, 8, 2, 16, 4, cdna_row_of_32},
};

static uint32_t element(const char *name, float x)
{
    return strstr(name, "bf16") ? as_bits(x) >> 16 : definition_to_half(as_bits(x), 0, 0);
}

static void fill_operands(const struct layout *layout, const char *name, float left[32][16], float right[32][16])
{
    for (int r = 0; r < layout->side; r++)
        for (int k = 0; k < layout->depth; k++) {
            left[r][k] = (float)((r * 5 + k * 3) % 13 - 6);
            right[r][k] = (float)((r * 7 + k * 2) % 11 - 5);
        }
    for (int l = 0; l < bench.wave.lanes; l++)
        for (int e = 0; e < 2 * layout->words; e++) {
            const int row = l % layout->side, shift = 16 * (e % 2),
                      k = layout->k_together == 16 ? e : layout->k_together * (l / layout->side) + e;
            bench.registers[10 + e / 2][l] |= element(name, left[row][k]) << shift;
            bench.registers[20 + e / 2][l] |= element(name, right[row][k]) << shift;
        }
}

static void check_product(const struct layout *layout, const char *name)
{
    float left[32][16], right[32][16];
    char text[128];
    snprintf(text, sizeof text, "v_%s %s", name, layout->operands);
    assert_true(bench_prepare(layout->chip, text));
    fill_operands(layout, name, left, right);
    const int to = bench.program.code[0].to.first, from = bench.program.code[0].source[2].first;
    for (int e = 0; e < layout->sums; e++)
        for (int l = 0; l < bench.wave.lanes; l++)
            bench.registers[from + e][l] = as_bits((float)(l - e));
    bench_run();
    for (int e = 0; e < layout->sums; e++)
        for (int l = 0; l < bench.wave.lanes; l++) {
            float sum = (float)(l - e);
            for (int k = 0; k < layout->depth; k++)
                sum += left[layout->row(l, e)][k] * right[l % layout->side][k];
            if (bench.registers[to + e][l] != as_bits(sum))
                fail_msg("%s on %s: sum %d of lane %d", text, layout->chip->name, e, l);
        }
    program_free(&bench.program);
}

static void products_are_those_of_matrices(void **state)
{
    char name[64];
    (void)state;
    EACH (k, layouts)
        for (int n = 0; definition_name(layouts[k].names, n, name, sizeof name); n++)
            check_product(&layouts[k], name);
}

bool product_is_checked(const char *name)
{
    char other[64];
    EACH (k, layouts)
        for (int n = 0; definition_name(layouts[k].names, n, other, sizeof other); n++)
            if (strcmp(name, other) == 0)
                return true;
    return false;
}

/* v0 has random bits; v1 is all that instructions write of vectors, and was 77. Lane 3 is off. */
static void prepare(const struct chip *chip, const char *text)
{
    if (!bench_prepare(chip, text))
        fail_msg("%s is not known", text);
    for (int l = 0; l < bench.wave.lanes; l++) {
        bench.registers[0][l] = edges[l % EDGES] + (uint32_t)l * 0x9e3779b9;
        bench.registers[1][l] = 77;
    }
    set_exec(&bench.wave, UINT64_MAX - 8);
}

static bool is_refused(void)
{
    bench.group.fault[0] = '\0';
    if (!setjmp(bench.group.ended))
        bench_run();
    return bench.group.fault[0] != '\0';
}

static void check_lanes(const char *text, const uint32_t *wanted)
{
    bench_run();
    for (int l = 0; l < bench.wave.lanes; l++)
        if (bench.registers[1][l] != (l == 3 ? 77 : wanted[l]))
            fail_msg("%s: lane %d has 0x%x, not 0x%x", text, l, bench.registers[1][l], wanted[l]);
    program_free(&bench.program);
}

static void first_lane_is_read(void **state)
{
    (void)state;
    prepare(&bench_cdna3, "v_readfirstlane_b32 s7, v0");
    assert_true(is_refused()); /* lanes that are on differ */
    for (int l = 0; l < MOST_LANES; l++)
        bench.registers[0][l] = l < 5 ? 3 : 1234;
    set_exec(&bench.wave, UINT64_MAX << 5);
    assert_false(is_refused());
    assert_int_equal(bench.wave.s[7], 1234);
    program_free(&bench.program);
}

/* The lane's number counts modulo the lanes; a lane that is off is read and written, too. */
static void lanes_are_read_and_written_by_number(void **state)
{
    (void)state;
    for (uint32_t lane = 0; lane < 200; lane += 3) {
        prepare(&bench_rdna3, "v_readlane_b32 s7, v0, s8");
        bench.wave.s[8] = lane;
        bench_run();
        assert_int_equal(bench.wave.s[7], bench.registers[0][lane & 31]);
        program_free(&bench.program);
        prepare(&bench_cdna3, "v_writelane_b32 v1, s7, s8");
        bench.wave.s[7] = 0xabcd;
        bench.wave.s[8] = lane;
        bench_run();
        for (uint32_t l = 0; l < MOST_LANES; l++)
            assert_int_equal(bench.registers[1][l], l == (lane & 63) ? 0xabcd : 77);
        program_free(&bench.program);
    }
}

/* Lane l of a row of 16 has the lane that digit l of the 16 digits in s5 and s4 names, of its own or the other row. */
static void rows_are_permuted(void **state)
{
    (void)state;
    static const char *const names[] = {"permlane16", "permlanex16"};
    uint32_t wanted[MOST_LANES];
    EACH (other, names) {
        char text[80];
        snprintf(text, sizeof text, "v_%s_b32 v1, v0, s4, s5 op_sel:[1,0]", names[other]);
        prepare(&bench_rdna3, text);
        bench.wave.s[4] = 0x3f0a6521;
        bench.wave.s[5] = 0x7b98c4de;
        for (int l = 0; l < 32; l++) {
            const uint32_t digits = l % 16 < 8 ? 0x3f0a6521 : 0x7b98c4de, row = (uint32_t)(l / 16) ^ (uint32_t)other;
            wanted[l] = bench.registers[0][16 * row + (digits / (1u << 4 * (l % 8))) % 16];
        }
        check_lanes(text, wanted);
        snprintf(text, sizeof text, "v_%s_b32 v1, v0, s4, s5", names[other]);
        prepare(&bench_rdna3, text);
        bench.wave.s[4] = bench.wave.s[5] = 0x33333333;
        assert_true(is_refused()); /* from a lane that is off */
        program_free(&bench.program);
    }
}

/* Bits of a mask below the lane's own, counted one by one; those from 32 on by the instruction for the upper half. */
static void bits_below_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int first;
    } halves[] = {{"v_mbcnt_lo_u32_b32 v1, s4, v0", 0}, {"v_mbcnt_hi_u32_b32 v1, s4, v0", 32}};
    uint32_t wanted[MOST_LANES];
    EACH (half, halves)
        for (int e = 0; e < EDGES; e++) {
            prepare(&bench_cdna3, halves[half].text);
            bench.wave.s[4] = edges[e];
            for (int l = 0; l < MOST_LANES; l++) {
                wanted[l] = bench.registers[0][l];
                for (int bit = 0; bit < 32; bit++)
                    wanted[l] += bit + halves[half].first < l && (edges[e] >> bit) % 2 ? 1 : 0;
            }
            check_lanes(halves[half].text, wanted);
        }
}

/* Counted from m0 on RDNA, on CDNA from an index in a scalar register. */
static void registers_are_found_by_number(void **state)
{
    (void)state;
    static const struct {
        const struct chip *chip;
        const char *text;
        bool writes;
    } rows[] = {
        {&bench_rdna3, "v_movrels_b32_e32 v1, v10", false},
        {&bench_rdna4, "v_movreld_b32_e32 v10, v0", true},
        {&bench_cdna3, "s_set_gpr_idx_on s13, gpr_idx(SRC0)\nv_mov_b32_e32 v1, v10\ns_set_gpr_idx_off", false},
        {&bench_cdna2, "s_set_gpr_idx_on s13, gpr_idx(DST)\nv_mov_b32_e32 v10, v0\ns_set_gpr_idx_off", true},
    };
    EACH (n, rows) {
        for (uint32_t index = 0; index < 246; index += 5) {
            prepare(rows[n].chip, rows[n].text);
            bench.wave.s[M0] = bench.wave.s[13] = index;
            uint32_t *const counted = bench.registers[10 + index], *const other =
                                                                       bench.registers[rows[n].writes ? 0 : 1];
            for (int l = 0; l < bench.wave.lanes; l++)
                counted[l] = (uint32_t)l * 3;
            bench_run();
            for (int l = 0; l < bench.wave.lanes; l++)
                assert_int_equal(counted[l] == other[l], l != 3);
            program_free(&bench.program);
        }
        prepare(rows[n].chip, rows[n].text);
        bench.wave.s[M0] = bench.wave.s[13] = 246;
        assert_true(is_refused()); /* there are 256 */
        program_free(&bench.program);
    }
}

bool crossing_is_checked(const char *name)
{
    static const char *const names[] = {"readfirstlane_b32", "readlane_b32",    "writelane_b32",
                                        "permlane16_b32",    "permlanex16_b32", "mbcnt_lo_u32_b32",
                                        "mbcnt_hi_u32_b32",  "movrels_b32",     "movreld_b32"};
    EACH (n, names)
        if (strcmp(names[n], name) == 0)
            return true;
    return false;
}

int run_crossing_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_matrices),
        cmocka_unit_test(first_lane_is_read),
        cmocka_unit_test(lanes_are_read_and_written_by_number),
        cmocka_unit_test(rows_are_permuted),
        cmocka_unit_test(bits_below_are_counted),
        cmocka_unit_test(registers_are_found_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
