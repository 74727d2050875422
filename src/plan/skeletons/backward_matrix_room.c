/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a configuration of backward_matrix takes of a device, and what it costs. */
#include "plan/problem.h"
#include "plan/skeletons/backward_matrix.h"

enum { STATISTICS = 16 }; /* bytes that a stage keeps of a moving row */
enum {
    DRAWN_KEYS = 128,
    MOST_DRAWN_ROWS = 64
}; /* keys that dropout draws at once; rows of a slice, if a lane takes them at once */

static int fixed_rows(const struct cla_config *config, int side)
{
    return side == CLA_DQ ? config->b_r : config->b_c;
}

int cla_backward_matrix_sub_groups(const struct cla_config *config)
{
    return config->work_group_size / config->lanes;
}

/* Bytes of what dropout takes of a moving row's pairs, where sub-groups draw for each other (MATRIX_DROPOUT_ONCE): a
 * bit of each pair, of a half of the 128 keys that are drawn at once or of both. */
static int drawn_row_bytes(const struct clattn_problem *problem, const struct cla_config *config, int side)
{
    const bool once = side == CLA_DK_DV && (problem->features & CLATTN_DROPOUT) && !cla_problem_accumulates(problem) &&
                      DRAWN_KEYS % config->b_c == 0 && config->backward_matrix.side[side].slice <= MOST_DRAWN_ROWS;
    return !once ? 0 : config->b_c > DRAWN_KEYS / 2 ? DRAWN_KEYS / 8 : DRAWN_KEYS / 16;
}

/* To the byte what a kernel declares (MATRIX_LOCAL_BYTES). d_bias is as dq. */
uint64_t cla_backward_matrix_side_bytes(const struct clattn_problem *problem, const struct cla_config *config, int side)
{
    const int64_t row = cla_matrix_pitch(problem, problem->d) + cla_matrix_pitch(problem, problem->d_v);
    const int64_t moving = config->backward_matrix.side[side].moving,
                  stages = config->backward_matrix.side[side].stages;
    const int64_t place = config->backward_matrix.side[side].fixed_registers == 2 ? 0 : fixed_rows(config, side) * row;
    const int64_t ds = config->backward_matrix.adds && side == CLA_DK_DV
                           ? config->b_c * (int64_t)cla_matrix_pitch(problem, (int)moving)
                           : 0;
    const int64_t sides = place + ds + stages * moving * (row + STATISTICS + drawn_row_bytes(problem, config, side));
    const int64_t result = (int64_t)fixed_rows(config, side) * cla_matrix_pitch(problem, cla_widest(problem));
    return (uint64_t)((sides > result ? sides : result) +
                      cla_backward_matrix_sub_groups(config) * config->unit->scratch_bytes + 16);
}

uint64_t cla_backward_matrix_local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const uint64_t dq = cla_backward_matrix_side_bytes(problem, config, CLA_DQ),
                   dk_dv = cla_backward_matrix_side_bytes(problem, config, CLA_DK_DV);
    return dq > dk_dv ? dq : dk_dv;
}

/* Words of private memory of an item: gradients, scores and dP of a slice, the fixed side's operands where they stay.
 */
static int64_t side_words(const struct clattn_problem *problem, const struct cla_config *config, int side)
{
    const int elements = CLA_PIECE * CLA_PIECE / config->lanes;
    const int pieces = cla_pieces(problem->d), pieces_v = cla_pieces(problem->d_v);
    const int split = config->backward_matrix.side[side].split;
    const int tiles = fixed_rows(config, side) * split / (CLA_PIECE * cla_backward_matrix_sub_groups(config));
    const int gradients = side == CLA_DQ ? pieces : (pieces + pieces_v) / split;
    const int kept =
        config->backward_matrix.side[side].fixed_registers ? (pieces + pieces_v) * elements / 2 : elements / 2;
    return (int64_t)tiles *
               (gradients * elements + 2 * config->backward_matrix.side[side].slice / CLA_PIECE * elements + kept) +
           elements / 2 + 24;
}

uint64_t cla_backward_matrix_private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t dq = side_words(problem, config, CLA_DQ), dk_dv = side_words(problem, config, CLA_DK_DV);
    return 4 * (uint64_t)(dq > dk_dv ? dq : dk_dv);
}

/* For 16 x 16 pairs: an operand of the moving side serves the sub-group's tiles, one of the fixed side, unless it stays
 * in registers, a slice. */
static struct cla_matrix_work side_work(const struct clattn_problem *problem, const struct cla_config *config, int side)
{
    const struct cla_backward_side *at = &config->backward_matrix.side[side];
    const double d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v), rows = fixed_rows(config, side);
    const double scores = (d + d_v) * at->split, products = scores + (side == CLA_DQ                 ? d
                                                                      : config->backward_matrix.adds ? 2 * d + d_v
                                                                                                     : d + d_v);
    const double tiles = rows * at->split / (CLA_PIECE * cla_backward_matrix_sub_groups(config)),
                 slabs = (double)CLA_PIECE / at->slice;
    const double operands = products / tiles + (at->fixed_registers ? 0 : scores * slabs);
    const double chunks = (d + d_v) * 2 * CLA_PIECE * CLA_PIECE / (rows * cla_matrix_lanes(config));
    return (struct cla_matrix_work){.products = products,
                                    .weights = at->split,
                                    .words = operands * cla_matrix_operand_words(config) + 4 * chunks,
                                    .chunks = chunks,
                                    .slabs = slabs,
                                    .tiles = CLA_PIECE / (tiles * at->moving),
                                    .slab_waits = slabs / tiles,
                                    .chained = (d + d_v) * slabs / tiles,
                                    .late_tiles = at->stages == 1 ? CLA_PIECE / (tiles * at->moving) : 0};
}

static double side_estimate(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            const struct cla_config *config, int side)
{
    const struct cla_matrix_work work = side_work(problem, config, side);
    return cla_matrix_cost(capabilities, config, &work, (int)side_words(problem, config, side),
                           cla_backward_matrix_side_bytes(problem, config, side));
}

double cla_backward_matrix_estimate(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const struct cla_config *config)
{
    return (config->backward_matrix.adds ? 0 : side_estimate(capabilities, problem, config, CLA_DQ)) +
           side_estimate(capabilities, problem, config, CLA_DK_DV);
}
