/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a configuration of forward_matrix takes of a device: items, local memory, registers. */
#include "plan/checked.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/skeletons/forward_matrix.h"

bool cla_forward_matrix_stores_words(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->features & CLATTN_DROPOUT && 128 % config->matrix.keys == 0 && config->unit->stores_philox;
}

int cla_forward_matrix_piece_rows(const struct cla_config *config)
{
    return config->matrix.streams ? (int)cla_smaller(config->b_r, CLA_PIECE) : CLA_PIECE;
}

int cla_forward_matrix_items(const struct cla_config *config)
{
    const int sharers = config->matrix.streams ? config->matrix.sharers : 1;
    return config->b_r / (cla_forward_matrix_piece_rows(config) * config->matrix.row_tiles) * config->lanes * sharers;
}

/* What sub-groups that share rows leave each other (MATRIX_JOIN_BYTES). */
static uint64_t join_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return cla_problem_accumulates(problem) ? 0
                                            : (uint64_t)(config->matrix.sharers * config->b_r * (problem->d_v + 3)) * 4;
}

/* Tiles of Q, K and V (INPUT_TILES of cl/common/matrix_stages.clh). */
static int64_t input_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t d = cla_matrix_pitch(problem, problem->d), q_tile = config->b_r * d, k_tile = config->b_c * d;
    const int64_t v_rows = cla_pieces(problem->d_v) * CLA_PIECE,
                  v_tile = v_rows * cla_matrix_pitch(problem, config->b_c);
    if (!config->unit->fetches)
        return q_tile + 2 * (k_tile + config->b_c * cla_matrix_pitch(problem, problem->d_v));
    return config->matrix.q_registers ? cla_larger(q_tile, k_tile + v_tile) : q_tile + k_tile + v_tile;
}

/* Q as operands (STREAM_QUERY_BYTES). */
static uint64_t query_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return config->matrix.q_registers
               ? 0
               : (uint64_t)(cla_pieces(problem->d) * config->lanes * config->unit->operand_words) * 4;
}

uint64_t cla_forward_matrix_local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    if (config->matrix.streams)
        return (uint64_t)cla_larger((int64_t)join_bytes(problem, config), (int64_t)query_bytes(problem, config)) +
               (uint64_t)(cla_forward_matrix_items(config) / config->lanes * config->unit->scratch_bytes) + 16;
    const int64_t inputs = input_bytes(problem, config),
                  outputs = config->b_r * cla_matrix_pitch(problem, problem->d_v);
    const int64_t drawn = cla_forward_matrix_stores_words(problem, config) ? 512 / 8 * config->b_r : 0;
    const int64_t scratch = config->b_r / (CLA_PIECE * config->matrix.row_tiles) * config->unit->scratch_bytes;
    return (uint64_t)(cla_larger(inputs, outputs) + drawn + scratch) + 16;
}

/* What it has of the next tile meanwhile: two rows of V at a time (MATRIX_FETCHED). */
static int fetched_words(const struct clattn_problem *problem, const struct cla_config *config)
{
    if (!config->unit->fetches || config->matrix.streams)
        return 0;
    const int items = config->b_r / (CLA_PIECE * config->matrix.row_tiles) * config->lanes;
    const int k_chunks = config->b_c * 2 * cla_pieces(problem->d), v_pairs = config->b_c * cla_pieces(problem->d_v);
    const int64_t chunks = cla_ceil_div(k_chunks, items) + 2 * cla_ceil_div(v_pairs, items);
    return 4 * (int)chunks;
}

uint64_t cla_forward_matrix_private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int rows = config->matrix.row_tiles,
              elements = cla_forward_matrix_piece_rows(config) * CLA_PIECE / config->lanes;
    const int operand = config->unit->operand_words * cla_forward_matrix_piece_rows(config) / CLA_PIECE;
    const int kept = config->matrix.q_registers ? rows * cla_pieces(problem->d) : rows;
    const int words = rows * (config->matrix.keys / CLA_PIECE + cla_pieces(problem->d_v)) * elements +
                      (kept + 1) * operand + 4 * rows * config->unit->slots + 24;
    return (uint64_t)(words + fetched_words(problem, config)) * 4;
}
