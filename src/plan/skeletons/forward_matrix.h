/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_FORWARD_MATRIX_H
#define CLA_FORWARD_MATRIX_H

#include "plan/matrix_units.h"

/* The planner of forward_matrix, in three files. */
#define CLA_FORWARD_MATRIX "forward_matrix"

/* Rows of a piece (UNIT_ROWS); and the items of a work-group. */
int cla_forward_matrix_piece_rows(const struct cla_config *config);
int cla_forward_matrix_items(const struct cla_config *config);

/* What an item holds of a sub-group's scores, outputs and operands, and of each of its rows four figures. */
uint64_t cla_forward_matrix_private_bytes(const struct clattn_problem *problem, const struct cla_config *config);

/* Whether what dropout's calls take lies in local memory, a bit for each pair of 512 keys, as it may where tiles are
 * within a block of 128 keys. */
bool cla_forward_matrix_stores_words(const struct clattn_problem *problem, const struct cla_config *config);

/* To the byte what the kernel declares (MATRIX_LOCAL_BYTES): Q and two stages of K and V; O later takes their place. */
uint64_t cla_forward_matrix_local_bytes(const struct clattn_problem *problem, const struct cla_config *config);

/* What 16 x 16 pairs cost, in products of 16 x 16 pieces; smaller is better. */
double cla_forward_matrix_estimate(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   const struct cla_config *config);

/* Whether a compute unit then holds work-groups enough. */
bool cla_forward_matrix_hides_waits(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const struct cla_config *config);

/* The sizes of a configuration whose unit is known. */
void cla_forward_matrix_wish(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             struct cla_config *config);

/* What cl/common/matrix_stream.clh asserts: a sub-group has 16 rows, or the unit's stream_rows, and 16 or 32 keys at a
 * time; of wider rows it would not have the registers. */
bool cla_forward_matrix_may_stream(const struct clattn_problem *problem, const struct cla_config *config);

/* Whether sizes are forced that only kernels without tiles of K and V have: blocks of fewer rows than a piece, or of
 * one piece with more than one sub-group. */
bool cla_forward_matrix_forces_streams(const struct clattn_problem *problem, const struct cla_config *config);

/* Scores are held for no more keys at a time than divide a tile's. */
void cla_forward_matrix_hold_whole_keys(struct cla_config *config);

#endif
