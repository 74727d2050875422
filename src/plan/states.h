/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STATES_H
#define CLA_STATES_H

#include <clattn/problem.h>
#include <stdbool.h>

/* Where the parts of a state lie, in floats, and its end; m lies at the beginning. `rows` are those of all `states`,
 * one after the other. */
struct cla_state_places {
    int64_t rows, l, o, end;
    int states;
};

/* Of so many states of one shape (resolved) in one buffer; false where they are more than can be counted. */
bool cla_states_place(int d_v, const struct clattn_shape *shape, int states, struct cla_state_places *places);

#endif
