/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "ring/faults.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const fault_names[FAULT_KINDS] = {"none", "drop", "delay", "fail", "kill"};

static _Thread_local struct {
    enum fault fault;
    int number, count;
    const struct clattn_ring_transport *below;
    struct clattn_ring_transport layer;
    char dropped; /* its address is the handle of a message that was */
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

/* One that is dropped seems to have been sent. */
static int layer_send(void *user, const void *data, size_t bytes, int to, int tag, void **message)
{
    static const struct timespec delay = {.tv_nsec = 300000000};
    const enum fault fault = ++now.count == now.number ? now.fault : FAULT_NONE;
    if (fault == FAULT_DROP) {
        *message = &now.dropped;
        return CLATTN_SUCCESS;
    }
    if (fault == FAULT_FAIL)
        return CLATTN_COMMUNICATION_FAILED;
    if (fault == FAULT_KILL && write(STDOUT_FILENO, "killed\n", 7) == 7) /* from now on time counts */
        kill(getpid(), SIGKILL);
    if (fault == FAULT_DELAY)
        nanosleep(&delay, NULL);
    return now.below->send(user, data, bytes, to, tag, message);
}

static int layer_test(void *user, void *message, int *complete, const void **lent)
{
    *complete = 1;
    return message == &now.dropped ? CLATTN_SUCCESS : now.below->test(user, message, complete, lent);
}

static void layer_end(void *user, void *message)
{
    if (message != &now.dropped)
        now.below->end(user, message);
}

const struct clattn_ring_transport *fault_layer(const struct clattn_ring_transport *transport)
{
    now.below = transport;
    now.layer = *transport;
    now.layer.send = layer_send;
    now.layer.test = layer_test;
    now.layer.end = layer_end;
    return &now.layer;
}
