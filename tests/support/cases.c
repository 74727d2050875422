/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/cases.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* test_flash_attn.py's, and some with next to nothing in them. */
static const int64_t lengths[][2] = {{113, 203}, {128, 217},   {113, 211},   {108, 256},   {256, 512}, {512, 256},
                                     {203, 113}, {1024, 1024}, {1023, 1024}, {1024, 1023}, {3, 799},   {799, 3},
                                     {64, 128},  {1, 239},     {239, 1},     {1, 1},       {17, 33}};
static const int dimensions[] = {32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], DIMENSIONS = sizeof dimensions / sizeof dimensions[0] };

uint64_t case_seed(void)
{
    const uint64_t seed = test_seed();
    fprintf(stderr, "CLATTN_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static int pick_dimension(struct random *random)
{
    return dimensions[random_below(random, DIMENSIONS)];
}

static bool coin(struct random *random)
{
    return random_below(random, 2) == 0;
}

static void pick_shape(struct random *random, int64_t most_work, struct forward_case *forward)
{
    static const int64_t groups[][2] = {{1, 1}, {4, 2}, {3, 1}, {2, 2}, {6, 3}};
    const int64_t *group = groups[random_below(random, 5)];
    const int64_t width = forward->problem.d + forward->problem.d_v;
    const int64_t *pair;
    do
        pair = lengths[random_below(random, LENGTHS)];
    while (pair[0] * pair[1] * width > most_work);
    forward->shape = (struct clattn_shape){.batch = 1, .heads = group[0], .kv_heads = group[1]};
    forward->shape.n_q = pair[0];
    forward->shape.n_kv = pair[1];
    /* More heads where one is little work. */
    if (pair[0] * pair[1] * width * 8 < most_work)
        forward->shape.batch = 1 + random_below(random, 3);
}

static void pick_layouts(struct random *random, struct forward_case *forward)
{
    const struct clattn_shape *shape = &forward->shape;
    if (coin(random))
        return;
    forward->q = clattn_layout_bnhd(shape->heads, shape->n_q, forward->problem.d);
    forward->k = clattn_layout_bnhd(shape->kv_heads, shape->n_kv, forward->problem.d);
    forward->v = clattn_layout_bnhd(shape->kv_heads, shape->n_kv, forward->problem.d_v);
    forward->o = clattn_layout_bnhd(shape->heads, shape->n_q, forward->problem.d_v);
}

void case_set_features(struct forward_case *forward, unsigned features)
{
    struct clattn_problem *problem = &forward->problem;
    problem->features = features & (CASE_SCORE_MOD - 1);
    problem->score_mod = features & CASE_SCORE_MOD ? score_mod_text : NULL;
    problem->score_mod_grad = features & CASE_SCORE_MOD ? score_mod_grad_text : NULL;
    problem->mask_mod = features & CASE_MASK_MOD ? mask_mod_text : NULL;
    if (!(features & CLATTN_BLOCK_MASK)) {
        problem->block_q = problem->block_kv = 0;
        problem->expected_density = 0;
    } else if (!problem->block_q)
        problem->block_q = problem->block_kv = 16;
}

static void pick_values(struct random *random, struct forward_case *forward)
{
    static const int64_t windows[] = {CLATTN_UNLIMITED, 0, 1, 17, 40, 100, 5000};
    forward->score = score_typical();
    forward->score.window_left = windows[random_below(random, 7)];
    forward->score.window_right = windows[random_below(random, 7)];
    forward->score.dropout_seed = random_next(random);
    forward->score.dropout_offset = (uint32_t)random_next(random);
    forward->score.one_batch = coin(random);
    forward->score.one_head = coin(random);
    forward->score.csr = coin(random);
}

void case_vary(struct random *random, int64_t most_work, struct forward_case *forward)
{
    const struct clattn_layout dense = {0};
    forward->seed = random_next(random) >> 32;
    forward->q = forward->k = forward->v = forward->o = dense;
    pick_shape(random, most_work, forward);
    pick_layouts(random, forward);
    pick_values(random, forward);
}

struct forward_case case_random(struct random *random, unsigned features, int64_t most_work)
{
    static const int blocks[] = {16, 32, 48, 64, 128};
    struct forward_case forward = {0};
    forward.problem.dtype = (enum clattn_dtype)random_below(random, 3);
    forward.problem.causal = (enum clattn_causal)random_below(random, 3);
    forward.problem.d = pick_dimension(random);
    forward.problem.d_v = random_below(random, 3) ? forward.problem.d : pick_dimension(random);
    forward.problem.block_q = blocks[random_below(random, 5)];
    forward.problem.block_kv = blocks[random_below(random, 5)];
    case_vary(random, most_work, &forward);
    forward.problem.expected_density = coin(random) ? 0.9f : 0; /* whatever it is */
    case_set_features(&forward, features);
    return forward;
}

unsigned case_random_features(struct random *random, int count, unsigned of)
{
    unsigned features = 0;
    while (count > 0) {
        const unsigned bit = 1u << random_below(random, CASE_FEATURES);
        if (!(bit & of) || bit & features)
            continue;
        features |= bit;
        count--;
    }
    return features;
}
