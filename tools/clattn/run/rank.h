/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_RANK_H
#define CLATTN_TOOL_RUN_RANK_H

#include "run/job.h"
#include <clattn/ring.h>

/* What one rank computes of a run that several share, each from and to its part of the same arrays. */
struct run_rank {
    const struct run *run;
    const struct clattn_ring_transport *transport;
    const struct session *session;
    struct clattn_ring_part rows, keys;
    int64_t timeout_ms;
    void (*progress)(void *user, int64_t keys_done, int64_t keys); /* NULL: nobody wants to know */
    void *progress_user;
    struct clattn_ring_info info; /* of the forward pass */
};

/* Parts of all ranks, as long as weights are (NULL: equal). */
clattn_status run_share_out(const struct run *run, enum clattn_ring_sharing sharing, int ranks, const double *weights,
                            struct clattn_ring_part *rows, struct clattn_ring_part *keys);

/* Forward, and gradients where these are wanted. Collective. */
int run_rank_compute(struct run_rank *rank, struct failure *failure);

#endif
