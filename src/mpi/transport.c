/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include <clattn/mpi.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A ring's messages by MPI, which this file alone calls. Long ones go in parts. */
enum { PARTS = 64, PART_BYTES = 1 << 30, PAUSE_NS = 20000, NO_TAG = 16, LONG_BYTES = 1 << 16 };

struct message {
    MPI_Request parts[PARTS];
    int count;
    bool sent, is_long;
};

struct mpi {
    struct clattn_ring_transport transport; /* the first member: its address is that of all */
    MPI_Comm comm;
    int long_ones; /* under way */
    bool broken;
    char why[MPI_MAX_ERROR_STRING + 64];
};

static _Thread_local char last_message[MPI_MAX_ERROR_STRING + 64];

const char *clattn_mpi_error_message(void)
{
    return last_message;
}

static int check(struct mpi *mpi, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return CLATTN_SUCCESS;
    mpi->broken = true;
    MPI_Error_string(code, text, &length);
    text[length] = '\0';
    snprintf(mpi->why, sizeof mpi->why, "%s failed with %d: %s", call, code, text);
    return CLATTN_COMMUNICATION_FAILED;
}

static int part_of(size_t bytes, size_t at)
{
    return bytes - at < PART_BYTES ? (int)(bytes - at) : PART_BYTES;
}

static int begin_part(struct mpi *mpi, struct message *message, char *data, int bytes, int peer, int tag)
{
    MPI_Request *request = &message->parts[message->count];
    const int status = message->sent
                           ? check(mpi, MPI_Isend(data, bytes, MPI_BYTE, peer, tag, mpi->comm, request), "MPI_Isend")
                           : check(mpi, MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, mpi->comm, request), "MPI_Irecv");
    message->count += !status;
    return status;
}

static void mpi_end(void *user, void *handle)
{
    struct mpi *mpi = user;
    struct message *message = handle;
    for (int i = 0; i < message->count; i++) {
        if (message->parts[i] == MPI_REQUEST_NULL)
            continue;
        mpi->broken = true; /* MPI may still use its bytes */
        if (!message->sent)
            MPI_Cancel(&message->parts[i]);
        MPI_Request_free(&message->parts[i]);
    }
    mpi->long_ones -= message->is_long;
    free(message);
}

static int begin(struct mpi *mpi, bool sent, char *data, size_t bytes, int peer, int tag, void **handle)
{
    int status = CLATTN_SUCCESS;
    if (bytes > (size_t)PARTS * PART_BYTES) {
        snprintf(mpi->why, sizeof mpi->why, "a message of %zu bytes: it has at most %zu, so take more ranks", bytes,
                 (size_t)PARTS * PART_BYTES);
        return CLATTN_TOO_LARGE;
    }
    struct message *message = malloc(sizeof *message);
    if (!message) {
        snprintf(mpi->why, sizeof mpi->why, "no host memory for a message");
        return CL_OUT_OF_HOST_MEMORY;
    }
    message->count = 0;
    message->sent = sent;
    message->is_long = bytes > LONG_BYTES;
    mpi->long_ones += message->is_long;
    for (size_t at = 0; at < bytes && !status; at += PART_BYTES)
        status = begin_part(mpi, message, data + at, part_of(bytes, at), peer, tag);
    if (status)
        mpi_end(mpi, message);
    else
        *handle = message;
    return status;
}

static int mpi_send(void *user, const void *data, size_t bytes, int to, int tag, void **message)
{
    return begin(user, true, (char *)data, bytes, to, tag, message);
}

static int mpi_receive(void *user, void *data, size_t bytes, int from, int tag, void **message)
{
    return begin(user, false, data, bytes, from, tag, message);
}

static int mpi_test(void *user, void *handle, int *complete, const void **lent)
{
    struct message *message = handle;
    MPI_Status statuses[PARTS]; /* MPICH's MPI_STATUSES_IGNORE is no array, of which gcc warns */
    (void)lent;
    return check(user, MPI_Testall(message->count, message->parts, complete, statuses), "MPI_Testall");
}

static int mpi_all(void *user, int mine, int *all)
{
    struct mpi *mpi = user;
    *all = mine;
    return check(mpi, MPI_Allreduce(MPI_IN_PLACE, all, 1, MPI_INT, MPI_MIN, mpi->comm), "MPI_Allreduce");
}

static void mpi_give_up(void *user)
{
    ((struct mpi *)user)->broken = true;
}

/* Any call lets MPI work on what is under way: a long message goes from process to process in small pieces, each by
 * such a call. With a sleep between calls 256 MB took 2.7 to 7 times as long (Open MPI 4.1, by shared memory). */
static void mpi_pause(void *user)
{
    struct mpi *mpi = user;
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, NO_TAG, mpi->comm, &found, MPI_STATUS_IGNORE);
    if (mpi->long_ones)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static const char *mpi_why(void *user)
{
    return ((struct mpi *)user)->why;
}

static void release(struct mpi *mpi)
{
    if (mpi && mpi->comm != MPI_COMM_NULL && !mpi->broken)
        MPI_Comm_free(&mpi->comm);
    free(mpi);
}

static int join(struct mpi *mpi, const void *comm)
{
    int rank = 0, ranks = 0;
    int status = check(mpi, MPI_Comm_dup(*(const MPI_Comm *)comm, &mpi->comm), "MPI_Comm_dup");
    if (!status)
        status = check(mpi, MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (!status)
        status = check(mpi, MPI_Comm_rank(mpi->comm, &rank), "MPI_Comm_rank");
    if (!status)
        status = check(mpi, MPI_Comm_size(mpi->comm, &ranks), "MPI_Comm_size");
    mpi->transport = (struct clattn_ring_transport){.user = mpi,
                                                    .rank = rank,
                                                    .ranks = ranks,
                                                    .send = mpi_send,
                                                    .receive = mpi_receive,
                                                    .test = mpi_test,
                                                    .end = mpi_end,
                                                    .all = mpi_all,
                                                    .give_up = mpi_give_up,
                                                    .pause = mpi_pause,
                                                    .why = mpi_why};
    return status;
}

static clattn_status fail(clattn_status status, const char *why)
{
    snprintf(last_message, sizeof last_message, "%s", why);
    return status;
}

clattn_status clattn_mpi_open(const struct clattn_ring_transport **transport, const void *comm)
{
    int ready = 0, over = 0;
    if (!transport || !comm)
        return fail(CLATTN_INVALID_ARGUMENT, "transport or comm is NULL: comm is an MPI_Comm's address");
    MPI_Initialized(&ready);
    MPI_Finalized(&over);
    if (!ready || over)
        return fail(CLATTN_INVALID_ARGUMENT, over ? "MPI is finalised: MPI_Finalize comes behind a ring"
                                                  : "MPI is not initialised: MPI_Init comes before a ring");
    if (*(const MPI_Comm *)comm == MPI_COMM_NULL)
        return fail(CLATTN_INVALID_ARGUMENT, "comm points to MPI_COMM_NULL: it is a communicator");
    struct mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return fail(CL_OUT_OF_HOST_MEMORY, "no host memory for a transport");
    mpi->comm = MPI_COMM_NULL;
    const int status = join(mpi, comm);
    if (status) {
        fail((clattn_status)status, mpi->why);
        release(mpi);
        return (clattn_status)status;
    }
    *transport = &mpi->transport;
    return CLATTN_SUCCESS;
}

void clattn_mpi_close(const struct clattn_ring_transport **transport)
{
    if (!transport || !*transport)
        return;
    release((struct mpi *)*transport);
    *transport = NULL;
}
