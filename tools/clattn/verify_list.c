/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify_list.h"
#include <stdlib.h>
#include <string.h>

/* Which skeletons there are. forward_cpu has no parallelism within a work-group, so a GPU is not asked to run it. A CPU
 * can run forward_simt, but its compiler takes seconds for each kernel of that shape, so a quick run has one of them.
 */
static const struct {
    const char *name;
    bool suits_cpu, suits_others;
    bool slow_to_compile_on_cpu;
} skeletons[] = {
    {"forward_simt", true, true, true}, {"forward_cpu", true, false, false}, {"forward_matrix", false, true, false}};

/* Matrix units do not serve all types and dimensions, and most devices have none. Its cases for these are left out:
 * they would be skipped, as if something were wrong with the device. */
static bool serves(const struct verify_list *list, const char *skeleton, int dtype, int d, int d_v)
{
    const struct clattn_problem problem = {.dtype = (enum clattn_dtype)dtype, .d = d, .d_v = d_v, .skeleton = skeleton};
    struct clattn_plan_info info;
    return !skeleton || strncmp(skeleton, "forward_matrix", 14) != 0 ||
           clattn_plan_preview(list->capabilities, &problem, &info) != CLATTN_NOTHING_FITS;
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

static void add(struct verify_list *list, struct verify_case item)
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
    if (!list->failed)
        list->items[list->count++] = item;
}

/* The float64 reference is the slow part: long sequences come with one head and moderate d. */
static bool affordable(struct reference_problem *problem)
{
    const double pairs = (double)problem->shape.n_q * (double)problem->shape.n_kv;
    if (pairs > 100e3)
        problem->shape.batch = problem->shape.heads = problem->shape.kv_heads = 1;
    return pairs < 500e3 || problem->d + problem->d_v <= 256;
}

static struct verify_case cycled(const char *skeleton, int dtype, int causal, int d, int d_v, const int64_t *n,
                                 int turn)
{
    const int64_t *h = heads[turn % COUNT(heads)];
    return (struct verify_case){
        .kind = VERIFY_RULE,
        .problem = {.dtype = (enum clattn_dtype)dtype,
                    .d = d,
                    .d_v = d_v,
                    .causal = (enum clattn_causal)causal,
                    .scale = turn % 5 == 4 ? 0.0625 : 0.0,
                    .shape = {.batch = h[0], .heads = h[1], .kv_heads = h[2], .n_q = n[0], .n_kv = n[1]}},
        .layout = (enum verify_layout)(turn / COUNT(heads) % VERIFY_LAYOUTS),
        .gain = gains[turn % COUNT(gains)],
        .skeleton = skeleton};
}

/* All lengths for one kernel. */
static void add_lengths(struct verify_list *list, bool full, const char *skeleton, int dtype, int causal, int d,
                        int d_v)
{
    if (!serves(list, skeleton, dtype, d, d_v))
        return;
    const int64_t(*const n)[2] = full ? lengths : quick_lengths;
    const int count = full ? COUNT(lengths) : COUNT(quick_lengths);
    for (int i = 0; i < count; i++) {
        struct verify_case item = cycled(skeleton, dtype, causal, d, d_v, n[i], i + d + 2 * dtype + causal);
        if (affordable(&item.problem))
            add(list, item);
    }
}

static void add_full(struct verify_list *list, const char *skeleton)
{
    for (int i = 0; i < COUNT(dimensions); i++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
                add_lengths(list, true, skeleton, dtype, causal, dimensions[i], dimensions[i]);
    for (int i = 0; i < COUNT(unequal); i++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            add_lengths(list, true, skeleton, dtype, i % 3, unequal[i][0], unequal[i][1]);
}

/* Each type, each mask, each dimension once or twice, as compiling takes the most time. */
static void add_quick(struct verify_list *list, const char *skeleton)
{
    for (int i = 0; i < COUNT(quick_dimensions); i++)
        add_lengths(list, false, skeleton, i % 3, i % 3, quick_dimensions[i], quick_dimensions[i]);
    add_lengths(list, false, skeleton, CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 64, 64);
    add_lengths(list, false, skeleton, CLATTN_BF16, CLATTN_FULL, 40, 96);
    if (!serves(list, skeleton, CLATTN_FP32, 128, 128)) /* then d = 128 is still missing */
        add_lengths(list, false, skeleton, CLATTN_FP16, CLATTN_FULL, 128, 128);
}

static void add_laws(struct verify_list *list, bool full, const char *skeleton)
{
    static const int64_t n[2] = {113, 203};
    const int first = serves(list, skeleton, CLATTN_FP32, 64, 64) ? CLATTN_FP32 : CLATTN_FP16;
    for (int dtype = first; dtype <= (full ? (int)CLATTN_BF16 : first); dtype++) {
        if (!serves(list, skeleton, dtype, 64, 64))
            continue;
        for (int kind = VERIFY_RULE + 1; kind < VERIFY_KINDS; kind++) {
            struct verify_case item = cycled(skeleton, dtype, CLATTN_FULL, 64, 64, n, 1);
            item.kind = (enum verify_kind)kind;
            item.gain = 1.0;
            item.runs = full ? 250 : 20;
            add(list, item);
        }
    }
}

static void add_skeleton(struct verify_list *list, bool full, const char *skeleton)
{
    add_laws(list, full, skeleton);
    if (full)
        add_full(list, skeleton);
    else
        add_quick(list, skeleton);
}

void verify_list_create(struct verify_list *list, bool full, const struct clattn_capabilities *capabilities,
                        const char *skeleton)
{
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    *list = (struct verify_list){.capabilities = capabilities};
    if (skeleton) {
        add_skeleton(list, full, skeleton);
        return;
    }
    for (int i = 0; i < COUNT(skeletons); i++) {
        if (!(cpu ? skeletons[i].suits_cpu : skeletons[i].suits_others))
            continue;
        if (cpu && !full && skeletons[i].slow_to_compile_on_cpu)
            add_lengths(list, false, skeletons[i].name, CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 32, 32);
        else
            add_skeleton(list, full, skeletons[i].name);
    }
    /* And once what a caller gets who names none. */
    add_lengths(list, full, NULL, CLATTN_FP32, CLATTN_FULL, 64, 64);
}

void verify_list_destroy(struct verify_list *list)
{
    free(list->items);
    *list = (struct verify_list){.items = NULL};
}
