/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Instructions as Intel's manual has them (Architecture Instruction Set Extensions Programming Reference, AMX): all
 * have a VEX prefix of three bytes, an opcode and a ModRM byte. */
#define _GNU_SOURCE
#include "amx_processor.h"
#include "device/os.h"
#include "device/processor.h"
#include <cpuid.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ROWS = 16, TILES = 8, ROW_BYTES = 64 };

struct amx_processor amx_processor;

static _Thread_local uint32_t tiles[TILES][ROWS][ROWS];
static _Thread_local bool configured;

bool cla_processor_has_avx512_bf16(void)
{
    return true;
}

bool cla_processor_has_amx_bf16(void)
{
    return amx_processor.is_there;
}

bool cla_os_allows_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    amx_processor.requests++;
    if (amx_processor.is_real && amx_processor.is_allowed)
        return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
    return amx_processor.is_allowed;
}

/* What an instruction says. */
struct instruction {
    int operation, prefix;    /* the opcode, and which of none, 66, F3 and F2 */
    int first, second, third; /* registers: of ModRM.reg, ModRM.rm and VEX.vvvv */
    bool is_memory;
    uint64_t address;
    int64_t stride;
    int length;
};

static uint64_t register_of(const greg_t *registers, int number)
{
    static const int places[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)registers[places[number]];
}

/* The bytes behind ModRM: a base with an index or without, and a displacement. */
static void read_address(const uint8_t *at, const greg_t *registers, struct instruction *out)
{
    enum { HAS_SIB = 4, NO_INDEX = 4, BYTE = 1, WORD = 2 };
    const int mode = at[4] >> 6, x = at[1] & 0x40 ? 0 : 8, b = at[1] & 0x20 ? 0 : 8, place = at[4] & 7;
    out->address = place == HAS_SIB ? 0 : register_of(registers, place | b);
    if (place == HAS_SIB) {
        const int index = (at[5] >> 3 & 7) | x;
        out->address = register_of(registers, (at[5] & 7) | b);
        out->stride = index == NO_INDEX ? 0 : (int64_t)register_of(registers, index) << (at[5] >> 6);
        out->length++;
    }
    int32_t displacement = 0;
    if (mode == BYTE)
        displacement = (int8_t)at[out->length];
    else if (mode == WORD)
        memcpy(&displacement, at + out->length, sizeof displacement);
    out->address += (uint64_t)(int64_t)displacement;
    out->length += mode == BYTE ? 1 : mode == WORD ? 4 : 0;
}

/* False where it is none of AMX's. */
static bool decode(const uint8_t *at, const greg_t *registers, struct instruction *out)
{
    enum { VEX = 0xc4, MAP = 2, SHORTEST = 5 };
    if (at[0] != VEX || (at[1] & 31) != MAP)
        return false;
    *out = (struct instruction){.operation = at[3],
                                .prefix = at[2] & 3,
                                .first = at[4] >> 3 & 7,
                                .second = at[4] & 7,
                                .third = ~(at[2] >> 3) & 15,
                                .is_memory = at[4] >> 6 != 3,
                                .length = SHORTEST};
    if (out->is_memory)
        read_address(at, registers, out);
    return out->third < TILES;
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? 0.0f : x;
}

static float half_of(uint32_t pair, int half)
{
    const uint32_t word = half ? pair & 0xffff0000u : pair << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return flushed(value);
}

static float product_of(int left, int right, int row, int column)
{
    float sums[2] = {0.0f, 0.0f};
    for (int k = 0; k < ROWS; k++)
        for (int half = 0; half < 2; half++)
            sums[half] =
                flushed(fmaf(half_of(tiles[left][row][k], half), half_of(tiles[right][k][column], half), sums[half]));
    return flushed(sums[0] + sums[1]) + (amx_processor.is_wrong ? 1.0f : 0.0f);
}

static void multiply(int sum, int left, int right)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < ROWS; column++) {
            float value;
            memcpy(&value, &tiles[sum][row][column], sizeof value);
            value = flushed(flushed(value) + product_of(left, right, row, column));
            memcpy(&tiles[sum][row][column], &value, sizeof value);
        }
}

static bool configure(const struct instruction *of)
{
    enum { PALETTE = 1, WIDTHS = 16, HEIGHTS = 48 };
    if (!of->is_memory) {
        configured = false;
        return true;
    }
    const uint8_t *const shapes = (const uint8_t *)(uintptr_t)of->address;
    configured = shapes[0] == PALETTE;
    for (int i = 0; i < TILES; i++)
        configured = configured && shapes[WIDTHS + 2 * i] == ROW_BYTES && shapes[HEIGHTS + i] == ROWS;
    return configured;
}

static void move_rows(const struct instruction *of, bool loads)
{
    for (int row = 0; row < ROWS; row++) {
        void *const at = (void *)(uintptr_t)(of->address + (uint64_t)(row * of->stride));
        memcpy(loads ? (void *)tiles[of->first][row] : at, loads ? at : (void *)tiles[of->first][row], ROW_BYTES);
    }
}

/* False where it is none that the kernels have. */
static bool carry_out(const struct instruction *of)
{
    enum { CONFIGURE = 0x49, MOVE = 0x4b, PRODUCT = 0x5c, NONE = 0, F3 = 2, F2 = 3 };
    if (of->operation == CONFIGURE && of->prefix == NONE)
        return configure(of);
    amx_processor.stray += !configured;
    if (of->operation == CONFIGURE && of->prefix == F2)
        memset(tiles[of->first], 0, sizeof tiles[0]);
    else if (of->operation == MOVE && (of->prefix == F2 || of->prefix == F3))
        move_rows(of, of->prefix == F2);
    else if (of->operation == PRODUCT && of->prefix == F3)
        multiply(of->first, of->second, of->third);
    else
        return false;
    return true;
}

static void on_illegal(int number, siginfo_t *info, void *context)
{
    (void)info;
    greg_t *const registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct instruction instruction;
    if (!decode((const uint8_t *)registers[REG_RIP], registers, &instruction) || !carry_out(&instruction)) {
        signal(number, SIG_DFL); /* it comes again, and ends the program */
        return;
    }
    __atomic_add_fetch(&amx_processor.instructions, 1, __ATOMIC_RELAXED);
    registers[REG_RIP] += instruction.length;
}

bool amx_processor_start(void)
{
    enum { FEATURES = 7 };
    const unsigned tile_bit = 1u << 24;
    unsigned eax, ebx, ecx, edx = 0;
    const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512bw");
    const bool is_real = __get_cpuid_count(FEATURES, 0, &eax, &ebx, &ecx, &edx) && edx & tile_bit;
    const struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    amx_processor = (struct amx_processor){.is_real = is_real, .is_there = true, .is_allowed = true};
    return has && (is_real || sigaction(SIGILL, &action, NULL) == 0);
}
