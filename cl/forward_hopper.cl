/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention on Hopper's tensor cores: FlashAttention-3's division of labour over the operations of
 * unit/nvidia_wgmma.clh, with the same treatment of scores as forward_matrix.cl (common/matrix_scores.clh,
 * matrix_weights.clh).
 *
 * The first warp group of a work-group is the producer: it loads Q once and K and V tile by tile into local memory,
 * into whichever of CLATTN_STAGES stages is free, with CLATTN_TMA by TMA where it can (source/hopper_tma.clh). Where
 * TMA loads all of them, which is known before the first, one warp of the producer does all that, and leaves its
 * scheduler's time to the consumers. The other warp groups, one to four, are consumers: each owns 64 query rows, with
 * their outputs and softmax state in registers. For each tile a consumer forms S = Q K^T, turns S into weights P,
 * rounds them to the storage type, and adds P V. The product Q K^T of the next tile and P V of this one run together.
 *
 * With CLATTN_STALE_MAX weights are formed by the bounds of the tile before, and only where these do not hold the
 * largest scores are looked for (common/matrix_tile_weights.clh). Without it, that begins while P V still runs. With
 * CLATTN_PING_PONG consumers ping-pong, those of all pipelines in one round: one issues its products while the others
 * work on their scores.
 *
 * With CLATTN_PIPELINES there are so many times all that. A pipeline has consumers, blocks of rows, tiles and a share
 * of the producer's warps of its own. Pipelines share nothing but the round of CLATTN_PING_PONG. So blocks of rows may
 * be no larger than those of a mask, and a compute unit still have four consumers.
 *
 * Work-groups are persistent: they go from one block of rows to the next without a pause. The producer says which that
 * is beside its Q (hopper_send_rows). The last values of one block are formed together with the first scores of the
 * next, whose Q has a stage of its own; O leaves by way of the old Q's stage. With one stage for Q (CLATTN_Q_STAGES 1)
 * each block begins anew.
 *
 * With ALiBi and CLATTN_ALIBI_LINEAR, one step more of that product adds the part of the penalties that goes evenly
 * from key to key (score/fast/alibi_linear_hopper.clh).
 *
 * A row that an infinity or NaN of a pair that weighs nothing has spoilt (0 * NaN) is computed again at the end
 * (common/matrix_repair.clh).
 *
 * With CLATTN_SPLIT they go from one split of a block of rows to the next, and o, m and l are the workspace's
 * (common/splits.clh).
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, any number of groups.
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh, matrix_scores.clh and nvidia_mma.clh)
 *   CLATTN_B_R               64 * consumers of a pipeline
 *   CLATTN_PIPELINES         1; 2 or 4, of fewer consumers each
 *   CLATTN_ROW_TILES, CLATTN_KEYS  1, CLATTN_B_C: a warp has 16 rows, and the scores of a tile
 *   CLATTN_KEY_PIECES, CLATTN_VALUE_PIECES   ceil(B_C / 16), ceil(D_V / 16), as literal numbers from 1 to 16
 *   CLATTN_STAGES, CLATTN_Q_STAGES   stages of K and V, 2 or more; of Q, 1 or 2
 *   CLATTN_PING_PONG         1: consumers, of all pipelines, ping-pong, and there are more than one; else 0
 *   CLATTN_PRODUCER_REGISTERS, CLATTN_CONSUMER_REGISTERS   what items of each have; 0: as compiled
 *   CLATTN_LOADERS           128 / PIPELINES
 *   CLATTN_TMA               1: TMA loads tiles where it can, and each work-group has device memory for its
 *                            descriptors; 0: it loads none
 *   CLATTN_STALE_MAX         1: bounds of the tile before are tried before a tile's largest scores are looked for; 0:
 *                            they always are
 *   CLATTN_KEEPS_PHILOX       see score/fast/dropout.clh
 *   CLATTN_TOGETHER_BYTES, CLATTN_TOGETHER_ROUNDS   up to so much of K and V, and so many blocks of rows for each
 *                            work-group, causal blocks of all heads go together (hopper_go_together)
 *   CLATTN_ALIBI_LINEAR              1: products add ALiBi's penalties, and there is a panel more for them; 0: they do
 *   not
 *   CLATTN_WORK_GROUP_SIZE   128 * (consumers of all pipelines + 1)
 *   CLATTN_LOCAL_BYTES       what the planner counts of local memory, which the kernel compares with its own
 *
 * Which blocks of rows a work-group has is in common/hopper_forward_walk.clh, the producer's side in
 * hopper_forward_work.clh, and what becomes of a block's results in hopper_forward_results.clh.
 */
#include "unit/nvidia_wgmma.clh"
#include "common/types.clh"
#include "common/view.clh"
#include "common/matrix_tiles.clh"
#include "common/hopper_tiles.clh"
#include "source/hopper_tma.clh"
#include "score/fast/alibi_linear.clh"
#include "score/fast/dropout.clh"
#include "score/fast/alibi_linear_hopper.clh"
#include "score/fast/softcap_polynomial.clh"
#include "common/matrix_modify.clh"
#include "common/matrix_weights.clh"
#include "common/matrix_rows.clh"
#include "common/matrix_repair.clh"
#include "common/hopper_forward_walk.clh"
#include "common/hopper_forward_work.clh"
#include "common/hopper_forward_results.clh"
#include "common/matrix_tile_weights.clh"

/* S = Q K^T begins; with ALiBi's linear part, S = Q K^T + linear. */
#if CLATTN_ALIBI_LINEAR
#define HOPPER_LINEAR_PARAMETERS , ulong linear_left, ulong linear_right
#define HOPPER_LINEAR_ARGUMENTS(work, q_stage)                                                                         \
    , hopper_linear_left(me->memory + LINEAR_TILE, (q_stage).index),                                                   \
        hopper_linear_right(me->memory + LINEAR_TILE,                                                                  \
                            matrix_linear_of((work)->place.row + me->consumer * 64, (work)->tile, p, &(work)->view))
#else
#define HOPPER_LINEAR_PARAMETERS
#define HOPPER_LINEAR_ARGUMENTS(work, q_stage)
#endif
CLATTN_INLINE void hopper_scores(unit_accumulator s[1][KT], unit_address my_q,
                                 unit_address k_tile HOPPER_LINEAR_PARAMETERS)
{
    const ulong left = hopper_rows(my_q), right = hopper_rows(k_tile);
    HOPPER_FIRST_PRODUCT(CLATTN_KEY_PIECES, s[0], left, right);
    UNROLL for (int x = 1; x < DT; ++x)
    {
        const ulong more = HOPPER_STEPS(x % 4 * HOPPER_PIECE_BYTES);
        HOPPER_PRODUCT(CLATTN_KEY_PIECES, s[0], left + HOPPER_STEPS(x / 4 * Q_PANEL) + more,
                       right + HOPPER_STEPS(x / 4 * KV_PANEL) + more);
    }
#if CLATTN_ALIBI_LINEAR
    HOPPER_PRODUCT(CLATTN_KEY_PIECES, s[0], linear_left, linear_right);
#endif
    hopper_commit();
}

/* O += P V begins. */
CLATTN_INLINE void hopper_values(unit_accumulator out[1][VT], const unit_operand weights[KT], unit_address v_tile)
{
    const ulong right = hopper_columns(v_tile, KV_PANEL);
    UNROLL for (int c = 0; c < KT; ++c)
        HOPPER_PRODUCT_AS_IT_LIES(CLATTN_VALUE_PIECES, out[0], weights[c], right + HOPPER_STEPS(c * HOPPER_PIECE_ROWS));
    hopper_commit();
}

/* The scores of a tile as those of the warp's rows, from `row` on. far: see matrix_modify. */
CLATTN_INLINE matrix_form hopper_modify(unit_accumulator s[1][KT], const hopper_work *work, int row_in_block, int lane,
                                        clattn_forward_params p, const bool far)
{
    const int row = work->place.row + row_in_block;
#if HOPPER_SENDS_TILES
    const int kind = work->some >> row_in_block / UNIT_PIECE & 1 ? CLATTN_TILE_SOME : CLATTN_TILE_ALL;
#else
    int kind = clattn_tile(row, row + 15, work->tile, work->tile + CLATTN_B_C - 1, &work->view);
    kind = kind == CLATTN_TILE_ALL ? kind : CLATTN_TILE_SOME; /* other warps may see what this one could skip */
#endif
    return matrix_modify(s, row, work->tile, lane, p, kind, far, &work->view);
}

#if MATRIX_CAPS_LATE
/* A block's Q, once it is there (score/fast/softcap_polynomial.clh): each warp's rows by that warp. */
CLATTN_INLINE void hopper_scale_q(unit_address q_tile, int consumer, int lid, hopper_work *work)
{
    const unit_address mine = q_tile + (consumer * 64 + lid % HOPPER_ITEMS / UNIT_LANES * UNIT_PIECE) * 128;
    work->view.q_scaled = matrix_scale_q(mine, 128, Q_PANEL, lid % UNIT_LANES, &work->view);
    hopper_publish();
    HOPPER_SYNC(HOPPER_MEETING(consumer), HOPPER_ITEMS);
}
#else
#define hopper_scale_q(q_tile, consumer, lid, work) (void)0
#endif

/* That a warp's number is the same for its lanes saves three consumers registers, and four that also tell hidden pairs
 * apart; plain kernels are slower for it, by 1 %. */
#if (CONSUMERS == 3 || (CONSUMERS == 4 && CLATTN_CAUSAL)) && (CLATTN_DROPOUT || CLATTN_SOFTCAP)
#define HOPPER_WARP(number) hopper_uniform(number)
#else
#define HOPPER_WARP(number) (number)
#endif

#if HOPPER_SENDS_TILES
#define HOPPER_TAKE_TILE(in, work) hopper_take_tile(me->memory + K_MESSAGE((in).index), work)
#else
#define HOPPER_TAKE_TILE(in, work) (void)0
#endif

#if CLATTN_DROPOUT
#define HOPPER_DRAW(row, key, others, view) matrix_draw_tile(&has->drawing, row, key, others, view)
#else
#define HOPPER_DRAW(row, key, others, view) (void)(row)
#endif

/* Who a consumer is: where its pipeline's memory and its rows of Q lie, its number in the pipeline and in the round of
 * all pipelines, and its first row of a block. */
typedef struct {
    unit_address memory, my_part;
    int lid, lane, consumer, in_round, row_in_block;
} hopper_consumer;

/* What it has in registers, from tile to tile. */
typedef struct {
    unit_accumulator s[1][KT], out[1][VT];
    unit_operand weights[1][KT];
    matrix_drawing drawing;
    matrix_form form;
    matrix_softmax rows;
    float shrink[1][UNIT_SLOTS];
    int which_max; /* with CLATTN_STALE_MAX */
    uint spoilt;   /* see hopper_repair */
} hopper_held;

/* The scores and weights of a block's first tile, alone. From then on the next tile's scores come together with this
 * one's values. */
CLATTN_INLINE void hopper_first_tile(const hopper_consumer *me, hopper_held *has, hopper_stage kv_stage,
                                     hopper_stage q_stage, hopper_work *work, clattn_forward_params p)
{
    matrix_begin(&has->rows, has->out);
    hopper_await(me->memory + K_FULL(kv_stage.index), kv_stage.phase);
    hopper_publish_found();
    HOPPER_TAKE_TILE(kv_stage, work);
    HOPPER_FENCE(CLATTN_VALUE_PIECES, has->out[0]);
    hopper_scores(has->s, me->my_part + Q_TILE(q_stage.index),
                  me->memory + K_TILE(kv_stage.index) HOPPER_LINEAR_ARGUMENTS(work, q_stage));
    HOPPER_WAIT(0, CLATTN_KEY_PIECES, has->s[0]);
    hopper_release(me->memory + K_EMPTY(kv_stage.index), me->lane);
    has->form = hopper_modify(has->s, work, me->row_in_block, me->lane, p, false);
    HOPPER_DRAW(work->place.row + me->row_in_block, work->tile, true, &work->view);
    matrix_weigh_bounded(me->lane, has->weights, has->s, &has->form, &has->drawing, p, &work->view, &has->rows,
                         has->shrink);
#if CLATTN_STALE_MAX
    has->which_max = matrix_which_max(me->lane, &has->rows, p, &work->view);
#endif
}

/* The products of the next tile's scores and of this one's values, those of the scores to their end. */
CLATTN_INLINE void hopper_next_products(const hopper_consumer *me, hopper_held *has, hopper_stage kv_stage,
                                        hopper_stage next_kv, hopper_stage next_q, hopper_work *next, bool last,
                                        clattn_forward_params p)
{
    hopper_await(me->memory + K_FULL(next_kv.index), next_kv.phase);
    hopper_publish_found();
    HOPPER_TAKE_TILE(next_kv, next);
    if (CLATTN_PING_PONG)
        HOPPER_SYNC(HOPPER_PING_PONG(me->in_round), 2 * HOPPER_ITEMS);
    HOPPER_FENCE(CLATTN_VALUE_PIECES, has->out[0]);
    hopper_scores(has->s, me->my_part + Q_TILE(next_q.index),
                  me->memory + K_TILE(next_kv.index) HOPPER_LINEAR_ARGUMENTS(next, next_q));
    hopper_await(me->memory + V_FULL(kv_stage.index), kv_stage.phase);
    hopper_publish_found();
    HOPPER_FENCE(CLATTN_VALUE_PIECES, has->out[0]);
    hopper_values(has->out, has->weights[0], me->memory + V_TILE(kv_stage.index));
    if (CLATTN_PING_PONG)
        HOPPER_SYNC_ARRIVE(HOPPER_PING_PONG(HOPPER_AFTER(me->in_round)), 2 * HOPPER_ITEMS);
    const int row = next->place.row + me->row_in_block;
    HOPPER_DRAW(row, next->tile, last, &next->view); /* while products are under way */
    HOPPER_WAIT(1, CLATTN_KEY_PIECES, has->s[0]);
    hopper_release(me->memory + K_EMPTY(next_kv.index), me->lane);
}

/* This tile's values have joined the outputs, and V's stage is free: that must not wait for the exponentials, for the
 * producer waits for it. */
CLATTN_INLINE void hopper_values_done(const hopper_consumer *me, hopper_held *has, hopper_stage kv_stage)
{
    HOPPER_WAIT_AFTER(0, CLATTN_VALUE_PIECES, has->out[0], CLATTN_KEY_PIECES, has->s[0]);
    hopper_release(me->memory + V_EMPTY(kv_stage.index), me->lane);
}

/* The next tile's weights, and what becomes of the outputs: they leave where the tile was its block's `last`, and are
 * scaled where bounds have moved. */
CLATTN_INLINE void hopper_next_weights(const hopper_consumer *me, hopper_held *has, hopper_outputs all,
                                       hopper_stage kv_stage, hopper_stage q_stage, const hopper_work *work,
                                       const hopper_work *next, bool last, clattn_forward_params p)
{
#if CLATTN_STALE_MAX
    hopper_values_done(me, has, kv_stage);
    if (!MATRIX_CAPS_LATE)
        has->form = hopper_modify(has->s, next, me->row_in_block, me->lane, p, false);
    if (has->which_max && !last) {
        if (MATRIX_CAPS_LATE)
            has->form = hopper_modify(has->s, next, me->row_in_block, me->lane, p, true);
        if (matrix_weigh_by_stale_max(me->lane, has->weights, has->s, &has->form, has->which_max, &has->drawing,
                                      &next->view, &has->rows))
            return;
    }
    UNIT_SELDOM;
    matrix_softmax done = has->rows;
    if (last)
        matrix_begin_rows(&has->rows);
    if (MATRIX_CAPS_LATE)
        has->form = hopper_modify(has->s, next, me->row_in_block, me->lane, p, false);
    const bool moved = matrix_weigh_bounded(me->lane, has->weights, has->s, &has->form, &has->drawing, p, &next->view,
                                            &has->rows, has->shrink);
    has->which_max = matrix_which_max(me->lane, &has->rows, p, &next->view);
#else
    matrix_softmax done = has->rows;
    matrix_bounds bounds;
    if (last)
        matrix_begin_rows(&has->rows);
    bounds.form = hopper_modify(has->s, next, me->row_in_block, me->lane, p, false);
    const bool moved =
        matrix_bound(me->lane, has->s, &bounds.form, bounds.offset, &has->rows, has->shrink, &next->view);
    hopper_values_done(me, has, kv_stage);
    matrix_weigh_found(me->lane, has->weights, has->s, &bounds, &has->drawing, p, &next->view, &has->rows);
#endif
    hopper_settle(last, moved, has->shrink, all, &has->spoilt, has->out, &done, me->memory, q_stage, me->consumer,
                  me->lid, work, p);
}

/* The values of a block's last tile, where no other block's scores come with them; and its outputs. */
CLATTN_INLINE void hopper_last_values(const hopper_consumer *me, hopper_held *has, hopper_outputs all,
                                      hopper_stage kv_stage, hopper_stage q_stage, const hopper_work *work,
                                      clattn_forward_params p)
{
    hopper_await(me->memory + V_FULL(kv_stage.index), kv_stage.phase);
    hopper_publish_found();
    HOPPER_FENCE(CLATTN_VALUE_PIECES, has->out[0]);
    hopper_values(has->out, has->weights[0], me->memory + V_TILE(kv_stage.index));
    HOPPER_WAIT(0, CLATTN_VALUE_PIECES, has->out[0]);
    hopper_release(me->memory + V_EMPTY(kv_stage.index), me->lane);
    hopper_write(all, &has->spoilt, has->out, &has->rows, me->memory + Q_TILE(q_stage.index), me->consumer, me->lid,
                 work, p);
    hopper_release(me->memory + Q_EMPTY(q_stage.index), me->lane);
}

CLATTN_INLINE void hopper_consume(hopper_inputs in, hopper_outputs all, unit_address memory, int lid,
                                  clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    const int lane = lid % UNIT_LANES, warp = HOPPER_WARP(lid / UNIT_LANES), first = HOPPER_OF_PIPELINE(lid);
    const int consumer = warp / (HOPPER_ITEMS / UNIT_LANES) - 1 - first, pipeline = first / CONSUMERS;
    const int row_in_block = (warp - (first + 1) * (HOPPER_ITEMS / UNIT_LANES)) * UNIT_PIECE;
    memory += pipeline * PIPELINE_PITCH;
    const hopper_consumer me = {memory,   memory + consumer * (64 * 128), lid, lane, consumer, first + consumer,
                                row_in_block};
    const matrix_drawing drawing = MATRIX_DRAWING(0, 0, lane);
    hopper_stage kv_stage = hopper_first_stage(), q_stage = hopper_first_stage();
    hopper_work work;
    hopper_held has;
    has.drawing = drawing;
    has.spoilt = 0;

    if (CLATTN_PING_PONG && me.in_round == ALL_CONSUMERS - 1)
        HOPPER_SYNC_ARRIVE(HOPPER_PING_PONG(0), 2 * HOPPER_ITEMS);

    int kind = hopper_await_message(memory, q_stage, &work, lane, p CLATTN_SCORE_ARGUMENTS);
#pragma unroll 1
    while (kind != HOPPER_MESSAGE_NONE) {
        if (kind == HOPPER_MESSAGE_EMPTY) {
            hopper_write_empty(all, row_in_block, lane, &work, p);
            hopper_release(memory + Q_EMPTY(q_stage.index), lane);
            q_stage = hopper_next_stage(q_stage, CLATTN_Q_STAGES);
            kind = hopper_await_message(memory, q_stage, &work, lane, p CLATTN_SCORE_ARGUMENTS);
            continue;
        }
        hopper_scale_q(memory + Q_TILE(q_stage.index), consumer, lid, &work);
        hopper_first_tile(&me, &has, kv_stage, q_stage, &work, p);

        hopper_work next;
#pragma unroll 1
        for (;;) {
            hopper_stage next_q = q_stage;
            next = work;
            const bool last = !hopper_leave_tile(&next);
            if (last) {
                if (CLATTN_Q_STAGES == 1)
                    break;
                next_q = hopper_next_stage(q_stage, CLATTN_Q_STAGES);
                kind = hopper_await_message(memory, next_q, &next, lane, p CLATTN_SCORE_ARGUMENTS);
                if (kind != HOPPER_MESSAGE_ROWS)
                    break;
                hopper_scale_q(memory + Q_TILE(next_q.index), consumer, lid, &next);
            }
            const hopper_stage next_kv = hopper_next_stage(kv_stage, CLATTN_STAGES);
            hopper_next_products(&me, &has, kv_stage, next_kv, next_q, &next, last, p);
            hopper_next_weights(&me, &has, all, kv_stage, q_stage, &work, &next, last, p);
            work = next;
            kv_stage = next_kv;
            q_stage = next_q;
        }
        hopper_last_values(&me, &has, all, kv_stage, q_stage, &work, p);
        kv_stage = hopper_next_stage(kv_stage, CLATTN_STAGES);
        q_stage = hopper_next_stage(q_stage, CLATTN_Q_STAGES);
        work = next;
        if (CLATTN_Q_STAGES == 1) {
            kind = hopper_await_message(memory, q_stage, &work, lane, p CLATTN_SCORE_ARGUMENTS);
        }
    }
    if (CLATTN_PING_PONG && CLATTN_PIPELINES > 1)
        hopper_leave_ping_pong(memory + (int)(HOPPER_ENDED - pipeline * PIPELINE_PITCH), me.in_round, lid);
#if MATRIX_MAY_REPAIR
    hopper_repair(in, all, has.spoilt, row_in_block, lane, pipeline, p CLATTN_SCORE_ARGUMENTS);
#endif
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_forward(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
               __global MATRIX_OUTPUT *o, __global float *lse, __global float *m, __global float *l,
#if CLATTN_TMA
               __global uint *workspace,
#endif
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint array[HOPPER_LOCAL_BYTES / 4] __attribute__((aligned(1024)));
    const unit_address all_memory = unit_address_of(array);
    const int lid = (int)get_local_id(0);
    /* Of the producer's items: for which pipeline they load tiles, and which of those who do they are. */
    const int pipeline = CLATTN_PIPELINES > 1 ? lid / CLATTN_LOADERS : 0,
              loader = CLATTN_PIPELINES > 1 ? lid % CLATTN_LOADERS : lid;
    const hopper_inputs in = {q, k, v};
    const hopper_outputs all = {o, lse, m, l};
#if CLATTN_TMA
    __global uint *const descriptors =
        workspace + p.descriptors + HOPPER_GROUP(pipeline) * ((HOPPER_V + 1) * HOPPER_DESCRIPTOR_WORDS);
#else
    __global uint *const descriptors = 0;
#endif
    hopper_loads loads;
    if (lid < HOPPER_ITEMS)
        loads = hopper_find_loads(in, descriptors, loader, p CLATTN_SCORE_ARGUMENTS);
    if (CLATTN_PIPELINES > 1 && lid == 0)
        unit_put4(all_memory + HOPPER_ENDED, 0);
    if (lid < HOPPER_ITEMS && loader == 0) {
        const unit_address memory = all_memory + pipeline * PIPELINE_PITCH;
        const int arrivals = loads.alone ? 1 : CLATTN_LOADERS;
        for (int stage = 0; stage < CLATTN_Q_STAGES; ++stage) {
            hopper_barrier_create(memory + Q_FULL(stage), arrivals + 1); /* Q, and the message */
            hopper_barrier_create(memory + Q_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < CLATTN_STAGES; ++stage) {
            hopper_barrier_create(memory + K_FULL(stage), arrivals);
            hopper_barrier_create(memory + K_EMPTY(stage), 4 * CONSUMERS);
            hopper_barrier_create(memory + V_FULL(stage), arrivals);
            hopper_barrier_create(memory + V_EMPTY(stage), 4 * CONSUMERS);
        }
        hopper_publish();
    }
#if CLATTN_ALIBI_LINEAR
    if (lid >= HOPPER_ITEMS)
        hopper_fill_linear(all_memory + LINEAR_TILE, lid, HOPPER_ITEMS);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < HOPPER_ITEMS) {
#if CLATTN_PRODUCER_REGISTERS
        HOPPER_GIVE_REGISTERS(CLATTN_PRODUCER_REGISTERS);
#endif
        hopper_produce(in, loads, all_memory + pipeline * PIPELINE_PITCH, loader, pipeline, p CLATTN_SCORE_ARGUMENTS);
    } else {
#if CLATTN_CONSUMER_REGISTERS
        HOPPER_TAKE_REGISTERS(CLATTN_CONSUMER_REGISTERS);
#endif
        hopper_consume(in, all, all_memory, lid, p CLATTN_SCORE_ARGUMENTS);
    }
}
