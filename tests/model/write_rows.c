/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How Hopper's kernels write a tile's rows to a tensor (hopper_write_rows): the text of it, as C, by two warps that
 * have 16 rows each and run in random orders. For each number of columns, layout and number of rows, each element gets
 * its value. No warp reads or writes rows of the other.
 *
 *     model_write_rows [SEEDS] */
#include "model/hopper_machine.h"
#include "model/opencl_c.h"
#include <stdio.h>
#include <stdlib.h>

#define CLATTN_DTYPE              0
#define CLATTN_STATE              0
#define CLATTN_COMPUTE_CAPABILITY 90
#define CLATTN_TILE_ROWS          64
#define CLATTN_B_C                128
#define CLATTN_CAUSAL             0
#define CLATTN_D                  64
#define CLATTN_D_V                64
#define CLATTN_WORK_GROUP_SIZE    384
#define CLATTN_TMA                1
#define CLATTN_LOADERS            96
#include MODEL_FEATURES
#include "backward_hopper_tiles.h"

static int4 unused_note;
static void model_put(unit_address to, int4 x)
{
    (void)to, unused_note = x;
}
static void model_get(unit_address from, int4 x)
{
    (void)from, unused_note = x;
}
static uint model_mark(void)
{
    return 0;
}
static uint32_t model_take(const unsigned char *from, int bytes)
{
    (void)bytes;
    return *from;
}
static void model_give(void *to, uint32_t taken, bool adds)
{
    (void)to, (void)taken, (void)adds;
}

enum { WARPS = 2, ROWS_OF_WARP = 16, TILE_ROWS = WARPS * ROWS_OF_WARP, PANEL_BYTES = TILE_ROWS * 128, GUARD = 32 };
enum { MOST_COLUMNS = 256, NOT_WRITTEN = 0xffff };

static struct {
    int columns, rows; /* of the tensor: some of the tile may lie behind its end */
    bool whole;
    _Alignas(16) ushort to[(TILE_ROWS + GUARD) * MOST_COLUMNS];
} tensor;

static ushort value_of(int row, int column)
{
    return (ushort)(row * MOST_COLUMNS + column);
}

static unit_address place_of(int row, int x)
{
    return (unit_address)(x / 64 * PANEL_BYTES + row * 128 + (x / 8 % 8 ^ row % 8) * 16 + x % 8 * 2);
}

/* What an item does: its lane's share of the warp's rows to local memory, and from there to the tensor. */
static void store_and_write(void)
{
    const int lane = machine_lid() % UNIT_LANES, first = machine_lid() / UNIT_LANES * ROWS_OF_WARP;
    for (int row = first; row < first + ROWS_OF_WARP; row++)
        for (int x = lane; x < (tensor.columns + 7) / 8 * 8; x += UNIT_LANES)
            unit_put(place_of(row, x), value_of(row, x));
    machine_ballot(true); /* the warp's lanes meet */
    hopper_write_rows((unit_address)(first * 128), PANEL_BYTES, tensor.columns, tensor.to, MOST_COLUMNS, 1,
                      tensor.whole, first, tensor.rows, lane);
}

static int count_wrong(void)
{
    int wrong = 0;
    for (int row = 0; row < TILE_ROWS + GUARD; row++)
        for (int x = 0; x < MOST_COLUMNS; x++) {
            const bool is_there = row < tensor.rows && row < TILE_ROWS && x < tensor.columns;
            wrong += tensor.to[row * MOST_COLUMNS + x] != (is_there ? value_of(row, x) : NOT_WRITTEN);
        }
    return wrong;
}

static bool check(int columns, int rows, bool whole, uint64_t seed)
{
    static const struct machine_warp warps[WARPS] = {{0, UNIT_LANES, 1}, {UNIT_LANES, UNIT_LANES, 1}};
    const struct machine_run run = {
        .warps = warps, .warp_count = WARPS, .groups = 1, .resident = 1, .entry = store_and_write, .seed = seed};
    tensor.columns = columns;
    tensor.rows = rows;
    tensor.whole = whole;
    memset(tensor.to, 0xff, sizeof tensor.to);
    const bool ended = machine_run(&run) == MACHINE_ENDED;
    const int wrong = count_wrong();
    if (ended && !wrong)
        return true;
    printf("columns %d, rows %d, %s, seed %llu: %s, %d elements are wrong\n", columns, rows,
           whole ? "whole chunks" : "single elements", (unsigned long long)seed, ended ? "ended" : machine_said(),
           wrong);
    return false;
}

int main(int argc, char **argv)
{
    const int seeds = argc > 1 ? atoi(argv[1]) : 4;
    int failures = 0;
    for (int columns = 1; columns <= MOST_COLUMNS; columns += columns < 24 ? 1 : 8)
        for (int rows = TILE_ROWS - 5; rows <= TILE_ROWS + GUARD; rows += 37)
            for (int seed = 0; seed < seeds; seed++) {
                failures += !check(columns, rows, false, (uint64_t)seed);
                failures += columns % 8 == 0 && !check(columns, rows, true, (uint64_t)seed);
            }
    printf("%d failures\n", failures);
    return failures != 0;
}
