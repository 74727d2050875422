/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_WIRE_H
#define CLA_WIRE_H

#include "plan/error.h"
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages between ranks. src/mpi/wire.c is the one file that calls MPI. Nothing blocks but the waits, which make
 * progress, and which end: with what they wait for, after the timeout, or when `interrupted` says so. */
struct cla_wire {
    MPI_Comm comm;
    int rank, ranks;
    double timeout;                  /* seconds; 0: none */
    bool broken;                     /* a message failed or did not come: what is still under way is not known */
    bool (*interrupted)(void *user); /* asked while waiting; NULL: nobody */
    void *user;
};

/* One message, which is sent in parts where it is long. Zero-initialised it is none, and complete. */
enum { CLA_MESSAGE_PARTS = 64 };
struct cla_message {
    MPI_Request parts[CLA_MESSAGE_PARTS];
    int count;
    int peer;
    bool sent;
};

/* The largest message. */
#define CLA_MESSAGE_BYTES ((uint64_t)CLA_MESSAGE_PARTS << 30)

enum cla_tag { CLA_TAG_REPORT, CLA_TAG_KEYS, CLA_TAG_SUMS, CLA_TAG_HOME, CLA_TAG_SINKS, CLA_TAG_NONE };

clattn_status cla_wire_open(struct cla_wire *wire, const void *comm, double timeout, struct cla_error *error);
void cla_wire_close(struct cla_wire *wire);

/* Whether all ranks say so; blocks until all have said. */
bool cla_wire_all(struct cla_wire *wire, bool mine);

/* The bytes stay as they are, or are not looked at, until the message is complete. None of 0 bytes is sent. */
clattn_status cla_wire_send(struct cla_wire *wire, const void *data, uint64_t bytes, int to, enum cla_tag tag,
                            struct cla_message *message, struct cla_error *error);
clattn_status cla_wire_receive(struct cla_wire *wire, void *data, uint64_t bytes, int from, enum cla_tag tag,
                               struct cla_message *message, struct cla_error *error);

clattn_status cla_wire_test(struct cla_wire *wire, struct cla_message *message, bool *complete,
                            struct cla_error *error);
clattn_status cla_wire_wait(struct cla_wire *wire, struct cla_message *message, struct cla_error *error);

/* Lets messages that are under way go on, and sleeps for a moment. */
void cla_wire_pause(struct cla_wire *wire);

/* Gives a message up that is not complete: MPI may still use its bytes. */
void cla_wire_abandon(struct cla_message *message);

/* Seconds, of this process's own. */
double cla_wire_clock(void);

#endif
