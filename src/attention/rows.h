/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ROWS_H
#define CLA_ROWS_H

#include "attention/chain.h"
#include "attention/operands.h"
#include "plan/recipe.h"
#include "plan/states.h"

/* The kernels beside attention's own, whose work is small: the rows' statistics and the sinks' gradient of the backward
 * pass, what begins, merges and finishes a state, and what expands a block mask. */
struct cla_rows {
    struct cla_kernel statistics, d_sinks, begin, merge, finish, expand; /* those that the problem needs */
    int work_group_size;
    int row_items;   /* work-items that share a row */
    int most_states; /* that are finished together */
    int b_r;         /* rows of a work-group */
};

/* Makes those that the pass needs; of a forward pass, whether it splits keys. `rows` is all zero, and to be finished
 * also after an error. */
clattn_status cla_rows_make(struct cla_rows *rows, struct clattn_context *context, const struct clattn_problem *problem,
                            unsigned features, bool splits, struct cla_error *error);
void cla_rows_finish(struct cla_rows *rows);

/* Of so many states of one shape (resolved) in one buffer. */
clattn_status cla_state_locate(int d_v, const struct clattn_shape *shape, int states, struct cla_state_places *places,
                               struct cla_error *error);

/* The features that a state's results and the sinks' gradient depend on. */
#define CLA_FINISH_FEATURES  (CLATTN_VARLEN | CLATTN_QUERY_LENGTHS | CLATTN_SINKS | CLATTN_DROPOUT)
#define CLA_D_SINKS_FEATURES (CLATTN_VARLEN | CLATTN_QUERY_LENGTHS | CLATTN_SINKS | CLATTN_LSE_GRADIENT)

/* Whether the work-groups that a call of these kernels takes can be launched at once. */
clattn_status cla_rows_check(const struct cla_rows *rows, const struct cla_call *call, bool narrow,
                             struct cla_error *error);

/* Each adds its kernel to the present stage, if it has anything to do. That of the statistics, which
 * leaves them from the workspace's beginning on, clears some words, too. */
clattn_status cla_rows_expand(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                              struct cla_error *error);
clattn_status cla_rows_statistics(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                                  const struct cla_layout *at, const struct cla_words *cleared,
                                  struct cla_error *error);
clattn_status cla_rows_d_sinks(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                               const struct cla_layout *at, struct cla_error *error);
clattn_status cla_rows_begin(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                             const struct cla_state_places *places, struct cla_error *error);
clattn_status cla_rows_merge(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                             const struct cla_state_places *places, struct cla_error *error);
/* `from`: the operand that holds the states, CLA_STATE or CLA_WORKSPACE. */
clattn_status cla_rows_results(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call, int from,
                               const struct cla_state_places *places, struct cla_error *error);

#endif
