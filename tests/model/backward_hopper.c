/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who waits for whom in backward_hopper.cl: the kernel's own text, as C, on a machine that runs its items in random
 * orders (machine.h), over random problems: masks, windows, lengths, packed sequences, heads that share keys, orders of
 * blocks of keys, shares, of few work-groups at a time. Of each schedule it is asserted that all items end; that a
 * tile's sums of dQ get what each block of keys has for it, once, all of it of the same tile, the first stored and the
 * others added, in order where there is one; that every visible pair is in a tile that was computed; that each share of
 * a block of keys leaves its part of dK and dV; and that no message is read after it has been written over.
 *
 *     model_backward_hopper_NAME [SCHEDULES [FIRST_SEED]]
 *
 * Without them, as many as $CLATTN_TEST_SCHEDULES says, or as half a second takes. CLATTN_... come from the build, as a
 * plan would have them, and MODEL_HANGS: 1 if this variant has to hang where blocks of keys look for the one before
 * them as they once did, by the tile as a whole and with keys that do not exist. */
#include "model/hopper_machine.h"
#include "model/opencl_c.h"
#include "model/schedules.h"
#include <stdio.h>
#include <stdlib.h>

#define CLATTN_DTYPE              0 /* of what tensors hold nothing is read */
#define CLATTN_STATE              0
#define CLATTN_COMPUTE_CAPABILITY 90
#define CLATTN_LOCAL_BYTES        HOPPER_LOCAL_BYTES /* the planner is not asked here */
#define CLATTN_WORK_GROUP_SIZE    384
#define CLATTN_TMA                1
#define CLATTN_D_V                (16 * CLATTN_V_PIECES)
#define CLATTN_V_PIECES           (CLATTN_B_C > 64 && CLATTN_D_PIECES > 8 ? 8 : CLATTN_D_PIECES)
#define CLATTN_ROW_PIECES         (CLATTN_TILE_ROWS / 16)
#define CLATTN_DO_STAGES          (CLATTN_B_C == 64 || CLATTN_D_PIECES == 11 ? 1 : CLATTN_STAGES)
#define CLATTN_LATE_D_V           (CLATTN_TILE_ROWS != 64)
#if CLATTN_TILE_ROWS != 64
#define CLATTN_PART_PIECES ((CLATTN_ROW_PIECES * ((CLATTN_D_PIECES + 3) / 4) + 1) / 2)
#else
#define CLATTN_PART_PIECES (CLATTN_D_PIECES > 4 ? 4 : (CLATTN_D_PIECES + 1) / 2)
#endif
#define CLATTN_LOADERS            (CLATTN_UNORDERED ? 96 : 64)
#define CLATTN_PRODUCER_REGISTERS 0
#define CLATTN_CONSUMER_REGISTERS 0

/* The question that blocks of keys wait for each other by, as it was. */
static bool asks_as_before;
#define hopper_has_pairs hopper_has_pairs_now
#include MODEL_FEATURES
#include "backward_hopper_tiles.h"
#undef hopper_has_pairs
static bool hopper_has_pairs(int row, int first_key, const clattn_view *view)
{
    if (asks_as_before)
        return clattn_tile_at(ROWS, KEYS, row, first_key, view) != CLATTN_TILE_SKIP;
    return hopper_has_pairs_now(row, first_key, view);
}
#include "backward_hopper_text.h"

enum {
    MOST_BATCH = 3,
    MOST_HEADS = 4,
    MOST_LENGTH = 640,
    MOST_BLOCKS = MOST_LENGTH / KEYS + 1,
    MOST_TILES = MOST_LENGTH / ROWS + 1,
    MOST_SUMS = MOST_BATCH * MOST_HEADS * MOST_TILES * CLATTN_DQ_SUMS,
    MOST_MESSAGES = MOST_BATCH * MOST_HEADS * MOST_TILES * MOST_BLOCKS,
    MOST_SHARES = 6,
    SUMS_AT = 1 << 16, /* words of the workspace; sums are not there, only counted */
    SUM = CONSUMERS * PART_FLOATS,
    SHARE = SHARE_FLOATS,
    SHARE_SUMS = MOST_BATCH * 2 * MOST_BLOCKS * MOST_SHARES
};

typedef clattn_backward_params model_params;
#include "model/hopper_problem.h"
static uint words[SUMS_AT + SHARE_SUMS * SHARE]; /* the workspace; what shares leave is there */

/* A tile that the producer has sent; and what came of it. */
struct message {
    int group, number; /* of the group's tiles */
    int b, kv_head, key, row, head, flags, sums, before;
    int place;
    int added[PASSES];
};
static struct message messages[MOST_MESSAGES + 1];
static int message_count;

/* What came to a tile's sums so far: of each pass, the message that was last. */
static int last_added[MOST_SUMS][PASSES];

/* Of each place for a group, and of its warps. */
static struct {
    int4 block;      /* that the producer has sent last */
    int count;       /* of its tiles */
    int in_slot[16]; /* the number of the tile in each place for messages, from 1 on; 0: none */
    int4 sent[16];
    int reads[20], current[20]; /* of each warp: how often it has read a message, and of which message it is at */
    int message_of[1 << 12];    /* of each of its tiles */
} groups[MACHINE_MOST_GROUPS];

/* What the kernel does to the machine. */
static bool is_in(unit_address at, unit_address first, int count)
{
    return at >= first && at < first + 16u * (uint)count;
}

static int place_of_block(int b, int kv_head, int key)
{
    const int blocks = (problem.p.n_kv + KEYS - 1) / KEYS;
    const uint *const order = words + problem.p.order + (b * problem.p.kv_heads + kv_head) * 2 * blocks;
    for (int place = 0; place < blocks; place++)
        if ((CLATTN_ORDERS_BLOCKS ? (int)order[place] : place) == key / KEYS)
            return place;
    machine_fault("block %d of keys is none of %d", key / KEYS, blocks);
}

static void model_put(unit_address to, int4 x)
{
    const int slot = machine_slot();
    if (is_in(to, BLOCK_MESSAGE(0), 2)) {
        groups[slot].block = x;
    } else if (is_in(to, TILE_MESSAGE(0), MESSAGES)) {
        const int place = (int)(to - TILE_MESSAGE(0)) / 16;
        groups[slot].sent[place] = x;
        if (x.z == HOPPER_NO_TILE) { /* numbers follow each other, but do not count */
            groups[slot].in_slot[place] = -1;
            return;
        }
        const int number = groups[slot].count++;
        if (place != number % MESSAGES || message_count == MOST_MESSAGES || number == (1 << 12))
            machine_fault("tile %d is sent in place %d", number, place);
        groups[slot].in_slot[place] = number + 1;
        groups[slot].message_of[number] = ++message_count;
        messages[message_count] = (struct message){.group = machine_group(),
                                                   .number = number,
                                                   .b = groups[slot].block.x,
                                                   .kv_head = groups[slot].block.y,
                                                   .key = groups[slot].block.z,
                                                   .row = x.x,
                                                   .head = x.y / HOPPER_TILE_HEAD,
                                                   .flags = x.y % HOPPER_TILE_HEAD,
                                                   .sums = x.z,
                                                   .before = x.w};
        messages[message_count].place =
            place_of_block(messages[message_count].b, messages[message_count].kv_head, messages[message_count].key);
    }
}

/* Consumers read each tile's message once, those who sum up once a pass of every so many. */
static void model_get(unit_address from, int4 x)
{
    const int slot = machine_slot(), warp = machine_warp(), lid = machine_lid();
    if (!is_in(from, TILE_MESSAGE(0), MESSAGES))
        return;
    const bool sums_up = lid < HOPPER_ITEMS;
    const int reads = groups[slot].reads[warp]++;
    const int number = sums_up ? (lid - CLATTN_LOADERS) / UNIT_LANES + reads / PASSES * (int)REDUCERS : reads;
    const int found = groups[slot].in_slot[(from - TILE_MESSAGE(0)) / 16];
    if (sums_up && x.z == HOPPER_NO_TILE && number >= groups[slot].count)
        return;
    if (found != number + 1)
        machine_fault("in place of the message of tile %d there is that of %d", number, found - 1);
    groups[slot].current[warp] = groups[slot].message_of[number];
}

static uint model_mark(void)
{
    return (uint)groups[machine_slot()].current[machine_warp()];
}

/* All parts of a pass of dQ of one tile: which; 0: of several. */
static uint32_t model_take(const unsigned char *from, int bytes)
{
    uint32_t all = 0;
    for (int consumer = 0; consumer * PART_FLOATS * 4 < bytes; consumer++)
        for (int warp = 0; warp < HOPPER_ITEMS / UNIT_LANES; warp++) {
            float x;
            for (int quad = 0; quad < PART_QUADS;
                 quad += PART_HALVES != 0 && PART_WHOLE != 0 && TURNED != 0 ? 2 * RT : PART_QUADS) {
                memcpy(&x, from + consumer * PART_FLOATS * 4 + (quad * 4 + warp) * UNIT_LANES * 16, sizeof x);
                if (consumer + warp + quad > 0 && (uint32_t)x != all)
                    return 0;
                all = (uint32_t)x;
            }
        }
    return all;
}

static void model_give(void *to, uint32_t taken, bool adds)
{
    const ptrdiff_t at = ((float *)to - ((float *)words + SUMS_AT)) / SUM;
    const int sums = (int)(at / PASSES), pass = (int)(at % PASSES);
    if (taken == 0 || taken > (uint32_t)message_count) {
        WRONG("sums %d get what is of no tile", sums);
        return;
    }
    struct message *const message = &messages[taken];
    const int last = last_added[sums][pass];
    if (message->sums != sums)
        WRONG("sums %d get what is of %d", sums, message->sums);
    if (message->added[pass]++)
        WRONG("sums %d get tile %u twice", sums, taken);
    if (adds != (last != 0))
        WRONG("sums %d: what is %s is not the first, or not first", sums, adds ? "added" : "stored");
    if (!CLATTN_UNORDERED && last && messages[last].place >= message->place)
        WRONG("sums %d get block %d after %d", sums, message->place, messages[last].place);
    last_added[sums][pass] = (int)taken;
}

static void make_order(void)
{
    const clattn_backward_params *p = &problem.p;
    const int blocks = (p->n_kv + KEYS - 1) / KEYS;
    for (int head = 0; head < p->batch * p->kv_heads; head++) {
        uint *const order = words + p->order + head * 2 * blocks;
        for (int n = 0; n < blocks; n++) {
            const int other = any_below(n + 1);
            order[n] = order[other];
            order[other] = (uint)n;
        }
        for (int n = 0; n < blocks; n++)
            order[blocks + n] = (uint)any_below(1000); /* what was counted */
    }
}

/* Where one consumer's first item leaves its part of a share's dK, or dV. Where keys are shared, so do consumers dK and
 * dV. */
static float *share_word(int number, int consumer, bool of_v)
{
    return (float *)words + problem.p.share_sums + (long)number * SHARE + (of_v ? SHARE_D_V * 4 : 0) +
           (SHARED_KEYS ? 0 : consumer * HOPPER_ITEMS * 4);
}

static int share_count(void)
{
    const clattn_backward_params *p = &problem.p;
    return p->shares > 1 ? p->batch * p->kv_heads * ((p->n_kv + KEYS - 1) / KEYS) * p->shares : 0;
}

static void empty_shares(void)
{
    for (int n = 0; n < share_count(); n++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++)
            *share_word(n, consumer, false) = *share_word(n, consumer, true) = NAN;
}

static void check_shares(void)
{
    for (int n = 0; n < share_count(); n++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++)
            if (isnan(*share_word(n, consumer, false)) || isnan(*share_word(n, consumer, true)))
                WRONG("of block and share %d consumer %d has left nothing", n, consumer);
}

static void make_problem(uint64_t seed)
{
    clattn_backward_params *p = &problem.p;
    make_scores(seed * 0x9e3779b97f4a7c15u + 12345);
    p->heads_together = 1 + any_below(p->batch * p->kv_heads);
    p->shares = any_below(2) ? 1 : 1 + any_below(MOST_SHARES);
    p->group = p->heads / p->kv_heads;
    p->q = p->k = p->v = p->d_o = (clattn_layout){0, 64, 64, 64, 1};
    p->tickets = 0;
    p->counters = 64;
    p->flags = p->counters + MOST_SUMS;
    p->order = p->flags + MOST_BATCH * MOST_HEADS * MOST_BLOCKS;
    p->descriptors = p->order + MOST_BATCH * MOST_HEADS * 2 * MOST_BLOCKS;
    p->sums = p->share_sums = SUMS_AT;
    memset(words, 0, (size_t)p->order * sizeof *words);
    make_order();
    empty_shares();
    memset(groups, 0, sizeof groups);
    memset(last_added, 0, sizeof last_added);
    message_count = 0;
}

static void run_kernel(void)
{
    static const float tensor[64];
    /* Tensors of gradients are not there, and not written to where shares are left. */
    float *const gradients = problem.p.shares > 1 ? (float *)words : NULL;
    clattn_dk_dv(tensor, tensor, tensor, tensor, (float *)words, gradients, gradients,
                 problem.p CLATTN_SCORE_ARGUMENTS);
}

/* What was computed, beside what has come to the sums. */
static void check_tiles(bool pairs)
{
    static uchar covered[MOST_BATCH][MOST_HEADS][MOST_TILES][2 * MOST_BLOCKS]; /* by half blocks of keys */
    const int of_one = KEYS / CONSUMERS;
    memset(covered, 0, sizeof covered);
    for (int n = 1; n <= message_count; n++) {
        const struct message *const message = &messages[n];
        for (int pass = 0; pass < PASSES; pass++)
            if (message->added[pass] != 1)
                WRONG("tile %d of keys %d, rows %d: of pass %d dQ has come %d times", n, message->key, message->row,
                      pass, message->added[pass]);
        for (int part = 0; part < CONSUMERS; part++) {
            uchar *const there =
                &covered[message->b][message->head][message->row / ROWS][2 * (message->key / KEYS) + part];
            if (*there)
                WRONG("keys %d, rows %d come twice", message->key, message->row);
            *there = 1 + (message->flags & HOPPER_TILE_HIDES);
            if (HOPPER_HALVES && message->flags & HOPPER_TILE_SKIPPED << part)
                *there = 4;
        }
    }
    for (int b = 0; b < problem.p.batch && pairs; b++)
        for (int h = 0; h < problem.p.heads; h++)
            for (int i = 0; i < rows_of(b); i++)
                for (int j = 0; j < (problem.p.n_kv + KEYS - 1) / KEYS * KEYS; j++) {
                    const uchar how = covered[b][h][i / ROWS][j / of_one];
                    const bool visible = is_visible(b, h, i, j);
                    if (visible && (how == 0 || how == 4))
                        WRONG("row %d of head %d of %d sees key %d, whose tile does not come", i, h, b, j);
                    if (!visible && how == 1)
                        WRONG("row %d of head %d of %d does not see key %d, of which nothing is said", i, h, b, j);
                }
}

/* A quarter of all schedules has a problem of its own. gives_up: see struct machine_run. */
static enum machine_end run_schedule(uint64_t seed, bool gives_up)
{
    static const struct machine_warp warps[] = {{0, 32, 1},   {32, 32, 1},  {64, CLATTN_UNORDERED ? 32 : 1, 1},
                                                {96, 1, 1},   {128, 1, 32}, {160, 1, 32},
                                                {192, 1, 32}, {224, 1, 32}, {256, 1, 32},
                                                {288, 1, 32}, {320, 1, 32}, {352, 1, 32}};
    make_problem(seed / 4);
    chance += seed;
    const int groups_launched = 1 + any_below(6);
    const struct machine_run run = {.warps = warps,
                                    .warp_count = sizeof warps / sizeof *warps,
                                    .groups = groups_launched,
                                    .resident = 1 + any_below(groups_launched < 4 ? groups_launched : 4),
                                    .entry = run_kernel,
                                    .gives_up = gives_up,
                                    .seed = seed};
    const enum machine_end end = machine_run(&run);
    if (gives_up) /* sums are wrong, and nothing else */
        return end;
    if (end == MACHINE_ENDED) {
        check_tiles(seed % 4 == 0);
        check_shares();
    }
    return wrong[0] ? MACHINE_FAULT : end;
}

/* It has to hang as it once did, in some of so many schedules; and in these all have to end if one gives up. */
static int hang_as_before(long seeds)
{
    int hung = 0;
    asks_as_before = true;
    for (long seed = 0; seed < seeds && hung < 2; seed++) {
        if (run_schedule((uint64_t)seed, false) != MACHINE_STUCK)
            continue;
        hung++;
        if (run_schedule((uint64_t)seed, true) != MACHINE_ENDED || words[problem.p.tickets + 1] != 1) {
            fprintf(stderr, "seed %ld does not end when one gives up: %s\n", seed, machine_said());
            return 1;
        }
    }
    asks_as_before = false;
    if (!hung)
        fprintf(stderr, "as blocks of keys asked once it has to hang, and does not\n");
    return hung == 0;
}

static enum machine_end one_schedule(uint64_t seed)
{
    return run_schedule(seed, false);
}

int main(int argc, char **argv)
{
    if (MODEL_HANGS && hang_as_before(8000))
        return 1;
    return schedules_main(argc, argv, one_schedule, said);
}
