/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/round.h"
#include <stdio.h>
#include <stdlib.h>

clattn_status cla_round_open(struct cla_round *round, struct cla_wire *wire, struct cla_error *error)
{
    const size_t ranks = (size_t)wire->ranks;
    *round = (struct cla_round){.wire = wire,
                                .reports = calloc(ranks, sizeof *round->reports),
                                .sends = calloc(ranks, sizeof *round->sends),
                                .receives = calloc(ranks, sizeof *round->receives)};
    if (round->reports && round->sends && round->receives)
        return CLATTN_SUCCESS;
    return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the reports of %zu ranks", ranks);
}

void cla_round_close(struct cla_round *round)
{
    if (!round->wire || !round->wire->broken) {
        free(round->reports);
        free(round->sends);
        free(round->receives);
    }
    *round = (struct cla_round){0};
}

struct cla_report *cla_round_mine(struct cla_round *round)
{
    return &round->reports[round->wire->rank];
}

clattn_status cla_round_begin(struct cla_round *round, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < round->wire->ranks; i++)
        round->reports[i].status = CLATTN_SUCCESS; /* of one that does not come there is nothing to tell */
    for (int i = 0; i < round->wire->ranks && !status; i++)
        if (i != round->wire->rank)
            status = cla_wire_receive(round->wire, &round->reports[i], sizeof *round->reports, i, CLA_TAG_REPORT,
                                      &round->receives[i], error);
    return status;
}

static void tell(struct cla_round *round, clattn_status status, const struct cla_error *error)
{
    struct cla_report *mine = cla_round_mine(round);
    struct cla_error ignored;
    mine->status = status;
    mine->text[0] = '\0';
    if (status)
        snprintf(mine->text, sizeof mine->text, "%.*s", (int)sizeof mine->text - 1, error->text);
    for (int i = 0; i < round->wire->ranks; i++)
        if (i != round->wire->rank)
            cla_wire_send(round->wire, mine, sizeof *mine, i, CLA_TAG_REPORT, &round->sends[i], &ignored);
}

/* Each message has its time: who waits for one that does not come still hears of the others. */
static clattn_status hear(struct cla_round *round, struct cla_error *error)
{
    clattn_status first = CLATTN_SUCCESS;
    struct cla_error ignored;
    for (int i = 0; i < 2 * round->wire->ranks; i++) {
        struct cla_message *message = i % 2 ? &round->sends[i / 2] : &round->receives[i / 2];
        const clattn_status status = cla_wire_wait(round->wire, message, first ? &ignored : error);
        if (status)
            cla_wire_abandon(round->wire, message);
        first = first ? first : status;
    }
    return first;
}

clattn_status cla_round_settle(struct cla_round *round, clattn_status status, struct cla_error *error)
{
    struct cla_wire *wire = round->wire;
    struct cla_error unheard;
    wire->interrupted = NULL;
    tell(round, status, error);
    const clattn_status heard = hear(round, &unheard);
    for (int i = 0; i < wire->ranks; i++) {
        const struct cla_report *report = &round->reports[i];
        if (report->status == CLATTN_COMMUNICATION_FAILED)
            cla_wire_break(wire);
        if (report->status)
            return cla_fail(error, (clattn_status)report->status, "rank %d: %.*s", i, (int)sizeof report->text,
                            report->text);
    }
    return heard ? cla_fail(error, heard, "rank %d: %s", wire->rank, unheard.text) : CLATTN_SUCCESS;
}

bool cla_round_is_hopeless(void *user)
{
    struct cla_round *round = user;
    struct cla_error ignored;
    for (int i = 0; i < round->wire->ranks; i++) {
        bool come = false;
        if (i == round->wire->rank || cla_wire_test(round->wire, &round->receives[i], &come, &ignored) || !come)
            continue;
        if (round->reports[i].status == CLATTN_COMMUNICATION_FAILED)
            return true;
    }
    return false;
}
