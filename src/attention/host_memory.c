/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_memory.h"
#include "attention/host_stream.h"
#include "plan/problem.h"

/* Sums of sizes that are each less than SIZE_MAX stop at the largest number. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t block_bytes(const struct cla_host_job *job, int which)
{
    if (which == CLA_WORKSPACE)
        return job->call.workspace_bytes;
    if (which == CLA_STATE)
        return job->state_bytes;
    return cla_host_device_bytes(job, which);
}

/* Of all buffers but those that keys stream through. */
static uint64_t fixed_bytes(const struct cla_host_job *job)
{
    uint64_t bytes = 0;
    for (int i = 0; i < CLA_OPERANDS; i++)
        bytes = sum(bytes, block_bytes(job, i));
    return bytes;
}

/* With pieces of so many keys, where they stream. */
static uint64_t all_bytes(const struct cla_host_job *job, int64_t keys)
{
    return sum(fixed_bytes(job), job->streamed ? cla_host_slots_bytes(job, keys) : 0);
}

static clattn_status refuse(const char *why, uint64_t least, uint64_t most, struct cla_error *error)
{
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "args.max_device_bytes is %llu: %s, so it must be at least %llu (or 0, what the device has)",
                    (unsigned long long)most, why, (unsigned long long)least);
}

/* A call as it was before it was planned. */
struct unplanned {
    struct clattn_problem problem;
    size_t workspace_bytes;
    cla_host_planner planner;
};

static clattn_status plan_as(struct cla_host_job *job, bool streamed, const struct unplanned *before,
                             struct clattn_problem *problem, struct cla_error *error)
{
    *problem = before->problem;
    job->streamed = streamed;
    job->call.workspace_bytes = before->workspace_bytes;
    job->state_bytes = 0;
    const clattn_status status = cla_host_measure(job, error);
    return status ? status : before->planner(job, problem, error);
}

/* Not even pieces of one key fit. Where there are few keys, all of them at once may take less. */
static clattn_status refuse_pieces(struct cla_host_job *job, uint64_t most, const struct unplanned *before,
                                   struct clattn_problem *problem, struct cla_error *error)
{
    uint64_t least = all_bytes(job, 1);
    if (!cla_host_must_stream(job)) {
        const clattn_status status = plan_as(job, false, before, problem, error);
        if (status)
            return status;
        least = all_bytes(job, 0) < least ? all_bytes(job, 0) : least;
    }
    return refuse("the call takes more, even where keys come to the device one by one", least, most, error);
}

/* How large the pieces may be. */
static clattn_status fit_pieces(struct cla_host_job *job, uint64_t most, const struct unplanned *before,
                                struct clattn_problem *problem, struct cla_error *error)
{
    if (job->chunk_given && all_bytes(job, job->kv_chunk) > most)
        return refuse("with this kv_chunk the call takes more", all_bytes(job, job->kv_chunk), most, error);
    if (job->chunk_given)
        return CLATTN_SUCCESS;
    if (all_bytes(job, 1) > most)
        return refuse_pieces(job, most, before, problem, error);
    job->kv_chunk = cla_host_chunk_within(job, most - fixed_bytes(job));
    return CLATTN_SUCCESS;
}

/* Frees what this call does not need of buffers that have grown for others, if they do not fit beside it. */
static void make_way(struct cla_host_job *job, uint64_t most)
{
    struct clattn_host *host = job->host;
    uint64_t held = cla_host_slots_held(job);
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const uint64_t needed = block_bytes(job, i), there = host->blocks[i].bytes;
        held = sum(held, needed > there ? needed : there);
    }
    if (held <= most)
        return;
    for (int i = 0; i < CLA_OPERANDS; i++)
        if (host->blocks[i].bytes > block_bytes(job, i))
            cla_device_block_free(&host->blocks[i]);
    cla_host_slots_trim(job);
}

clattn_status cla_host_plan_within(struct cla_host_job *job, struct clattn_problem *problem, uint64_t most,
                                   cla_host_planner planner, struct cla_error *error)
{
    const struct unplanned before = {*problem, job->call.workspace_bytes, planner};
    /* No plan for all keys at once is compiled where the arrays alone are too large. */
    const bool large = most && !job->streamed && job->may_stream && fixed_bytes(job) > most;
    clattn_status status = large ? plan_as(job, true, &before, problem, error) : planner(job, problem, error);
    if (status || !most)
        return status;
    if (!job->streamed && fixed_bytes(job) > most) {
        if (!job->may_stream)
            return refuse("the call takes more, and its keys (in pages, quantised or split) come all at once",
                          fixed_bytes(job), most, error);
        status = plan_as(job, true, &before, problem, error);
    }
    if (!status && job->streamed)
        status = fit_pieces(job, most, &before, problem, error);
    if (!status)
        make_way(job, most);
    return status;
}
