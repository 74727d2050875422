/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Random problems for the models of kernels for Hopper: lengths, windows, masks, packed sequences; which pairs are
 * visible; and what the kernel's text takes for its arguments. Above it: model_params, the kernel's parameters,
 * MOST_BATCH, MOST_HEADS and MOST_LENGTH. */
#ifndef MODEL_HOPPER_PROBLEM_H
#define MODEL_HOPPER_PROBLEM_H

#include <stdio.h>

static struct {
    model_params p;
    clattn_score_params score;
    uchar mask[CLATTN_MASK ? MOST_BATCH * MOST_HEADS * MOST_LENGTH * MOST_LENGTH : 1];
    uchar block_mask[MOST_BATCH * MOST_HEADS * (MOST_LENGTH / 16 + 1) * (MOST_LENGTH / 16 + 1)];
    int key_lengths[MOST_BATCH], cu_q[MOST_BATCH + 1], cu_kv[MOST_BATCH + 1];
} problem;

/* What a problem's rows and pairs were found to lack. */
static char wrong[256];
#define WRONG(...) ((void)(wrong[0] || snprintf(wrong, sizeof wrong, __VA_ARGS__)))

static const char *said(void)
{
    return wrong[0] ? wrong : machine_said();
}

static uint64_t chance;
static int any_below(int below)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (int)((chance >> 33) % (uint64_t)below);
}

/* Pair by pair, and not by the kernel's text. */
static int rows_of(int b)
{
    return CLATTN_VARLEN ? problem.cu_q[b + 1] - problem.cu_q[b] : problem.p.n_q;
}
static int keys_of(int b)
{
    const int all = CLATTN_VARLEN ? problem.cu_kv[b + 1] - problem.cu_kv[b] : problem.p.n_kv;
    return CLATTN_KEY_LENGTHS && problem.key_lengths[b] < all ? problem.key_lengths[b] : all;
}
static bool is_visible(int b, int h, int i, int j)
{
    const int rows = rows_of(b), keys = keys_of(b), shift = CLATTN_CAUSAL == 2 ? 0 : keys - rows;
    bool visible = i < rows && j < keys;
#if CLATTN_CAUSAL
    visible = visible && j <= i + shift;
#endif
#if CLATTN_WINDOW
    visible = visible && j >= i + shift - problem.score.window_left && j <= i + shift + problem.score.window_right;
#endif
#if CLATTN_MASK
    visible = visible && problem.mask[clattn_at(problem.score.mask, b, h, i) + j];
#endif
#if CLATTN_BLOCK_MASK
    visible = visible &&
              problem.block_mask[clattn_at(problem.score.block_mask, b, h, i / CLATTN_BLOCK_Q) + j / CLATTN_BLOCK_KV];
#endif
    (void)shift, (void)h;
    return visible;
}

static int some_length(int most)
{
    static const int favoured[] = {1, 16, 63, 64, 65, 127, 128, 129, 200, 217, 256};
    const int n = any_below(3) ? 1 + any_below(most) : favoured[any_below(sizeof favoured / sizeof *favoured)];
    return n < most ? n : most;
}

static void make_lengths(void)
{
    model_params *p = &problem.p;
    p->batch = 1 + any_below(MOST_BATCH);
    p->kv_heads = 1 + any_below(2);
    p->heads = p->kv_heads * (1 + any_below(MOST_HEADS / p->kv_heads));
    problem.cu_q[0] = problem.cu_kv[0] = 0;
    const int most = any_below(4) ? 300 : MOST_LENGTH;
    p->n_q = some_length(most);
    p->n_kv = some_length(any_below(2) ? most : MOST_LENGTH);
    for (int b = 0; b < p->batch; b++) {
        problem.key_lengths[b] = any_below(3) ? any_below(p->n_kv + 1) : p->n_kv;
        problem.cu_q[b + 1] = problem.cu_q[b] + (any_below(6) ? 1 + any_below(p->n_q) : 0);
        problem.cu_kv[b + 1] = problem.cu_kv[b] + (any_below(6) ? 1 + any_below(p->n_kv) : 0);
    }
    problem.score.total_q = problem.cu_q[p->batch];
    problem.score.total_kv = problem.cu_kv[p->batch];
}

/* Densities from none to all, of each head; where `runs`, bytes often stay as they are. */
static void make_mask(uchar *mask, clattn_layout *at, int rows, int columns, bool runs)
{
    const model_params *p = &problem.p;
    *at = (clattn_layout){0, (long)p->heads * rows * columns, (long)rows * columns, columns, 1};
    for (int n = 0; n < p->batch * p->heads; n++) {
        const int density = any_below(4) ? 10 * any_below(11) : 70;
        bool set = false;
        for (int x = 0; x < rows * columns; x++) {
            if (!runs || any_below(16) == 0)
                set = any_below(100) < density;
            mask[(long)n * rows * columns + x] = set;
        }
    }
}

/* All but the kernel's own: layouts, places in its workspace, how heads share work. */
static void make_scores(uint64_t seed)
{
    chance = seed;
    memset(&problem.p, 0, sizeof problem.p);
    memset(&problem.score, 0, sizeof problem.score);
    wrong[0] = '\0';
    make_lengths();
#if CLATTN_WINDOW
    const int most = any_below(2) ? 40 : MOST_LENGTH;
    problem.score.window_left = any_below(5) ? any_below(most) : MOST_LENGTH;
    problem.score.window_right = any_below(5) ? any_below(most) : MOST_LENGTH;
#endif
#if CLATTN_MASK
    make_mask(problem.mask, &problem.score.mask, problem.p.n_q, problem.p.n_kv, true);
#endif
#if CLATTN_BLOCK_MASK
    make_mask(problem.block_mask, &problem.score.block_mask, (problem.p.n_q + CLATTN_BLOCK_Q - 1) / CLATTN_BLOCK_Q,
              (problem.p.n_kv + CLATTN_BLOCK_KV - 1) / CLATTN_BLOCK_KV, false);
#endif
}

/* The arguments that CLATTN_SCORE_ARGUMENTS names. */
#if CLATTN_ALIBI
static const float score_alibi[64];
#endif
#if CLATTN_MASK
static const uchar *const score_mask = problem.mask;
#endif
#if CLATTN_BLOCK_MASK
static const uchar *const score_block_mask = problem.block_mask;
#endif
#if CLATTN_KEY_LENGTHS
static const int *const score_key_lengths = problem.key_lengths;
#endif
#if CLATTN_VARLEN
static const int *const score_cu_q = problem.cu_q, *const score_cu_kv = problem.cu_kv;
#endif
#if CLATTN_SCORE_HAS_PARAMS
#define score_params problem.score
#endif

#endif
