/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_GATHER_H
#define CLATTN_TOOL_RING_GATHER_H

#include "failure.h"
#include <clattn/ring.h>
#include <stddef.h>

/* Ranks of the command, all those of MPI_COMM_WORLD. */
struct ring_ranks {
    int rank, count, on_host; /* the number of this one among those of its host */
    const struct clattn_ring_transport *transport;
};

/* Behind MPI_Init, and before MPI_Finalize. */
int ring_ranks_find(struct ring_ranks *ranks, struct failure *failure);
void ring_ranks_close(struct ring_ranks *ranks);

/* The status of the lowest rank that failed, on all; there alone its text is kept. */
int ring_agree(const struct ring_ranks *ranks, int status, struct failure *failure);

/* A dense array: `times` times all rows (or keys) of a head, or of heads that lie side by side. */
struct ring_rows {
    size_t times, count, bytes; /* bytes of a row */
};

/* Of which each rank has filled its part: rank 0 gets all. `parts` are all ranks'. */
void ring_gather(const struct ring_ranks *ranks, char *array, const struct ring_rows *rows,
                 const struct clattn_ring_part *parts);

#endif
