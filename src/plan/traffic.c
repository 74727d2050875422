/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The bytes of include/clattn/traffic.h. Numbers are doubles throughout: lengths may be any, and four digits are
 * plenty. */
#include "plan/traffic.h"
#include "plan/kernel_params.h"
#include "plan/operand.h"
#include "plan/problem.h"
#include "plan/types.h"
#include <math.h>

void cla_streams_plain(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    streams[0] =
        (struct clattn_plan_stream){.block = config->b_r, .tile = config->b_c, .reads = 1, .reads_v = 1, .resident = 1};
    streams[1] = streams[0];
    streams[1].block = config->b_c;
    streams[1].tile = config->b_r;
}

/* Beyond so many blocks, that many of them are looked at, evenly spread. */
enum { MOST_BLOCKS = 1 << 15 };

/* Which keys a row sees, and which rows a key, as cl/common/view.clh has it. */
struct view {
    double n_q, n_kv, shift, left, right; /* INFINITY: unlimited */
};

/* From the first to one past the last; `last` not above `first`: none. */
struct range {
    double first, last;
};

static struct view view_of(const struct clattn_problem *problem, const struct clattn_traffic_params *params)
{
    const bool window = problem->features & CLATTN_WINDOW, causal = problem->causal != CLATTN_FULL;
    struct view view = {
        .n_q = (double)params->shape.n_q, .n_kv = (double)params->shape.n_kv, .left = INFINITY, .right = INFINITY};
    view.shift = problem->causal == CLATTN_CAUSAL_TOP_LEFT ? 0.0 : view.n_kv - view.n_q;
    if (window && params->window_left >= 0)
        view.left = (double)params->window_left;
    if (window && params->window_right >= 0)
        view.right = (double)params->window_right;
    if (causal)
        view.right = 0.0;
    return view;
}

static struct range keys_seen_by(const struct view *view, struct range rows)
{
    return (struct range){fmax(0.0, rows.first + view->shift - view->left),
                          fmin(view->n_kv, rows.last + view->shift + view->right)};
}

static struct range rows_that_see(const struct view *view, struct range keys)
{
    return (struct range){fmax(0.0, keys.first - view->shift - view->right),
                          fmin(view->n_q, keys.last - view->shift + view->left)};
}

/* What passes by all blocks of one head. */
struct passing {
    double blocks;      /* that see anything */
    double rows, tiles; /* of the side that passes, over all blocks */
};

/* A tile is skipped where all blocks of a mask that it touches are hidden. */
static double tiles_kept(const struct clattn_problem *problem, const struct clattn_traffic_params *params,
                         const struct clattn_plan_stream *stream, bool keys_stay)
{
    if (!(problem->features & CLATTN_BLOCK_MASK) || params->block_share <= 0.0)
        return 1.0;
    const double rows = keys_stay ? stream->tile : stream->block, keys = keys_stay ? stream->block : stream->tile;
    const double touched = ceil(rows / problem->block_q) * ceil(keys / problem->block_kv);
    return 1.0 - pow(1.0 - fmin(params->block_share, 1.0), touched);
}

static struct passing pass(const struct clattn_problem *problem, const struct clattn_traffic_params *params,
                           const struct clattn_plan_stream *stream, bool keys_stay)
{
    const struct view view = view_of(problem, params);
    const double stays = keys_stay ? view.n_kv : view.n_q, passes = keys_stay ? view.n_q : view.n_kv;
    const double blocks = ceil(stays / stream->block), looked_at = fmin(blocks, MOST_BLOCKS);
    struct passing sum = {0};
    for (double i = 0.0; i < looked_at; i++) {
        const double block = floor(i * (blocks / looked_at)), first = block * stream->block;
        const struct range side = {first, fmin(first + stream->block, stays)};
        const struct range seen = keys_stay ? rows_that_see(&view, side) : keys_seen_by(&view, side);
        if (seen.last <= seen.first)
            continue;
        const double start = floor(seen.first / stream->tile) * stream->tile;
        const double tiles = ceil((seen.last - start) / stream->tile);
        sum.blocks++;
        sum.tiles += tiles;
        sum.rows += fmin(passes, start + tiles * stream->tile) - start;
    }
    const double each = looked_at > 0.0 ? blocks / looked_at : 0.0,
                 kept = tiles_kept(problem, params, stream, keys_stay);
    return (struct passing){sum.blocks * each, sum.rows * each * kept, sum.tiles * each * kept};
}

/* Rows of the side that stays, as often as they are read: once, or with each tile. */
static double stays(const struct passing *passing, const struct clattn_plan_stream *stream, double rows)
{
    return stream->resident ? rows : passing->tiles * stream->block;
}

/* Sizes of a call, all heads together. */
struct sizes {
    double rows, keys;      /* of Q and O, of K and V */
    double heads;           /* of Q, through the batch */
    double q, k, v, o, d_o; /* bytes of an element */
    double d, d_v;
    double row, key; /* bytes of a row of Q and dO, of K and V */
};

static struct sizes sizes_of(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    const double heads = (double)shape->batch * (double)shape->heads;
    const double q = cla_element_bytes(problem, CLA_Q), k = cla_element_bytes(problem, CLA_K),
                 v = cla_element_bytes(problem, CLA_V);
    const double d = problem->d, d_v = problem->d_v, d_o = cla_element_bytes(problem, CLA_D_O);
    return (struct sizes){.rows = heads * (double)shape->n_q,
                          .keys = (double)shape->batch * (double)shape->kv_heads * (double)shape->n_kv,
                          .heads = heads,
                          .q = q,
                          .k = k,
                          .v = v,
                          .o = cla_element_bytes(problem, CLA_O),
                          .d_o = d_o,
                          .d = d,
                          .d_v = d_v,
                          .row = q * d + d_o * d_v,
                          .key = k * d + v * d_v};
}

enum { FLOAT = 4 };

/* Forward, at the plan's splits: Q and K of d, V and O of d_v columns, LSE. Accumulate: O, m and l are fp32, read and
 * written. */
static void forward(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                    const struct clattn_traffic_params *params, struct clattn_traffic *traffic)
{
    const struct clattn_plan_stream *stream = &info->streams[0];
    const struct passing keys = pass(problem, params, stream, false);
    const struct sizes s = sizes_of(problem, &params->shape);
    const double results =
        problem->pass == CLATTN_ACCUMULATE ? s.rows * 2.0 * FLOAT * (s.d_v + 2.0) : s.rows * (s.o * s.d_v + FLOAT);
    /* Of splits: Q for each, where it is read once, and the states, written and read. */
    const double splits = info->splits > 1 ? info->splits : 1.0;
    const double states = splits > 1.0 ? splits * s.rows * 2.0 * FLOAT * (s.d_v + 2.0) : 0.0;
    traffic->keys = s.heads * keys.rows * (stream->reads * s.k * s.d + stream->reads_v * s.v * s.d_v);
    traffic->flash =
        traffic->keys + results + states +
        (stream->resident ? splits : 1.0) * s.heads * stays(&keys, stream, (double)params->shape.n_q) * s.q * s.d;
    traffic->least = results + s.rows * s.q * s.d + s.keys * s.key;
}

/* Statistics of rows, delta among them, from O and dO, m and l; dQ while K and V pass; dK and dV while Q and dO pass,
 * with the statistics. Or, where dQ is summed up meanwhile: for each tile of rows that passes fp32 sums, read (but by
 * the first to come) and written, and read at last. */
static void backward(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                     const struct clattn_traffic_params *params, struct clattn_traffic *traffic)
{
    const struct clattn_plan_stream *dq = &info->streams[0], *dk_dv = &info->streams[1];
    const struct passing keys = pass(problem, params, dq, false), rows = pass(problem, params, dk_dv, true);
    const struct sizes s = sizes_of(problem, &params->shape);
    const double statistics = (double)CLA_STATISTICS * FLOAT, vectors = 2.0 * FLOAT;
    /* An element of dQ; with keys in pieces it is an fp32 sum, read and written. */
    const double gradient = cla_problem_accumulates(problem) ? 2.0 * FLOAT : s.q;
    const double delta = s.rows * ((s.d_o + s.o) * s.d_v + vectors + statistics);
    const double added = s.heads * rows.rows * s.d * FLOAT;
    const double to_dq = info->sums ? 2.0 * added + s.rows * s.q * s.d
                                    : s.heads * stays(&keys, dq, (double)params->shape.n_q) * s.row +
                                          s.rows * (statistics + gradient * s.d);
    const double passed =
        s.heads * rows.rows * (dk_dv->reads * s.q * s.d + dk_dv->reads_v * s.d_o * s.d_v + statistics);
    const double kept = dk_dv->resident == 1   ? s.keys
                        : dk_dv->resident == 2 ? s.heads * (double)params->shape.n_kv
                                               : s.heads * rows.tiles * dk_dv->block;
    traffic->keys = info->sums ? 0.0 : s.heads * keys.rows * (dq->reads * s.k * s.d + dq->reads_v * s.v * s.d_v);
    const double fixed = kept * s.key;
    traffic->flash = delta + to_dq + traffic->keys + passed + fixed + s.keys * s.key;
    traffic->keys += fixed;
    traffic->least = s.rows * s.row + s.keys * 2.0 * s.key + s.rows * (s.o * s.d_v + gradient * s.d + vectors);
}

/* fp32 matrices of n_q x n_kv, as often as they are written or read. Forward: S written and read, P written and read.
 * Backward, with P at hand (appendix B.4): P for dV, dP written; both read and dS written; dS for dQ and for dK. 16-bit
 * tensors are read once more, and written and read in fp32. */
static double standard(const struct clattn_problem *problem, const struct clattn_traffic_params *params)
{
    const struct sizes s = sizes_of(problem, &params->shape);
    const bool is_backward = cla_problem_is_backward(problem);
    const double both = s.d + s.d_v, matrices = is_backward ? 7.0 : 4.0;
    const double tensors = is_backward ? 2.0 * (s.rows + s.keys) * both : (s.rows + s.keys) * both;
    const double converted = s.k < FLOAT ? s.k + 2.0 * FLOAT : FLOAT;
    return matrices * FLOAT * s.rows * (double)params->shape.n_kv + tensors * converted;
}

void cla_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                 const struct clattn_traffic_params *params, struct clattn_traffic *traffic)
{
    const struct sizes s = sizes_of(problem, &params->shape);
    const double d = fmax(s.d, s.d_v);
    *traffic = (struct clattn_traffic){0};
    if (cla_problem_is_backward(problem))
        backward(problem, info, params, traffic);
    else
        forward(problem, info, params, traffic);
    traffic->standard = standard(problem, params);
    traffic->paper =
        s.rows * (double)params->shape.n_kv * d * d / (double)(info->m_elements ? info->m_elements : 1) * s.k;
}
