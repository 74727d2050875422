/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/capped.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 16, MOST = 16384, OUTPUTS = 3, UNTOUCHED = 77 };

static const struct clattn_shape shapes[] = {{1, 2, 2, 40, 300}, {2, 4, 2, 17, 129}, {1, 1, 1, 64, 3}};

static float q[MOST], k[MOST], v[MOST], d_o[MOST], o[MOST], lse[MOST];

/* What a call writes: O and LSE, or the three gradients. */
struct results {
    float values[OUTPUTS][MOST];
};

struct capped {
    clattn_context *context;
    const struct fault_control *layer;
    const struct clattn_shape *shape;
    enum clattn_pass pass;
    struct results whole, other;
    uint64_t peak; /* of the last call */
    struct clattn_host_info info;
};

static void fill(float *values, unsigned seed)
{
    for (int i = 0; i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static void forget(struct results *results)
{
    for (int i = 0; i < OUTPUTS * MOST; i++)
        results->values[i / MOST][i % MOST] = UNTOUCHED;
}

static bool same(const struct results *a, const struct results *b, float tolerance)
{
    for (int i = 0; i < OUTPUTS * MOST; i++)
        if (!(fabsf(a->values[i / MOST][i % MOST] - b->values[i / MOST][i % MOST]) <= tolerance))
            return false;
    return true;
}

static clattn_status call(const struct capped *capped, clattn_host *host, uint64_t most, struct results *results)
{
    const struct clattn_problem problem = {.pass = capped->pass, .d = D};
    const struct clattn_host_forward_args forward = {.shape = *capped->shape,
                                                     .q = q,
                                                     .k = k,
                                                     .v = v,
                                                     .o = results->values[0],
                                                     .lse = results->values[1],
                                                     .max_device_bytes = most};
    const struct clattn_host_backward_args backward = {.shape = *capped->shape,
                                                       .q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .o = o,
                                                       .d_o = d_o,
                                                       .lse = lse,
                                                       .d_q = results->values[0],
                                                       .d_k = results->values[1],
                                                       .d_v = results->values[2],
                                                       .max_device_bytes = most};
    forget(results);
    return capped->pass == CLATTN_FORWARD ? clattn_host_forward(host, &problem, &forward)
                                          : clattn_host_backward(host, &problem, &backward);
}

/* On a clattn_host of its own; with the peak of what the call has in buffers. */
static clattn_status call_alone(struct capped *capped, uint64_t most, struct results *results)
{
    const struct clattn_host_params params = {.context = capped->context};
    clattn_host *host = NULL;
    clattn_status status = clattn_host_create(&host, &params);
    capped->layer->watch_bytes();
    if (!status)
        status = call(capped, host, most, results);
    if (!status)
        status = clattn_host_last(host, NULL, &capped->info);
    capped->peak = capped->layer->peak_bytes();
    clattn_host_destroy(&host);
    return status;
}

static bool complain(const struct capped *capped, const char *what, uint64_t most)
{
    fprintf(stderr, "%s, n_kv %" PRId64 ", max_device_bytes %" PRIu64 ": %s (peak %" PRIu64 "): %s\n",
            capped->pass == CLATTN_FORWARD ? "forward" : "backward", capped->shape->n_kv, most, what, capped->peak,
            clattn_error_message());
    return false;
}

static bool succeeds(struct capped *capped, uint64_t most, float tolerance)
{
    if (call_alone(capped, most, &capped->other))
        return complain(capped, "refused", most);
    if (capped->peak > most || capped->peak != capped->info.device_bytes)
        return complain(capped, "the peak is not what it should be", most);
    if (!same(&capped->whole, &capped->other, tolerance))
        return complain(capped, "another result", most);
    return true;
}

/* The least that would do, as the message says; nothing is written, and no buffer made. */
static bool is_refused(struct capped *capped, uint64_t most, uint64_t *least)
{
    static struct results untouched;
    forget(&untouched);
    const clattn_status status = call_alone(capped, most, &capped->other);
    const char *says = strstr(clattn_error_message(), "at least ");
    if (status != CLATTN_TOO_LARGE || capped->peak || !says || !same(&untouched, &capped->other, 0))
        return complain(capped, "not refused as it should be", most);
    *least = strtoull(says + strlen("at least "), NULL, 10);
    return true;
}

/* A clattn_host that has taken more gives it back. */
static bool gives_back(struct capped *capped, uint64_t most)
{
    const struct clattn_host_params params = {.context = capped->context};
    struct clattn_host_info info = {0};
    clattn_host *host = NULL;
    const bool good = !clattn_host_create(&host, &params) && !call(capped, host, 0, &capped->other) &&
                      !call(capped, host, most, &capped->other) && !clattn_host_last(host, NULL, &info) &&
                      info.device_bytes <= most && !call(capped, host, 0, &capped->other) &&
                      same(&capped->whole, &capped->other, 0);
    clattn_host_destroy(&host);
    return good || complain(capped, "buffers of an earlier call stay", most);
}

static bool stays_within(struct capped *capped)
{
    uint64_t least, again;
    if (call_alone(capped, 0, &capped->whole) || capped->peak != capped->info.device_bytes)
        return complain(capped, "the call itself", 0);
    const uint64_t whole = capped->peak;
    if (!succeeds(capped, whole, 0) || capped->info.kv_chunk)
        return complain(capped, "keys in pieces", whole);
    if (!is_refused(capped, 1, &least) || !is_refused(capped, least - 1, &again))
        return false;
    if (again != least || least > whole || (capped->shape->n_kv > 3 && least == whole))
        return complain(capped, "that is not the least", least);
    return succeeds(capped, least, 1e-5f) && succeeds(capped, least + (whole - least) / 2, 1e-5f) &&
           gives_back(capped, least);
}

bool capped_calls_stay_within(clattn_context *context, const struct fault_control *layer)
{
    static struct capped capped;
    bool good = true;
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    fill(d_o, 4);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && good; i++) {
        capped = (struct capped){.context = context, .layer = layer, .shape = &shapes[i]};
        good = stays_within(&capped);
        memcpy(o, capped.whole.values[0], sizeof o);
        memcpy(lse, capped.whole.values[1], sizeof lse);
        capped.pass = CLATTN_BACKWARD;
        good = good && stays_within(&capped);
    }
    return good;
}
