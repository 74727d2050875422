/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_STATE_H
#define TEST_STATE_H

#include "support/forward.h"

/* One state on the device, with everything that a case's chunks are accumulated from. The tensors hold all keys; a
 * chunk is a view of them (with CLATTN_VARLEN all of them). */
struct state_session {
    const struct test_device *device;
    const struct forward_case *forward;
    clattn_plan *plan;
    struct stage stage; /* q, k, v, and the outputs of finish */
    struct score_stage score;
    const struct forward_arrays *arrays;
    size_t bytes; /* of a state */
};

/* Plans and uploads. `arrays` is written by state_finish. */
bool state_open(struct state_session *session, const struct test_device *device, const struct forward_case *forward,
                struct forward_arrays *arrays);
void state_close(struct state_session *session);

/* Whether the skeleton that the problem names, of whatever pass, accumulates. */
bool state_serves(const struct test_device *device, struct clattn_problem problem);

/* A new state, begun, between two guards of poison. */
struct state {
    cl_mem parent, buffer;
};
bool state_begin(const struct state_session *session, struct state *state);
bool state_accumulate(const struct state_session *session, const struct state *state, int64_t first, int64_t count);
bool state_merge(const struct state_session *session, const struct state *into, const struct state *from);

/* Puts o, lse, m and l into the session's arrays; false as well where anything else was written. */
bool state_finish(struct state_session *session, const struct state *state);
void state_free(struct state *state);

/* A whole pass: chunks that end at ends[0] < ends[1] < ... < ends[count - 1] = n_kv. */
bool state_run(const struct test_device *device, const struct forward_case *forward, const int64_t *ends, int count,
               struct forward_arrays *arrays);

#endif
