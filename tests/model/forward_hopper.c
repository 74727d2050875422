/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who waits for whom in forward_hopper.cl: the kernel's own text, as C, on a machine that runs its items in random
 * orders (machine.h), over random problems: masks, windows, lengths, packed sequences, splits, pipelines, turns of
 * consumers. Of each schedule it is asserted that all items end, that each consumer is at the tile that the producer
 * has brought, tile by tile, and that each visible pair is in one tile of one block of rows, exactly once.
 *
 *     model_forward_hopper_NAME [SCHEDULES [FIRST_SEED]]     as model_backward_hopper */
#include "model/hopper_machine.h"
#include "model/schedules.h"
#include "plan/divisor.h"
#include <stdlib.h>

#define CLATTN_LOCAL_BYTES        HOPPER_LOCAL_BYTES /* the planner is not asked here */
#define CLATTN_DTYPE              0
#define CLATTN_STATE              0
#define CLATTN_COMPUTE_CAPABILITY 90
#define CLATTN_D                  16
#define CLATTN_D_V                16
#define CLATTN_VALUE_PIECES       1
#define CLATTN_B_C                32
#define CLATTN_KEYS               32
#define CLATTN_KEY_PIECES         2
#define CLATTN_ROW_TILES          1
#define CLATTN_LOADERS            (128 / CLATTN_PIPELINES)
#define CLATTN_WORK_GROUP_SIZE    (128 * (CLATTN_PIPELINES * CLATTN_B_R / 64 + 1))
#define CLATTN_ALIBI_LINEAR       0
#define CLATTN_KEEPS_PHILOX       0
#define CLATTN_STALE_MAX          0
#define CLATTN_SET_BYTES          (1 << 25)
#define CLATTN_TOGETHER_BYTES     (1 << 25)
#define CLATTN_TOGETHER_ROUNDS    4
#define CLATTN_PRODUCER_REGISTERS 0
#define CLATTN_CONSUMER_REGISTERS 0

enum {
    MOST_BATCH = 3,
    MOST_HEADS = 4,
    MOST_LENGTH = 520,
    MOST_SPLITS = 3,
    MOST_BLOCKS = MOST_LENGTH / CLATTN_B_R + 1,
    MOST_TILES = 4096,
    MOST_TEAMS = 4
};

#include MODEL_FEATURES
#include "forward_hopper_scores.h"
static void model_load(hopper_loads loads, int which, hopper_input input, hopper_coordinates from, const int tile_rows,
                       unit_address tile, unit_address barrier_at, int lid);
static matrix_form model_modify(int row, int key);
#define hopper_load model_load
#include "forward_hopper_text.h"
#undef hopper_load

/* What weights are is not asked here. */
#define matrix_modify(s, row, key, lane, p, kind, far, view) ((void)(kind), model_modify(row, key))
#define matrix_weigh_bounded(lane, weights, s, form, drawing, p, view, rows, shrink)                                   \
    ((void)(form), (void)(shrink), false)
#define matrix_bound(lane, s, form, offset, rows, shrink, view)              (false)
#define matrix_weigh_found(lane, weights, s, bounds, drawing, p, view, rows) (void)(bounds)
#include "forward_hopper_kernel.h"

typedef clattn_forward_params model_params;
#include "model/hopper_problem.h"
static uint words[MACHINE_MOST_GROUPS * 2 * MOST_TEAMS * 3 * HOPPER_DESCRIPTOR_WORDS];
static float out[1024];

/* What a pipeline has brought, in order, and how far each consumer's warps are in it. */
struct tile {
    int b, h, row, key;
};
static struct {
    struct tile brought[MOST_TEAMS][MOST_TILES];
    int count[MOST_TEAMS], met[32];
    struct tile at[MOST_TEAMS]; /* the block of rows whose Q has come last */
} groups[MACHINE_MOST_GROUPS];

/* How often a consumer has met 64 rows and a tile's first key. */
static uchar met[MOST_BATCH][MOST_HEADS][MOST_LENGTH / 64 + 4][MOST_LENGTH + 64];

static void model_put(unit_address to, int4 x)
{
    (void)to, (void)x;
}
static void model_get(unit_address from, int4 x)
{
    (void)from, (void)x;
}
static uint model_mark(void)
{
    return 0;
}
static uint32_t model_take(const unsigned char *from, int bytes)
{
    (void)from, (void)bytes;
    return 0;
}
static void model_give(void *to, uint32_t taken, bool adds)
{
    (void)to, (void)taken, (void)adds;
}

/* Of the producer's items each knows what is brought; the first of a pipeline messages it. */
static void model_load(hopper_loads loads, int which, hopper_input input, hopper_coordinates from, const int tile_rows,
                       unit_address tile, unit_address barrier_at, int lid)
{
    const int slot = machine_slot(), pipeline = machine_lid() / CLATTN_LOADERS;
    if (lid == 0 && which == HOPPER_Q)
        groups[slot].at[pipeline] = (struct tile){from.b, from.h, from.first, 0};
    if (lid == 0 && which == HOPPER_K) {
        struct tile next = groups[slot].at[pipeline];
        next.key = from.first;
        if (groups[slot].count[pipeline] == MOST_TILES)
            machine_fault("more tiles than %d", MOST_TILES);
        groups[slot].brought[pipeline][groups[slot].count[pipeline]++] = next;
    }
    hopper_load(loads, which, input, from, tile_rows, tile, barrier_at, lid);
}

/* A consumer's warp is at its next tile. */
static matrix_form model_modify(int row, int key)
{
    const int slot = machine_slot(), warp = machine_warp(), consumer = machine_lid() / HOPPER_ITEMS - 1;
    const int pipeline = consumer / CONSUMERS, number = groups[slot].met[warp]++;
    if (number >= groups[slot].count[pipeline])
        machine_fault("tile %d is met and was not brought", number);
    const struct tile *tile = &groups[slot].brought[pipeline][number];
    if (key != tile->key || row / CLATTN_B_R * CLATTN_B_R != tile->row)
        machine_fault("at row %d, key %d, while row %d, key %d were brought", row, key, tile->row, tile->key);
    if (machine_lid() % HOPPER_ITEMS == 0)
        met[tile->b][tile->h][row / 64][key]++;
    return (matrix_form){0};
}

static clattn_divisor divisor(int number)
{
    const struct cla_divisor by = cla_divisor_of(number);
    return (clattn_divisor){by.number, by.factor, by.shift};
}

static void make_problem(uint64_t seed)
{
    clattn_forward_params *p = &problem.p;
    make_scores(seed * 0x9e3779b97f4a7c15u + 999);
    memset(groups, 0, sizeof groups);
    memset(met, 0, sizeof met);
    p->splits = CLATTN_SPLIT ? 1 + any_below(MOST_SPLITS) : 0;
    p->by_splits = divisor(CLATTN_SPLIT ? p->splits : 1);
    p->by_group = divisor(p->heads / p->kv_heads);
    p->q = p->k = p->v = (clattn_layout){0, 64, 64, 64, 1};
    p->o = (clattn_layout){0, 0, 0, 0, 1}; /* all over each other */
}

static void run_kernel(void)
{
    static const float tensor[64];
#if CLATTN_TMA
#define MAPS , words
#else
#define MAPS
#endif
    clattn_forward(tensor, tensor, tensor, out, NULL, NULL, NULL MAPS, problem.p CLATTN_SCORE_ARGUMENTS);
}

static void check_pairs(void)
{
    for (int b = 0; b < problem.p.batch; b++)
        for (int h = 0; h < problem.p.heads; h++)
            for (int i = 0; i < rows_of(b); i++)
                for (int j = 0; j < keys_of(b); j++) {
                    int times = 0; /* tiles need not begin at a multiple of their length */
                    for (int first = j - CLATTN_B_C + 1 < 0 ? 0 : j - CLATTN_B_C + 1; first <= j; first++)
                        times += met[b][h][i / 64][first];
                    if (times > 1 || (times == 0 && is_visible(b, h, i, j)))
                        WRONG("row %d and key %d of head %d of %d meet %d times", i, j, h, b, times);
                }
}

static enum machine_end run_schedule(uint64_t seed)
{
    struct machine_warp warps[4 + 16] = {{0, 32, 1}, {32, 32, 1}, {64, 32, 1}, {96, 32, 1}};
    const int count = CLATTN_WORK_GROUP_SIZE / MACHINE_LANES;
    for (int n = 4; n < count; n++)
        warps[n] = (struct machine_warp){n * MACHINE_LANES, 1, MACHINE_LANES};
    make_problem(seed / 4);
    chance += seed;
    const struct machine_run run = {.warps = warps,
                                    .warp_count = count,
                                    .groups = 1 + any_below(MACHINE_MOST_GROUPS),
                                    .resident = MACHINE_MOST_GROUPS,
                                    .entry = run_kernel,
                                    .seed = seed};
    const enum machine_end end = machine_run(&run);
    if (end == MACHINE_ENDED && seed % 4 == 0)
        check_pairs();
    return wrong[0] ? MACHINE_FAULT : end;
}

int main(int argc, char **argv)
{
    return schedules_main(argc, argv, run_schedule, said);
}
