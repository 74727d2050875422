/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ranks.h"
#include <stdlib.h>
#include <string.h>

enum { TAG = 15 }; /* rings use none as high */

static int wait_for(const struct clattn_ring_transport *transport, void *message)
{
    const void *lent = NULL;
    int complete = 0;
    int code = transport->test(transport->user, message, &complete, &lent);
    while (!code && !complete) {
        transport->pause(transport->user);
        code = transport->test(transport->user, message, &complete, &lent);
    }
    transport->end(transport->user, message);
    return code;
}

/* With one rank after the other: each sends before it waits. */
static int exchange_with(const struct ring_ranks *ranks, int other, const void *mine, size_t bytes, void *theirs)
{
    const struct clattn_ring_transport *transport = ranks->transport;
    void *sent, *come;
    int code = transport->send(transport->user, mine, bytes, other, TAG, &sent);
    if (code)
        return code;
    code = transport->receive(transport->user, theirs, bytes, other, TAG, &come);
    if (!code)
        code = wait_for(transport, come);
    const int of_sent = wait_for(transport, sent);
    return code ? code : of_sent;
}

int ring_exchange(const struct ring_ranks *ranks, const void *mine, size_t bytes, void *all, struct failure *failure)
{
    int code = 0;
    memcpy((char *)all + (size_t)ranks->rank * bytes, mine, bytes);
    for (int i = 0; i < ranks->count && !code; i++)
        if (i != ranks->rank)
            code = exchange_with(ranks, i, mine, bytes, (char *)all + (size_t)i * bytes);
    return code ? fail(failure, STATUS_DEVICE, "a message between ranks: %s",
                       ranks->transport->why(ranks->transport->user))
                : STATUS_OK;
}

int ring_agree(const struct ring_ranks *ranks, int status, struct failure *failure)
{
    int *const all = calloc((size_t)ranks->count, sizeof *all);
    if (!all) /* others wait for this rank's word: it goes on to fail with the first thing that it allocates */
        return fail(failure, STATUS_DEVICE, "no memory for %d ranks", ranks->count);
    int first = 0;
    const int exchanged = ring_exchange(ranks, &status, sizeof status, all, failure);
    while (first < ranks->count - 1 && !all[first])
        first++;
    const int agreed = exchanged ? exchanged : all[first];
    if (!exchanged && agreed && first != ranks->rank)
        failure->text[0] = '\0';
    free(all);
    return agreed;
}
