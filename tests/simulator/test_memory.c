/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loads, stores and changes of memory by every name that the simulator knows, in every form in which it takes it,
 * against what the ISA documents say of the name, byte by byte. */
#include "bench.h"
#include "definitions.h"
#include <stdio.h>
#include <string.h>

enum { PITCH = 256, BYTES = MOST_LANES * PITCH + 1024, AWAY = 3 /* the lane that is off */ };

/* What a name says: bytes, whether they are a signed number, and which half of a register they are. */
enum part { WHOLE, LOWER, UPPER };
struct meaning {
    const char *names;
    int bytes;
    bool has_sign;
    enum part part;
};
static const struct meaning meanings[] = {
    {"b8 byte u8 ubyte", 1, false, WHOLE},
    {"i8 sbyte", 1, true, WHOLE},
    {"b16 short u16 ushort", 2, false, WHOLE},
    {"i16 sshort", 2, true, WHOLE},
    {"b32 dword", 4, false, WHOLE},
    {"b64 dwordx2", 8, false, WHOLE},
    {"b96 dwordx3", 12, false, WHOLE},
    {"b128 dwordx4", 16, false, WHOLE},
    {"b256 dwordx8", 32, false, WHOLE},
    {"b512 dwordx16", 64, false, WHOLE},
    {"d16_u8 ubyte_d16 u8_d16", 1, false, LOWER},
    {"d16_b16 short_d16 u16_d16", 2, false, LOWER},
    {"d16_i8 sbyte_d16 i8_d16", 1, true, LOWER},
    {"d16_hi_u8 ubyte_d16_hi u8_d16_hi d16_hi_b8 byte_d16_hi b8_d16_hi", 1, false, UPPER},
    {"d16_hi_i8 sbyte_d16_hi i8_d16_hi", 1, true, UPPER},
    {"d16_hi_b16 short_d16_hi u16_d16_hi b16_d16_hi", 2, false, UPPER},
};

static uint8_t area[BYTES], kept[BYTES];
static uint32_t writer[BYTES], reader[BYTES], old[20][MOST_LANES];

static const struct meaning *meaning_of(const char *name)
{
    char other[64];
    EACH (k, meanings)
        for (int n = 0; definition_name(meanings[k].names, n, other, sizeof other); n++)
            if (strcmp(other, name) == 0)
                return &meanings[k];
    fail_msg("the width %s has no definition", name);
    return NULL;
}

static uint32_t number_at(const uint8_t *at, int bytes)
{
    uint32_t x = 0;
    for (int n = bytes - 1; n >= 0; n--)
        x = x * 256 + at[n];
    return x;
}

static uint32_t loaded(const struct meaning *is, const uint8_t *at, uint32_t before)
{
    const uint32_t bits = number_at(at, is->bytes < 4 ? is->bytes : 4), all = is->bytes == 1 ? 256 : 65536;
    const uint32_t x = is->has_sign && bits >= all / 2 ? bits - all : bits;
    return is->part == LOWER ? before / 65536 * 65536 + x % 65536 : is->part == UPPER ? before % 65536 + x * 65536 : x;
}

/* Where a form finds its place, beside a lane's own. */
struct form {
    const char *prefix, *operands; /* %s: the registers of data */
    int offsets[2], stride;        /* in bytes; in elements where there is a stride in these */
    bool scalar;
    const struct chip *chip;
};
static const struct form loads[] =
    {
        {"global_load_", "%s, v0, s[0:1] offset:12", {12}, 0, false, &bench_rdna3},
        {"global_load_", "%s, v[8:9], off offset:-4", {-4}, 0, false, &bench_cdna3},
        {"scratch_load_", "%s, v0, off offset:8", {8}, 0, false, &bench_rdna3},
        {"scratch_load_", "%s, off, s4 offset:16", {16 + 40}, 0, true, &bench_rdna4},
        {"buffer_load_", "%s, off, s[12:15], 0 offset:24", {24}, 0, true, &bench_cdna2},
        {"buffer_load_", "%s, v0, s[12:15], s4 offen offset:4", {4 + 40}, 0, false, &bench_cdna2},
        {"ds_load_", "%s, v0 offset:32", {32}, 0, false, &bench_rdna3},
        {"ds_read_", "%s, v0", {0}, 0, false, &bench_cdna3},
        {"ds_load_2addr_", "%s, v0 offset0:1 offset1:4", {1, 4}, 1, false, &bench_rdna3},
        {"ds_read2_", "%s, v0 offset1:3", {0, 3}, 1, false, &bench_cdna3},
        {"ds_load_2addr_stride64_", "%s, v0 offset0:1", {1, 0}, 64, false, &bench_rdna4},
        {"ds_read2st64_", "%s, v0 offset0:1 offset1:1", {1, 1}, 64, false, &bench_cdna2},
},
                         stores[] = {
                             {"global_store_", "v0, %s, s[0:1] offset:12", {12}, 0, false, &bench_rdna3},
                             {"global_store_", "v[8:9], %s, off offset:-4", {-4}, 0, false, &bench_cdna3},
                             {"scratch_store_", "v0, %s, off offset:8", {8}, 0, false, &bench_rdna3},
                             {"scratch_store_", "off, %s, s4 offset:16", {16 + 40}, 0, true, &bench_rdna4},
                             {"buffer_store_", "%s, off, s[12:15], 0 offset:24", {24}, 0, true, &bench_cdna2},
                             {"buffer_store_", "%s, v0, s[12:15], s4 offen offset:4", {4 + 40}, 0, false, &bench_cdna2},
                             {"ds_store_", "v0, %s offset:32", {32}, 0, false, &bench_rdna3},
                             {"ds_write_", "v0, %s", {0}, 0, false, &bench_cdna3},
                             {"ds_store_2addr_", "v0, %s offset0:1 offset1:4", {1, 4}, 1, false, &bench_rdna3},
                             {"ds_write2st64_", "v0, %s offset0:1", {1, 0}, 64, false, &bench_cdna2},
};

/* v20 on for loads; for stores v20 on, and v30 on where there are two. */
static void name_registers(int words, int count, bool stores_data, char *text, size_t size)
{
    char first[24], second[24];
    snprintf(first, sizeof first, words > 1 ? "v[20:%d]" : "v20", 19 + words);
    snprintf(second, sizeof second, words > 1 ? "v[30:%d]" : "v30", 29 + words);
    if (count == 2 && stores_data)
        snprintf(text, size, "%s, %s", first, second);
    else
        snprintf(text, size, words * count > 1 ? "v[20:%d]" : "v20", 19 + words * count);
}

/* A lane's place in its own memory, that of a wave or of the group. */
static uint8_t *place(const struct form *form, uint8_t *memory, int lane, int number, int bytes)
{
    const bool own = strncmp(form->prefix, "scratch", 7) == 0 || strncmp(form->prefix, "buffer", 6) == 0;
    const int from = form->scalar ? 0 : own ? 64 : lane * PITCH + 64;
    return memory + (own ? lane * PITCH : 0) + from + form->offsets[number] * (form->stride ? form->stride * bytes : 1);
}

static void set_places(const struct form *form)
{
    static struct region region;
    const bool own = strncmp(form->prefix, "scratch", 7) == 0 || strncmp(form->prefix, "buffer", 6) == 0;
    region = (struct region){(uintptr_t)area, (uintptr_t)area + sizeof area, true, "area"};
    bench.launch.regions = &region;
    bench.launch.regions_count = 1;
    bench.launch.local_bytes = sizeof area;
    bench.launch.items = 2 * MOST_LANES;
    bench.kernel.private_bytes = PITCH;
    bench.wave.scratch = bench.group.local = area;
    bench.group.writer = writer;
    bench.group.reader = reader;
    bench.group.stretch = 2;
    memset(reader, 0, sizeof reader);
    for (int n = 0; n < BYTES; n++) {
        writer[n] = 1 << WAVE_BITS | 1;
        kept[n] = area[n] = (uint8_t)((uint32_t)(n + 1) * 2654435761u >> 24);
    }
    const uintptr_t from = (uintptr_t)area;
    const uint32_t descriptor[] = {PRIVATE_LOW, PRIVATE_HIGH, PRIVATE_SIZE, PRIVATE_FORMAT};
    memcpy(bench.wave.s, &from, sizeof from);
    memcpy(bench.wave.s + 12, descriptor, sizeof descriptor);
    bench.wave.s[4] = 40;
    for (int l = 0; l < MOST_LANES; l++) {
        const uintptr_t at = from + (uintptr_t)(l * PITCH + 64);
        bench.registers[0][l] = own ? 64 : (uint32_t)(l * PITCH + 64);
        bench.registers[8][l] = (uint32_t)at;
        bench.registers[9][l] = (uint32_t)(at >> 32);
        for (int n = 0; n < 20; n++)
            old[n][l] = bench.registers[20 + n][l] = (uint32_t)(n + 3) * 0x9e3779b9 + (uint32_t)l * 0x85ebca6b;
    }
    set_exec(&bench.wave, UINT64_MAX - (1 << AWAY));
}

/* False where the simulator does not take the name in this form. */
static bool prepare(const struct form *form, const char *name, int words, bool stores_data, char *text, size_t size)
{
    char registers[64], operands[128];
    name_registers(words, form->stride ? 2 : 1, stores_data, registers, sizeof registers);
    snprintf(operands, sizeof operands, form->operands, registers);
    snprintf(text, size, "%s%s %s", form->prefix, name, operands);
    const bool known = bench_prepare(form->chip, text);
    if (!known)
        program_free(&bench.program);
    else
        set_places(form);
    return known;
}

static bool check_load(const struct form *form, const char *name)
{
    const struct meaning *is = meaning_of(name);
    const int words = is->bytes < 4 ? 1 : is->bytes / 4, places = form->stride ? 2 : 1;
    char text[200];
    if (!prepare(form, name, words, false, text, sizeof text))
        return false;
    bench_run();
    for (int l = 0; l < bench.wave.lanes; l++)
        for (int n = 0; n < words * places; n++) {
            const uint8_t *at = place(form, kept, l, n / words, is->bytes) + 4 * (n % words);
            const uint32_t wanted = l == AWAY ? old[n][l] : loaded(is, at, old[n][l]);
            if (bench.registers[20 + n][l] != wanted)
                fail_msg("%s: word %d of lane %d is 0x%x, not 0x%x", text, n, l, bench.registers[20 + n][l], wanted);
        }
    assert_memory_equal(area, kept, sizeof area);
    program_free(&bench.program);
    return true;
}

static bool check_store(const struct form *form, const char *name)
{
    const struct meaning *is = meaning_of(name);
    const int words = is->bytes < 4 ? 1 : is->bytes / 4, places = form->stride ? 2 : 1;
    char text[200];
    if (is->has_sign || strchr(name, 'u') || !prepare(form, name, words, true, text, sizeof text))
        return false;
    bench_run();
    for (int l = 0; l < bench.wave.lanes; l++)
        for (int n = 0; l != AWAY && n < is->bytes * places; n++) {
            const int byte = n % is->bytes, number = n / is->bytes;
            const uint32_t word = old[10 * number + byte / 4][l] >> (is->part == UPPER ? 16 : 0);
            place(form, kept, l, number, is->bytes)[byte] = (uint8_t)(word >> 8 * (byte % 4));
        }
    if (memcmp(area, kept, sizeof area) != 0)
        fail_msg("%s writes something else, or elsewhere", text);
    program_free(&bench.program);
    return true;
}

/* A scalar load counts from a base, a number and a register. */
static bool check_scalar_load(const char *name)
{
    const struct meaning *is = meaning_of(name);
    const struct form form = {"s_load_", "", {0}, 0, true, &bench_rdna3};
    char text[100], registers[20];
    snprintf(registers, sizeof registers, is->bytes > 4 ? "s[20:%d]" : "s20", 19 + is->bytes / 4);
    snprintf(text, sizeof text, "s_load_%s %s, s[0:1], s4 offset:0x10", name, registers);
    if (!bench_prepare(&bench_rdna3, text)) {
        program_free(&bench.program);
        return false;
    }
    set_places(&form);
    bench.wave.s[20] = 0xaaaaaaaa;
    bench_run();
    for (int n = 0; n < (is->bytes + 3) / 4; n++)
        assert_int_equal(bench.wave.s[20 + n], loaded(is, area + 40 + 16 + 4 * n, 0));
    program_free(&bench.program);
    return true;
}

static void each_width_is_what_its_name_says(void **state)
{
    (void)state;
    for (int n = 0; width_name(n); n++) {
        int taken = check_scalar_load(width_name(n));
        EACH (k, loads)
            taken += check_load(&loads[k], width_name(n));
        EACH (k, stores)
            taken += check_store(&stores[k], width_name(n));
        if (!taken)
            fail_msg("no load and no store takes %s", width_name(n));
    }
}

/* What local memory holds after a change. */
static uint32_t after(const char *name, uint32_t held, uint32_t x)
{
    const int64_t a = (int32_t)held, b = (int32_t)x;
    if (strstr(name, "xchg"))
        return x;
    if (strcmp(name, "add_f32") == 0)
        return as_bits((float)((double)as_float(held) + (double)as_float(x)));
    if (strncmp(name, "add", 3) == 0)
        return (uint32_t)((uint64_t)held + x);
    if (strncmp(name, "and", 3) == 0)
        return ~(~held | ~x);
    if (strncmp(name, "or", 2) == 0)
        return ~(~held & ~x);
    if (strncmp(name, "xor", 3) == 0)
        return (held | x) - (held & x);
    const bool greater = strstr(name, "i32") ? a - b > 0 : (int64_t)held - (int64_t)x > 0;
    if (strncmp(name, "max", 3) == 0)
        return greater ? held : x;
    if (strncmp(name, "min", 3) == 0)
        return greater ? x : held;
    fail_msg("the change %s has no definition", name);
    return 0;
}

/* Lanes change places of their own, but for the two last, which share one and come in their order. */
static void check_change(const char *name, int round)
{
    const struct form form = {"ds_", "", {0}, 0, false, &bench_rdna3};
    const bool returns = strstr(name, "_rtn");
    char text[100];
    snprintf(text, sizeof text, "ds_%s %sv0, v20 offset:8", name, returns ? "v30, " : "");
    if (!bench_prepare(&bench_rdna3, text))
        fail_msg("%s is not known", text);
    set_places(&form);
    bench.registers[0][31] = bench.registers[0][30];
    for (int l = 0; l < 32; l++) {
        const uint32_t held = edges[(round * 7 + l) % EDGES];
        bench.registers[20][l] = edges[(round + 5 * l) % EDGES];
        memcpy(area + bench.registers[0][l] + 8, &held, 4);
    }
    memcpy(kept, area, sizeof kept);
    bench_run();
    for (int l = 0; l < 32; l++) {
        uint8_t *at = kept + bench.registers[0][l] + 8;
        const uint32_t held = number_at(at, 4), wanted = after(name, held, bench.registers[20][l]);
        if (l != AWAY)
            memcpy(at, &wanted, 4);
        assert_int_equal(bench.registers[30][l], returns && l != AWAY ? held : old[10][l]);
    }
    for (int l = 0; l < 32; l++) {
        const uint8_t *at = kept + bench.registers[0][l] + 8, *is = area + bench.registers[0][l] + 8;
        if (!same_number(number_at(is, 4), number_at(at, 4)))
            fail_msg("%s, lane %d: 0x%x, not 0x%x", text, l, number_at(is, 4), number_at(at, 4));
    }
    program_free(&bench.program);
}

static void each_change_is_what_its_name_says(void **state)
{
    (void)state;
    for (int n = 0; change_name(n); n++)
        for (int round = 0; round < EDGES; round++)
            check_change(change_name(n), round);
}

static bool is_refused(void)
{
    bench.group.fault[0] = '\0';
    if (!setjmp(bench.group.ended))
        bench_run();
    return bench.group.fault[0] != '\0';
}

/* By four times the lane's number, with the instruction's offset. */
static void lanes_take_what_others_have(void **state)
{
    (void)state;
    const struct form form = {"ds_", "", {0}, 0, false, &bench_cdna3};
    assert_true(bench_prepare(&bench_cdna3, "ds_bpermute_b32 v20, v0, v30 offset:4"));
    set_places(&form);
    for (int l = 0; l < MOST_LANES; l++)
        bench.registers[0][l] = (uint32_t)(4 * ((5 * l + 7) % 64 == AWAY - 1 ? 80 : (5 * l + 7) % 64) + l % 4);
    bench_run();
    for (int l = 0; l < MOST_LANES; l++) {
        const int from = (5 * l + 7) % 64 == AWAY - 1 ? 17 : (5 * l + 8) % 64;
        assert_int_equal(bench.registers[20][l], l == AWAY ? old[0][l] : old[10][from]);
    }
    bench.registers[0][0] = 4 * (AWAY - 1);
    assert_true(is_refused());
    program_free(&bench.program);
}

int run_memory_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_width_is_what_its_name_says),
        cmocka_unit_test(each_change_is_what_its_name_says),
        cmocka_unit_test(lanes_take_what_others_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
