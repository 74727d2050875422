/* SPDX-License-Identifier: BSD-2-Clause */
#include "mpi/wire.h"
#include <threads.h>

enum { PART_BYTES = 1 << 30, PAUSE_NS = 20000 };

static clattn_status fail(struct cla_wire *wire, int code, const char *call, struct cla_error *error)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    wire->broken = true;
    MPI_Error_string(code, text, &length);
    text[length] = '\0';
    return cla_fail(error, CLATTN_COMMUNICATION_FAILED, "%s failed with %d: %s", call, code, text);
}

static clattn_status check(struct cla_wire *wire, int code, const char *call, struct cla_error *error)
{
    return code == MPI_SUCCESS ? CLATTN_SUCCESS : fail(wire, code, call, error);
}

clattn_status cla_wire_open(struct cla_wire *wire, const void *comm, double timeout, struct cla_error *error)
{
    int ready = 0, over = 0;
    *wire = (struct cla_wire){.comm = MPI_COMM_NULL, .timeout = timeout};
    MPI_Initialized(&ready);
    MPI_Finalized(&over);
    if (!ready || over)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "MPI is %s: MPI_Init comes before a ring, MPI_Finalize behind it",
                        over ? "finalised" : "not initialised");
    if (*(const MPI_Comm *)comm == MPI_COMM_NULL)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->comm points to MPI_COMM_NULL: it is a communicator");
    clattn_status status = check(wire, MPI_Comm_dup(*(const MPI_Comm *)comm, &wire->comm), "MPI_Comm_dup", error);
    if (!status)
        status = check(wire, MPI_Comm_set_errhandler(wire->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", error);
    if (!status)
        status = check(wire, MPI_Comm_rank(wire->comm, &wire->rank), "MPI_Comm_rank", error);
    return status ? status : check(wire, MPI_Comm_size(wire->comm, &wire->ranks), "MPI_Comm_size", error);
}

void cla_wire_close(struct cla_wire *wire)
{
    if (wire->comm != MPI_COMM_NULL && !wire->broken)
        MPI_Comm_free(&wire->comm);
    wire->comm = MPI_COMM_NULL;
}

bool cla_wire_all(struct cla_wire *wire, bool mine)
{
    int all = mine;
    const int code = MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, wire->comm);
    wire->broken = wire->broken || code != MPI_SUCCESS;
    return code == MPI_SUCCESS && all;
}

static clattn_status begin(struct cla_message *message, bool sent, int peer, uint64_t bytes, struct cla_error *error)
{
    *message = (struct cla_message){.peer = peer, .sent = sent};
    if (bytes <= CLA_MESSAGE_BYTES)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_TOO_LARGE, "a message of %llu bytes: it has at most %llu, so take more ranks",
                    (unsigned long long)bytes, (unsigned long long)CLA_MESSAGE_BYTES);
}

static int part_of(uint64_t bytes, uint64_t at)
{
    return bytes - at < PART_BYTES ? (int)(bytes - at) : PART_BYTES;
}

clattn_status cla_wire_send(struct cla_wire *wire, const void *data, uint64_t bytes, int to, enum cla_tag tag,
                            struct cla_message *message, struct cla_error *error)
{
    clattn_status status = begin(message, true, to, bytes, error);
    for (uint64_t at = 0; at < bytes && !status; at += PART_BYTES) {
        status = check(wire,
                       MPI_Isend((const char *)data + at, part_of(bytes, at), MPI_BYTE, to, (int)tag, wire->comm,
                                 &message->parts[message->count]),
                       "MPI_Isend", error);
        message->count += !status;
    }
    return status;
}

clattn_status cla_wire_receive(struct cla_wire *wire, void *data, uint64_t bytes, int from, enum cla_tag tag,
                               struct cla_message *message, struct cla_error *error)
{
    clattn_status status = begin(message, false, from, bytes, error);
    for (uint64_t at = 0; at < bytes && !status; at += PART_BYTES) {
        status = check(wire,
                       MPI_Irecv((char *)data + at, part_of(bytes, at), MPI_BYTE, from, (int)tag, wire->comm,
                                 &message->parts[message->count]),
                       "MPI_Irecv", error);
        message->count += !status;
    }
    return status;
}

clattn_status cla_wire_test(struct cla_wire *wire, struct cla_message *message, bool *complete, struct cla_error *error)
{
    int done = 0;
    const clattn_status status =
        check(wire, MPI_Testall(message->count, message->parts, &done, MPI_STATUSES_IGNORE), "MPI_Testall", error);
    if (!status && done)
        message->count = 0;
    *complete = !message->count;
    return status;
}

/* Any call lets MPI work on what is under way. */
void cla_wire_pause(struct cla_wire *wire)
{
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, CLA_TAG_NONE, wire->comm, &found, MPI_STATUS_IGNORE);
    thrd_sleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static clattn_status give_up(struct cla_wire *wire, const struct cla_message *message, struct cla_error *error)
{
    wire->broken = true;
    return cla_fail(error, CLATTN_COMMUNICATION_FAILED, "rank %d did not %s a message within %g s", message->peer,
                    message->sent ? "take" : "send", wire->timeout);
}

clattn_status cla_wire_wait(struct cla_wire *wire, struct cla_message *message, struct cla_error *error)
{
    const double since = cla_wire_clock();
    for (;;) {
        bool complete;
        const clattn_status status = cla_wire_test(wire, message, &complete, error);
        if (status || complete)
            return status;
        if (wire->interrupted && wire->interrupted(wire->user)) {
            wire->broken = true;
            return cla_fail(error, CLATTN_COMMUNICATION_FAILED, "another rank has given up");
        }
        if (wire->timeout > 0 && cla_wire_clock() - since > wire->timeout)
            return give_up(wire, message, error);
        cla_wire_pause(wire);
    }
}

void cla_wire_abandon(struct cla_message *message)
{
    for (int i = 0; i < message->count; i++) {
        if (message->parts[i] == MPI_REQUEST_NULL)
            continue;
        if (!message->sent)
            MPI_Cancel(&message->parts[i]);
        MPI_Request_free(&message->parts[i]);
    }
    message->count = 0;
}

double cla_wire_clock(void)
{
    return MPI_Wtime();
}
