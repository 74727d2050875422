/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_simt.cl: what a configuration costs, and which one to take. One configuration
 * serves all of its kernels, whose blocks are rows in one and keys in another, so that TX and TY divide both B_R and
 * B_C. */
#include "plan/checked.h"
#include "plan/recipe.h"
#include "plan/skeletons/simt.h"
#include "plan/traffic.h"
#include <stddef.h>

enum {
    MOST_SIDE = 128, /* rows or keys of a tile */
    MOST_OWNED = 64  /* pairs an item owns: in registers */
};

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What one kernel makes of a configuration, as its text derives it. */
struct part {
    int block, stream; /* rows of the side that stays, and of a tile of the other */
    int rows, columns; /* pairs an item owns */
    int vectors;       /* float4 columns an item owns of the outputs */
    int widest;        /* of these, of one output */
    int outputs;
    bool resident;
};

static struct part part_of(const struct clattn_problem *problem, const struct cla_config *config, int kernel)
{
    const int tx = config->simt.tx, ty = config->work_group_size / tx;
    const bool keys_stay = kernel == CLA_DK_DV;
    const int block = keys_stay ? config->b_c : config->b_r, stream = keys_stay ? config->b_r : config->b_c;
    const int q_or_k = kernel == CLA_D_BIAS ? 0 : cla_simt_ceil_div(problem->d, 4 * tx);
    const int v = keys_stay ? cla_simt_ceil_div(problem->d_v, 4 * tx) : 0;
    return (struct part){.block = block,
                         .stream = stream,
                         .rows = block / ty,
                         .columns = stream / tx,
                         .vectors = q_or_k + v,
                         .widest = q_or_k > v ? q_or_k : v,
                         .outputs = kernel == CLA_D_BIAS ? 0
                                    : keys_stay          ? 2
                                                         : 1,
                         .resident = config->simt.resident && kernel != CLA_D_BIAS};
}

/* To the byte what the kernel declares (SIMT_LOCAL_FLOATS). */
static uint64_t local_bytes_of(const struct clattn_problem *problem, const struct cla_config *config, int kernel)
{
    const struct part part = part_of(problem, config, kernel);
    const int64_t d = cla_simt_round_up(problem->d, 4) + cla_simt_round_up(problem->d_v, 4), block = part.block,
                  stream = part.stream;
    const int64_t columns = cla_simt_transposed(config->simt.d_slice, stream) +
                            (part.resident ? 0 : cla_simt_transposed(config->simt.d_slice, block));
    const int64_t rows = (int64_t)config->simt.row_slice * part.widest * config->simt.tx * 4;
    const int64_t tile = (cla_simt_transposed(stream, block) + 3) / 4 * 4;
    return (uint64_t)((part.resident ? cla_simt_transposed(d, block) : 0) +
                      config->simt.buffers * largest(columns, rows) + tile + 4) *
           sizeof(float);
}

static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    int64_t most = 0;
    for (int kernel = CLA_DQ; kernel <= CLA_D_BIAS; kernel++)
        most = largest(most, (int64_t)local_bytes_of(problem, config, kernel));
    return (uint64_t)most;
}

/* 4-column blocks of the next slice that an item carries in registers. */
static int carried_by(const struct clattn_problem *problem, const struct cla_config *config, int kernel)
{
    const struct part part = part_of(problem, config, kernel);
    const int width = cla_simt_width_of(part.columns), items = config->work_group_size;
    const int columns = cla_simt_ceil_div(part.stream / width * (config->simt.d_slice / 4), items) * width;
    const int rows = cla_simt_ceil_div(config->simt.row_slice * part.widest * config->simt.tx, items);
    return config->simt.prefetch ? (int)largest(columns, rows) : 1;
}

static int carried(const struct clattn_problem *problem, const struct cla_config *config)
{
    return (int)largest(carried_by(problem, config, CLA_DQ), carried_by(problem, config, CLA_DK_DV));
}

/* Whether weights wait in local memory while dP is computed (SIMT_PARKS). */
static bool parks(const struct clattn_problem *problem)
{
    enum { MOST_D_V = 128 };
    return !(problem->features & CLATTN_DROPOUT) && problem->d_v <= MOST_D_V;
}

/* 32-bit words that an item keeps: pairs, outputs, LSE and delta, what it carries, operands, addresses; slopes of
 * modified scores and what dropout took. What a tile adds to an output is summed in the place of pairs; where there
 * is more of it, outputs go to memory meanwhile, once for a tile, which costs less than smaller tiles. */
static int64_t private_words_of(const struct clattn_problem *problem, const struct cla_config *config, int kernel)
{
    const struct part part = part_of(problem, config, kernel);
    const int64_t pairs = (int64_t)part.rows * part.columns;
    const int64_t operands = 2 * (part.rows + largest(part.columns, 4 * part.widest));
    const bool slopes = (problem->features & CLATTN_SOFTCAP) || problem->score_mod;
    const int64_t dropped = problem->features & CLATTN_DROPOUT ? cla_ceil_div(pairs, 32) : 0;
    return pairs * (1 + slopes + !parks(problem)) + 4 * (int64_t)part.rows * part.vectors +
           2 * (kernel == CLA_DK_DV ? part.columns : part.rows) + dropped +
           cla_simt_carried_words(problem) * carried_by(problem, config, kernel) + operands + 40;
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return 4 *
           (uint64_t)largest(private_words_of(problem, config, CLA_DQ), private_words_of(problem, config, CLA_DK_DV));
}

/* Rows of a block that a sequence of so many has, on average; 0: unknown. */
static double useful(int64_t expected, int block)
{
    return expected ? (double)expected / (double)cla_ceil_div(expected, block) : block;
}

/* Bytes of a row of each of the two tensors that pass a kernel's block. */
static double passing_bytes(const struct clattn_problem *problem, int kernel)
{
    const bool rows = kernel == CLA_DK_DV;
    return (double)problem->d * cla_size_of(problem, rows ? CLA_Q : CLA_K) +
           (double)problem->d_v * cla_size_of(problem, rows ? CLA_D_O : CLA_V);
}

/* Words that an item moves out of registers and back, once for a tile. A tile's share of the outputs is summed in the
 * place of pairs; where there are more outputs than pairs, long slices leave no room for the rest. (H200, fp32, d 128,
 * 4096 rows and keys of 32 heads: 30.8 ms with slices of 32 rows, 27.9 with 16.) */
static double moved_words(const struct part *part, const struct cla_config *config)
{
    enum { SHORT_SLICE = 16 };
    const double more = part->rows * (4.0 * part->vectors - part->columns);
    return config->simt.row_slice > SHORT_SLICE && more > 0 ? 2 * more : 0;
}

/* Words of addresses: for 256 registers Intel's compiler keeps one for each row of a bias (PVC, d 128 with dropout: 37
 * accesses to scratch memory where they were not counted). */
static int64_t address_words(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                             const struct part *part)
{
    return limits->machine.large_registers && problem->features & CLATTN_BIAS ? 2 * (int64_t)part->rows : 0;
}

/* Slots for one pair of row and key in one kernel. */
static double cost_of(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                      const struct cla_config *config, int kernel, cla_simt_slots_function slots)
{
    const struct part part = part_of(problem, config, kernel);
    const double d = cla_simt_round_up(problem->d, 4) + cla_simt_round_up(problem->d_v, 4), stream = part.stream;
    const double items = config->work_group_size, rows = part.rows, columns = part.columns;
    const double row_reads = rows / cla_simt_width_of(part.rows),
                 column_reads = columns / cla_simt_width_of(part.columns);
    const int column_slices =
        cla_simt_ceil_div(problem->d, config->simt.d_slice) + cla_simt_ceil_div(problem->d_v, config->simt.d_slice);
    const int row_slices = part.outputs * (part.stream / config->simt.row_slice);
    const int block_slices = part.resident ? 0 : column_slices;
    const double copied = stream * column_slices * config->simt.d_slice / 4 + stream * part.vectors * config->simt.tx +
                          (double)block_slices * part.block * config->simt.d_slice / 4;
    const struct cla_simt_work work = {
        .arithmetic = rows * (d * columns + 4 * stream * part.vectors),
        .loads = d * (row_reads + column_reads) + stream * (part.outputs * row_reads + part.vectors),
        .words = d * (rows + columns) + stream * (part.outputs * rows + 4 * part.vectors),
        .pairs = rows * columns,
        .written = part.outputs * rows * columns,
        .copies = copied / items + moved_words(&part, config),
        .other = 12,
        .slices = column_slices + row_slices,
        .exchanges = 0,
        .block_slices = block_slices,
        .bytes = stream * part.outputs * passing_bytes(problem, kernel),
        .private_words = private_words_of(problem, config, kernel) + address_words(limits, problem, &part),
        .local_bytes = local_bytes_of(problem, config, kernel),
    };
    const double present = useful(kernel == CLA_DK_DV ? problem->expected_n_kv : problem->expected_n_q, part.block);
    return slots(limits, config, &work) / (present * stream);
}

static double cost(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                   const struct cla_config *config, cla_simt_slots_function slots)
{
    return (cost_of(limits, problem, config, CLA_DQ, slots) + cost_of(limits, problem, config, CLA_DK_DV, slots)) *
           cla_simt_mask_factor(problem, config);
}

/* The largest number that divides both. */
static int common_divisor(int a, int b)
{
    while (b) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void consider(struct cla_simt_search *search, int tx, int ty, int b_r, int b_c)
{
    const struct clattn_problem *problem = search->problem;
    struct cla_config config = {.b_r = b_r, .b_c = b_c, .work_group_size = tx * ty, .simt = {.tx = tx}};
    if (b_r % ty || b_r % tx || b_c % ty || b_c % tx || (int64_t)b_r * b_c > MOST_OWNED * (int64_t)tx * ty)
        return;
    /* A slice divides both sides. */
    cla_simt_try(search, (int)largest(problem->d, problem->d_v), common_divisor(b_r, b_c), &config);
}

static void consider_grid(struct cla_simt_search *search, int tx, int ty)
{
    const struct clattn_problem *problem = search->problem;
    const int unit = tx / common_divisor(tx, ty) * ty;
    const int first_r = problem->b_r ? problem->b_r : unit, last_r = problem->b_r ? problem->b_r : MOST_SIDE;
    const int first_c = problem->b_c ? problem->b_c : unit, last_c = problem->b_c ? problem->b_c : MOST_SIDE;
    if ((int64_t)tx * ty > search->limits->items)
        return;
    for (int b_r = first_r; b_r <= last_r; b_r *= 2)
        for (int b_c = first_c; b_c <= last_c; b_c *= 2)
            consider(search, tx, ty, b_r, b_c);
}

static clattn_status nothing_fits(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                                  struct cla_error *error)
{
    if (problem->b_r || problem->b_c || problem->work_group_size)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d; 0 is planned) do not fit backward_simt with "
            "d = %d, d_v = %d, %llu bytes of local memory and %lld work-items, of at most %d pairs each",
            problem->b_r, problem->b_c, problem->work_group_size, problem->d, problem->d_v,
            (unsigned long long)limits->local_bytes, (long long)limits->items, MOST_OWNED);
    return cla_fail(
        error, CLATTN_NOTHING_FITS,
        "backward_simt with d = %d, d_v = %d: not even the smallest tile fits %llu bytes of local memory and "
        "%lld work-items",
        problem->d, problem->d_v, (unsigned long long)limits->local_bytes, (long long)limits->items);
}

static void explain(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    info->estimate = cost(limits, problem, config, cla_simt_slots);
    const struct part dq = part_of(problem, config, CLA_DQ), dk_dv = part_of(problem, config, CLA_DK_DV);
    cla_plan_step(
        info, "registers", config->b_r, config->b_c,
        "%d x %d items each own %d x %d pairs and %d outputs of dQ, or %d x %d pairs and %d outputs of dK and dV: "
        "%d of %d registers",
        config->simt.tx, config->work_group_size / config->simt.tx, dq.rows, dq.columns, 4 * dq.rows * dq.vectors,
        dk_dv.rows, dk_dv.columns, 4 * dk_dv.rows * dk_dv.vectors, (int)(private_bytes(problem, config) / 4),
        cla_simt_words_of(limits, config->work_group_size));
    cla_plan_step(
        info, "local memory", config->b_r, config->b_c,
        "the blocks that others pass by %s, slices of %d columns and of %d rows, %d buffer%s: %llu of %llu bytes",
        config->simt.resident ? "stay" : "are read again with each slice", config->simt.d_slice, config->simt.row_slice,
        config->simt.buffers, config->simt.buffers == 1 ? "" : "s", (unsigned long long)local_bytes(problem, config),
        (unsigned long long)limits->local_bytes);
}

static const struct cla_simt_model model = {consider_grid, cost, carried, local_bytes, nothing_fits, explain};

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    return cla_simt_choose(capabilities, problem, &model, config, info, error);
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
    const int d = (int)largest(problem->d, problem->d_v), b_r = config->b_r, b_c = config->b_c;
    const bool whole = b_r >= 1 && b_c >= 1 && b_r <= 65536 && b_c <= 65536 &&
                       cla_simt_is_whole(&limits, d, b_r, config) && b_c % config->simt.row_slice == 0;
    const int tx = config->simt.tx, ty = whole ? config->work_group_size / tx : 1;
    if (!whole || b_r % ty || b_r % tx || b_c % ty || b_c % tx || (int64_t)b_r * b_c > MOST_OWNED * (int64_t)tx * ty ||
        local_bytes(problem, config) > limits.local_bytes)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "backward_simt does not take b_r %d, b_c %d, work_group_size %d with problem.knobs \"%s\": tx "
                        "and work_group_size / tx divide b_r and b_c, work_group_size is at most %lld, an item owns at "
                        "most %d pairs, d_slice is a multiple of 4 up to d, row_slice divides b_r and b_c, and the "
                        "tiles fit %llu bytes of local memory",
                        b_r, b_c, config->work_group_size, problem->knobs ? problem->knobs : "",
                        (long long)limits.items, MOST_OWNED, (unsigned long long)limits.local_bytes);
    explain(&limits, problem, config, info);
    return CLATTN_SUCCESS;
}

static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    return cla_simt_step_down(capabilities, problem, &model, config);
}

/* K, Q and dO are operands of two products, and pass through local memory for each. */
static void streams(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    cla_streams_plain(config, streams);
    streams[0].resident = streams[1].resident = config->simt.resident;
    streams[0].reads = streams[1].reads = streams[1].reads_v = 2;
}

static const char *const files[] = {"backward_simt.cl", NULL};

const struct cla_skeleton cla_backward_simt = {
    .name = "backward_simt",
    .backward = true,
    .files = files,
    .kernels = cla_backward_kernels,
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
    .recipe = cla_recipe_mended_backward,
    .define = cla_simt_define,
};
