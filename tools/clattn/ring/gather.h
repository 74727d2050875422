/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_GATHER_H
#define CLATTN_TOOL_RING_GATHER_H

#include "ring/ranks.h"

/* The ranks of MPI: behind MPI_Init, and before MPI_Finalize. */
int ring_ranks_find(struct ring_ranks *ranks, struct failure *failure);
void ring_ranks_close(struct ring_ranks *ranks);

/* A dense array: `times` times all rows (or keys) of a head, or of heads that lie side by side. */
struct ring_rows {
    size_t times, count, bytes; /* bytes of a row */
};

/* Of which each rank has filled its part: rank 0 gets all. `parts` are all ranks'. */
void ring_gather(const struct ring_ranks *ranks, char *array, const struct ring_rows *rows,
                 const struct clattn_ring_part *parts);

#endif
