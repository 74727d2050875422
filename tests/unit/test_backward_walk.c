/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The walk of backward_hopper.cl through a mask in blocks (cl/common/hopper_backward_walk.clh), whose consumers run on
 * a Hopper device alone: its text as C, with a thread for each lane of a warp, against lists. CLATTN_UNORDERED,
 * CLATTN_DQ_SUMS and CLATTN_ORDERS_BLOCKS come from the build: two halves of a block of keys are looked at by
 * themselves, but in order where blocks of keys have an order of their own; in any order tiles come out of order,
 * in order the block before that adds to the same sums is told. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "support/unit.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, MOST_TILES = 40, MOST_COLUMNS = 20, MOST_HEADS = 8, MOST_STEPS = 1 << 14, NOT_CAUSAL = -1 };

/* What the text finds above it. */
#define CLATTN_BLOCK_MASK 1
#define CLATTN_BLOCK_Q    64
#define CLATTN_BLOCK_KV   (CLATTN_ORDERS_BLOCKS && !CLATTN_UNORDERED ? 128 : 64)
#define CLATTN_TILE_ROWS  64
#define CLATTN_B_C        128
#define CLATTN_INLINE     static
#define __global
#define CLATTN_SCORE_PARAMETERS
#define CLATTN_SCORE_ARGUMENTS
#define UNIT_LANES                           LANES
#define MATRIX_SEEKERS                       LANES
#define MATRIX_SEEKER(lane)                  (lane)
#define MATRIX_FIRST_SEEKER(lane, condition) unit_first_of(unit_ballot(lane, condition))
#define min(a, b)                            ((a) < (b) ? (a) : (b))
#define max(a, b)                            ((a) > (b) ? (a) : (b))
#define INT_MAX                              __INT_MAX__
typedef unsigned uint;

typedef struct {
    int batch, heads, kv_heads, n_q, n_kv, heads_together, shares, group;
} clattn_backward_params;

typedef struct {
    uint8_t (*blocks)[MOST_COLUMNS]; /* of the head; 0: hidden */
    int n_q, n_kv;
} clattn_view;

static struct {
    clattn_backward_params p;
    int shift;                                            /* row i sees keys up to i + shift; NOT_CAUSAL: all */
    uint8_t blocks[MOST_HEADS][MOST_TILES][MOST_COLUMNS]; /* of each head of each batch */
    uint order[MOST_HEADS * 2 * MOST_COLUMNS];            /* as backward_order.cl leaves it */
} problem;

enum { CLATTN_TILE_SKIP, CLATTN_TILE_ALL, CLATTN_TILE_SOME };

static clattn_view clattn_open(int b, int h, int heads, int n_q, int n_kv)
{
    return (clattn_view){problem.blocks[b * heads + h], n_q, n_kv};
}
static int clattn_row_begin(int first_key, const clattn_view *view)
{
    (void)view;
    return problem.shift == NOT_CAUSAL || first_key < problem.shift ? 0 : first_key - problem.shift;
}
static int clattn_row_end(int last_key, const clattn_view *view)
{
    (void)last_key;
    return view->n_q;
}

static bool sees(int i, int j, const clattn_view *view)
{
    return j < view->n_kv && (problem.shift == NOT_CAUSAL || j <= i + problem.shift) &&
           view->blocks[i / CLATTN_BLOCK_Q][j / CLATTN_BLOCK_KV];
}

/* Pair by pair. */
static int clattn_tile(int first_row, int last_row, int first_key, int last_key, const clattn_view *view)
{
    bool any = false, all = true;
    for (int i = first_row; i <= last_row && i < view->n_q; i++)
        for (int j = first_key; j <= last_key; j++) {
            const bool seen = sees(i, j, view);
            any = any || seen;
            all = all && seen;
        }
    return !any ? CLATTN_TILE_SKIP : all ? CLATTN_TILE_ALL : CLATTN_TILE_SOME;
}

static int clattn_tile_at(int rows, int keys, int first_row, int first_key, const clattn_view *view)
{
    return clattn_tile(first_row, first_row + rows - 1, first_key, first_key + keys - 1, view);
}

static _Thread_local int my_lane;
static pthread_barrier_t meeting;
static bool votes[LANES];

/* All lanes have to come here, and to find the same. */
static uint unit_ballot(int lane, bool condition)
{
    uint lanes = 0;
    votes[lane] = condition;
    pthread_barrier_wait(&meeting);
    for (int n = 0; n < LANES; n++)
        lanes |= (uint)votes[n] << n;
    pthread_barrier_wait(&meeting);
    return lanes;
}
static int hopper_from_lane(int x, int lane)
{
    static int values[LANES];
    values[my_lane] = x;
    pthread_barrier_wait(&meeting);
    const int y = values[lane];
    pthread_barrier_wait(&meeting);
    return y;
}
static int unit_first_of(uint lanes)
{
    int n = 0;
    while (n < LANES && !(lanes >> n & 1))
        n++;
    return n;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "backward_walk_text.h"
#pragma GCC diagnostic pop

struct step {
    int b, kv_head, keys;      /* the block; */
    int h, row, flags, before; /* its next tile. A block ends with a step of row -1 */
};

static struct step found[LANES][MOST_STEPS], expected[MOST_STEPS];
static int found_count[LANES], expected_count;

static void *walk(void *lane)
{
    const int lid = my_lane = (int)(intptr_t)lane;
    hopper_work work;
    int count = 0;
    for (int ticket = 0; hopper_open(&work, ticket, problem.order, lid, problem.p); ticket++) {
        const int before = count;
        while (count < MOST_STEPS - 1 && hopper_next_rows(&work, lid, problem.p))
            found[lid][count++] = (struct step){work.b,
                                                work.kv_head,
                                                work.keys,
                                                work.h,
                                                work.row,
                                                hopper_tile_flags(&work),
                                                hopper_block_before(&work, problem.order, lid, problem.p)};
        if (count == before && work.keys >= problem.p.n_kv)
            continue; /* where fewer heads are left than go together, some tickets are for blocks behind the end */
        found[lid][count++] = (struct step){work.b, work.kv_head, work.keys, -1, -1, 0, 0};
    }
    found_count[lid] = count;
    return NULL;
}

static void walk_by_all_lanes(void)
{
    pthread_t threads[LANES];
    assert_int_equal(pthread_barrier_init(&meeting, NULL, LANES), 0);
    for (int n = 0; n < LANES; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, walk, (void *)(intptr_t)n), 0);
    for (int n = 0; n < LANES; n++)
        assert_int_equal(pthread_join(threads[n], NULL), 0);
    pthread_barrier_destroy(&meeting);
}

enum { HALVES = CLATTN_BLOCK_KV == 64 ? 2 : 1, WINDOW = LANES / HALVES, REACH = CLATTN_UNORDERED ? 8 : 1 };

/* What a tile of the block is: who skips it, by bits, 3 if all do; and whether it hides pairs of the
 * others. */
struct tile {
    int row, skipped;
    bool hides;
};

static struct tile tile_of(int row, int keys, const clattn_view *view)
{
    struct tile tile = {row, 0, false};
    for (int n = 0; n < HALVES; n++) {
        const int each = 128 / HALVES,
                  kind = clattn_tile(row, row + 63, keys + n * each, keys + (n + 1) * each - 1, view);
        tile.skipped |= kind == CLATTN_TILE_SKIP ? 1 << n : 0;
        tile.hides = tile.hides || kind == CLATTN_TILE_SOME;
    }
    return tile;
}

/* The tile of the window that is next: `skipped_more` (bits as in skipped) has skipped one more than the other. */
static int choose(const struct tile *tiles, int count, int skipped_more, int shares)
{
    for (int n = 0; skipped_more && n < count && tiles[0].row - tiles[n].row < REACH * 64 * shares; n++)
        if (tiles[n].skipped && tiles[n].skipped != skipped_more)
            return n;
    return 0;
}

/* The block that is the head's so many in order. head: of K and V, among those of all batches. */
static int block_in_order(int head, int position)
{
    const int blocks = (problem.p.n_kv + 127) / 128;
    return CLATTN_ORDERS_BLOCKS ? (int)problem.order[head * 2 * blocks + position] : position;
}

static int block_before(int row, int head, int position, const clattn_view *view)
{
    for (position -= CLATTN_DQ_SUMS; position >= 0; position -= CLATTN_DQ_SUMS) {
        const int key = block_in_order(head, position) * 128;
        if (clattn_tile(row, row + 63, key, key + 127, view) != CLATTN_TILE_SKIP)
            return key / 128 + 1;
    }
    return 0;
}

/* A window of a head's tiles, every so many from `row` down. */
static void expect_window(struct step block, int row, int position, int *skipped_more)
{
    const clattn_backward_params *p = &problem.p;
    const clattn_view view = clattn_open(block.b, block.h, p->heads, p->n_q, p->n_kv);
    const int all = (1 << HALVES) - 1;
    struct tile tiles[WINDOW];
    int count = 0;
    for (int n = 0; n < WINDOW; n++, row -= 64 * p->shares) {
        if (row >= p->n_q)
            continue;
        tiles[count] = tile_of(row, block.keys, &view);
        count += tiles[count].skipped != all;
    }
    while (count > 0) {
        const int n = choose(tiles, count, *skipped_more, p->shares);
        const struct tile tile = tiles[n];
        memmove(tiles + n, tiles + n + 1, (size_t)(count - n - 1) * sizeof *tiles);
        count--;
        if (tile.skipped)
            *skipped_more = *skipped_more && *skipped_more != tile.skipped ? 0 : tile.skipped;
        block.row = tile.row;
        block.flags = (tile.hides ? HOPPER_TILE_HIDES : 0) + tile.skipped * HOPPER_TILE_SKIPPED;
        block.before =
            CLATTN_UNORDERED ? 0 : block_before(tile.row, block.b * p->kv_heads + block.kv_head, position, &view);
        expected[expected_count++] = block;
    }
}

/* What a share of a block of keys has: windows of all the heads that share it, from the last rows on. A head's tiles
 * are as far from the first of the round as the head's number and the share's say. In any order another head is the
 * first of the next block. */
static void expect_share(struct step block, int position, int share)
{
    const clattn_backward_params *p = &problem.p;
    const int round = WINDOW * p->shares, group = p->heads / p->kv_heads,
              turn = CLATTN_UNORDERED ? position % group : 0;
    int skipped_more = 0;
    for (int first = (p->n_q + 63) / 64 / round * round; first >= 0; first -= round)
        for (int n = 0; n < group; n++) {
            const int head = (turn + n) % group;
            block.h = block.kv_head * group + head;
            expect_window(block, 64 * (first + (share + head) % p->shares + (WINDOW - 1) * p->shares), position,
                          &skipped_more);
        }
}

/* Heads that are worked on together alternate; each block of keys has the tiles of all heads that share it. */
static void expect(void)
{
    const clattn_backward_params *p = &problem.p;
    const int heads = p->batch * p->kv_heads;
    expected_count = 0;
    for (int first = 0; first < heads; first += p->heads_together)
        for (int position = 0; position < (p->n_kv + 127) / 128; position++)
            for (int n = 0; n < p->heads_together * p->shares && first + n / p->shares < heads; n++) {
                const int head = first + n / p->shares, keys = block_in_order(head, position) * 128;
                const struct step block = {head / p->kv_heads, head % p->kv_heads, keys, 0, 0, 0, 0};
                expect_share(block, position, n % p->shares);
                expected[expected_count++] = (struct step){block.b, block.kv_head, keys, -1, -1, 0, 0};
            }
}

static void fill(unsigned percent, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t n = 0; n < sizeof problem.blocks; n++) {
        x = x * 1664525u + 1013904223u;
        ((uint8_t *)problem.blocks)[n] = (x >> 16) % 100 < percent;
    }
}

/* Some order: backward_order.cl's is not known here. */
static void put_in_order(void)
{
    const int blocks = (problem.p.n_kv + 127) / 128, heads = problem.p.batch * problem.p.kv_heads;
    assert_true(heads * 2 * blocks <= (int)(sizeof problem.order / sizeof *problem.order));
    for (int head = 0; head < heads; head++)
        for (int position = 0; position < blocks; position++)
            problem.order[head * 2 * blocks + position] =
                (uint)(head % 2 ? blocks - 1 - position : (position + 1 + blocks / 2) % blocks);
}

static void lanes_walk_as_lists_do(void **state)
{
    (void)state;
    static const struct {
        clattn_backward_params p;
        int shift;
    } rows[] = {{{1, 1, 1, 2500, 700, 1, 1, 1}, NOT_CAUSAL}, /* windows of many tiles */
                {{1, 1, 1, 2500, 1200, 1, 1, 1}, 37},
                {{1, 4, 2, 700, 333, 2, 1, 2}, NOT_CAUSAL}, /* heads that share keys */
                {{2, 3, 1, 130, 1100, 1, 1, 3}, NOT_CAUSAL},
                {{2, 2, 2, 64, 64, 3, 1, 1}, 0},
                {{1, 1, 1, 1, 1, 1, 1, 1}, NOT_CAUSAL},
                {{1, 1, 1, 2500, 700, 1, 3, 1}, 37}, /* blocks that are shared out */
                {{1, 6, 2, 700, 333, 2, 2, 3}, NOT_CAUSAL},
                {{2, 3, 1, 130, 700, 1, 5, 3}, 0}};
    static const unsigned percents[] = {50, 97, 10, 0, 100};
    EACH (i, rows)
        EACH (k, percents) {
            problem.p = rows[i].p;
            problem.shift = rows[i].shift;
            fill(percents[k], (unsigned)(7 * i + k));
            put_in_order();
            expect();
            walk_by_all_lanes();
            for (int lane = 0; lane < LANES; lane++) {
                assert_int_equal(found_count[lane], expected_count);
                for (int n = 0; n < expected_count; n++)
                    if (memcmp(&found[lane][n], &expected[n], sizeof expected[n]) != 0)
                        fail_msg("problem %zu, %u %%, lane %d, step %d: head %d, row %d, flags %d, before %d, not %d, "
                                 "%d, %d, %d",
                                 i, percents[k], lane, n, found[lane][n].h, found[lane][n].row, found[lane][n].flags,
                                 found[lane][n].before, expected[n].h, expected[n].row, expected[n].flags,
                                 expected[n].before);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_walk_as_lists_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
