/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CPU_TILES_H
#define CLA_CPU_TILES_H

#include "plan/planner.h"

/* What the planners of the CPU skeletons share, as their kernels share cl/common/cpu_tiles.clh. */

/* A block's arrays lie on a thread's stack: what is planned, and what is accepted of forced sizes. */
#define CLA_CPU_MOST_PRIVATE_BYTES (UINT64_C(1) << 20)
#define CLA_CPU_MOST_FORCED_BYTES  (4 * CLA_CPU_MOST_PRIVATE_BYTES)

bool cla_cpu_prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem);

static inline int cla_round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Float lanes of the device's vectors, from 4 to 16. */
int cla_cpu_vector_width(const struct clattn_capabilities *capabilities);

/* Sets config->cpu's vector width and register tile, with so many vectors of lanes at most. */
void cla_cpu_take_register_tile(const struct clattn_capabilities *capabilities, int most_vectors,
                                struct cla_config *config);

/* Narrows the lanes until a panel of them divides `lanes` (0: anything); false where nothing does. */
bool cla_cpu_fit_lanes(int lanes, struct cla_config *config);

/* Refuses sizes that the problem forces: `wanted` says what skeleton `name` takes. */
clattn_status cla_cpu_refuse_forced(const struct clattn_problem *problem, const char *name, const char *wanted,
                                    struct cla_error *error);

/* Whether a thread's stack has the arrays of a block, of so many bytes. */
clattn_status cla_cpu_check_private(uint64_t bytes, const struct cla_config *config, struct cla_error *error);

/* A step of the plan: micro `streamed` things by vectors of `lanes`. */
void cla_cpu_explain_registers(const struct cla_config *config, const char *streamed, const char *lanes,
                               struct clattn_plan_info *info);

/* Whether the kernels have such a register tile at all. */
bool cla_cpu_tile_is_whole(const struct cla_config *config);

/* How much longer a product takes with this register tile than multiply-adds alone: 1 and more. */
double cla_cpu_tile_cost(const struct cla_config *config);

/* Rows (keys) of a panel, and the row stride of tiles of n columns, as the kernels derive it. */
int cla_cpu_panel(const struct cla_config *config);
int cla_cpu_stride(int n, const struct cla_config *config);

/* Whether one head's blocks of so many rows (of n in all; 0: not known) keep every core at work: as many as there are,
 * and twice that under a causal mask, since its blocks are of unequal work. Heads and batch are not known to a plan. */
bool cla_cpu_has_blocks(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem, int64_t n,
                        int rows);

/* The length of streamed tiles: `planned`, or with a block mask one that divides its blocks of so many rows or keys, so
 * that no tile is half hidden. */
int cla_cpu_streamed(int planned, int block);

uint64_t cla_cpu_no_local_bytes(const struct clattn_problem *problem, const struct cla_config *config);

#endif
