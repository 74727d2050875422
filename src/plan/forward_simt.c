/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_simt.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/planner.h"
#include <math.h>
#include <stddef.h>

enum {
    MOST_ROWS = 128,          /* of a query block */
    MOST_KEYS = 256,          /* of a key block */
    MOST_ITEMS = 512,         /* of a work-group: beyond, barriers cost more than reuse gains */
    MOST_WORDS = 248,         /* private words that compile without spilling where an item may have 255 registers */
    DEFAULT_WORDS = 128,      /* and where nothing is known of registers */
    DEFAULT_REGISTERS = 65536 /* of a compute unit */
};

static int round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static int ceil_div(int value, int divisor)
{
    return (value + divisor - 1) / divisor;
}

static int largest(int a, int b)
{
    return a > b ? a : b;
}

/* The widest vector that n elements divide into. */
static int width_of(int n)
{
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
}

/* What each item of a work-group owns, as the kernel derives it. */
struct share {
    int ty;
    int rows, columns; /* of the scores */
    int values;        /* float4s of an output row */
};

static struct share share_of(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int ty = config->work_group_size / config->simt.tx;
    return (struct share){.ty = ty,
                          .rows = config->b_r / ty,
                          .columns = config->b_c / config->simt.tx,
                          .values = ceil_div(problem->d_v, 4 * config->simt.tx)};
}

/* To the byte what the kernel declares (SIMT_LOCAL_FLOATS). */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int64_t d = round_up(problem->d, 4), b_r = config->b_r, b_c = config->b_c;
    const int64_t k_floats = config->simt.d_slice * (b_c + (config->simt.q_resident ? 0 : b_r));
    const int64_t v_floats = (int64_t)config->simt.kv_slice * share.values * config->simt.tx * 4;
    const int64_t q_floats = config->simt.q_resident ? d * b_r : 0;
    const int64_t p_floats = (b_r * b_c + 3) / 4 * 4;
    const int64_t slice = k_floats > v_floats ? k_floats : v_floats;
    return (uint64_t)(q_floats + config->simt.buffers * slice + p_floats + 4) * sizeof(float);
}

/* 4-column blocks of the next slice that an item carries in registers. */
static int carried(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int width = width_of(share.columns), items = config->work_group_size;
    const int k = ceil_div(config->b_c / width * (config->simt.d_slice / 4), items) * width;
    const int v = ceil_div(config->simt.kv_slice * share.values * config->simt.tx, items);
    return config->simt.prefetch ? largest(k, v) : 1;
}

/* 32-bit words that an item keeps: scores, outputs, the rows' bound, maximum and sum, what it carries, operands,
 * addresses. */
static int private_words(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int operands = 2 * (share.rows + largest(share.columns, 4 * share.values));
    return share.rows * share.columns + 4 * share.rows * share.values + 3 * share.rows +
           clattn_dtype_size(problem->dtype) * carried(problem, config) + operands + 36;
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return (uint64_t)private_words(problem, config) * 4;
}

/* What a device lets a configuration use. */
struct limits {
    uint64_t local_bytes;
    int64_t items;
    int words;     /* an item's registers */
    int registers; /* a compute unit's */
};

static struct limits limits_of(const struct clattn_capabilities *capabilities)
{
    const int64_t items = (int64_t)capabilities->max_work_group_size, first = (int64_t)capabilities->max_work_item_size;
    const uint64_t local = cla_usable_local_bytes(capabilities);
    const uint32_t registers = capabilities->nv_registers_per_group;
    return (struct limits){.local_bytes = local > 16 ? local - 16 : 0, /* drivers may align the kernel's array */
                           .items = first && first < items ? first : items,
                           .words = registers >= DEFAULT_REGISTERS ? MOST_WORDS : DEFAULT_WORDS,
                           .registers = registers ? (int)registers : DEFAULT_REGISTERS};
}

/* The model of time, fitted to 49 configurations measured on an NVIDIA H200 (root mean square error 5.4 %); elsewhere
 * only its order of things matters. Everything is in issue slots of a compute unit with four schedulers of 32 lanes. */
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
static int64_t residents(const struct limits *limits, const struct clattn_problem *problem,
                         const struct cla_config *config)
{
    const int words = private_words(problem, config);
    const int64_t held =
        (int64_t)(words > MOST_WORDS ? 256 : round_up(words, 8)) * round_up(config->work_group_size, 32);
    const int64_t by_local = (int64_t)(limits->local_bytes / (local_bytes(problem, config) + 1040));
    const int64_t by_registers = limits->registers / held, by_items = 2048 / config->work_group_size;
    int64_t groups = by_local < by_registers ? by_local : by_registers;
    groups = groups < by_items ? groups : by_items;
    return groups > 1 ? groups : 1;
}

static double arithmetic(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    return (double)share.rows * ((double)round_up(problem->d, 4) * share.columns + 4.0 * config->b_c * share.values);
}

/* Registers that each of so many items may have: an item's own limit, or its part of the compute unit's. */
static int words_of(const struct limits *limits, int items)
{
    const int part = limits->registers / round_up(items, 32) / 8 * 8;
    return part < limits->words ? part : limits->words;
}

/* Rows of a block that the sequence has, on average. */
static double useful_rows(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->expected_n_q
               ? (double)problem->expected_n_q / (double)cla_ceil_div(problem->expected_n_q, config->b_r)
               : config->b_r;
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

/* Slots for one pair of row and key; smaller is better. */
static double cost(const struct limits *limits, const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int rows = share.rows, columns = share.columns, values = share.values, items = config->work_group_size;
    const double d = round_up(problem->d, 4), b_c = config->b_c;
    const int k_slices = ceil_div((int)d, config->simt.d_slice), v_slices = config->b_c / config->simt.kv_slice;

    /* One block of keys, for one item. */
    const double loads =
        d * (rows / width_of(rows) + columns / width_of(columns)) + b_c * (rows / width_of(rows) + values);
    const double words = d * (rows + columns) + b_c * (rows + 4 * values);
    double copies = (b_c * k_slices * config->simt.d_slice / 4 + b_c * values * config->simt.tx) / items;
    if (!config->simt.q_resident)
        copies += (double)k_slices * config->b_r * config->simt.d_slice / 4 / items;
    const double issue = arithmetic(problem, config) * (1 + weight.loop) + loads + 9.0 * rows * columns +
                         weight.copy * copies + 60.0 * (k_slices + v_slices);
    const double local = weight.word * (words + 8 * copies + 2.0 * rows * columns);

    /* One block of keys, for the work-group: its warps go to four schedulers, and other groups hide what it waits for.
     */
    const double groups = (double)residents(limits, problem, config);
    const int warps = ceil_div(items, 32);
    double slots = pow(pow(issue, weight.overlap) + pow(local, weight.overlap), 1 / weight.overlap) * warps *
                   unevenness(warps, (int)groups);
    slots += (k_slices + v_slices + 1) * (config->simt.buffers == 1 ? 2 : 1) * weight.barrier / groups;
    slots += ((config->simt.prefetch ? 0 : k_slices + v_slices) + (config->simt.q_resident ? 0 : k_slices)) *
             weight.exposed_load / groups;
    slots *= 1 + weight.latency / (groups * items);
    slots += b_c * (problem->d + problem->d_v) * clattn_dtype_size(problem->dtype) * 4 / weight.traffic;

    /* What does not stay in registers goes through device memory: never worth it while anything else fits. */
    const int excess = private_words(problem, config) - words_of(limits, items);
    if (excess > 0)
        slots *= 10 + excess;
    return slots / (useful_rows(problem, config) * b_c);
}

/* How Q, K and V pass through local memory. */
static const struct {
    int q_resident, buffers, d_slice, kv_slice;
} passages[] = {{1, 2, 32, 32}, {1, 2, 32, 16}, {1, 2, 16, 16}, {1, 1, 32, 32}, {1, 1, 16, 16},
                {0, 2, 32, 16}, {0, 2, 16, 16}, {0, 1, 32, 16}, {0, 1, 16, 16}, {0, 1, 8, 8},
                {0, 1, 8, 4},   {0, 1, 4, 2},   {0, 1, 4, 1}};

static void take_passage(const struct clattn_problem *problem, int index, struct cla_config *config)
{
    const int d = round_up(problem->d, 4);
    config->simt.q_resident = passages[index].q_resident;
    config->simt.buffers = passages[index].buffers;
    config->simt.d_slice = passages[index].d_slice < d ? passages[index].d_slice : d;
    config->simt.kv_slice = passages[index].kv_slice;
    while (config->b_c % config->simt.kv_slice)
        config->simt.kv_slice--;
    config->simt.prefetch = 1;
    config->simt.prefetch = carried(problem, config) <= 8;
}

/* Items are numbered in patches of 32, as square as 8 x 4, so that the lanes of a hardware vector touch few distinct
 * rows and columns (5 % at d = 128); in plain order where no patch fits. */
static void number_items(struct cla_config *config)
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
    if ((int64_t)tx * ty > search->limits->items || b_r % ty || b_c % tx || b_r / ty * (b_c / tx) > 256)
        return;
    if (problem->work_group_size && problem->work_group_size != tx * ty)
        return;
    /* Arithmetic alone is a lower bound. */
    const double least = arithmetic(problem, &config) * ceil_div(tx * ty, 32) / (useful_rows(problem, &config) * b_c);
    if (search->cost >= 0 && least >= search->cost)
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

static void consider_keys(struct search *search, int tx, int ty, int b_r)
{
    if (search->problem->b_c) {
        consider(search, tx, ty, b_r, search->problem->b_c);
        return;
    }
    for (int columns = 8; columns >= 1; columns /= 2)
        if (tx * columns <= MOST_KEYS)
            consider(search, tx, ty, b_r, tx * columns);
}

static void consider_rows(struct search *search, int tx, int ty)
{
    if (search->problem->b_r) {
        consider_keys(search, tx, ty, search->problem->b_r);
        return;
    }
    for (int rows = 8; rows >= 1; rows /= 2)
        if (ty * rows <= MOST_ROWS)
            consider_keys(search, tx, ty, ty * rows);
}

/* Widths of a row of items, not only powers of two: 4 * TX should divide d_v, or nearly. */
static const int row_widths[] = {8, 16, 32, 4, 10, 12, 14, 20, 24, 28, 40, 48, 56, 64, 5, 6, 7, 3, 2, 1, 128};

static struct search find_best(const struct limits *limits, const struct clattn_problem *problem)
{
    struct search search = {.limits = limits, .problem = problem, .cost = -1};
    const int forced = problem->work_group_size;
    for (size_t i = 0; i < sizeof row_widths / sizeof *row_widths; i++) {
        const int tx = row_widths[i];
        if (forced && forced % tx == 0)
            consider_rows(&search, tx, forced / tx);
        for (int ty = 32; ty >= 1 && !forced; ty /= 2)
            if (tx * ty <= MOST_ITEMS)
                consider_rows(&search, tx, ty);
    }
    return search;
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)capabilities;
    (void)problem;
    return true; /* it runs on every device */
}

static clattn_status nothing_fits(const struct limits *limits, const struct clattn_problem *problem,
                                  struct cla_error *error)
{
    if (problem->b_r || problem->b_c || problem->work_group_size)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d; 0 is planned) do not fit forward_simt with "
            "d = %d, d_v = %d, %llu bytes of local memory and %lld work-items",
            problem->b_r, problem->b_c, problem->work_group_size, problem->d, problem->d_v,
            (unsigned long long)limits->local_bytes, (long long)limits->items);
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "forward_simt with d = %d, d_v = %d: not even a 1 x 1 block fits %llu bytes of local memory and "
                    "%lld work-items",
                    problem->d, problem->d_v, (unsigned long long)limits->local_bytes, (long long)limits->items);
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct limits limits = limits_of(capabilities);
    const struct search search = find_best(&limits, problem);
    if (search.cost < 0)
        return nothing_fits(&limits, problem, error);
    *config = search.best;
    info->estimate = search.cost;
    const struct share share = share_of(problem, config);
    cla_plan_step(info, "registers", config->b_r, config->b_c,
                  "%d x %d items each own %d x %d scores and %d x %d outputs: %d of %d registers, so that each value "
                  "loaded is used %d and %d times",
                  config->simt.tx, share.ty, share.rows, share.columns, share.rows, share.values * 4,
                  private_words(problem, config), words_of(&limits, config->work_group_size), share.rows,
                  share.columns);
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "Q %s, K in slices of %d columns, V of %d rows, %d buffer%s: %llu of %llu bytes",
                  config->simt.q_resident ? "stays" : "is read again with each slice", config->simt.d_slice,
                  config->simt.kv_slice, config->simt.buffers, config->simt.buffers == 1 ? "" : "s",
                  (unsigned long long)local_bytes(problem, config), (unsigned long long)limits.local_bytes);
    return CLATTN_SUCCESS;
}

/* The device refused: plan for half the items and less local memory than this one took. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    struct limits limits = limits_of(capabilities);
    if (config->work_group_size > 1)
        limits.items = config->work_group_size / 2;
    limits.local_bytes = local_bytes(problem, config) - 1;
    const struct search search = find_best(&limits, problem);
    if (search.cost < 0)
        return false;
    *config = search.best;
    return true;
}

/* CPU drivers turn a work-group into loops around each stretch between barriers, and their optimiser takes up to a
 * minute over this kernel, to run it no faster than forward_cpu's tenth. There it is run to be checked, so it is
 * compiled quickly. */
static bool unoptimised(const struct clattn_capabilities *capabilities)
{
    return capabilities->type == CLATTN_DEVICE_CPU && capabilities->local_memory_type == CLATTN_LOCAL_MEMORY_GLOBAL;
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

static const char *const files[] = {"common/types.clh", "common/score.clh", "common/philox.clh", "forward_simt.cl", NULL};

static const char *const entries[] = {"clattn_forward", NULL};

const struct cla_skeleton cla_forward_simt = {
    .name = "forward_simt",
    .files = files,
    .entries = entries,
    .tile_element_bytes = sizeof(float),
    .prefers = prefers,
    .choose = choose,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .unoptimised = unoptimised,
    .define = define,
};
