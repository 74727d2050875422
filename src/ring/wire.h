/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_WIRE_H
#define CLA_WIRE_H

#include "plan/error.h"
#include <clattn/ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages between ranks, by whatever transport. Nothing blocks but the waits, which make progress, and which end: with
 * what they wait for, after the timeout, or when `interrupted` says so. */
struct cla_wire {
    const struct clattn_ring_transport *transport;
    int rank, ranks;
    double timeout;                  /* seconds; 0: none */
    bool broken;                     /* a message failed or did not come: what is still under way is not known */
    bool (*interrupted)(void *user); /* asked while waiting; NULL: nobody */
    void *user;
};

/* One message. Zero-initialised it is none, and complete. */
struct cla_message {
    void *handle;     /* the transport's; NULL: none under way */
    const void *lent; /* complete, but for its release: where the sender's bytes lie */
    int peer;
    bool sent;
};

/* Ranks of a ring, at most. */
enum { CLA_MOST_RANKS = 1 << 16 };

enum cla_tag { CLA_TAG_REPORT, CLA_TAG_KEYS, CLA_TAG_SUMS, CLA_TAG_SINKS };

clattn_status cla_wire_open(struct cla_wire *wire, const struct clattn_ring_transport *transport, double timeout,
                            struct cla_error *error);

/* A message failed or did not come. */
void cla_wire_break(struct cla_wire *wire);

/* Whether all ranks say so; blocks until all have said. */
bool cla_wire_all(struct cla_wire *wire, bool mine);

/* The bytes stay as they are, or are not looked at, until the message is complete. None of 0 bytes is sent. */
clattn_status cla_wire_send(struct cla_wire *wire, const void *data, uint64_t bytes, int to, enum cla_tag tag,
                            struct cla_message *message, struct cla_error *error);

/* data NULL: the bytes are lent, where the transport does; they are given back by cla_wire_release. */
clattn_status cla_wire_receive(struct cla_wire *wire, void *data, uint64_t bytes, int from, enum cla_tag tag,
                               struct cla_message *message, struct cla_error *error);
void cla_wire_release(struct cla_wire *wire, struct cla_message *message);

clattn_status cla_wire_test(struct cla_wire *wire, struct cla_message *message, bool *complete,
                            struct cla_error *error);
clattn_status cla_wire_wait(struct cla_wire *wire, struct cla_message *message, struct cla_error *error);

/* Lets messages that are under way go on, and waits for a moment. */
void cla_wire_pause(struct cla_wire *wire);

/* Gives up a message that is not complete: its bytes may still be used. */
void cla_wire_abandon(struct cla_wire *wire, struct cla_message *message);

/* Seconds, of this process's own. */
double cla_wire_clock(void);

#endif
