/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/states.h"
#include "plan/checked.h"

/* The parts of a state begin at multiples of so many floats: 64 bytes. */
enum { ALIGN = 16 };

bool cla_states_place(int d_v, const struct clattn_shape *shape, int states, struct cla_state_places *places)
{
    int64_t rows, o, end;
    if (!cla_multiply(shape->batch, shape->heads, &rows) || !cla_multiply(rows, shape->n_q, &rows) ||
        !cla_multiply(rows, states, &rows) || rows > INT64_MAX / 64 || !cla_multiply(rows, d_v, &o) ||
        !cla_add(o, 2 * cla_ceil_div(rows, ALIGN) * ALIGN, &end) || end > INT64_MAX / 16 ||
        (uint64_t)end > SIZE_MAX / sizeof(float))
        return false;
    places->rows = rows;
    places->l = cla_ceil_div(rows, ALIGN) * ALIGN;
    places->o = 2 * places->l;
    places->end = end;
    places->states = states;
    return true;
}
