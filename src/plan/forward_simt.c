/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_simt.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/planner.h"
#include <stddef.h>

static int round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static int largest(int a, int b)
{
    return a > b ? a : b;
}

/* An item's share of a tile, as the kernel derives it. */
struct share {
    int ty, rows, columns; /* of the scores: rows x columns an item */
    int values;            /* float4s of an output row */
};

static struct share share_of(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int ty = config->work_group_size / config->simt.tx;
    return (struct share){.ty = ty,
                          .rows = config->b_r / ty,
                          .columns = config->b_c / config->simt.tx,
                          .values = (int)cla_ceil_div(problem->d_v, 4 * config->simt.tx)};
}

/* To the byte what the kernel declares (SIMT_LOCAL_FLOATS). */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int64_t q_stride = round_up(problem->d, 4) | 4, k_stride = config->simt.d_slice | 4;
    const int64_t v_stride = (int64_t)share.values * config->simt.tx * 4;
    const int64_t p_stride = config->b_c % 4 ? config->b_c : config->b_c | 4;
    const int64_t k_floats = (config->b_c + (config->simt.q_resident ? 0 : config->b_r)) * k_stride;
    const int64_t v_floats = config->simt.kv_slice * v_stride;
    const int64_t q_floats = config->simt.q_resident ? config->b_r * q_stride : 0;
    const int64_t p_floats = (config->b_r * p_stride + 3) / 4 * 4;
    const int64_t slice = k_floats > v_floats ? k_floats : v_floats;
    return (uint64_t)(q_floats + config->simt.buffers * slice + p_floats + 4) * sizeof(float);
}

/* Float4s of the next slice that an item carries in registers. */
static int carried(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int64_t k_vectors = (int64_t)config->b_c * (config->simt.d_slice / 4);
    const int64_t v_vectors = (int64_t)config->simt.kv_slice * share.values * config->simt.tx;
    return (int)cla_ceil_div(k_vectors > v_vectors ? k_vectors : v_vectors, config->work_group_size);
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int out = share.rows * share.values * 4, scores = share.rows * share.columns;
    const int operands = largest(4 * share.columns + 4,
                                 (config->simt.kv_slice % 4 == 0 && share.values <= 4 ? 16 : 4) * share.values + 4);
    const int next = config->simt.prefetch ? carried(problem, config) * clattn_dtype_size(problem->dtype) : 0;
    const int state = 3 * share.rows, addresses = 24;
    return (uint64_t)(out + scores + operands + next + state + addresses) * sizeof(float);
}

/* What a device lets a configuration use. */
struct limits {
    uint64_t local_bytes;
    int64_t work_group_size;
    uint64_t private_bytes; /* what stays in registers */
};

/* Registers an item may hold: 240 where the vendor's figure for a group is known to allow that with 256 items, else
 * 128, which GPUs of the last ten years give to groups of 256. */
static struct limits limits_of(const struct clattn_capabilities *capabilities)
{
    const int64_t items = (int64_t)capabilities->max_work_group_size, first = (int64_t)capabilities->max_work_item_size;
    return (struct limits){.local_bytes = cla_usable_local_bytes(capabilities),
                           .work_group_size = first && first < items ? first : items,
                           .private_bytes = capabilities->nv_registers_per_group >= 65536 ? 240 * 4 : 128 * 4};
}

/* How K and V pass through local memory, from the most comfortable to the tightest. */
static const struct {
    int q_resident, buffers, d_slice, kv_slice;
} passages[] = {{1, 2, 32, 32}, {1, 2, 16, 16}, {1, 1, 16, 16}, {0, 2, 16, 16}, {0, 1, 16, 16},
                {0, 1, 8, 8},   {0, 1, 8, 4},   {0, 1, 4, 2},   {0, 1, 4, 1}};

/* Estimated instruction slots for one key block, per item and per pair of row and key. The weights come from
 * measurements on one GPU (see README, "The planner's model"); only their order of magnitude matters elsewhere. */
static double cost(const struct limits *limits, const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const double d = round_up(problem->d, 4), rows = share.rows, columns = share.columns, values = share.values;
    const double arithmetic = rows * columns * d + rows * config->b_c * values * 4;
    const double loads = d / 4 * (rows + columns) + config->b_c / 4.0 * rows + config->b_c * values;
    const double softmax = rows * (columns * 12 + 8);
    const double slices =
        (double)cla_ceil_div(problem->d, config->simt.d_slice) + (double)config->b_c / config->simt.kv_slice;
    const double barriers = 2 + slices * (config->simt.buffers == 2 ? 1 : 2);
    const double copies =
        (config->b_c * (d / 4 + (config->simt.q_resident ? 0.0 : (double)config->b_r / config->b_c * d / 4) +
                        values * config->simt.tx)) /
        config->work_group_size;
    double slots = arithmetic + 5 * loads + softmax + 60 * barriers + 12 * copies;

    /* Private memory beyond the registers goes through device memory. */
    const uint64_t needed = private_bytes(problem, config);
    if (needed > limits->private_bytes)
        slots *= 1 + 4.0 * (double)(needed - limits->private_bytes) / (double)limits->private_bytes;
    /* Fewer than 256 items at work on a compute unit leave latencies unhidden; small groups share it as local memory
     * allows. */
    const uint64_t groups = limits->local_bytes / local_bytes(problem, config);
    const double resident = config->work_group_size * (double)(groups < 8 ? groups : 8);
    if (resident < 256)
        slots *= 1 + 0.25 * (256 / resident - 1);
    /* Rows beyond the sequence are computed all the same. */
    const double useful =
        problem->expected_n_q
            ? (double)problem->expected_n_q / ((double)cla_ceil_div(problem->expected_n_q, config->b_r) * config->b_r)
            : 1;
    return slots * config->work_group_size / ((double)config->b_r * config->b_c) / useful;
}

static void take_passage(const struct clattn_problem *problem, int index, struct cla_config *config)
{
    const int d = round_up(problem->d, 4);
    config->simt.q_resident = passages[index].q_resident;
    config->simt.buffers = passages[index].buffers;
    config->simt.d_slice = passages[index].d_slice < d ? passages[index].d_slice : d;
    config->simt.kv_slice = passages[index].kv_slice;
    while (config->b_c % config->simt.kv_slice)
        config->simt.kv_slice /= 2;
    config->simt.prefetch = carried(problem, config) <= 8;
}

/* Items are numbered in patches of up to 8 x 4, so that the lanes of a hardware vector touch few distinct rows and
 * columns. */
static void number_items(struct cla_config *config)
{
    const int ty = config->work_group_size / config->simt.tx;
    config->simt.lanes_x = config->simt.tx % 8 == 0 && ty % 4 == 0 ? 8 : config->simt.tx;
    config->simt.lanes_y = config->simt.tx % 8 == 0 && ty % 4 == 0 ? 4 : 1;
}

/* The best configuration found so far. */
struct search {
    const struct limits *limits;
    const struct clattn_problem *problem;
    struct cla_config best;
    double cost; /* negative: none */
};

/* Tries every passage: the cheapest of all that fit, so that more local memory can only lower the estimate. */
static void consider(struct search *search, int tx, int ty, int b_r, int b_c)
{
    const struct clattn_problem *problem = search->problem;
    struct cla_config config = {.b_r = b_r, .b_c = b_c, .work_group_size = tx * ty, .simt = {.tx = tx}};
    if ((int64_t)tx * ty > search->limits->work_group_size || b_r % ty || b_c % tx || b_r / ty * (b_c / tx) > 256)
        return;
    if (problem->work_group_size && problem->work_group_size != tx * ty)
        return;
    number_items(&config);
    for (size_t i = 0; i < sizeof passages / sizeof *passages; i++) {
        take_passage(problem, (int)i, &config);
        if (local_bytes(problem, &config) > search->limits->local_bytes)
            continue;
        const double estimate = cost(search->limits, problem, &config);
        if (search->cost < 0 || estimate < search->cost) {
            search->best = config;
            search->cost = estimate;
        }
    }
}

static void consider_rows(struct search *search, int tx, int ty, int b_r)
{
    if (search->problem->b_c) {
        consider(search, tx, ty, b_r, search->problem->b_c);
        return;
    }
    for (int columns = 1; columns <= 8; columns *= 2)
        consider(search, tx, ty, b_r, tx * columns);
}

static struct search find_best(const struct limits *limits, const struct clattn_problem *problem)
{
    struct search search = {.limits = limits, .problem = problem, .cost = -1};
    for (int tx = 1; tx <= 64; tx *= 2) {
        for (int ty = 1; ty <= 64; ty *= 2) {
            /* A forced group that is no power of two leaves the rest to the other dimension. */
            const int forced = problem->work_group_size;
            const int height = forced && forced % tx == 0 && ty == 1 ? forced / tx : ty;
            if (problem->b_r)
                consider_rows(&search, tx, height, problem->b_r);
            else
                for (int rows = 1; rows <= 8; rows *= 2)
                    consider_rows(&search, tx, height, height * rows);
        }
    }
    return search;
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)capabilities;
    (void)problem;
    return true; /* it runs on every device */
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct limits limits = limits_of(capabilities);
    const struct search search = find_best(&limits, problem);
    if (search.cost < 0)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "forward_simt with d = %d, d_v = %d%s: no block fits %llu bytes of local memory and %lld work-items",
            problem->d, problem->d_v,
            problem->b_r || problem->b_c || problem->work_group_size ? " and the forced sizes" : "",
            (unsigned long long)limits.local_bytes, (long long)limits.work_group_size);
    *config = search.best;
    info->estimate = search.cost;
    const struct share share = share_of(problem, config);
    cla_plan_step(info, "registers", config->b_r, config->b_c,
                  "%d x %d items, each %d x %d scores and %d x %d outputs: %llu of %llu bytes of registers an item",
                  config->simt.tx, share.ty, share.rows, share.columns, share.rows, share.values * 4,
                  (unsigned long long)private_bytes(problem, config), (unsigned long long)limits.private_bytes);
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "K in slices of %d columns, V of %d rows, %d buffer%s, Q %s: %llu of %llu bytes",
                  config->simt.d_slice, config->simt.kv_slice, config->simt.buffers,
                  config->simt.buffers == 1 ? "" : "s",
                  config->simt.q_resident ? "resident" : "read again with each slice",
                  (unsigned long long)local_bytes(problem, config), (unsigned long long)limits.local_bytes);
    return CLATTN_SUCCESS;
}

/* The device refused: half the items, or the best configuration for half the local memory where the group is small
 * already. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    struct limits limits = limits_of(capabilities);
    const uint64_t used = local_bytes(problem, config);
    if (config->work_group_size > 1)
        limits.work_group_size = config->work_group_size / 2;
    limits.local_bytes = used - 1;
    const struct search search = find_best(&limits, problem);
    if (search.cost < 0)
        return false;
    *config = search.best;
    return true;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    const struct {
        const char *name;
        int value;
    } defines[] = {{"BUFFERS", config->simt.buffers},       {"D_SLICE", config->simt.d_slice},
                   {"KV_SLICE", config->simt.kv_slice},     {"LANES_X", config->simt.lanes_x},
                   {"LANES_Y", config->simt.lanes_y},       {"PREFETCH", config->simt.prefetch},
                   {"Q_RESIDENT", config->simt.q_resident}, {"TX", config->simt.tx}};
    for (size_t i = 0; i < sizeof defines / sizeof *defines; i++)
        cla_text_printf(text, "#define CLATTN_%s %d\n", defines[i].name, defines[i].value);
}

static const char *const files[] = {"common/types.clh", "common/score.clh", "forward_simt.cl", NULL};

const struct cla_skeleton cla_forward_simt = {
    .name = "forward_simt",
    .files = files,
    .entry = "clattn_forward",
    .prefers = prefers,
    .choose = choose,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .define = define,
};
