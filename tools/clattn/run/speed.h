/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_SPEED_H
#define CLATTN_TOOL_RUN_SPEED_H

#include "opencl_select.h"

/* How fast a device computes problems of this kind: pairs of rows and keys, of a head, in a millisecond of kernels. It
 * is measured on random arrays, without features, forward, on sequences that grow until a call takes a few milliseconds
 * or is as long as the caller's. */
int measure_speed(const struct session *session, const struct clattn_problem *problem, const struct clattn_shape *shape,
                  double *speed, struct failure *failure);

#endif
