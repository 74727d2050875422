/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "ring/wire.h"
#include "plan/reserved.h"
#include <time.h>

void cla_wire_break(struct cla_wire *wire)
{
    if (!wire->broken)
        wire->transport->give_up(wire->transport->user);
    wire->broken = true;
}

static clattn_status check(struct cla_wire *wire, int code, const char *call, struct cla_error *error)
{
    if (!code)
        return CLATTN_SUCCESS;
    cla_wire_break(wire);
    return cla_fail(error, (clattn_status)code, "%s: %s", call, wire->transport->why(wire->transport->user));
}

clattn_status cla_wire_open(struct cla_wire *wire, const struct clattn_ring_transport *transport, double timeout,
                            struct cla_error *error)
{
    const bool whole = transport->send && transport->receive && transport->test && transport->end && transport->all &&
                       transport->give_up && transport->pause && transport->why;
    const clattn_status status = cla_check_reserved(&cla_struct_ring_transport, "params->transport", transport, error);
    if (status)
        return status;
    if (!whole || transport->ranks < 1 || transport->ranks > CLA_MOST_RANKS || transport->rank < 0 ||
        transport->rank >= transport->ranks)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->transport has rank %lld of %lld: ranks are 1 to %d, rank is below, and no function is "
                        "NULL",
                        (long long)transport->rank, (long long)transport->ranks, CLA_MOST_RANKS);
    *wire = (struct cla_wire){
        .transport = transport, .rank = (int)transport->rank, .ranks = (int)transport->ranks, .timeout = timeout};
    return CLATTN_SUCCESS;
}

bool cla_wire_all(struct cla_wire *wire, bool mine)
{
    int all = 0;
    const int code = wire->transport->all(wire->transport->user, mine, &all);
    if (code)
        cla_wire_break(wire);
    return !code && all;
}

clattn_status cla_wire_send(struct cla_wire *wire, const void *data, uint64_t bytes, int to, enum cla_tag tag,
                            struct cla_message *message, struct cla_error *error)
{
    *message = (struct cla_message){.peer = to, .sent = true};
    if (!bytes)
        return CLATTN_SUCCESS;
    return check(wire,
                 wire->transport->send(wire->transport->user, data, (size_t)bytes, to, (int)tag, &message->handle),
                 "sending", error);
}

clattn_status cla_wire_receive(struct cla_wire *wire, void *data, uint64_t bytes, int from, enum cla_tag tag,
                               struct cla_message *message, struct cla_error *error)
{
    *message = (struct cla_message){.peer = from};
    if (!bytes)
        return CLATTN_SUCCESS;
    return check(wire,
                 wire->transport->receive(wire->transport->user, data, (size_t)bytes, from, (int)tag, &message->handle),
                 "receiving", error);
}

static void end(struct cla_wire *wire, struct cla_message *message)
{
    if (message->handle)
        wire->transport->end(wire->transport->user, message->handle);
    message->handle = NULL;
    message->lent = NULL;
}

void cla_wire_release(struct cla_wire *wire, struct cla_message *message)
{
    if (message->lent)
        end(wire, message);
}

clattn_status cla_wire_test(struct cla_wire *wire, struct cla_message *message, bool *complete, struct cla_error *error)
{
    int done = 1;
    clattn_status status = CLATTN_SUCCESS;
    if (message->handle && !message->lent)
        status = check(wire, wire->transport->test(wire->transport->user, message->handle, &done, &message->lent),
                       "testing a message", error);
    *complete = !status && done;
    if (*complete && !message->lent)
        end(wire, message);
    return status;
}

void cla_wire_pause(struct cla_wire *wire)
{
    wire->transport->pause(wire->transport->user);
}

static clattn_status give_up(struct cla_wire *wire, const struct cla_message *message, struct cla_error *error)
{
    cla_wire_break(wire);
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
            cla_wire_break(wire);
            return cla_fail(error, CLATTN_COMMUNICATION_FAILED, "another rank has given up");
        }
        if (wire->timeout > 0 && cla_wire_clock() - since > wire->timeout)
            return give_up(wire, message, error);
        cla_wire_pause(wire);
    }
}

void cla_wire_abandon(struct cla_wire *wire, struct cla_message *message)
{
    end(wire, message);
}

double cla_wire_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
