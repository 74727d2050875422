/* SPDX-License-Identifier: BSD-2-Clause */
#include "mpi/faults.h"
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const fault_names[FAULT_KINDS] = {"none", "drop", "delay", "fail", "kill"};

static struct {
    enum fault fault;
    int number, count;
} now;

void fault_set(enum fault fault, int number)
{
    now.fault = fault;
    now.number = number;
    now.count = 0;
}

int fault_count(void)
{
    return now.count;
}

/* One that is dropped seems to have been sent: its request is that of a message to nobody. */
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static const struct timespec delay = {.tv_nsec = 300000000};
    now.count++;
    if (now.count != now.number)
        return PMPI_Isend(data, count, type, to, tag, comm, request);
    switch (now.fault) {
    case FAULT_DROP:
        return PMPI_Isend(data, 0, type, MPI_PROC_NULL, tag, comm, request);
    case FAULT_FAIL:
        return MPI_ERR_OTHER;
    case FAULT_KILL:
        if (write(STDOUT_FILENO, "killed\n", 7) == 7) /* from now on time counts */
            kill(getpid(), SIGKILL);
        break;
    case FAULT_DELAY:
        nanosleep(&delay, NULL);
        break;
    default:
        break;
    }
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}
