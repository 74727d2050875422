/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/devices.h"
#include "run/rank.h"
#include "run/speed.h"
#include "run/threads.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
    struct session session;
    struct run_rank rank;
};

struct crew {
    struct run *run;
    int count;
    struct member *members;
    double weights[OPTION_LIST_MAX];
    clattn_ring_group *group;
};

static int open_sessions(struct crew *crew, struct failure *failure)
{
    const struct values *values = crew->run->values;
    int status = STATUS_OK;
    for (int i = 0; i < crew->count && !status; i++)
        status = session_open(&crew->members[i].session, &values->devices.items[i], values->quiet, failure);
    return status;
}

/* One after the other: devices of one host share its memory and, some of them, its cores. */
static int weigh(struct crew *crew, struct failure *failure)
{
    const struct values *values = crew->run->values;
    const struct clattn_problem problem = run_problem(crew->run, CLATTN_FORWARD);
    int status = STATUS_OK;
    for (int i = 0; i < crew->count && !status; i++) {
        crew->weights[i] = (double)values->shares.values[i];
        if (!values->shares.count)
            status = measure_speed(&crew->members[i].session, &problem, &crew->run->arrays.shape, &crew->weights[i],
                                   failure);
    }
    return status;
}

static int share_out(struct crew *crew, struct failure *failure)
{
    const enum clattn_ring_sharing sharing = crew->run->values->causal ? CLATTN_RING_ZIGZAG : CLATTN_RING_EVEN;
    struct clattn_ring_part rows[OPTION_LIST_MAX], keys[OPTION_LIST_MAX];
    clattn_status code = run_share_out(crew->run, sharing, crew->count, crew->weights, rows, keys);
    if (!code)
        code = clattn_ring_group_create(&crew->group, crew->count);
    for (int i = 0; i < crew->count && !code; i++)
        crew->members[i].rank = (struct run_rank){.run = crew->run,
                                                  .transport = clattn_ring_group_transport(crew->group, i),
                                                  .session = &crew->members[i].session,
                                                  .rows = rows[i],
                                                  .keys = keys[i]};
    return code ? fail_library(failure, "sharing out", code) : STATUS_OK;
}

static int work(void *user, int number, struct failure *failure)
{
    struct crew *crew = user;
    return run_rank_compute(&crew->members[number].rank, failure);
}

static double ms_of(const struct crew *crew)
{
    double most = 0.0;
    for (int i = 0; i < crew->count; i++)
        most = crew->members[i].rank.info.call_ms > most ? crew->members[i].rank.info.call_ms : most;
    return most;
}

static void print_summary(const struct crew *crew)
{
    const struct clattn_shape *shape = &crew->run->arrays.shape;
    double all = 0.0;
    for (int i = 0; i < crew->count; i++)
        all += crew->weights[i];
    for (int i = 0; i < crew->count; i++) {
        const struct session *session = &crew->members[i].session;
        fprintf(stderr, "%s%d:%d %.1f %%", i ? ", " : "", session->platform, session->device,
                crew->weights[i] / all * 100.0);
    }
    fprintf(stderr, ": batch %" PRId64 ", heads %" PRId64 ", n %" PRId64 " x %" PRId64 " in %.1f ms; %s passed\n",
            shape->batch, shape->heads, shape->n_q, shape->n_kv, ms_of(crew),
            crew->members[0].rank.info.passing == CLATTN_RING_PASS_Q ? "Q" : "K and V");
}

static int compute_all(struct crew *crew, struct failure *failure)
{
    int status = open_sessions(crew, failure);
    if (!status)
        status = weigh(crew, failure);
    if (!status)
        status = share_out(crew, failure);
    return status ? status : threads_run(crew->count, work, crew, failure);
}

int run_devices_compute(struct run *run, struct failure *failure)
{
    struct crew crew = {.run = run, .count = run->values->devices.count};
    crew.members = calloc((size_t)crew.count, sizeof *crew.members);
    if (!crew.members)
        return fail(failure, STATUS_DEVICE, "no memory for %d devices", crew.count);
    const int status = compute_all(&crew, failure);
    if (!status && !run->values->quiet)
        print_summary(&crew);
    for (int i = 0; i < crew.count; i++)
        session_close(&crew.members[i].session);
    clattn_ring_group_destroy(&crew.group);
    free(crew.members);
    return status;
}
