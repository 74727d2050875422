/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_simt.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/recipe.h"
#include "plan/skeletons/simt.h"
#include "plan/traffic.h"

enum {
    MOST_ROWS = 128, /* of a query block */
    MOST_KEYS = 256  /* of a key block */
};

static int largest(int a, int b)
{
    return a > b ? a : b;
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
                          .values = cla_simt_ceil_div(problem->d_v, 4 * config->simt.tx)};
}

/* To the byte what the kernel declares (SIMT_LOCAL_FLOATS). */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int64_t d = cla_simt_round_up(problem->d, 4), b_r = config->b_r, b_c = config->b_c;
    const int64_t k_floats = cla_simt_transposed(config->simt.d_slice, b_c) +
                             (config->simt.resident ? 0 : cla_simt_transposed(config->simt.d_slice, b_r));
    const int64_t v_floats = (int64_t)config->simt.row_slice * share.values * config->simt.tx * 4;
    const int64_t q_floats = config->simt.resident ? cla_simt_transposed(d, b_r) : 0;
    const int64_t p_floats = (cla_simt_transposed(b_c, b_r) + 3) / 4 * 4;
    const int64_t slice = k_floats > v_floats ? k_floats : v_floats;
    return (uint64_t)(q_floats + config->simt.buffers * slice + p_floats + 4) * sizeof(float);
}

/* 4-column blocks of the next slice that an item carries in registers. */
static int carried(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    const int width = cla_simt_width_of(share.columns), items = config->work_group_size;
    const int k = cla_simt_ceil_div(config->b_c / width * (config->simt.d_slice / 4), items) * width;
    const int v = cla_simt_ceil_div(config->simt.row_slice * share.values * config->simt.tx, items);
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
           cla_simt_carried_words(problem) * carried(problem, config) + operands + 36;
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return (uint64_t)private_words(problem, config) * 4;
}

static double arithmetic(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct share share = share_of(problem, config);
    return (double)share.rows *
           ((double)cla_simt_round_up(problem->d, 4) * share.columns + 4.0 * config->b_c * share.values);
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
                   const struct cla_config *config, cla_simt_slots_function slots)
{
    const struct share share = share_of(problem, config);
    const int rows = share.rows, columns = share.columns, values = share.values;
    const double d = cla_simt_round_up(problem->d, 4), b_c = config->b_c, items = config->work_group_size;
    const int k_slices = cla_simt_ceil_div((int)d, config->simt.d_slice),
              v_slices = config->b_c / config->simt.row_slice;
    const int q_slices = config->simt.resident ? 0 : k_slices;
    const double copied = b_c * k_slices * config->simt.d_slice / 4 + b_c * values * config->simt.tx +
                          (double)q_slices * config->b_r * config->simt.d_slice / 4;
    const struct cla_simt_work work = {
        .arithmetic = arithmetic(problem, config),
        .loads = d * (rows / cla_simt_width_of(rows) + columns / cla_simt_width_of(columns)) +
                 b_c * (rows / cla_simt_width_of(rows) + values),
        .words = d * (rows + columns) + b_c * (rows + 4 * values),
        .pairs = (double)rows * columns,
        .written = 2.0 * rows * columns,
        .copies = copied / items,
        .other = 9,
        .slices = k_slices + v_slices,
        .exchanges = 1,
        .block_slices = q_slices,
        .bytes =
            b_c * (problem->d * cla_element_bytes(problem, CLA_K) + problem->d_v * cla_element_bytes(problem, CLA_V)),
        .private_words = private_words(problem, config),
        .local_bytes = local_bytes(problem, config),
    };
    return slots(limits, config, &work) / (useful_rows(problem, config) * b_c) * cla_simt_mask_factor(problem, config);
}

static void consider(struct cla_simt_search *search, int tx, int ty, int b_r, int b_c)
{
    const struct clattn_problem *problem = search->problem;
    struct cla_config config = {.b_r = b_r, .b_c = b_c, .work_group_size = tx * ty, .simt = {.tx = tx}};
    if ((int64_t)tx * ty > search->limits->items || b_r % ty || b_c % tx || (int64_t)(b_r / ty) * (b_c / tx) > 256)
        return;
    if (!problem->work_group_size || problem->work_group_size == tx * ty)
        cla_simt_try(search, problem->d, b_c, &config);
}

static void consider_keys(struct cla_simt_search *search, int tx, int ty, int b_r)
{
    if (search->problem->b_c) {
        consider(search, tx, ty, b_r, search->problem->b_c);
        return;
    }
    for (int columns = 8; columns >= 1; columns /= 2)
        if (tx * columns <= MOST_KEYS)
            consider(search, tx, ty, b_r, tx * columns);
}

static void consider_rows(struct cla_simt_search *search, int tx, int ty)
{
    if (search->problem->b_r) {
        consider_keys(search, tx, ty, search->problem->b_r);
        return;
    }
    for (int rows = 8; rows >= 1; rows /= 2)
        if (ty * rows <= MOST_ROWS)
            consider_keys(search, tx, ty, ty * rows);
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
    info->estimate = cost(limits, problem, config, cla_simt_slots);
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

static const struct cla_simt_model model = {consider_rows, cost, carried, local_bytes, nothing_fits, explain};

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    return cla_simt_choose(capabilities, problem, &model, config, info, error);
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

static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    return cla_simt_step_down(capabilities, problem, &model, config);
}

static void streams(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    cla_streams_plain(config, streams);
    streams[0].resident = config->simt.resident;
}

static const char *const files[] = {"forward_simt.cl", NULL};

const struct cla_skeleton cla_forward_simt = {
    .name = "forward_simt",
    .files = files,
    .packs = true,
    .kernels = cla_forward_kernels,
    .tile_element_bytes = sizeof(float),
    .prefers = cla_simt_prefers,
    .choose = choose,
    .knobs = cla_simt_knobs,
    .adopt = adopt,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .build_options = cla_simt_build_options,
    .streams = streams,
    .recipe = cla_recipe_forward,
    .define = cla_simt_define,
};
