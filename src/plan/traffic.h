/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TRAFFIC_H
#define CLA_TRAFFIC_H

#include "plan/skeleton.h"
#include <clattn/traffic.h>

/* The streams of a skeleton that has nothing to say of them: blocks and tiles of B_r and B_c, everything read once. */
void cla_streams_plain(const struct cla_config *config, struct clattn_plan_stream streams[2]);

/* `problem` is resolved, the shape's kv_heads is not 0 and divides heads, sizes are not negative. */
void cla_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                 const struct clattn_traffic_params *params, struct clattn_traffic *traffic);

#endif
