/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/simt.h"
#include <math.h>
#include <stddef.h>

enum {
    MOST_WORDS = 248,         /* private words that compile without spilling where an item may have 255 registers */
    DEFAULT_WORDS = 128,      /* and where nothing is known of registers */
    DEFAULT_REGISTERS = 65536 /* of a compute unit */
};

const int cla_simt_widths[CLA_SIMT_WIDTHS] = {8,  16, 32, 4, 10, 12, 14, 20, 24, 28, 40,
                                              48, 56, 64, 5, 6,  7,  3,  2,  1,  128};

static int round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

struct cla_simt_limits cla_simt_limits_of(const struct clattn_capabilities *capabilities)
{
    const int64_t items = (int64_t)capabilities->max_work_group_size, first = (int64_t)capabilities->max_work_item_size;
    const uint64_t local = cla_usable_local_bytes(capabilities);
    const uint32_t registers = capabilities->nv_registers_per_group;
    return (struct cla_simt_limits){.local_bytes =
                                        local > 16 ? local - 16 : 0, /* drivers may align the kernel's array */
                                    .items = first && first < items ? first : items,
                                    .words = registers >= DEFAULT_REGISTERS ? MOST_WORDS : DEFAULT_WORDS,
                                    .registers = registers ? (int)registers : DEFAULT_REGISTERS};
}

int cla_simt_words_of(const struct cla_simt_limits *limits, int items)
{
    const int part = limits->registers / round_up(items, 32) / 8 * 8;
    return part < limits->words ? part : limits->words;
}

/* The model of time, fitted to 49 configurations of the forward pass measured on an NVIDIA H200 (root mean square
 * error 5.4
 * %); elsewhere only its order of things matters. Everything is in issue slots of a compute unit with four schedulers
 * of 32 lanes. */
static const struct {
    double overlap; /* exponent of the norm that joins arithmetic and local memory: 1 none overlaps, large all does */
    double loop;    /* further instructions for each multiply-add */
    double copy;    /* slots to carry a block of four elements */
    double barrier; /* for each barrier that no other work-group hides */
    double exposed_load; /* a slice that is not prefetched */
    double latency;      /* items that it takes to hide latencies by half */
    double traffic;      /* bytes of device memory a slot, for each compute unit */
    double word;         /* slots a 32-lane word through local memory */
} weight = {1.65, 0.15, 8, 100, 7300, 45, 77, 2};

/* Work-groups that share a compute unit, by local memory, registers and the 2048 items that fit one. */
static int64_t residents(const struct cla_simt_limits *limits, const struct cla_config *config,
                         const struct cla_simt_work *work)
{
    const int64_t held = (int64_t)(work->private_words > MOST_WORDS ? 256 : round_up((int)work->private_words, 8)) *
                         round_up(config->work_group_size, 32);
    const int64_t by_local = (int64_t)(limits->local_bytes / (work->local_bytes + 1040));
    const int64_t by_registers = limits->registers / held, by_items = 2048 / config->work_group_size;
    int64_t groups = by_local < by_registers ? by_local : by_registers;
    groups = groups < by_items ? groups : by_items;
    return groups > 1 ? groups : 1;
}

/* How much longer the busiest of four schedulers works than the average one, with the best of up to so many groups at
 * work (the best, so that room for one more never counts as a loss). */
static double unevenness(int warps, int groups)
{
    double least = 4;
    for (int count = 1; count <= groups; count++) {
        const double uneven = (double)round_up(count * warps, 4) / (count * warps);
        least = uneven < least ? uneven : least;
    }
    return least;
}

double cla_simt_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                      const struct cla_simt_work *work)
{
    const int items = config->work_group_size, warps = (items + 31) / 32;
    const double issue = work->arithmetic * (1 + weight.loop) + work->loads + work->other * work->pairs +
                         weight.copy * work->copies + 60.0 * work->slices;
    const double local = weight.word * (work->words + 8 * work->copies + work->written);

    /* Its warps go to four schedulers, and other groups hide what it waits for. */
    const double groups = (double)residents(limits, config, work);
    double slots = pow(pow(issue, weight.overlap) + pow(local, weight.overlap), 1 / weight.overlap) * warps *
                   unevenness(warps, (int)groups);
    slots += (work->slices + work->exchanges) * (config->simt.buffers == 1 ? 2 : 1) * weight.barrier / groups;
    slots += ((config->simt.prefetch ? 0 : work->slices) + work->block_slices) * weight.exposed_load / groups;
    slots *= 1 + weight.latency / (groups * items);
    slots += work->bytes * 4 / weight.traffic;

    /* What does not stay in registers goes through device memory: never worth it while anything else fits. */
    const int64_t excess = work->private_words - cla_simt_words_of(limits, items);
    return excess > 0 ? slots * (10 + (double)excess) : slots;
}

static const struct {
    int resident, buffers, d_slice, row_slice;
} passages[CLA_SIMT_PASSAGES] = {{1, 2, 32, 32}, {1, 2, 32, 16}, {1, 2, 16, 16}, {1, 1, 32, 32}, {1, 1, 16, 16},
                                 {0, 2, 32, 16}, {0, 2, 16, 16}, {0, 1, 32, 16}, {0, 1, 16, 16}, {0, 1, 8, 8},
                                 {0, 1, 8, 4},   {0, 1, 4, 2},   {0, 1, 4, 1}};

void cla_simt_take_passage(int index, int d, int rows, struct cla_config *config)
{
    config->simt.resident = passages[index].resident;
    config->simt.buffers = passages[index].buffers;
    config->simt.d_slice = passages[index].d_slice < round_up(d, 4) ? passages[index].d_slice : round_up(d, 4);
    config->simt.row_slice = passages[index].row_slice;
    while (rows % config->simt.row_slice)
        config->simt.row_slice--;
}

const struct cla_knob cla_simt_knobs[] = {
    {"buffers", offsetof(struct cla_config, simt.buffers), 1, 2, {1, 2}, 2},
    {"d_slice", offsetof(struct cla_config, simt.d_slice), 4, 512, {16, 32}, 2},
    {"prefetch", offsetof(struct cla_config, simt.prefetch), 0, 1, {0, 1}, 2},
    {"resident", offsetof(struct cla_config, simt.resident), 0, 1, {0, 1}, 2},
    {"row_slice", offsetof(struct cla_config, simt.row_slice), 1, 256, {16, 32}, 2},
    {"tx", offsetof(struct cla_config, simt.tx), 1, 512, {0}, 0},
    {NULL, 0, 0, 0, {0}, 0}};

bool cla_simt_is_whole(const struct cla_simt_limits *limits, int d, int rows, struct cla_config *config)
{
    const int items = config->work_group_size;
    if (items < 1 || items > limits->items || items % config->simt.tx || config->simt.d_slice % 4 ||
        config->simt.d_slice > round_up(d, 4) || rows % config->simt.row_slice)
        return false;
    cla_simt_number_items(config);
    return true;
}

/* Items are numbered in patches of 32, as square as 8 x 4, so that the lanes of a hardware vector touch few distinct
 * rows and columns (5 % at d = 128); in plain order where no patch fits. */
void cla_simt_number_items(struct cla_config *config)
{
    const int tx = config->simt.tx, ty = config->work_group_size / tx;
    int x = 1, y = 1;
    while (x < 8 && tx % (2 * x) == 0)
        x *= 2;
    while (x * y < 32 && ty % (2 * y) == 0)
        y *= 2;
    config->simt.lanes_x = x * y < 32 ? tx : x;
    config->simt.lanes_y = x * y < 32 ? 1 : y;
}

/* Blocks of the mask that a tile's side meets, on average. */
static double blocks_met(int tile, int block)
{
    if (block % tile == 0)
        return 1;
    return tile % block == 0 ? tile / block : 1 + (tile - 1.0) / block;
}

/* A tile is computed where any block that it meets is there: of random masks, half full. */
double cla_simt_mask_factor(const struct clattn_problem *problem, const struct cla_config *config)
{
    if (!problem->block_q || !problem->block_kv)
        return 1;
    return 2 * (1 - pow(0.5, blocks_met(config->b_r, problem->block_q) * blocks_met(config->b_c, problem->block_kv)));
}

void cla_simt_define(const struct cla_config *config, struct cla_text *text)
{
    const struct cla_define defines[] = {{"BUFFERS", config->simt.buffers},     {"D_SLICE", config->simt.d_slice},
                                         {"LANES_X", config->simt.lanes_x},     {"LANES_Y", config->simt.lanes_y},
                                         {"PREFETCH", config->simt.prefetch},   {"RESIDENT", config->simt.resident},
                                         {"ROW_SLICE", config->simt.row_slice}, {"TX", config->simt.tx}};
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
}
