/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STATE_H
#define CLA_STATE_H

#include "attention/operands.h"
#include "attention/plan.h"
#include <clattn/state.h>

/* The functions of clattn/state.h without the report. `plan` is not NULL and of pass CLATTN_ACCUMULATE. */
clattn_status cla_state_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                              struct cla_error *error);
clattn_status cla_state_begin(const struct clattn_plan *plan, const struct clattn_shape *shape, struct cla_bytes state,
                              const struct cla_dispatch *to, struct cla_error *error);
clattn_status cla_state_merge(const struct clattn_plan *plan, const struct clattn_shape *shape, struct cla_bytes into,
                              struct cla_bytes from, const struct cla_dispatch *to, struct cla_error *error);
clattn_status cla_state_accumulate(const struct clattn_plan *plan, const struct clattn_accumulate_args *args,
                                   const struct cla_dispatch *to, struct cla_error *error);
clattn_status cla_state_finish(const struct clattn_plan *plan, const struct clattn_finish_args *args,
                               const struct cla_dispatch *to, struct cla_error *error);

#endif
