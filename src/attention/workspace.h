/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_WORKSPACE_H
#define CLA_WORKSPACE_H

#include "attention/plan.h"

/* The bytes of the rows' statistics, which the workspace of a backward pass begins with. */
clattn_status cla_statistics_bytes(const struct clattn_shape *shape, size_t *bytes, struct cla_error *error);

/* clattn_plan_workspace_bytes() without the report. */
clattn_status cla_workspace_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                                  struct cla_error *error);

#endif
