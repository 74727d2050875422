/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for a CPU: one work-item per query block, explicit vectors, no barriers. The query rows of a block
 * are stationary, keys and values stream (common/cpu_tiles.clh), so that a row's maximum and sum are lane-wise.
 *
 * Baked constants, besides those of types.clh, view.clh, lanes.clh, score.clh and cpu_tiles.clh (all required)
 *   CLATTN_B_R   a multiple of VECTOR_WIDTH * ROW_VECTORS: query rows of the block. K and V are read and converted once
 *                per block.
 *   CLATTN_B_C   a multiple of MICRO, at least VECTOR_WIDTH: keys of a tile.
 *   CLATTN_TICKET_SIZES  0: a work-group has its block by its number. Else blocks go by tickets: 1, all have B_R rows;
 *                        2, some half of it; 3, some a quarter.
 *
 * With CLATTN_STATE o, m and l are the state's: float, O un-normalised, m in natural units; and lse is not used. With
 * CLATTN_SPLIT they are the workspace's (common/splits.clh).
 *
 * With CLATTN_PACKS rows are packed ones (score/view.clh).
 *
 * NDRange: batch * heads * ceil(n_q / B_R) work-groups of one work-item, with CLATTN_SPLIT as many for each split; with
 * tickets also more, of which one may have no block, or several, of B_R rows or fewer. Where floats are multiplied the
 * private arrays take
 *     4 * ((B_R + B_C) * (d' + d_v') + B_C * VECTOR_WIDTH * ROW_VECTORS + 4 * B_R)
 * bytes of a thread's stack, whatever the storage type; d' and d_v' are D_STRIDE and D_V_STRIDE. No local memory.
 */
#include "common/cpu_forward.clh"
#include "common/cpu_tiles.clh"
#include "common/lanes.clh"
#include "common/score.clh"
#include "common/splits.clh"
#include "common/types.clh"
#include "common/cpu_tickets.clh"
#include "common/view.clh"

#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % (CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS)
#error "CLATTN_B_R must be a multiple of CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS"
#endif
#if !defined(CLATTN_B_C) || CLATTN_B_C < CLATTN_VECTOR_WIDTH || CLATTN_B_C % CLATTN_MICRO
#error "CLATTN_B_C must be a multiple of CLATTN_MICRO and at least CLATTN_VECTOR_WIDTH"
#endif

#define PANELS (CLATTN_B_R / PANEL)
#if CLATTN_DOT && CLATTN_B_C < 2 * CLATTN_VECTOR_WIDTH
#error "with CLATTN_DOT CLATTN_B_C must be at least 2 * CLATTN_VECTOR_WIDTH: O goes by way of V's tile"
#endif

#if CLATTN_PARTIAL
#define CPU_OUTPUT_TYPE CLATTN_FP32
#else
#define CPU_OUTPUT_TYPE CLATTN_O_TYPE
#endif
typedef CLATTN_FOR(CPU_OUTPUT_TYPE, clattn) cpu_output;

/* Where a row's results are: a state has the rows of each sequence by themselves. */
#define OUTPUT_AT(layout, batch, i, view)                                                                              \
    clattn_at(layout, batch, CLATTN_HEAD(i, view), (CLATTN_PARTIAL ? 0 : (view)->row_base) + CLATTN_ROW(i, view))

/* `count` rows of Q, transposed, times factor (1 or -1), and zeros up to the panel. */
CLATTN_INLINE void load_queries(cpu_cell *block, cpu_item *scratch, __global const clattn_q *q, clattn_layout at,
                                int first, int count, float factor, const clattn_view *view)
{
    for (int i = 0; i < ROUND_UP(count, PANEL); i += W) {
        for (int r = i; r < i + W; ++r) {
            const int row = first + min(r, count - 1);
            const clattn_source of =
                clattn_open_source(q, CLATTN_Q_TYPE, at, CLATTN_D, 1, view->b, CLATTN_HEAD(row, view),
                                   view->row_base + CLATTN_ROW(row, view), 0, 1);
            load_rows(scratch + (r - i) * D_ITEMS, 1, &of, 0, CLATTN_D, D_ITEMS, count - r);
        }
        cpu_rows_to_block(block + vector_of(i, D_ITEMS), scratch, D_ITEMS, factor);
    }
}

#if CLATTN_STATE
/* The state of `count` rows, transposed. */
CLATTN_INLINE void load_state(softmax_state state, float *scratch, __global const float *o, __global const float *m,
                              __global const float *l, const clattn_forward_params *p, int first, int count,
                              const clattn_view *view)
{
    for (int i = 0; i < count; ++i) {
        const float row_max = m[OUTPUT_AT(p->m, view->b, first + i, view)];
        ((float *)state.max)[i] = row_max;
        ((float *)state.base)[i] = max(row_max, NO_BASE);
        ((float *)state.sum)[i] = l[OUTPUT_AT(p->l, view->b, first + i, view)];
    }
    for (int i = 0; i < count; i += W) {
        for (int r = 0; r < W; ++r) {
            for (int x = 0; x < D_V_STRIDE; ++x)
                scratch[r * D_V_STRIDE + x] = i + r < count && x < CLATTN_D_V
                                                  ? o[OUTPUT_AT(p->o, view->b, first + i + r, view) + x * p->o.column]
                                                  : 0.0f;
        }
        rows_to_panel(state.out + vector_of(i, D_V_STRIDE), scratch, D_V_STRIDE, 1.0f);
    }
}
#endif

/* `count` rows of O, each times its factor. */
CLATTN_INLINE void store_output(__global cpu_output *o, clattn_layout at, int batch, float *scratch,
                                softmax_state state, const vec *factor, int first, int count, const clattn_view *view)
{
    for (int i = 0; i < count; i += W) {
        panel_to_rows(scratch, state.out + vector_of(i, D_V_STRIDE), D_V_STRIDE, factor[i / W]);
        for (int r = 0; r < min(W, count - i); ++r) {
            store_row(o, CPU_OUTPUT_TYPE, OUTPUT_AT(at, batch, first + i + r, view), at.column,
                      scratch + r * D_V_STRIDE, CLATTN_D_V);
        }
    }
}

/* Where a block's rows are: at most `rows` of them. */
typedef struct {
    int split, b, h, first, rows;
} block_place;

/* Heads are outermost. A work-group has its block by its number, and PoCL hands them out in runs: the blocks of a head
 * alternate between the end and the beginning of the sequence, so that under a causal mask every run has its fair
 * share. */
CLATTN_INLINE block_place place_of(int group, int blocks, const clattn_forward_params *p)
{
    block_place place;
    const int all = blocks * p->heads * p->batch;
    place.split = CLATTN_SPLIT ? group / all : 0;
    group -= all * place.split;
    const int bh = group / blocks;
    const int turn = group - bh * blocks; /* not %: beside / it becomes a freeze, which Oclgrind lacks */
    place.first = ((turn & 1) ? turn / 2 : blocks - 1 - turn / 2) * CLATTN_B_R;
    place.rows = CLATTN_B_R;
    place.b = bh / p->heads;
    place.h = bh - place.b * p->heads;
    return place;
}

#if CLATTN_TICKETS
#define TICKET_SIZES CLATTN_TICKET_SIZES
#if TICKET_SIZES < 1 || TICKET_SIZES > 3 || CLATTN_B_R % (PANEL << (TICKET_SIZES - 1))
#error "CLATTN_TICKET_SIZES must be 1, 2 or 3, and blocks of the smallest size whole panels"
#endif
#define MANY_HEADS 8
#define HALVES     (TICKET_SIZES > 1)
#define QUARTERS   (TICKET_SIZES > 2)

/* How many heads have blocks of B_R rows, of half and of a quarter of that, and how many blocks each of these has. The
 * last to be handed out are small, so that cores end together. Few heads have blocks of half alone, so that these are
 * enough for the cores. */
typedef struct {
    int heads[3], blocks[3], all;
} ticket_blocks;

CLATTN_INLINE ticket_blocks blocks_by_tickets(const clattn_forward_params *p)
{
    ticket_blocks by;
    const int heads = p->heads * p->batch;
    by.heads[1] = heads >= MANY_HEADS ? heads / 4 * HALVES : heads * HALVES;
    by.heads[2] = heads >= MANY_HEADS ? heads / 8 * QUARTERS : 0;
    by.heads[0] = heads - by.heads[1] - by.heads[2];
    by.all = 0;
    for (int size = 0; size < TICKET_SIZES; ++size) {
        const int rows = CLATTN_B_R >> size;
        by.blocks[size] = (p->n_q + rows - 1) / rows;
        by.all += by.heads[size] * by.blocks[size];
    }
    return by;
}

/* Of a head the last blocks, which take longest under a causal mask, come first. */
CLATTN_INLINE block_place place_of_ticket(int ticket, const ticket_blocks *by, const clattn_forward_params *p)
{
    block_place place;
    int size = 0, before = 0;
    while (size < TICKET_SIZES - 1 && ticket >= by->heads[size] * by->blocks[size]) {
        ticket -= by->heads[size] * by->blocks[size];
        before += by->heads[size];
        ++size;
    }
    const int head = ticket / by->blocks[size], bh = before + head;
    place.split = 0;
    place.rows = CLATTN_B_R >> size;
    place.first = (by->blocks[size] - 1 - (ticket - head * by->blocks[size])) * place.rows;
    place.b = bh / p->heads;
    place.h = bh - place.b * p->heads;
    return place;
}
#endif

/* The statistics of `count` rows, then their O. */
CLATTN_INLINE void store_results(__global cpu_output *o, __global float *lse, __global float *m, __global float *l,
                                 const clattn_forward_params *p, block_place place, float *scratch,
                                 softmax_state state, int first, int count, float scale, const clattn_view *view)
{
#if CLATTN_SPLIT
    const int out_batch = clattn_split_batch(place.split, place.b, *p);
#else
    const int out_batch = place.b;
#endif
    vec factors[PANELS * RV];
    for (int i = 0; i < count; ++i) {
        float row_m = ((const float *)state.max)[i], row_l = ((const float *)state.sum)[i], factor = 1.0f;
        if (CPU_SLACK && row_m != -INFINITY)
            factor = exp2((((const float *)state.base)[i] - row_m) * scale);
        row_l *= factor;
        if (!SCALED && row_m != -INFINITY)
            row_m *= fabs(p->scale);
#if CLATTN_PARTIAL
        ((float *)factors)[i] = factor;
        m[OUTPUT_AT(p->m, out_batch, first + i, view)] = row_m;
        l[OUTPUT_AT(p->l, out_batch, first + i, view)] = row_l;
#else
        ((float *)factors)[i] = factor * clattn_finish_row(first + i, &row_m, &row_l, view);
        if (lse)
            lse[OUTPUT_AT(p->lse, out_batch, first + i, view)] = row_m + log(row_l);
        if (m)
            m[OUTPUT_AT(p->m, out_batch, first + i, view)] = row_m;
        if (l)
            l[OUTPUT_AT(p->l, out_batch, first + i, view)] = row_l;
#endif
    }
    store_output(o, p->o, out_batch, scratch, state, factors, first, count, view);
}

CLATTN_INLINE void forward_block(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
                                 __global cpu_output *o, __global float *lse, __global float *m, __global float *l,
                                 const clattn_forward_params p, block_place place CLATTN_SCORE_PARAMETERS)
{
    cpu_cell qt[PANELS * D_ITEMS * RV];
    vec ot[PANELS * D_V_STRIDE * RV];
    vec st[(CPU_SLACK ? 2 : 1) * GROUP * RV];
    vec row_max[PANELS * RV], row_base[PANELS * RV], row_sum[PANELS * RV];
    cpu_cell k_tile[CLATTN_B_C * D_ITEMS / W], v_tile[CLATTN_B_C * D_V_ITEMS / W];
    cpu_cell weights[TOGETHER * WEIGHT_ROOM(CLATTN_B_C)];
    cpu_item *const kt = (cpu_item *)k_tile, *const vt = (cpu_item *)v_tile;
    float *const scratch = (float *)v_tile; /* before and after the loop over keys */
    const softmax_state state = {row_max, row_base, row_sum, ot};

    const int kv_head = place.h / (p.heads / p.kv_heads);
    clattn_view view = clattn_open_forward(place.b, CLATTN_FIRST_HEAD(place.h, p), p CLATTN_SCORE_ARGUMENTS);
    const int first = place.first;
    if (first >= view.n_q)
        return;
    const int rows = min(place.rows, view.n_q - first);
    const int panels = (rows + PANEL - 1) / PANEL;
#if CLATTN_SPLIT
    clattn_take_split(place.split, p.by_splits, clattn_key_begin(first, &view) / CLATTN_B_C * CLATTN_B_C, CLATTN_B_C,
                      clattn_key_end(first + rows - 1, &view), &view);
#endif

    /* While scores stay Q K^T a negative scale turns Q, so that the maximum is the maximum. */
    const float sign = !SCALED && p.scale < 0.0f ? -1.0f : 1.0f;
    const float scale = SCALED ? M_LOG2E_F : fabs(p.scale_log2e);

    const clattn_source k_rows = clattn_open_k(k, p.k, CLATTN_D, 1, kv_head, &view);
    const clattn_source v_rows = clattn_open_v(v, p.v, CLATTN_D_V, 1, kv_head, &view);
    load_queries(qt, kt, q, p.q, first, rows, sign, &view);
    for (int i = 0; i < panels * RV; ++i) {
        row_max[i] = (vec)(-INFINITY);
        row_base[i] = (vec)(NO_BASE);
        row_sum[i] = (vec)(0.0f);
    }
    for (int i = 0; i < panels * D_V_STRIDE * RV; ++i)
        ot[i] = (vec)(0.0f);
#if CLATTN_STATE
    load_state(state, scratch, o, m, l, &p, first, rows, &view);
#endif

    const int end = clattn_key_end(first + rows - 1, &view);
    for (int j0 = clattn_key_begin(first, &view) / CLATTN_B_C * CLATTN_B_C; j0 < end; j0 += CLATTN_B_C) {
        key_tile tile = {kt, vt, j0, end, 0, {&k_rows, &v_rows, j0 + CLATTN_B_C, min(j0 + 2 * CLATTN_B_C, end)}};
        panel_work works[TOGETHER];
        for (int panel = 0, count = 0; panel < panels; ++panel) {
            works[count].weights = CPU_ITEMS == 1 ? (cpu_cell *)st : weights + count * WEIGHT_CELLS(CLATTN_B_C);
            count += begin_panel(works + count, panel, first, qt, &tile, &view);
            if (count == TOGETHER || (count && panel + 1 == panels)) {
                add_panels(&state, works, count, st, &tile, p.scale, scale, &view);
                count = 0;
            }
        }
    }

    store_results(o, lse, m, l, &p, place, scratch, state, first, rows, scale, &view);
}

__kernel CLATTN_ONE_ITEM void
clattn_forward(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
               __global cpu_output *o, __global float *lse, __global float *m, __global float *l,
               TICKETS_WORKSPACE const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    const int blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    cpu_open_unit();
#if CLATTN_TICKETS
    const int group = (int)get_group_id(0), groups = (int)get_num_groups(0);
    const ticket_blocks by = blocks_by_tickets(&p);
    volatile __global ulong *const counter = (volatile __global ulong *)(workspace + p.counters);
    const bool asks = has_tickets(by.all, groups), has_own = group < blocks * p.heads * p.batch;
    int ticket = asks ? take_ticket(counter, (ulong)p.call, by.all, groups) : has_own ? 0 : by.all;
    while (ticket < by.all) {
        const block_place place = asks ? place_of_ticket(ticket, &by, &p) : place_of(group, blocks, &p);
        forward_block(q, k, v, o, lse, m, l, p, place CLATTN_SCORE_ARGUMENTS);
        ticket = asks ? take_ticket(counter, (ulong)p.call, by.all, groups) : by.all;
    }
#else
    forward_block(q, k, v, o, lse, m, l, p, place_of((int)get_group_id(0), blocks, &p) CLATTN_SCORE_ARGUMENTS);
#endif
    cpu_close_unit();
}
