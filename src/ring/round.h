/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ROUND_H
#define CLA_ROUND_H

#include "plan/operand.h"
#include "ring/wire.h"

/* Rounds in which all ranks tell each other how they fare, so that all answer the same: a small message from each to
 * each. One that has nothing to tell says so, too, and so a rank that is missing has a name. */

enum { CLA_FACTS = 80, CLA_GIVEN = (CLA_OPERANDS + 7) / 8 * 8 };

enum cla_given { CLA_IS_GIVEN = 1, CLA_HAS_BATCH = 2, CLA_HAS_HEAD = 4, CLA_HAS_ROW = 8, CLA_HAS_COLUMN = 16 };

/* What each rank tells. */
struct cla_report {
    int64_t status;
    int64_t facts[CLA_FACTS];
    struct clattn_ring_part rows, keys;
    uint8_t given[CLA_GIVEN]; /* of each operand, CLA_IS_GIVEN and which strides are not 0 (ring/visits.c) */
    char text[1024];
};

struct cla_round {
    struct cla_wire *wire;
    struct cla_report *reports; /* of all ranks; the own one among them */
    struct cla_message *sends, *receives;
};

clattn_status cla_round_open(struct cla_round *round, struct cla_wire *wire, struct cla_error *error);

/* Its memory stays where MPI may still use it. */
void cla_round_close(struct cla_round *round);

struct cla_report *cla_round_mine(struct cla_round *round);

/* Others may report from here on. */
clattn_status cla_round_begin(struct cla_round *round, struct cla_error *error);

/* Tells the others what this rank ended with (*error, where status is not 0), and hears of them. Answers the status of
 * the lowest rank that failed, and its text, or success: the same on all ranks, but where messages do not come. */
clattn_status cla_round_settle(struct cla_round *round, clattn_status status, struct cla_error *error);

/* Whether a rank has reported, before this one does, that its messages fail. `user` is the round. */
bool cla_round_is_hopeless(void *user);

#endif
