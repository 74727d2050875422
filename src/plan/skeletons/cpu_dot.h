/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CPU_DOT_H
#define CLA_CPU_DOT_H

#include "plan/planner.h"
#include "plan/sizes.h"

/* The products of bf16 by pairs that forward_cpu and backward_cpu may take instead of multiply-adds
 * (cl/unit/cpu_dot.clh, cl/unit/cpu_amx.clh): values of their constant CLATTN_DOT. Those that are emulated compute what
 * the instructions do, for tests. */
enum cla_cpu_dot {
    CLA_CPU_FMA = 0,
    CLA_CPU_AVX512_BF16 = 1,
    CLA_CPU_AVX512_BF16_EMULATED = 2,
    CLA_CPU_AMX = 3,
    CLA_CPU_AMX_EMULATED = 4
};

/* The unit that the device has for the problem, whose register tile is chosen, and the unit's own register tile;
 * `streamed` rows or keys pass at a time. */
void cla_cpu_take_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      int streamed, struct cla_config *config);

/* Whether the device, the problem's types and the tiles allow the configuration's unit. `name` is the skeleton's. */
clattn_status cla_cpu_check_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const char *name, const struct cla_config *config, int streamed,
                                struct cla_error *error);

/* A step of the plan that says which unit multiplies, and why. */
void cla_cpu_explain_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct cla_config *config, struct clattn_plan_info *info);

/* 32-bit words that a row of n elements takes in a tile of an operand, as the kernels derive it (D_ITEMS). */
int cla_cpu_items(int n, const struct cla_config *config);

/* Panels of forward_cpu that take turns (TOGETHER); and of how many of b_c keys it has scores at a time (GROUP). */
int cla_cpu_panels_together(const struct cla_config *config);
int cla_cpu_scored_keys(int b_c, const struct cla_config *config);

/* Whether forward_cpu's blocks go to whoever is free (CLATTN_TICKETS): with tiles always, else unless a knob says
 * otherwise where more than a few units share a call, of which some end late. */
bool cla_cpu_has_tickets(const struct clattn_capabilities *capabilities, const struct cla_config *config);

/* The sizes of its blocks and tiles. */
const struct cla_cpu_sizes *cla_cpu_forward_sizes(const struct cla_config *config);

/* How many sizes blocks by tickets have: b_r rows, half and a quarter of that. 0: each work-group has its own. */
int cla_cpu_ticket_sizes(const struct cla_config *config);

/* Whether a panel's lanes can be what dQ sums over: tiles take 32 of them. */
bool cla_cpu_may_fuse(const struct cla_config *config);

/* Words of a panel's weights as such an operand, of so many streamed rows. */
int cla_cpu_weight_words(int streamed, const struct cla_config *config);

#endif
