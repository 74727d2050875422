/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_simt.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/recipe.h"
#include "plan/simt.h"
#include "plan/traffic.h"

enum {
    MOST_ROWS = 128, /* of a query block */
    MOST_KEYS = 256  /* of a key block */
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
    const int64_t k_floats = config->simt.d_slice * (b_c + (config->simt.resident ? 0 : b_r));
    const int64_t v_floats = (int64_t)config->simt.row_slice * share.values * config->simt.tx * 4;
    const int64_t q_floats = config->simt.resident ? d * b_r : 0;
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
    const int v = ceil_div(config->simt.row_slice * share.values * config->simt.tx, items);
    return config->simt.prefetch ? largest(k, v) : 1;
}

/* 32-bit words that an item keeps: scores, outputs, the rows' bound, maximum and sum, what it carries, operands,
 * addresses. What a tile adds to the outputs is summed in the scores' place; where there is more of it, outputs go to
 * memory meanwhile, once for a tile, which costs less than smaller tiles. */
static int64_t private_words(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int64_t rows = share.rows, operands = 2 * (rows + largest(share.columns, 4 * share.values));
    return rows * share.columns + 4 * rows * share.values + 3 * rows +
           clattn_dtype_size(problem->dtype) * carried(problem, config) + operands + 36;
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return (uint64_t)private_words(problem, config) * 4;
}

static double arithmetic(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    return (double)share.rows * ((double)round_up(problem->d, 4) * share.columns + 4.0 * config->b_c * share.values);
}

/* Rows of a block that the sequence has, on average. */
static double useful_rows(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->expected_n_q
               ? (double)problem->expected_n_q / (double)cla_ceil_div(problem->expected_n_q, config->b_r)
               : config->b_r;
}

/* Slots for one pair of row and key; smaller is better. */
static double cost(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                   const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int rows = share.rows, columns = share.columns, values = share.values;
    const double d = round_up(problem->d, 4), b_c = config->b_c, items = config->work_group_size;
    const int k_slices = ceil_div((int)d, config->simt.d_slice), v_slices = config->b_c / config->simt.row_slice;
    const int q_slices = config->simt.resident ? 0 : k_slices;
    const double copied = b_c * k_slices * config->simt.d_slice / 4 + b_c * values * config->simt.tx +
                          (double)q_slices * config->b_r * config->simt.d_slice / 4;
    const struct cla_simt_work work = {
        .arithmetic = arithmetic(problem, config),
        .loads = d * (rows / width_of(rows) + columns / width_of(columns)) + b_c * (rows / width_of(rows) + values),
        .words = d * (rows + columns) + b_c * (rows + 4 * values),
        .pairs = (double)rows * columns,
        .written = 2.0 * rows * columns,
        .copies = copied / items,
        .other = 9,
        .slices = k_slices + v_slices,
        .exchanges = 1,
        .block_slices = q_slices,
        .bytes = b_c * (problem->d + problem->d_v) * clattn_dtype_size(problem->dtype),
        .private_words = private_words(problem, config),
        .local_bytes = local_bytes(problem, config),
    };
    return cla_simt_slots(limits, config, &work) / (useful_rows(problem, config) * b_c) *
           cla_simt_mask_factor(problem, config);
}

/* The best configuration found so far. */
struct search {
    const struct cla_simt_limits *limits;
    const struct clattn_problem *problem;
    struct cla_config best;
    double cost; /* negative: none */
};

/* Tries every passage: the cheapest of all that fit, so that more local memory can only lower the estimate. */
static void consider(struct search *search, int tx, int ty, int b_r, int b_c)
{
    const struct clattn_problem *problem = search->problem;
    struct cla_config config = {.b_r = b_r, .b_c = b_c, .work_group_size = tx * ty, .simt = {.tx = tx}};
    if ((int64_t)tx * ty > search->limits->items || b_r % ty || b_c % tx || (int64_t)(b_r / ty) * (b_c / tx) > 256)
        return;
    if (problem->work_group_size && problem->work_group_size != tx * ty)
        return;
    /* Arithmetic alone is a lower bound. */
    const double least = arithmetic(problem, &config) * ceil_div(tx * ty, search->limits->machine.lanes) /
                         (useful_rows(problem, &config) * b_c);
    if (search->cost >= 0 && least >= search->cost)
        return;
    cla_simt_number_items(&config);
    for (int i = 0; i < CLA_SIMT_PASSAGES; i++) {
        cla_simt_take_passage(i, problem->d, config.b_c, &config);
        config.simt.prefetch = 1;
        config.simt.prefetch = carried(problem, &config) <= 8;
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

static struct search find_best(const struct cla_simt_limits *limits, const struct clattn_problem *problem)
{
    struct search search = {.limits = limits, .problem = problem, .cost = -1};
    const int forced = problem->work_group_size;
    for (int i = 0; i < CLA_SIMT_WIDTHS; i++) {
        const int tx = cla_simt_widths[i];
        if (forced && forced % tx == 0)
            consider_rows(&search, tx, forced / tx);
        for (int ty = 32; ty >= 1 && !forced; ty /= 2)
            if (tx * ty <= CLA_SIMT_MOST_ITEMS)
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

static clattn_status nothing_fits(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
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

static void explain(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    info->estimate = cost(limits, problem, config);
    const struct share share = share_of(problem, config);
    cla_plan_step(info, "registers", config->b_r, config->b_c,
                  "%d x %d items each own %d x %d scores and %d x %d outputs: %lld of %d registers, so that each value "
                  "loaded is used %d and %d times",
                  config->simt.tx, share.ty, share.rows, share.columns, share.rows, share.values * 4,
                  (long long)private_words(problem, config), cla_simt_words_of(limits, config->work_group_size),
                  share.rows, share.columns);
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "Q %s, K in slices of %d columns, V of %d rows, %d buffer%s: %llu of %llu bytes",
                  config->simt.resident ? "stays" : "is read again with each slice", config->simt.d_slice,
                  config->simt.row_slice, config->simt.buffers, config->simt.buffers == 1 ? "" : "s",
                  (unsigned long long)local_bytes(problem, config), (unsigned long long)limits->local_bytes);
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
    const struct search search = find_best(&limits, problem);
    if (search.cost < 0)
        return nothing_fits(&limits, problem, error);
    *config = search.best;
    explain(&limits, problem, config, info);
    return CLATTN_SUCCESS;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
    const bool whole = config->b_r >= 1 && config->b_c >= 1 && config->b_c <= 65536 && config->b_r <= 65536 &&
                       cla_simt_is_whole(&limits, problem->d, config->b_c, config);
    const int tx = config->simt.tx, ty = whole ? config->work_group_size / tx : 1;
    if (!whole || config->b_r % ty || config->b_c % tx || (int64_t)(config->b_r / ty) * (config->b_c / tx) > 256 ||
        local_bytes(problem, config) > limits.local_bytes)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "forward_simt does not take b_r %d, b_c %d, work_group_size %d with problem.knobs \"%s\": tx "
                        "divides b_c and work_group_size (of at most %lld), work_group_size / tx divides b_r, an item "
                        "owns at most 256 scores, d_slice is a multiple of 4 up to d, row_slice divides b_c, and the "
                        "tiles fit %llu bytes of local memory",
                        config->b_r, config->b_c, config->work_group_size, problem->knobs ? problem->knobs : "",
                        (long long)limits.items, (unsigned long long)limits.local_bytes);
    explain(&limits, problem, config, info);
    return CLATTN_SUCCESS;
}

/* The device refused: plan for half the items and less local memory than this one took. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
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

static void streams(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    cla_streams_plain(config, streams);
    streams[0].resident = config->simt.resident;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_simt_define(config, text);
}

static const char *const files[] = {"forward_simt.cl", NULL};

const struct cla_skeleton cla_forward_simt = {
    .name = "forward_simt",
    .files = files,
    .kernels = cla_forward_kernels,
    .tile_element_bytes = sizeof(float),
    .prefers = prefers,
    .choose = choose,
    .knobs = cla_simt_knobs,
    .adopt = adopt,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .unoptimised = unoptimised,
    .streams = streams,
    .recipe = cla_recipe_forward,
    .define = define,
};
