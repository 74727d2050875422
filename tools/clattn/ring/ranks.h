/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_RANKS_H
#define CLATTN_TOOL_RING_RANKS_H

#include "failure.h"
#include <clattn/ring.h>
#include <stddef.h>

/* Ranks of the command: all those of MPI_COMM_WORLD, or threads. */
struct ring_ranks {
    int rank, count, on_host; /* the number of this one among those of its host */
    const struct clattn_ring_transport *transport;
};

/* Each rank gives so many bytes; all get all, in the order of ranks. Collective. */
int ring_exchange(const struct ring_ranks *ranks, const void *mine, size_t bytes, void *all, struct failure *failure);

/* The status of the lowest rank that failed, on all; there alone its text is kept. */
int ring_agree(const struct ring_ranks *ranks, int status, struct failure *failure);

#endif
