/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PLANNER_H
#define CLA_PLANNER_H

#include "plan/skeleton.h"

/* What the planner decided. */
struct cla_choice {
    const struct cla_skeleton *skeleton;
    struct cla_config config;
};

/* The paper's bound, then the skeleton's choice. Fills `info` but for program_key. `problem` is resolved. */
clattn_status cla_plan(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_choice *choice, struct clattn_plan_info *info, struct cla_error *error);

/* The first skeleton that serves the pass and prefers the device, of those behind `after` (NULL: of all); or
 * NULL. */
const struct cla_skeleton *cla_plan_preferred(const struct clattn_capabilities *capabilities,
                                              const struct clattn_problem *problem, const struct cla_skeleton *after);

/* Whether the problem takes any choice out of the planner's hands. */
bool cla_plan_is_forced(const struct clattn_problem *problem);

/* Takes the next smaller configuration of the skeleton after the device refused the present one, and adds a step
 * saying why. Fails with CLATTN_NOTHING_FITS where there is none, or where the caller forced the block sizes. */
clattn_status cla_plan_step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                 const char *reason, struct cla_choice *choice, struct clattn_plan_info *info,
                                 struct cla_error *error);

/* What to compile after the device refused the present choice, for `reason`; adds a step saying so. A tuning record's
 * configuration gives way to the model's; retargeted kernels to smaller ones where they lack registers (`spills`), and
 * else, or where there are none, to the next skeleton; others to smaller ones alone. CLATTN_NOTHING_FITS where there is
 * nothing more, or where the caller forced the choice. */
clattn_status cla_plan_next(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            const char *reason, bool spills, struct cla_choice *choice, struct clattn_plan_info *info,
                            struct cla_error *error);

/* The #define lines of a choice, which stand above the program text. Integers only. */
void cla_plan_defines(const struct clattn_problem *problem, const struct cla_choice *choice, struct cla_text *text);

/* A search through thousands of configurations wants estimates alone: with this for info's step_count no step is
 * written. */
enum { CLA_NO_STEPS = -1 };

/* skeleton->adopt, of which not every one looks at what knobs make of local memory: this does. */
clattn_status cla_adopt(const struct clattn_capabilities *capabilities, const struct cla_skeleton *skeleton,
                        const struct clattn_problem *problem, struct cla_config *config, struct clattn_plan_info *info,
                        struct cla_error *error);

/* Adds a step to info; where all CLATTN_MAX_PLAN_STEPS are taken, replaces the last. */
__attribute__((format(printf, 5, 6))) void cla_plan_step(struct clattn_plan_info *info, const char *name, int b_r,
                                                         int b_c, const char *format, ...);

/* clattn_capabilities_apply_known, whatever the environment says of it. */
void cla_apply_known(struct clattn_capabilities *capabilities);

/* Local memory that a work-group may use: what was probed or is known, else what the device says. */
uint64_t cla_usable_local_bytes(const struct clattn_capabilities *capabilities);

/* What a compiled kernel may say that it takes: the same, and on NVIDIA what an array's alignment may have
 * added. */
uint64_t cla_most_compiled_local_bytes(const struct clattn_capabilities *capabilities);

#endif
