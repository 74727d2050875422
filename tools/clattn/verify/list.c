/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/list.h"
#include "random.h"
#include "verify/draw.h"
#include "verify/score.h"
#include "verify/skeletons.h"
#include "verify/types.h"
#include <stdlib.h>
#include <string.h>

static bool declines(const char *name)
{
    const struct verify_skeleton *row = verify_skeleton_of(name);
    return !row || row->declines;
}

static bool any_order(const char *name)
{
    const struct verify_skeleton *row = verify_skeleton_of(name);
    return row && row->any_order;
}

/* As far as it matters to what is planned. */
static struct clattn_problem problem_of(const struct verify_case *item)
{
    const struct reference_score *score = &item->problem.score;
    const bool blocks = score->features & CLATTN_BLOCK_MASK;
    struct clattn_problem problem = {.pass = verify_pass(item),
                                     .dtype = item->problem.dtype,
                                     .d = item->problem.d,
                                     .d_v = item->problem.d_v,
                                     .causal = item->problem.causal,
                                     .features = score->features,
                                     .block_q = blocks ? score->block_q : 0,
                                     .block_kv = blocks ? score->block_kv : 0,
                                     .expected_density = item->expected_density,
                                     .score_mod = item->mods & VERIFY_SCORE_MOD ? verify_score_mod : NULL,
                                     .score_mod_grad = item->mods & VERIFY_SCORE_MOD ? verify_score_mod_grad : NULL,
                                     .mask_mod = item->mods & VERIFY_MASK_MOD ? verify_mask_mod : NULL,
                                     .unordered = any_order(item->skeleton),
                                     .skeleton = item->skeleton};
    verify_types_say(&item->problem, &problem);
    verify_formats_say(item->formats, &problem);
    problem.features |= item->page_keys ? CLATTN_PAGES : 0;
    problem.page_keys = item->page_keys;
    return problem;
}

/* Whether the density that a case expects moves its plan. */
static bool moves_plan(const struct verify_list *list, const struct verify_case *item)
{
    struct clattn_plan_info with, without;
    struct clattn_problem problem = problem_of(item);
    if (clattn_plan_preview(list->capabilities, &problem, &with))
        return false;
    problem.expected_density = 0.0f;
    return !clattn_plan_preview(list->capabilities, &problem, &without) &&
           (with.b_r != without.b_r || with.b_c != without.b_c || with.work_group_size != without.work_group_size ||
            strcmp(with.knobs, without.knobs) != 0);
}

/* What a skeleton can be asked to do. Matrix units do not serve all types and dimensions, and most devices have none.
 * Its cases for these are left out: they would be skipped, as if something were wrong with the device. So are those
 * whose hint moves no plan: their kernels are other cases' already. */
static bool serves(const struct verify_list *list, const struct verify_case *item)
{
    const struct clattn_problem problem = problem_of(item);
    struct clattn_plan_info info;
    if (!item->skeleton)
        return true;
    if (item->expected_density > 0.0f && !moves_plan(list, item))
        return false;
    if ((strncmp(item->skeleton, "backward", 8) == 0) != verify_is_backward(item))
        return false;
    return !declines(item->skeleton) || clattn_plan_preview(list->capabilities, &problem, &info) != CLATTN_NOTHING_FITS;
}

/* Head dimensions in use, and between them ones that no vector or tile divides. */
static const int dimensions[] = {1, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256, 320, 512};
static const int quick_dimensions[] = {1, 59, 64, 128};
static const int unequal[][2] = {{64, 128}, {192, 128}, {40, 96}, {128, 1}, {1, 512}};

static const int64_t lengths[][2] = {{1, 1},     {1, 239},   {239, 1},   {3, 799},   {799, 3},     {64, 64}, {113, 203},
                                     {203, 113}, {108, 256}, {257, 257}, {512, 256}, {1023, 1024}, {0, 7},   {7, 0}};
static const int64_t quick_lengths[][2] = {{1, 239}, {113, 203}, {203, 113}, {7, 0}};

/* batch, heads, kv_heads: plain, grouped queries, multi-query. */
static const int64_t heads[][3] = {{1, 2, 2}, {2, 4, 2}, {1, 3, 1}};

/* What of the cross product is cycled through, so that each value meets each other one without all combinations. */
static const double gains[] = {1.0, 3.0, 1.0, 10.0};

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool is_law(const struct verify_case *item)
{
    return item->kind >= VERIFY_CONSTANT_V;
}

/* Whether two cases run one kernel, as far as can be told here: of two that do, this may say that they do not. */
static bool same_kernel(const struct verify_case *a, const struct verify_case *b)
{
    return a->skeleton == b->skeleton && (a->kind == b->kind || (is_law(a) && is_law(b))) &&
           a->problem.dtype == b->problem.dtype && a->problem.d == b->problem.d && a->problem.d_v == b->problem.d_v &&
           a->problem.causal == b->problem.causal && a->problem.score.features == b->problem.score.features &&
           a->problem.score.block_q == b->problem.score.block_q &&
           a->problem.score.block_kv == b->problem.score.block_kv &&
           a->problem.score.sink_keys == b->problem.score.sink_keys && a->expected_density == b->expected_density &&
           a->mods == b->mods && a->splits == b->splits && a->unordered == b->unordered && a->packed == b->packed &&
           a->given == b->given && memcmp(a->problem.types, b->problem.types, sizeof a->problem.types) == 0 &&
           a->page_keys == b->page_keys && memcmp(a->formats, b->formats, sizeof a->formats) == 0;
}

/* As it is. */
static void append(struct verify_list *list, struct verify_case item)
{
    if (list->count == list->capacity && !list->failed) {
        const int capacity = list->capacity ? 2 * list->capacity : 256;
        struct verify_case *items = realloc(list->items, (size_t)capacity * sizeof *items);
        list->failed = !items;
        if (items) {
            list->items = items;
            list->capacity = capacity;
        }
    }
    if (list->failed)
        return;
    const struct verify_case *last = list->count ? &list->items[list->count - 1] : NULL;
    item.kernel = !last ? 0 : last->kernel + !same_kernel(last, &item);
    list->items[list->count++] = item;
}

static void add(struct verify_list *list, struct verify_case item)
{
    item.unordered = any_order(item.skeleton);
    append(list, item);
}

/* The float64 reference is the slow part: long sequences come with one head and moderate d. */
static bool affordable(struct reference_problem *problem)
{
    const double pairs = (double)problem->shape.n_q * (double)problem->shape.n_kv;
    if (pairs > 100e3)
        problem->shape.batch = problem->shape.heads = problem->shape.kv_heads = 1;
    return pairs < 500e3 || problem->d + problem->d_v <= 256;
}

static struct verify_case cycled(const char *skeleton, enum verify_kind kind, int dtype, int causal, int d, int d_v,
                                 const int64_t *n, int turn)
{
    static const int64_t chunks[] = {64, 50, 1000, 17};
    const int64_t *h = heads[turn % COUNT(heads)];
    struct verify_case item = {
        .kind = kind,
        .problem = {.dtype = (enum clattn_dtype)dtype,
                    .d = d,
                    .d_v = d_v,
                    .causal = (enum clattn_causal)causal,
                    .scale = turn % 5 == 4 ? 0.0625 : 0.0,
                    .shape = {.batch = h[0], .heads = h[1], .kv_heads = h[2], .n_q = n[0], .n_kv = n[1]}},
        .layout = (enum verify_layout)(turn / COUNT(heads) % VERIFY_LAYOUTS),
        .gain = gains[turn % COUNT(gains)],
        .skeleton = skeleton,
        .runs = kind >= VERIFY_BACKWARD && kind <= VERIFY_BACKWARD_CHUNKS ? 2 : 1,
        .chunk = chunks[turn % COUNT(chunks)],
        .merged = turn % 3 == 1};
    verify_enlarge(&item.problem);
    return item;
}

/* All lengths for one kernel. */
static void add_lengths(struct verify_list *list, bool full, const char *skeleton, enum verify_kind kind, int dtype,
                        int causal, int d, int d_v)
{
    const int64_t(*const n)[2] = full ? lengths : quick_lengths;
    const int count = full ? COUNT(lengths) : COUNT(quick_lengths);
    for (int i = 0; i < count; i++) {
        struct verify_case item = cycled(skeleton, kind, dtype, causal, d, d_v, n[i], i + d + 2 * dtype + causal);
        if (serves(list, &item) && affordable(&item.problem))
            add(list, item);
    }
}

static void add_full(struct verify_list *list, const char *skeleton)
{
    for (int i = 0; i < COUNT(dimensions); i++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
                add_lengths(list, true, skeleton, VERIFY_RULE, dtype, causal, dimensions[i], dimensions[i]);
    for (int i = 0; i < COUNT(unequal); i++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            add_lengths(list, true, skeleton, VERIFY_RULE, dtype, i % 3, unequal[i][0], unequal[i][1]);
}

/* Keys split between work-groups: into few parts, into some that do not come out even, and into more than there are. */
static void add_splits(struct verify_list *list, bool full, const char *skeleton)
{
    static const int numbers[] = {3, 2, 7, 30}, d[] = {64, 128, 40, 256};
    static const int64_t n[][2] = {{1, 799}, {113, 203}, {203, 113}, {5, 3}};
    for (int i = 0; i < (full ? COUNT(numbers) : 1); i++)
        for (int dtype = full ? CLATTN_FP32 : CLATTN_FP16; dtype <= (full ? CLATTN_BF16 : CLATTN_FP16); dtype++)
            for (int j = 0; j < COUNT(n); j++) {
                struct verify_case item =
                    cycled(skeleton, VERIFY_RULE, dtype, (i + dtype) % 3, d[i], d[i], n[j], i + j + dtype);
                item.splits = numbers[i];
                if (serves(list, &item))
                    add(list, item);
            }
}

/* Gradients and the streaming state: each dimension in each type, each with one of the masks. */
static void add_full_others(struct verify_list *list, const char *skeleton, enum verify_kind kind)
{
    for (int i = 0; i < COUNT(dimensions); i++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            add_lengths(list, true, skeleton, kind, dtype, (i + dtype) % 3, dimensions[i], dimensions[i]);
    for (int i = 0; i < COUNT(unequal); i++)
        add_lengths(list, true, skeleton, kind, i % 3, (i + 1) % 3, unequal[i][0], unequal[i][1]);
}

/* Each type, each mask, each dimension once or twice, as compiling takes the most time. */
static void add_quick(struct verify_list *list, const char *skeleton)
{
    const struct verify_case widest = {.problem = {.dtype = CLATTN_FP32, .d = 128, .d_v = 128}, .skeleton = skeleton};
    for (int i = 0; i < COUNT(quick_dimensions); i++)
        add_lengths(list, false, skeleton, VERIFY_RULE, i % 3, i % 3, quick_dimensions[i], quick_dimensions[i]);
    add_lengths(list, false, skeleton, VERIFY_RULE, CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 64, 64);
    add_lengths(list, false, skeleton, VERIFY_RULE, CLATTN_BF16, CLATTN_FULL, 40, 96);
    if (!serves(list, &widest)) /* then d = 128 is still missing */
        add_lengths(list, false, skeleton, VERIFY_RULE, CLATTN_FP16, CLATTN_FULL, 128, 128);
    add_lengths(list, false, skeleton, VERIFY_STATE, CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 64, 64);
    for (int i = 2; i < 4; i++)
        add_lengths(list, false, skeleton, VERIFY_BACKWARD, i % 3, i % 3, quick_dimensions[i], quick_dimensions[i]);
}

/* One kernel with the modifications that `chosen` has bits for, planned for masks of that density. */
static void add_planned(struct verify_list *list, const char *skeleton, enum verify_kind kind, unsigned chosen,
                        float expected_density, int turn)
{
    static const int64_t n[][2] = {{113, 203}, {203, 113}, {1, 239}, {160, 160}};
    static const int d[] = {64, 40, 128}, blocks[][2] = {{16, 16}, {64, 32}, {48, 128}, {128, 64}};
    const int dtype = turn % 3, causal = (turn / 3) % 3;
    for (int i = 0; i < 2; i++) {
        struct verify_case item = cycled(skeleton, kind, dtype, causal, d[turn % COUNT(d)], d[turn % COUNT(d)],
                                         n[(turn + i) % COUNT(n)], turn + 5 * i);
        item.problem.score.features = cla_features_of_pass(verify_plain_features(chosen), verify_is_backward(&item));
        item.problem.score.block_q = blocks[turn % COUNT(blocks)][0];
        item.problem.score.block_kv = blocks[turn % COUNT(blocks)][1];
        item.mods = (int)(chosen >> VERIFY_FIRST_MOD);
        item.splits = kind == VERIFY_RULE && turn % 4 == 3 ? 3 : 0;
        item.expected_density = expected_density;
        item.csr = (chosen & CLATTN_BLOCK_MASK) && (turn + i) % 2 == 0;
        item.gain = item.gain > 3.0 ? 3.0 : item.gain;
        if (chosen & CLATTN_VARLEN)
            item.problem.shape.batch += 2;
        if (!serves(list, &item)) { /* in the one type that matrix units surely have */
            item.problem.dtype = CLATTN_FP16;
            item.problem.d = item.problem.d_v = 64;
            verify_enlarge(&item.problem);
        }
        if (serves(list, &item))
            add(list, item);
    }
}

static void add_modified(struct verify_list *list, const char *skeleton, enum verify_kind kind, unsigned chosen,
                         int turn)
{
    add_planned(list, skeleton, kind, chosen, 0.0f, turn);
}

/* Operands of several types: of skeletons that do not serve them nothing is left. */
static void add_types(struct verify_list *list, const char *skeleton, enum verify_kind kind)
{
    struct random random = {.state = list->seed ^ (uint64_t)kind << 16};
    for (int i = 0; i < 6; i++) {
        struct verify_case item =
            cycled(skeleton, kind, i % 3, (i / 2) % 3, 40 + 24 * (i % 2), 64, lengths[i % COUNT(lengths)], i);
        verify_types_draw(&random, true, &item.problem);
        if (serves(list, &item))
            add(list, item);
    }
}

static void add_features(struct verify_list *list, bool full, const char *skeleton, enum verify_kind kind)
{
    /* All of them in two kernels, for a quick run. */
    const unsigned groups[] = {CLATTN_WINDOW | CLATTN_SOFTCAP | CLATTN_BIAS | CLATTN_KEY_LENGTHS | CLATTN_SINKS |
                                   VERIFY_WITH_SCORE_MOD | verify_later_features(),
                               CLATTN_ALIBI | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_VARLEN | CLATTN_DROPOUT |
                                   VERIFY_WITH_MASK_MOD};
    struct random random = {.state = list->seed ^ (uint64_t)kind << 8};
    if (!full) {
        for (int i = 0; i < COUNT(groups); i++)
            add_modified(list, skeleton, kind, groups[i], i);
        add_modified(list, skeleton, kind, verify_choose(&random, kind == VERIFY_STATE ? 3 : 2), 2);
        return;
    }
    for (int i = 0; i < verify_feature_count(); i++)
        add_modified(list, skeleton, kind, verify_feature(i), i);
    /* ALiBi, which is another matter before the diagonal, across it and beyond it, with each mask and type. */
    for (int i = 0; kind == VERIFY_RULE && i < 9; i++)
        add_modified(list, skeleton, kind, CLATTN_ALIBI, i);
    for (int count = 2; count <= 3; count++)
        for (int i = 0; i < 12; i++)
            add_modified(list, skeleton, kind, verify_choose(&random, count), i + count);
    add_modified(list, skeleton, kind, verify_all_features(), 0);
}

/* Where tiles are skipped: with more of them than a kernel looks for at once, of keys and of rows; and with more
 * blocks of rows than work-groups, which then have different numbers of tiles. */
static void add_walks(struct verify_list *list, const char *skeleton, enum verify_kind kind, float expected_density)
{
    static const int64_t shapes[][4] = {{1, 1, 160, 4500}, {1, 1, 4500, 160}, {40, 8, 203, 113}};
    static const int blocks[] = {64, 128, 256, 0}, d[] = {64, 128}; /* 0: a window */
    for (int i = 0; i < COUNT(blocks) * COUNT(d); i++)
        for (int j = 0; j < COUNT(shapes); j++) {
            const int block = blocks[i / COUNT(d)];
            if (!block && expected_density > 0.0f)
                continue;
            struct verify_case item = cycled(skeleton, kind, CLATTN_FP16 + i / 2 % 2, i % 3, d[i % COUNT(d)],
                                             d[i % COUNT(d)], &shapes[j][2], i + j);
            item.problem.shape.batch = shapes[j][0];
            item.problem.shape.heads = item.problem.shape.kv_heads = shapes[j][1];
            item.problem.score.features = block ? CLATTN_BLOCK_MASK : CLATTN_WINDOW;
            item.problem.score.block_q = item.problem.score.block_kv = block;
            item.expected_density = expected_density;
            if (serves(list, &item))
                add(list, item);
        }
}

/* Tiles that meet several blocks of a mask, as they are planned where most are seen, whatever is: with a mask alone and
 * with each other modification. */
static void add_mostly_seen(struct verify_list *list, const char *skeleton)
{
    static const float expected_density = 0.9f;
    for (int kind = VERIFY_RULE; kind <= VERIFY_BACKWARD_CHUNKS; kind++)
        for (int i = 0; i < verify_feature_count(); i++)
            add_planned(list, skeleton, (enum verify_kind)kind, CLATTN_BLOCK_MASK | verify_feature(i), expected_density,
                        i);
    add_walks(list, skeleton, VERIFY_RULE, expected_density);
    add_walks(list, skeleton, VERIFY_BACKWARD, expected_density);
}

static void add_laws(struct verify_list *list, bool full, const char *skeleton)
{
    static const int64_t n[2] = {113, 203};
    struct verify_case item = cycled(skeleton, VERIFY_RULE, CLATTN_FP32, CLATTN_FULL, 64, 64, n, 1);
    const int first = serves(list, &item) ? CLATTN_FP32 : CLATTN_FP16;
    for (int dtype = first; dtype <= (full ? (int)CLATTN_BF16 : first); dtype++) {
        for (int kind = VERIFY_CONSTANT_V; kind <= VERIFY_BIT_EQUAL; kind++) {
            item = cycled(skeleton, (enum verify_kind)kind, dtype, CLATTN_FULL, 64, 64, n, 1);
            item.gain = 1.0;
            item.runs = full ? 250 : 20;
            if (serves(list, &item))
                add(list, item);
        }
    }
}

/* Behind both causal masks, in tiles of all widths, and of keys that are split. */
static void add_hidden_values(struct verify_list *list, bool full, const char *skeleton)
{
    static const int d[] = {64, 128, 40, 256}, splits[] = {0, 3};
    static const int64_t n[][2] = {{113, 203}, {203, 113}, {300, 300}};
    for (int i = 0; i < (full ? COUNT(d) * COUNT(splits) : 1); i++)
        for (int dtype = CLATTN_FP32; dtype <= (full ? CLATTN_BF16 : CLATTN_FP16); dtype++)
            for (int j = 0; j < COUNT(n); j++) {
                const int causal = (i + j) % 2 ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_BOTTOM_RIGHT,
                          turn = i + j + dtype;
                struct verify_case item =
                    cycled(skeleton, VERIFY_HIDDEN_VALUES, dtype, causal, d[i % COUNT(d)], d[i % COUNT(d)], n[j], turn);
                item.gain = 1.0;
                item.splits = splits[i / COUNT(d)];
                if (serves(list, &item))
                    add(list, item);
            }
}

/* Random combinations of three to all features, a few cases of each; what plans expect of masks has cases of its own.
 */
static void add_drawn(struct verify_list *list, bool full, const char *skeleton)
{
    const int programs = full ? 16 : 1, cases = 3;
    struct random random = {.state = list->seed ^ 0xd4a3u};
    for (int i = 0; i < programs; i++) {
        const uint64_t seed = (random_next(&random) >> 16) * VERIFY_PER_PROGRAM;
        for (int j = 0; j < cases; j++) {
            struct verify_case item;
            struct clattn_plan_info info;
            verify_draw(seed + (uint64_t)j, skeleton, &item);
            item.expected_density = 0.0f;
            struct clattn_problem problem = problem_of(&item);
            problem.unordered = item.unordered;
            if (clattn_plan_preview(list->capabilities, &problem, &info) != CLATTN_NOTHING_FITS)
                append(list, item);
        }
    }
}

/* What a skeleton does not serve leaves no case. */
static void add_skeleton(struct verify_list *list, bool full, const char *skeleton)
{
    add_laws(list, full, skeleton);
    if (full) {
        add_full(list, skeleton);
        add_full_others(list, skeleton, VERIFY_STATE);
        add_full_others(list, skeleton, VERIFY_BACKWARD);
        for (int i = 0; i < COUNT(quick_dimensions); i++)
            add_lengths(list, true, skeleton, VERIFY_BACKWARD_CHUNKS, i % 3, i % 3, quick_dimensions[i],
                        quick_dimensions[i]);
    } else {
        add_quick(list, skeleton);
    }
    add_splits(list, full, skeleton);
    for (int kind = VERIFY_RULE; full && kind <= VERIFY_BACKWARD_CHUNKS; kind++)
        add_types(list, skeleton, (enum verify_kind)kind);
    add_features(list, full, skeleton, VERIFY_RULE);
    add_features(list, full, skeleton, VERIFY_STATE);
    add_features(list, full, skeleton, VERIFY_BACKWARD);
    if (full) {
        add_features(list, full, skeleton, VERIFY_BACKWARD_CHUNKS);
        add_walks(list, skeleton, VERIFY_RULE, 0.0f);
        add_walks(list, skeleton, VERIFY_BACKWARD, 0.0f);
        add_mostly_seen(list, skeleton);
    } else { /* one kernel: packed keys, and what adds up over chunks */
        add_modified(list, skeleton, VERIFY_BACKWARD_CHUNKS, CLATTN_VARLEN | CLATTN_BIAS | CLATTN_SINKS, 3);
    }
    add_hidden_values(list, full, skeleton);
    add_drawn(list, full, skeleton);
}

void verify_list_create(struct verify_list *list, bool full, const struct clattn_capabilities *capabilities,
                        const char *skeleton, uint64_t seed)
{
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    *list = (struct verify_list){.capabilities = capabilities, .seed = seed};
    if (skeleton) {
        add_skeleton(list, full, skeleton);
        return;
    }
    for (const struct verify_skeleton *row = verify_skeletons(); row->name; row++) {
        if (!(cpu ? row->suits_cpu : row->suits_others))
            continue;
        if (cpu && !full && row->slow_to_compile_on_cpu && row->backward)
            continue;
        if (cpu && !full && row->slow_to_compile_on_cpu)
            add_lengths(list, false, row->name, VERIFY_RULE, CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 32, 32);
        else
            add_skeleton(list, full, row->name);
    }
    /* And once what a caller gets who names none. */
    add_lengths(list, full, NULL, VERIFY_RULE, CLATTN_FP32, CLATTN_FULL, 64, 64);
    add_lengths(list, false, NULL, VERIFY_BACKWARD, CLATTN_FP32, CLATTN_FULL, 64, 64);
}

void verify_list_destroy(struct verify_list *list)
{
    free(list->items);
    *list = (struct verify_list){.items = NULL};
}
