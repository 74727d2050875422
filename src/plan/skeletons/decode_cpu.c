/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/decode_cpu.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/operand.h"
#include "plan/packing.h"
#include "plan/recipe.h"
#include "plan/sizes.h"
#include "plan/skeletons/cpu_tiles.h"
#include "plan/types.h"
#include "plan/ways.h"
#include <stddef.h>

/* The floats of n columns, in whole vectors. */
static int whole(int n, const struct cla_config *config)
{
    return cla_round_up(n, config->decode.vector_width);
}

enum { WIDE = 16 }; /* floats of the widest vectors, with which come 32 registers */

enum { PAIR_WIDTH = WIDE, PAIR_PANEL = 4, PAIR_COLUMNS = 64, MOST_PAIR_KEYS = 128 };

/* A panel's weights as integers: four groups of 32 columns at a time, in floats with and without V's scales, and all
 * as words of two keys, with what one stands for and their sums. Q as integers: words, and what its sums begin with, at
 * most one for 64 columns. */
static int64_t pair_numbers(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t chunks = cla_ceil_div(problem->d_v, 2 * PAIR_COLUMNS);
    const int64_t query = whole(problem->d, config) / 2 + cla_ceil_div(problem->d, PAIR_COLUMNS) * PAIR_WIDTH + 1;
    return config->decode.pairs ? config->b_c * (PAIR_PANEL + PAIR_WIDTH + PAIR_WIDTH / 2 * chunks) +
                                      2 * PAIR_WIDTH * chunks + config->b_r * query + 1
                                : 0;
}

/* Rows of a block whose O are sums of integers (cl/common/decode_words.clh). */
enum { WORD_ROWS = 16, WORD_ROWS_MOST = 2 * WORD_ROWS, WORD_COLUMNS = 32 };

/* A block's Q, O and row statistics; a tile's K, V as integers, what they are to be multiplied by and where they are,
 * its scores and weights. */
static int64_t word_numbers(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t rows = config->b_r, keys = config->b_c;
    const int64_t tile = keys * (problem->d + problem->d_v / 2 + 4) + rows * (keys + keys / 2 + keys / WORD_COLUMNS);
    return config->decode.words ? rows * (problem->d + problem->d_v + 4) + tile + 16 : 0;
}

/* The arrays that the kernel declares: Q, O, scores and the row statistics of a block, one row of K and of V. */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t row = whole(problem->d, config) + whole(problem->d_v, config), b_r = config->b_r;
    const int64_t numbers = (b_r + 1) * row + b_r * (config->b_c + 3 * config->decode.vector_width);
    return (uint64_t)(numbers + pair_numbers(problem, config) + word_numbers(problem, config)) * sizeof(float);
}

/* With vectors of 16 floats, rows that follow each other come fast enough by themselves, unless they are long or much
 * is computed with each. */
static int keys_ahead(const struct clattn_problem *problem, const struct cla_config *config, int rows)
{
    const struct cla_decode_sizes *sizes = &cla_decode_cpu_sizes;
    const struct cla_type *type = cla_type((int)cla_type_of(problem, CLA_K));
    const int64_t row_bytes = cla_ceil_div(problem->d, type->block) * type->bytes;
    if (problem->page_keys)
        return sizes->ahead_in_pages;
    if (config->decode.pairs)
        return sizes->pair_ahead;
    if (config->decode.words)
        return config->b_c;
    if (config->decode.vector_width < WIDE)
        return sizes->narrow_ahead;
    return row_bytes * cla_ceil_div(rows, config->decode.rows) >= sizes->long_row ? sizes->ahead : 0;
}

enum { LEAST_KEYS = 16 }; /* any width of vectors divides it, and a mask's blocks are multiples of it */

/* The keys of a tile: so many that those of K take tile_bytes of the first cache. */
static int tile_keys(const struct clattn_problem *problem)
{
    const struct cla_decode_sizes *sizes = &cla_decode_cpu_sizes;
    const struct cla_type *type = cla_type((int)cla_type_of(problem, CLA_K));
    const int fitting = sizes->tile_bytes * type->block / (problem->d * type->bytes) / LEAST_KEYS * LEAST_KEYS;
    const int keys = fitting < LEAST_KEYS ? LEAST_KEYS : fitting < sizes->most_keys ? fitting : sizes->most_keys;
    return cla_cpu_streamed(keys, problem->block_kv);
}

/* The rows of a block: no more than are expected, as those that are not there take room in the first cache. */
static int block_rows(const struct clattn_problem *problem)
{
    const struct cla_decode_sizes *sizes = &cla_decode_cpu_sizes;
    const int64_t rows = problem->expected_n_q * cla_expected_pack(problem);
    return !rows || !problem->expected_kv_heads ? sizes->usual_block : rows < sizes->block ? (int)rows : sizes->block;
}

static int64_t expected_rows(const struct clattn_problem *problem)
{
    return problem->expected_n_q * cla_expected_pack(problem);
}

/* The rows of a panel: with few registers no more than are expected, so that those left hold more columns. */
static int panel_rows(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int most = cla_decode_cpu_sizes.rows;
    const int64_t rows = problem->expected_kv_heads ? expected_rows(problem) : 0;
    return config->decode.vector_width < WIDE && rows && rows < most ? (int)rows : most;
}

/* Sums in registers: two keys of each row for scores, so many vectors of columns of each row for O. */
static void take_register_tile(const struct clattn_problem *problem, struct cla_config *config)
{
    const struct cla_decode_sizes *sizes = &cla_decode_cpu_sizes;
    const int sums = config->decode.vector_width == WIDE ? sizes->wide_sums : sizes->sums;
    const int columns = whole(problem->d_v, config) / config->decode.vector_width;
    config->decode.rows = panel_rows(problem, config);
    config->decode.columns = sums / config->decode.rows;
    if (config->decode.columns > columns)
        config->decode.columns = columns;
}

/* Whether O may be summed by integers of 16 bits (cl/common/decode_pairs.clh): V holds such, and results have no more
 * bits than the weights keep. */
static bool holds_integers(const struct clattn_problem *problem)
{
    const int v = (int)cla_type_of(problem, CLA_V), int8 = CLATTN_AS_INT8 - 1;
    const bool rows_scaled =
        v == int8 && cla_scale_group(problem, CLA_V) >= problem->d_v && !(problem->zero_points & CLATTN_V_ZEROS);
    return problem->pass == CLATTN_FORWARD && cla_type_of(problem, CLA_Q) != CLATTN_FP32 &&
           cla_type_of(problem, CLA_O) != CLATTN_FP32 && problem->d_v % PAIR_COLUMNS == 0 &&
           (rows_scaled || v == CLATTN_AS_Q8_0 - 1 || v == CLATTN_AS_Q4_0 - 1);
}

static bool has_half_bits(const struct clattn_problem *problem, int operand)
{
    return cla_type_of(problem, operand) == CLATTN_FP16 || cla_type_of(problem, operand) == CLATTN_BF16;
}

/* Whether O of many rows may be (cl/common/decode_words.clh): all that is read and written has 16 bits. */
static bool suits_words(const struct clattn_problem *problem)
{
    return problem->pass == CLATTN_FORWARD && has_half_bits(problem, CLA_Q) && has_half_bits(problem, CLA_K) &&
           has_half_bits(problem, CLA_V) && has_half_bits(problem, CLA_O) && problem->d % WORD_COLUMNS == 0 &&
           problem->d_v % WORD_COLUMNS == 0 && !(problem->features & CLATTN_DROPOUT);
}

static bool words_fit(const struct cla_config *config)
{
    return config->decode.vector_width == PAIR_WIDTH && config->b_c % WORD_COLUMNS == 0 &&
           (config->b_r == WORD_ROWS || config->b_r == WORD_ROWS_MOST);
}

/* More rows than half of a vector's lanes, which floats take as fast, and no more than a block has. */
static bool words_pay(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    return capabilities->cpu_bf16_dot && suits_words(problem) && expected_rows(problem) > WORD_ROWS / 2 &&
           expected_rows(problem) <= WORD_ROWS_MOST;
}

static bool pairs_suit(const struct cla_config *config)
{
    return config->decode.vector_width == PAIR_WIDTH && config->decode.rows == PAIR_PANEL &&
           config->decode.columns == PAIR_PANEL && config->b_c <= MOST_PAIR_KEYS;
}

/* Narrows vectors and panels until forced block sizes are multiples of them; false where none is. */
static bool fit_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->work_group_size > 1)
        return false;
    while (problem->b_c % config->decode.vector_width) {
        if (config->decode.vector_width == 4)
            return false;
        config->decode.vector_width /= 2;
    }
    while (problem->b_r % config->decode.rows)
        config->decode.rows--;
    return true;
}

/* Work per tile that its keys share, and loads in multiply-adds, which the rows of a panel share. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct cla_cpu_weights *weights = &cla_cpu_weights;
    const double rows = config->decode.rows, columns = problem->d + problem->d_v;
    return columns * (1 + weights->tile / config->b_c) *
           (1 + weights->load * (2 / rows + 1. / config->decode.columns)) / config->decode.vector_width;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const int width = config->decode.vector_width;
    if (config->work_group_size != 1 || (width != 4 && width != 8 && width != 16) || config->b_r < 1 ||
        config->b_r % config->decode.rows || config->b_c < 1 || config->b_c % width)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "decode_cpu takes vector_width 4, 8 or 16, b_r a multiple of rows (%d), b_c a multiple of "
                        "vector_width, work_group_size 1: not vector_width %d, b_r %d, b_c %d, work_group_size %d",
                        config->decode.rows, width, config->b_r, config->b_c, config->work_group_size);
    if (config->decode.pairs && (!holds_integers(problem) || !pairs_suit(config)))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "decode_cpu with pairs=%d takes Q and O of 16 bits, V in int8 with a scale a row and no zero "
                        "points, q8_0 or q4_0, d_v a multiple of 64, vector_width 16, rows 4, columns 4 and b_c up to "
                        "128: not d_v %lld, vector_width %d, rows %d, columns %d, b_c %d with v_type %s",
                        config->decode.pairs, (long long)problem->d_v, width, config->decode.rows,
                        config->decode.columns, config->b_c, cla_type((int)cla_type_of(problem, CLA_V))->name);
    if (config->decode.words && (!suits_words(problem) || !words_fit(config)))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "decode_cpu with words=%d takes Q, K, V and O in fp16 or bf16, no dropout, d and d_v that are "
                        "multiples of 32, vector_width 16, b_r 16 or 32 and b_c a multiple of 32: not d %lld, d_v "
                        "%lld, vector_width %d, b_r %d and b_c %d with k_type %s and v_type %s",
                        config->decode.words, (long long)problem->d, (long long)problem->d_v, width, config->b_r,
                        config->b_c, cla_type((int)cla_type_of(problem, CLA_K))->name,
                        cla_type((int)cla_type_of(problem, CLA_V))->name);
    if ((config->decode.pairs == 1 || config->decode.words == 1) && !capabilities->cpu_bf16_dot)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "decode_cpu with %s=1 needs a device that multiplies pairs of bf16 (AVX512-BF16), unless "
                        "CLATTN_DISABLE has \"" CLA_WAY_BF16_PAIRS "\": take 0, or 2 that emulates it",
                        config->decode.pairs == 1 ? "pairs" : "words");
    const clattn_status allowed = cla_cpu_check_private(private_bytes(problem, config), config, error);
    if (allowed)
        return allowed;
    info->estimate = estimate(problem, config);
    cla_plan_step(
        info, "registers", config->b_r, config->b_c,
        "vectors of %d floats of a row; %d rows x 2 keys, then %d rows x %d vectors of O, are sums in registers", width,
        config->decode.rows, config->decode.rows, config->decode.columns);
    cla_plan_step(info, "cache", config->b_r, config->b_c,
                  "%d rows of the heads that share keys read K and V together, %d keys at a time", config->b_r,
                  config->b_c);
    if (config->decode.pairs)
        cla_plan_step(
            info, "unit", config->b_r, config->b_c,
            "O, and scores of quantised K, by %s: two integers of 16 bits to a lane; weights and Q are rounded to "
            "16 bits",
            config->decode.pairs == 1 ? "vpdpwssd of AVX512-VNNI" : "pairs of integers, emulated");
    if (config->decode.words)
        cla_plan_step(
            info, "unit", config->b_r, config->b_c,
            "O by %s: two integers of 16 bits to a lane; V and weights are rounded to 15 and 16 bits of the largest",
            config->decode.words == 1 ? "vpdpwssd of AVX512-VNNI" : "pairs of integers, emulated");
    return CLATTN_SUCCESS;
}

/* Where heads share keys: a row alone has nobody to share what is converted. More keys to a tile, as more comes with
 * each. */
static void take_pairs(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_config *config)
{
    const bool one_row = problem->expected_kv_heads && problem->expected_n_q * cla_expected_pack(problem) == 1;
    config->decode.pairs = capabilities->cpu_bf16_dot && !one_row && holds_integers(problem) && pairs_suit(config);
    if (config->decode.pairs && !problem->b_c)
        config->b_c = cla_cpu_streamed(cla_decode_cpu_sizes.pair_keys, problem->block_kv);
}

/* Blocks of as many rows as vectors hold; a tile's keys become integers once for all of them. */
static void take_words(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_config *config)
{
    const int64_t rows = expected_rows(problem);
    if (!words_pay(capabilities, problem))
        return;
    struct cla_config words = *config;
    words.b_r = problem->b_r ? problem->b_r : cla_round_up((int)rows, WORD_ROWS);
    words.b_c = problem->b_c ? problem->b_c : cla_cpu_streamed(cla_decode_cpu_sizes.word_keys, problem->block_kv);
    words.decode.words = 1;
    if (words_fit(&words) && private_bytes(problem, &words) <= CLA_CPU_MOST_PRIVATE_BYTES)
        *config = words;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    config->decode.vector_width = cla_cpu_vector_width(capabilities);
    take_register_tile(problem, config);
    if (!fit_forced(problem, config))
        return cla_cpu_refuse_forced(problem, "decode_cpu", "b_c is a multiple of 4", error);
    config->work_group_size = 1;
    config->b_c = problem->b_c ? problem->b_c : tile_keys(problem);
    take_pairs(capabilities, problem, config);
    config->b_r = problem->b_r ? problem->b_r : cla_round_up(block_rows(problem), config->decode.rows);
    take_words(capabilities, problem, config);
    config->decode.ahead = keys_ahead(problem, config, config->b_r);
    return adopt(capabilities, problem, config, info, error);
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_text_printf(text,
                    "#define CLATTN_AHEAD %d\n#define CLATTN_COLUMN_VECTORS %d\n#define CLATTN_INTEGERS %d\n"
                    "#define CLATTN_ROWS %d\n#define CLATTN_VECTOR_WIDTH %d\n#define CLATTN_WORDS %d\n",
                    config->decode.ahead, config->decode.columns, config->decode.pairs, config->decode.rows,
                    config->decode.vector_width, config->decode.words);
}

/* The kernel asks for `pack` where no heads are packed, too. */
static void recipe(const struct cla_run *run, struct cla_recipe *recipe)
{
    if (!run->config->packs)
        cla_recipe_pack(recipe, run, 1);
    cla_recipe_forward(run, recipe);
}

/* Few rows: what is there to be read takes longer than what is to be computed. */
static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    const int few = cla_decode_cpu_sizes.few_rows;
    return capabilities->type == CLATTN_DEVICE_CPU && problem->expected_n_q &&
           (expected_rows(problem) <= few || words_pay(capabilities, problem));
}

static const struct cla_knob knobs[] = {
    {"rows", offsetof(struct cla_config, decode.rows), 1, 8, {2, 4, 8}, 3},
    {"columns", offsetof(struct cla_config, decode.columns), 1, 8, {2, 4, 8}, 3},
    {"pairs", offsetof(struct cla_config, decode.pairs), 0, 2, {0, 1}, 2},
    {"words", offsetof(struct cla_config, decode.words), 0, 2, {0, 1}, 2},
    {"ahead", offsetof(struct cla_config, decode.ahead), 0, 1024, {0, 8, 16, 32, 64}, 5},
    {"vector_width", offsetof(struct cla_config, decode.vector_width), 4, 16, {0}, 0},
    {NULL, 0, 0, 0, {0}, 0}};

static const char *const files[] = {"decode_cpu.cl", NULL};

const struct cla_skeleton cla_decode_cpu = {
    .name = "decode_cpu",
    .files = files,
    .packs = true,
    .row_views = true,
    .kernels = cla_forward_kernels,
    .tile_element_bytes = sizeof(float),
    .for_cpus = true,
    .prefers = prefers,
    .choose = choose,
    .knobs = knobs,
    .adopt = adopt,
    .local_bytes = cla_cpu_no_local_bytes,
    .private_bytes = private_bytes,
    .recipe = recipe,
    .define = define,
};
