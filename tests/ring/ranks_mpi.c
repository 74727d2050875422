/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ranks.h"
#include <clattn/mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const struct clattn_ring_transport *transport;

int ranks_run(int argc, char **argv, bool (*test)(const struct ranks *ranks, int argc, char **argv))
{
    struct ranks ranks;
    test_device_open(&ranks.device);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    if (ranks.count > RANKS_MOST) {
        fprintf(stderr, "%d ranks: there are %d at most\n", ranks.count, RANKS_MOST);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const bool right = ranks_all(&ranks, test(&ranks, argc, argv));
    clattn_mpi_close(&transport);
    test_device_close(&ranks.device);
    MPI_Finalize();
    return !right;
}

const struct clattn_ring_transport *ranks_transport(const struct ranks *ranks)
{
    static MPI_Comm world;
    world = MPI_COMM_WORLD;
    if (!transport && clattn_mpi_open(&transport, &world))
        fprintf(stderr, "rank %d: clattn_mpi_open: %s\n", ranks->rank, clattn_mpi_error_message());
    return transport;
}

void ranks_renew_transport(const struct ranks *ranks)
{
    (void)ranks;
    clattn_mpi_close(&transport);
}

void ranks_unite(const struct ranks *ranks, void *data, size_t bytes)
{
    (void)ranks;
    MPI_Allreduce(MPI_IN_PLACE, data, (int)bytes, MPI_UNSIGNED_CHAR, MPI_BOR, MPI_COMM_WORLD);
}

int ranks_from(const struct ranks *ranks, int from, int number)
{
    (void)ranks;
    MPI_Bcast(&number, 1, MPI_INT, from, MPI_COMM_WORLD);
    return number;
}

bool ranks_all(const struct ranks *ranks, bool mine)
{
    int all = mine;
    (void)ranks;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}
