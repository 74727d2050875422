/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/gather.h"
#include <clattn/mpi.h>
#include <mpi.h>

int ring_ranks_find(struct ring_ranks *ranks, struct failure *failure)
{
    MPI_Comm host, world = MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->count);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &ranks->on_host);
    MPI_Comm_free(&host);
    ranks->transport = NULL;
    return clattn_mpi_open(&ranks->transport, &world) ? fail(failure, STATUS_DEVICE, "%s", clattn_mpi_error_message())
                                                      : STATUS_OK;
}

void ring_ranks_close(struct ring_ranks *ranks)
{
    clattn_mpi_close(&ranks->transport);
}

/* One run of rows, in one message. */
static void pass_on(const struct ring_ranks *ranks, char *rows, size_t row_bytes, int64_t count, int from)
{
    MPI_Datatype row;
    if (!count || !row_bytes)
        return;
    MPI_Type_contiguous((int)row_bytes, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    if (ranks->rank)
        MPI_Send(rows, (int)count, row, 0, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(rows, (int)count, row, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&row);
}

void ring_gather(const struct ring_ranks *ranks, char *array, const struct ring_rows *rows,
                 const struct clattn_ring_part *parts)
{
    for (int from = 1; from < ranks->count; from++)
        for (size_t i = 0; i < rows->times && (!ranks->rank || ranks->rank == from); i++)
            for (int run = 0; run < 2; run++) {
                const size_t first = i * rows->count + (size_t)parts[from].first[run];
                pass_on(ranks, array + first * rows->bytes, rows->bytes, parts[from].count[run], from);
            }
}
