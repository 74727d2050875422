/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Data alone: what was measured, on which device, and where that is written down. A row of cla_sizes may be for one
 * family of devices; the first that applies is taken. */
#include "plan/sizes.h"
#include "plan/matrix_units.h"
#include "plan/skeletons/hopper_sizes.h"
#include <math.h>
#include <string.h>

#define NOTES           "tests/data/measured/"
#define MATRIX_NOTES    "H200; " NOTES "h200-forward-matrix-notes.md"
#define HOPPER_NOTES    "H200; " NOTES "h200-forward-hopper-notes.md"
#define GRADIENTS_NOTES "H200; " NOTES "h200-backward-matrix-notes.md"
#define FP32_NOTES      "H200; " NOTES "h200-forward-matrix-notes.md"
#define AMD_SIZES       "none: registers that do not spill (clang 19), and two sub-groups for each scheduler"
#define INTEL_SIZES     "none: registers that spill least (ocloc 22.43), and two work-groups' local memory"
#define SIMULATED       "none: published clocks, and instructions that simulated devices execute"
#define BACKWARD_NOTES  "H200; " NOTES "h200-backward-hopper-notes.md"

/* forward_matrix, by the larger of d and d_v, with 512 rows and more. Two row tiles a sub-group make operand loads
 * free; beyond d = 128 the outputs leave room for one. Turing's local memory holds 128 rows of d = 128 with 16 keys
 * only: half the rows leave room for twice the keys (not timed). */
#define MATRIX(family_of, d, rows, keys_of, held, tiles, registers, from)                                              \
    MATRIX_OF(false, family_of, d, rows, keys_of, held, tiles, registers, from)
#define MATRIX_FP32(d, rows, keys_of, held, tiles, registers)                                                          \
    MATRIX_OF(true, CLA_ANY_FAMILY, d, rows, keys_of, held, tiles, registers, FP32_NOTES)
#define MATRIX_OF(is_fp32, family_of, d, rows, keys_of, held, tiles, registers, from)                                  \
    {                                                                                                                  \
        .kernel = "forward_matrix", .family = family_of, .most_d = d, .fp32 = is_fp32,                                 \
        .config = {.b_r = rows,                                                                                        \
                   .b_c = keys_of,                                                                                     \
                   .matrix = {.keys = held, .row_tiles = tiles, .q_registers = registers}},                            \
        .source = from                                                                                                 \
    }

/* forward_hopper, by d_v and situation, with tiles by TMA. */
#define HOPPER(d, where, rows, keys, kv_stages_of, q_stages_of)                                                        \
    {                                                                                                                  \
        .kernel = "forward_hopper", .most_d = d, .situations = where,                                                  \
        .config =                                                                                                      \
            {.b_r = rows,                                                                                              \
             .b_c = keys,                                                                                              \
             .pipelines = 1,                                                                                           \
             .hopper = {.stages = kv_stages_of, .q_stages = q_stages_of, .ping_pong = 1, .tma = 1, .stale_max = 1}},   \
        .source = HOPPER_NOTES                                                                                         \
    }

/* Of a side: rows that move at a time, those of them whose pairs are held at a time, whether the fixed side stays in
 * registers, stages, and sub-groups that share a fixed row. */
#define SIDES(...)                                                                                                     \
    {                                                                                                                  \
        .side = { __VA_ARGS__ }                                                                                        \
    }

/* backward_matrix, by the larger of d and d_v. The work-group is counted in NVIDIA's lanes. */
#define GRADIENTS(family_of, d, items, rows, keys, from, ...)                                                          \
    GRADIENTS_OF(false, family_of, d, items, rows, keys, from, __VA_ARGS__)
#define GRADIENTS_FP32(d, items, rows, keys, ...)                                                                      \
    GRADIENTS_OF(true, CLA_ANY_FAMILY, d, items, rows, keys, FP32_NOTES, __VA_ARGS__)
#define GRADIENTS_OF(is_fp32, family_of, d, items, rows, keys, from, ...)                                              \
    {                                                                                                                  \
        .kernel = "backward_matrix", .family = family_of, .most_d = d, .fp32 = is_fp32,                                \
        .config = {.b_r = rows, .b_c = keys, .work_group_size = items, .backward_matrix = SIDES(__VA_ARGS__)},         \
        .source = from                                                                                                 \
    }

/* backward_fused, by the larger of d and d_v and the keys of a work-group; sub-groups draw for each other where there
 * is dropout. */
#define FUSED(d, keys, own, draws, ...)                                                                                \
    {                                                                                                                  \
        .kernel = "backward_fused", .most_d = d,                                                                       \
        .config = {.b_r = 64,                                                                                          \
                   .b_c = keys,                                                                                        \
                   .backward_fused = {.ending = SIDES(__VA_ARGS__), .own_keys = own, .dropout_once = draws}},          \
        .source = GRADIENTS_NOTES                                                                                      \
    }

/* backward_hopper, by the larger of d and d_v: stages of K and V, and the registers of a producer's item and a
 * consumer's. A second stage was 4 to 9 % faster at d 64, 72 registers for the producer 6 to 9 % up to there. A
 * producer that leaves all to TMA has enough with 24; at d 128 240 for a consumer were 3 to 4 % faster than 224. */
#define BACKWARD(d, when, rows, keys, late, kv_stages_of, produces, consumes, ...)                                     \
    {                                                                                                                  \
        .kernel = "backward_hopper", .most_d = d, .situations = when,                                                  \
        .config = {.b_r = 64,                                                                                          \
                   .b_c = keys,                                                                                        \
                   .backward_hopper = {.ending = SIDES(__VA_ARGS__),                                                   \
                                       .tile_rows = rows,                                                              \
                                       .late_d_v = late,                                                               \
                                       .kv_stages = kv_stages_of,                                                      \
                                       .producer_registers = produces,                                                 \
                                       .consumer_registers = consumes}},                                               \
        .source = BACKWARD_NOTES                                                                                       \
    }

enum { NARROW = CLA_HOPPER_NARROW, MOST = CLA_MATRIX_LARGEST_D };

const struct cla_size cla_sizes[] = {
    MATRIX(CLA_INTEL_NARROW, 64, 128, 32, 16, 1, 0, INTEL_SIZES),
    MATRIX(CLA_INTEL, 64, 128, 32, 32, 1, 0, INTEL_SIZES),
    MATRIX(CLA_INTEL, 128, 128, 16, 16, 1, 0, INTEL_SIZES),
    MATRIX(CLA_ANY_FAMILY, 32, 128, 128, 64, 2, 1, MATRIX_NOTES),
    MATRIX(CLA_ANY_FAMILY, 64, 128, 64, 64, 2, 1, MATRIX_NOTES),
    MATRIX(CLA_NVIDIA_TURING, 128, 64, 32, 32, 1, 0, "none: by its local memory"),
    MATRIX(CLA_ANY_FAMILY, 128, 128, 64, 64, 2, 0, MATRIX_NOTES),
    MATRIX(CLA_ANY_FAMILY, 192, 64, 32, 32, 1, 0, MATRIX_NOTES),
    MATRIX(CLA_ANY_FAMILY, MOST, 128, 64, 64, 1, 0, MATRIX_NOTES),

    MATRIX_FP32(64, 128, 32, 32, 2, 0),
    MATRIX_FP32(128, 128, 16, 16, 2, 0),
    MATRIX_FP32(MOST, 64, 16, 16, 1, 0),

    HOPPER(NARROW, CLA_HOPPER_FEW, 128, 128, 3, 2),
    HOPPER(NARROW, CLA_HOPPER_PLAIN | CLA_HOPPER_CAUSAL | CLA_HOPPER_CAUSAL_LONG | CLA_HOPPER_CHANGED, 256, 64, 4, 2),
    HOPPER(NARROW, CLA_HOPPER_ANY, 192, 128, 3, 2),
    HOPPER(128, CLA_HOPPER_FEW, 128, 128, 2, 2),
    HOPPER(128, CLA_HOPPER_PLAIN | CLA_HOPPER_PLAIN_LONG, 192, 80, 3, 1),
    HOPPER(128, CLA_HOPPER_CAUSAL_LONG, 128, 176, 2, 1),
    HOPPER(128, CLA_HOPPER_ANY, 128, 128, 3, 1),
    HOPPER(192, CLA_HOPPER_ANY, 128, 96, 2, 1),
    HOPPER(MOST, CLA_HOPPER_ANY, 128, 80, 2, 1),

    GRADIENTS(CLA_INTEL_NARROW, 64, 256, 128, 64, INTEL_SIZES, {32, 16, 0, 2, 1}, {32, 16, 0, 2, 2}),
    GRADIENTS(CLA_INTEL, 64, 256, 128, 128, INTEL_SIZES, {32, 16, 0, 2, 1}, {32, 16, 0, 2, 1}),
    GRADIENTS(CLA_INTEL, 128, 256, 128, 64, INTEL_SIZES, {32, 16, 0, 2, 1}, {32, 16, 0, 2, 2}),
    GRADIENTS(CLA_AMD, 64, 256, 128, 128, AMD_SIZES, {32, 32, 0, 2, 1}, {32, 32, 0, 2, 1}),
    GRADIENTS(CLA_AMD_WIDE, 64, 128, 64, 64, AMD_SIZES, {32, 32, 1, 1, 1}, {32, 32, 1, 1, 1}),
    GRADIENTS(CLA_AMD, 128, 128, 64, 64, AMD_SIZES, {32, 32, 0, 1, 1}, {32, 16, 0, 1, 1}),
    GRADIENTS(CLA_AMD_WIDE, 128, 128, 64, 64, AMD_SIZES, {32, 32, 2, 1, 1}, {32, 32, 2, 1, 1}),
    GRADIENTS(CLA_ANY_FAMILY, 64, 128, 128, 128, GRADIENTS_NOTES, {64, 32, 0, 2, 1}, {64, 32, 0, 2, 1}),
    GRADIENTS(CLA_ANY_FAMILY, 128, 128, 64, 64, GRADIENTS_NOTES, {64, 32, 1, 2, 1}, {64, 16, 1, 2, 1}),
    GRADIENTS(CLA_ANY_FAMILY, MOST, 256, 128, 64, GRADIENTS_NOTES, {32, 32, 0, 2, 1}, {32, 32, 0, 2, 2}),

    GRADIENTS_FP32(64, 128, 128, 64, {32, 16, 0, 2, 1}, {32, 16, 0, 2, 1}),
    GRADIENTS_FP32(128, 128, 64, 64, {32, 32, 0, 1, 1}, {32, 16, 0, 1, 1}),
    GRADIENTS_FP32(MOST, 128, 64, 32, {16, 16, 0, 1, 1}, {16, 16, 0, 1, 2}),

    FUSED(64, 128, 1, 1, {64, 32, 0, 2, 1}, {32, 16, 0, 1, 1}),
    FUSED(64, 64, 1, 1, {64, 32, 0, 2, 1}, {32, 16, 0, 1, 2}),
    FUSED(128, 128, 0, 0, {64, 32, 1, 2, 1}, {32, 16, 0, 1, 1}),
    FUSED(128, 64, 1, 0, {64, 32, 1, 2, 1}, {32, 16, 0, 1, 2}),

    BACKWARD(64, CLA_BACKWARD_LIGHT, 96, 128, 1, 2, 72, 216, {64, 32, 0, 2, 1}, {32, 16, 0, 1, 1}),
    BACKWARD(64, 0, 64, 128, 0, 2, 72, 216, {64, 32, 0, 2, 1}, {32, 16, 0, 1, 1}),
    BACKWARD(96, CLA_BACKWARD_LIGHT, 64, 128, 0, 1, 56, 224, {64, 32, 1, 2, 1}, {32, 16, 0, 1, 1}),
    BACKWARD(128, CLA_BACKWARD_LIGHT, 64, 128, 0, 1, 24, 240, {64, 32, 1, 2, 1}, {32, 16, 0, 1, 1}),
    BACKWARD(128, 0, 64, 128, 0, 1, 40, 232, {64, 32, 1, 2, 1}, {32, 16, 0, 1, 1}),
    BACKWARD(192, CLA_BACKWARD_LIGHT, 48, 128, 0, 1, 24, 240, {32, 32, 0, 2, 1}, {32, 16, 0, 1, 2}),
    BACKWARD(192, CLA_BACKWARD_OTHER, 64, 64, 0, 1, 72, 216, {32, 32, 0, 2, 1}, {32, 16, 0, 1, 2}),
    BACKWARD(MOST, 0, 64, 64, 0, 1, 40, 232, {32, 32, 0, 2, 1}, {32, 16, 0, 1, 2}),
    {.kernel = NULL},
};

const struct cla_size *cla_size_find(const char *kernel, enum cla_family family, int d,
                                     const struct cla_size_wish *wish)
{
    for (const struct cla_size *size = cla_sizes; size->kernel; size++)
        if (strcmp(size->kernel, kernel) == 0 && (!size->family || size->family == family) && size->most_d >= d &&
            size->fp32 == wish->fp32 && (!size->situations || size->situations & wish->situations) &&
            (!wish->b_r || size->config.b_r == wish->b_r) && (!wish->b_c || size->config.b_c == wish->b_c))
            return size;
    return NULL;
}

/* H100, n = 4096, TFLOP/s without and with them, at d = 64 and 128: plain 338, 354 and 375, 386, causal 290, 307 and
 * 312, 348, with ALiBi 308, 325 and 365, 375, with dropout 286, 303 and 350, 350, with softcap 251, 320 and 334, 361;
 * with a mask 141, 137 at d = 64; d = 128 of few keys: n = 512 294, 274, 768 320, 307 (the notes of MATRIX). Without
 * and with scores kept: d = 128 causal 321, 348, full 362, 386, with half of 128 x 128 blocks 335, 355, with a mask_mod
 * 387, 369; d = 64 full 355, 335, with dropout 301, 279. */
const struct cla_stale_max_sizes cla_stale_max_sizes = {
    .most_d = 128, .narrow_d = 64, .few_keys = 1024, .formed_again_d = 64};

/* H200: the notes of HOPPER. Without TMA 2 tiles a work-group took 16.0 us for 17.5 (n 333), 8 tiles 20.5 for
 * 21.3 (d 80, n 1024), 4 tiles 15.8 for 17.8 (77 keys); 23 tiles 89 for 88 (n 128, 256 sequences). Pipelines: the
 * notes' table "Pipelines for short sequences". Backward: the notes of BACKWARD, "Short sequences". */
const struct cla_hopper_lengths cla_hopper_lengths = {.wide = 2047,
                                                      .narrow = 511,
                                                      .causal = 3071,
                                                      .four_causal = 256,
                                                      .longest = 8192,
                                                      .few_tiles = 8,
                                                      .single_rows = 32,
                                                      .single_keys = 128,
                                                      .paired_causal = 2048,
                                                      .paired_cost = 103,
                                                      .pipeline_blocks = 2,
                                                      .short_backward = 256};

/* Products of warp groups take any multiple of 16. */
static const int usual_keys[] = {8, 16, 32, 48, 64, 96, 128, 192, 256, 0},
                 hopper_keys[] = {64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 0};

const int *cla_sizes_tried(const char *kernel)
{
    return strcmp(kernel, "forward_hopper") == 0 ? hopper_keys : usual_keys;
}

const struct cla_rates cla_rates = {.mma = 617, .mma_one_tile = 465, .wgmma = 969, .source = MATRIX_NOTES};

/* AMD: clocks by the ISA documents of RDNA 3 and CDNA 3, a product's by the peaks that AMD publishes; how many vector
 * instructions, by what clang 19's code executes in 51 configurations (tests/simulator/rates.py), within 6 to 13 % of
 * them on average. Units that no hardware has run overlap as the H200's do, and wait by a rule: two sub-groups of a
 * scheduler hide all. The H200's row is fitted to 64 configurations that were drawn at random, at d 64 and 128, 4096
 * rows and keys (tests/data/measured/h200-candidates-*-matrix.json); over all 14 shapes the root mean square error is
 * 8 % forward and 15 % backward. The cache brings 11 bytes a clock to each scheduler. */
const struct cla_matrix_rates cla_matrix_rates[] = {{.family = CLA_AMD_WIDE,
                                                     .product = 16,
                                                     .vector = 4,
                                                     .power = 16,
                                                     .weight = 3.5,
                                                     .chunk = 1.9,
                                                     .slab = 36,
                                                     .tile = 13,
                                                     .port = 32,
                                                     .port_schedulers = 4,
                                                     .overlap = 4,
                                                     .stale = 1,
                                                     .alone = 2,
                                                     .hiding = INFINITY,
                                                     .one_group = 1.05,
                                                     .spills = 1.2,
                                                     .spilled = 0.02,
                                                     .source = SIMULATED},
                                                    {.family = CLA_AMD,
                                                     .level = 12,
                                                     .product = 16,
                                                     .by_vector_unit = true,
                                                     .vector = 1,
                                                     .power = 4,
                                                     .weight = 5,
                                                     .chunk = 1,
                                                     .slab = 58,
                                                     .tile = 7,
                                                     .port = 32,
                                                     .port_schedulers = 2,
                                                     .overlap = 4,
                                                     .stale = 1,
                                                     .alone = 2,
                                                     .hiding = INFINITY,
                                                     .one_group = 1.05,
                                                     .spills = 1.2,
                                                     .spilled = 0.02,
                                                     .source = SIMULATED},
                                                    {.family = CLA_AMD,
                                                     .product = 32,
                                                     .by_vector_unit = true,
                                                     .vector = 1,
                                                     .power = 4,
                                                     .weight = 5,
                                                     .chunk = 1,
                                                     .slab = 58,
                                                     .tile = 7,
                                                     .port = 32,
                                                     .port_schedulers = 2,
                                                     .overlap = 4,
                                                     .stale = 1,
                                                     .alone = 2,
                                                     .hiding = INFINITY,
                                                     .one_group = 1.05,
                                                     .spills = 1.2,
                                                     .spilled = 0.02,
                                                     .source = SIMULATED},
                                                    {.product = 18,
                                                     .vector = 1,
                                                     .power = 8,
                                                     .weight = 5.4,
                                                     .chunk = 4,
                                                     .slab = 61,
                                                     .stale = 0.43,
                                                     .tile = 80,
                                                     .port = 34,
                                                     .port_schedulers = 4,
                                                     .traffic = 46,
                                                     .overlap = 4,
                                                     .slab_wait = 225,
                                                     .tile_wait = 280,
                                                     .late_wait = 210,
                                                     .chained_wait = 9.7,
                                                     .alone = 0.9,
                                                     .hiding = 2,
                                                     .one_group = 1.02,
                                                     .spills = 1.05,
                                                     .spilled = 0.012,
                                                     .source = MATRIX_NOTES}};

/* The H200's cache has 60 MB, the H100's 50. On an H200 at d 64, all blocks together were 1.07 times as fast as pairs
 * at 64 heads of 4096 rows (64 MB), and 0.95 times at 128. */
const struct cla_together_sizes cla_together_sizes = {.forward_matrix_bytes = 32 << 20,
                                                      .forward_hopper_bytes = 64 << 20,
                                                      .forward_hopper_rounds = 32,
                                                      .backward_hopper_bytes = 36 << 20,
                                                      .backward_hopper_heads = 8};

/* H200, d 128: a tile of 64 rows and 128 keys takes 2.45 us of a work-group, what comes before and behind a block's
 * tiles as much as 4 of them; the device moves 2.2 TB/s in the time of 275 T multiply-adds a second. With 64
 * work-groups at the same rows at once a tile takes 1.2 times as long as with 33. */
const struct cla_share_sizes cla_share_sizes = {
    .start = 4, .launch = 12, .products_of_byte = 125, .worth = 0.95, .crowd = 33, .crowding = 0.2, .most = 32};

/* Fitted to 49 configurations of the forward pass (root mean square error 5.4 %); block_slice and spilled to 21 that
 * were drawn at random, at d 64 and 128, 4096 rows and keys (tests/data/measured/h200-candidates-forward-simt.json). On
 * other devices only its order of things matters. */
const struct cla_simt_weights cla_simt_weights = {.overlap = 1.65,
                                                  .loop = 0.15,
                                                  .copy = 8,
                                                  .slice = 60,
                                                  .barrier = 100,
                                                  .exposed_load = 7300,
                                                  .block_slice = 3300,
                                                  .spilled = 160,
                                                  .latency = 45,
                                                  .traffic = 77,
                                                  .word = 2,
                                                  .source = "H200"};

/* K and V are read once per query block: 256 rows took 1 to 3 % less than 128 at d = 128, and up to 2 % less at d = 64,
 * with one head on two cores as with eight; keys made no difference from 32 to 256. Backward, 256 lanes took up to 2 %
 * less than 128 with nothing else running, and 10 % less beside other work; one causal head of 512 rows on two cores up
 * to 1.3 times as long. Up to 32 rows tiles of 32 keys stay in the first cache; with rows of K and V asked for between
 * products, 16 rows took 0.78 of the time, 32 rows 0.88, 64 rows 0.92, 128 rows 0.96 (d 128, fp16). */
const struct cla_cpu_sizes cla_forward_cpu_sizes = {.block = 128,
                                                    .large_block = 256,
                                                    .stream = 64,
                                                    .few_rows = 32,
                                                    .few_stream = 32,
                                                    .source = "EPYC with 512-bit vectors, 2 cores"},
                           cla_backward_cpu_sizes = {.block = 128,
                                                     .large_block = 256,
                                                     .stream = 64,
                                                     .source = "EPYC with 512-bit vectors, 2 cores"};

/* 14 cores of a Xeon, fp32, d 128, 32 heads of 1024 and 4096 rows, two turns, medians of five calls: blocks of 256 rows
 * by tickets, of which some shrink to 128, past tiles of 128 keys took 0.72 to 0.89 of the time of 256 by number past
 * 64. Past tiles of 64 keys they took 0.83 to 0.92. */
const struct cla_cpu_sizes cla_forward_tickets_sizes = {.block = 128,
                                                        .large_block = 256,
                                                        .least_rows = 128,
                                                        .heads = 8,
                                                        .stream = 128,
                                                        .few_rows = 32,
                                                        .few_stream = 32,
                                                        .source = NOTES "xeon-amx-notes.md"};
const uint32_t cla_forward_cpu_few_units = 2; /* the sizes without tickets are of a device with so many */

/* Of 4096 rows and keys, 32 heads, tiles of 256 keys took 0.76 to 0.94 of the time of 64 (d 64 and 128, with and
 * without a causal mask; others were at work beside). Blocks of 256 rows took 0.85 to 0.98 of the time of 128 (n 1024),
 * so that eight heads are taken for granted; blocks of 512 that shrink 0.91 to 0.94 of that of 256 (n 1024, 32 heads).
 * Backward, past blocks of 256 at d 64, 128 took 0.79 of the time of 64, and
 * 256 as long; past blocks of 128 all were alike. */
const struct cla_cpu_sizes cla_forward_amx_sizes = {.large_block = 512,
                                                    .heads = 8,
                                                    .stream = 256,
                                                    .source = NOTES "xeon-amx-notes.md"},
                           cla_backward_amx_sizes = {.stream = 128, .source = NOTES "xeon-amx-notes.md"};

/* Xeon with 512-bit vectors, 16 cores, d 64, 2048 rows: 0.49 (one head, causal) to 0.88 (32 heads) of the time of two
 * kernels, 8192 rows and two heads 0.93; an EPYC with one core 0.74 to 0.78, by pairs of bf16 on two cores 0.75 to 0.77
 * (tests/data/measured/epyc-pairs-notes.md). 32 units, as PoCL counts them where a process has 16 of 32 cores, on two
 * cores: 0.73 to 0.75, one causal head of 1024 rows 0.68 (fp32, d 128). More have not been timed. */
const int cla_backward_cpu_fused_units = 32;

/* 16 cores of a Xeon, fp32, 32 heads: 4 shares of each, by tickets, took 0.76 to 1.01 of the time of whole heads in
 * runs of PoCL's (n 1024 to 16384, d 64 and 128; tests/data/measured/xeon-amx-notes.md). EPYC, two cores, d 128: 1, 2,
 * 4 and 8 shares of each of 8 heads of 4096 rows and of 32 of 1024 took the same time within 3 %. */
const int cla_backward_cpu_rounds = 8;

/* d 128, groups of 4, 16384 keys in fp16: with blocks of 16 rows and tiles of 32 keys, for 4 and 16, the first
 * cache did not hold a tile's work, and a step took 1.6 times as long. Contiguous rows of 256 bytes that are
 * fetched ahead took 1.15 times as long with 4 rows and 0.92 of the time with 8, rows of 512 bytes 0.88 and 0.74
 * of it, rows of 128 bytes 1.0 to 1.2 times. Those in pages of 16 keys in random order took 0.7 of the time when
 * they came into the first cache, 0.45 of it when they came into the second one. 12 rows took 0.8 (fp32) to 0.9 times
 * as long as with forward_cpu, 16 rows 1.25 times; those of 16 bits by integers 0.86, 32 rows 0.81. Sums of integers:
 * tests/data/measured/epyc-pairs-notes.md. Vectors of 8 floats: tests/data/measured/epyc-narrow-notes.md. */
const struct cla_decode_sizes cla_decode_cpu_sizes = {.block = 16,
                                                      .usual_block = 8,
                                                      .tile_bytes = 5120,
                                                      .most_keys = 32,
                                                      .pair_keys = 64,
                                                      .pair_ahead = 128,
                                                      .word_keys = 32,
                                                      .few_rows = 12,
                                                      .rows = 4,
                                                      .wide_sums = 16,
                                                      .sums = 8,
                                                      .ahead_in_pages = 64,
                                                      .narrow_ahead = 16,
                                                      .ahead = 16,
                                                      .long_row = 512,
                                                      .source = "EPYC (Zen 4), 2 cores"};

/* Such that register tiles keep the order that was measured: 8 x 2, 4 x 4 (1.00 to 1.02 times its time), 4 x 3 and 6 x
 * 2 (1.02 to 1.05), 4 x 2 (1.11), 8 x 3 and 6 x 4 (to 1.2). */
const struct cla_cpu_weights cla_cpu_weights = {.block = 6,
                                                .tile = 2,
                                                .columns = 4,
                                                .load = 0.25,
                                                .step = 8,
                                                .least_sums = 8,
                                                .free_registers = 0.6,
                                                .crowded = 0.025,
                                                .spilled = 0.1,
                                                .source = "EPYC with 512-bit vectors, 2 cores"};

/* H200, d 128: 16 rows of 8 heads, 8192 keys: 8 sub-groups 21.3 us, 4 23.8; 4 rows of 128 heads 141 and 145; of 512
 * heads, 1024 keys, 86 and 74. With 32 rows and more tiles in local memory were faster (64 rows of 64 heads, 8192 keys:
 * 175 and 100). Bytes of 16 sequences of 8192 keys, in blocks of 16 rows 99.5, of 8 rows 90.0, these with up to 168
 * registers 83.0, with 32 keys at a time and no such limit 79.0. Few keys: the notes of MATRIX, "Few keys"; of 50 MiB
 * of cache calls with 32 MiB of K and V had gained, with 128 MiB in as many splits as before they had not, and in half
 * as many they had ("Half as many splits"). */
const struct cla_stream_sizes cla_stream_sizes = {.most_rows = 16,
                                                  .sub_groups = 4,
                                                  .more = 8,
                                                  .few_rows = 4,
                                                  .unit_registers = 2048,
                                                  .cached_hundredths = 72,
                                                  .block_elements = 65536};

/* Persistent work-groups are so fast with keys that what comes with splits costs more of them. Fitted to forward_hopper
 * at 4 heads of 16384 rows, d 64, whole and in three splits (565 and 627 us; causal, 398 and 375). Tiled are those of
 * forward_matrix on NVIDIA's devices: the notes of MATRIX, "What splits of tiles cost". */
const struct cla_split_weights cla_split_weights = {.start = 64, .split_start = 64, .merge = 64, .launch = 256},
                               cla_tiled_split_weights = {.start = 64,
                                                          .split_start = 64,
                                                          .merge = 628,
                                                          .launch = 246,
                                                          .key_bytes = 512,
                                                          .alone = 0.744},
                               cla_persistent_split_weights = {.start = 64,
                                                               .split_start = 864,
                                                               .merge = 300,
                                                               .launch = 256},
                               cla_joined_split_weights = {.start = 64, .split_start = 64, .merge = 16, .launch = 64};

/* Not timed yet: a block of rows of most kernels. */
const struct cla_packing_sizes cla_packing_sizes = {.most_rows = 64};
