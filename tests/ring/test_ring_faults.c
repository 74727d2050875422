/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What goes wrong on one rank of a ring: all ranks end the call, with an error that names it, and no output is touched.
 * Started by run.py and kill.py.
 *
 *     test_ring_faults                 what ranks give, and what fails on one of them
 *     test_ring_faults messages        messages that rank 1 sends, dropped, delayed, failed
 *     test_ring_faults kill NUMBER     rank 1 ends at that message by SIGKILL; where the number is even, Q passes
 *     test_ring_faults opencl LAYER    calls of OpenCL and commands that fail, of ranks that are threads: by the layer
 *                                      (fault/layer.h), which the environment names as well
 */
#include "fault/layer.h"
#include "ring/faults.h"
#include "ring/ranks.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, N = 24, D = 8, ELEMENTS = HEADS * N * D, TIMEOUT_MS = 1500, PATIENT_MS = 60000 };

static _Thread_local struct ranks ranks;
static _Thread_local int64_t passing; /* of all rings */
static _Thread_local float q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], d_o[ELEMENTS], right_o[ELEMENTS];
static _Thread_local float lse[HEADS * N], m[HEADS * N], l[HEADS * N], right_d[3][ELEMENTS];

/* What a call gives, and what may be wrong of it. */
struct call {
    struct clattn_problem problem;
    struct clattn_ring_forward_args forward;
    struct clattn_ring_backward_args backward;
    struct clattn_ring_params params;
    bool gradients;
    float o[ELEMENTS], d[3][ELEMENTS];
};

static void fill(float *values, unsigned seed)
{
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 65536.0f - 0.5f;
}

static void poison(struct call *call)
{
    for (int i = 0; i < ELEMENTS; i++)
        call->o[i] = call->d[0][i] = call->d[1][i] = call->d[2][i] = -77.0f;
}

static void describe(struct call *call, bool gradients)
{
    const struct clattn_shape shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N};
    struct clattn_ring_part part;
    clattn_ring_share(CLATTN_RING_ZIGZAG, N, 1, ranks.count, ranks.rank, NULL, &part);
    *call = (struct call){.problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT}, .gradients = gradients};
    call->problem.pass = gradients ? CLATTN_BACKWARD : CLATTN_FORWARD;
    call->params = (struct clattn_ring_params){.transport = fault_layer(ranks_transport(&ranks)),
                                               .context = ranks.device.clattn,
                                               .queue = ranks.device.queue,
                                               .timeout_ms = PATIENT_MS,
                                               .passing = passing};
    call->forward = (struct clattn_ring_forward_args){
        .arrays = {.shape = shape, .q = q, .k = k, .v = v, .o = call->o, .lse = lse, .m = m, .l = l},
        .rows = part,
        .keys = part,
        .whole = 1};
    call->backward = (struct clattn_ring_backward_args){.arrays = {.shape = shape,
                                                                   .q = q,
                                                                   .k = k,
                                                                   .v = v,
                                                                   .o = right_o,
                                                                   .d_o = d_o,
                                                                   .m = m,
                                                                   .l = l,
                                                                   .d_q = call->d[0],
                                                                   .d_k = call->d[1],
                                                                   .d_v = call->d[2]},
                                                        .rows = part,
                                                        .keys = part,
                                                        .whole = 1};
    poison(call);
}

static clattn_status start(clattn_ring *ring, const struct call *call)
{
    return call->gradients ? clattn_ring_backward(ring, &call->backward) : clattn_ring_forward(ring, &call->forward);
}

static bool is_untouched(const struct call *call)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (call->o[i] != -77.0f || call->d[0][i] != -77.0f || call->d[1][i] != -77.0f || call->d[2][i] != -77.0f)
            return false;
    return true;
}

/* Own rows (and keys) as they are without faults, the others untouched. */
static bool is_right(const struct call *call)
{
    const float *const wanted[] = {right_o, right_d[0], right_d[1], right_d[2]};
    const float *const given[] = {call->o, call->d[0], call->d[1], call->d[2]};
    const struct clattn_ring_part *part = &call->forward.rows;
    for (int t = call->gradients ? 1 : 0; t < (call->gradients ? 4 : 1); t++)
        for (int i = 0; i < ELEMENTS; i++) {
            const int row = i / D % N;
            const bool own = (row >= part->first[0] && row < part->first[0] + part->count[0]) ||
                             (row >= part->first[1] && row < part->first[1] + part->count[1]);
            if (given[t][i] != (own ? wanted[t][i] : -77.0f))
                return false;
        }
    return true;
}

static bool complain(const char *what, clattn_status status)
{
    fprintf(stderr, "rank %d of %d: %s: %s \"%s\"\n", ranks.rank, ranks.count, what, clattn_status_name(status),
            status ? clattn_error_message() : "");
    return false;
}

/* What is right, by a call without faults. */
static bool learn(void)
{
    struct call call;
    clattn_ring *ring = NULL;
    bool good = true;
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    fill(d_o, 4);
    for (int gradients = 0; gradients < 2 && good; gradients++) {
        describe(&call, gradients);
        const clattn_status status = clattn_ring_create(&ring, &call.params, &call.problem);
        good = (!status && !start(ring, &call)) || complain("without faults", status);
        clattn_ring_destroy(&ring);
        memcpy(gradients ? right_d[0] : right_o, gradients ? call.d[0] : call.o,
               gradients ? sizeof right_d : sizeof right_o);
    }
    /* gradients want other ranks' rows alone not: o, m and l of the own rows do */
    return ranks_all(&ranks, good);
}

/* One thing that is wrong on rank 1 alone; the error names what `says` says. */
struct wrong {
    const char *name, *says;
    clattn_status status;
    void (*spoil)(struct call *call);
    bool gradients;
};

static void spoil_shape(struct call *call)
{
    call->forward.arrays.shape.n_kv++;
}
static void spoil_heads(struct call *call)
{
    call->forward.arrays.shape.kv_heads = 1;
}
static void spoil_part(struct call *call)
{
    call->forward.keys.count[0]++;
}
static void spoil_reach(struct call *call)
{
    call->forward.rows.first[1] = N + 1;
}
static void spoil_array(struct call *call)
{
    call->forward.arrays.k = NULL;
}
static void spoil_layout(struct call *call)
{
    call->forward.arrays.q_layout.row = -1;
}
static void spoil_whole(struct call *call)
{
    call->forward.whole = 2;
}
static void spoil_reserved(struct call *call)
{
    call->forward.reserved[3] = 1;
}
static void spoil_inner(struct call *call)
{
    call->forward.keys.reserved[0] = 1;
}

static void spoil_bias_rows(struct call *call)
{
    static float sum[N];
    call->backward.arrays.d_bias = sum;
    call->backward.arrays.d_bias_layout = (struct clattn_layout){.batch = N, .head = N, .strided = 1};
}

static const struct wrong wrongs[] = {
    {"shape", "shape.n_kv is 24 on rank 0 and 25 on rank 1", CLATTN_INVALID_ARGUMENT, spoil_shape},
    {"heads", "shape.kv_heads is 2 on rank 0 and 1 on rank 1", CLATTN_INVALID_ARGUMENT, spoil_heads},
    {"part", "keys: ", CLATTN_INVALID_SHAPE, spoil_part},
    {"reach", "rank 1: rows.first[1] is 25", CLATTN_INVALID_SHAPE, spoil_reach},
    {"array", "rank 1: k is NULL", CLATTN_INVALID_ARGUMENT, spoil_array},
    {"layout", "rank 1: q.layout.row", CLATTN_INVALID_LAYOUT, spoil_layout},
    {"whole", "rank 1: whole is 2", CLATTN_INVALID_ARGUMENT, spoil_whole},
    {"reserved", "rank 1: args.reserved[3]", CLATTN_INVALID_ARGUMENT, spoil_reserved},
    {"inner", "rank 1: args.keys.reserved[0]", CLATTN_INVALID_ARGUMENT, spoil_inner},
    {"bias rows", "rank 1: d_bias_layout.row is 0", CLATTN_INVALID_ARGUMENT, spoil_bias_rows, true}};

static bool try_wrong(clattn_ring *ring, const struct wrong *wrong)
{
    struct call call;
    describe(&call, wrong->gradients);
    if (ranks.rank == 1)
        wrong->spoil(&call);
    const clattn_status status = start(ring, &call);
    if (status != wrong->status || !strstr(clattn_error_message(), wrong->says) || !is_untouched(&call))
        return complain(wrong->name, status);
    describe(&call, wrong->gradients);
    return (!start(ring, &call) && is_right(&call)) || complain("after it", status);
}

static bool try_wrongs(void)
{
    struct call call;
    clattn_ring *rings[2] = {NULL, NULL};
    bool good = true;
    for (int gradients = 0; gradients < 2 && good; gradients++) {
        describe(&call, gradients);
        good = !clattn_ring_create(&rings[gradients], &call.params, &call.problem);
    }
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs && good; i++)
        good = try_wrong(rings[wrongs[i].gradients], &wrongs[i]);
    clattn_ring_destroy(&rings[0]);
    clattn_ring_destroy(&rings[1]);
    return good;
}

/* A ring that rank 1 makes otherwise. */
static bool try_create(const char *says, void (*spoil)(struct call *call))
{
    struct call call;
    clattn_ring *ring = NULL;
    describe(&call, false);
    if (ranks.rank == 1)
        spoil(&call);
    const clattn_status status = clattn_ring_create(&ring, &call.params, &call.problem);
    const bool good = status && !ring && strstr(clattn_error_message(), says);
    clattn_ring_destroy(&ring);
    return good || complain(says, status);
}

static void spoil_problem(struct call *call)
{
    call->problem.causal = CLATTN_FULL;
}
static void spoil_context(struct call *call)
{
    call->params.context = NULL;
}
static void spoil_params(struct call *call)
{
    call->params.reserved[6] = 1;
}
static void spoil_skeleton(struct call *call)
{
    call->problem.skeleton = "forward_none";
}
static void spoil_feature(struct call *call)
{
    call->problem.features = CLATTN_PAGES;
    call->problem.page_keys = 16;
}

static void spoil_passing(struct call *call)
{
    call->params.passing = 3;
}
static void spoil_agreement(struct call *call)
{
    call->params.passing = CLATTN_RING_PASS_Q;
}

static bool try_creates(void)
{
    return try_create("problem.causal is 1 on rank 0 and 0 on rank 1", spoil_problem) &&
           try_create("rank 1: params->context is", spoil_context) &&
           try_create("rank 1: params.reserved[6]", spoil_params) &&
           try_create("rank 1: params->passing is 3: it is 0 (what is fewer bytes), 1 (K and V) or 2 (Q)",
                      spoil_passing) &&
           (passing == CLATTN_RING_PASS_Q ||
            try_create("params->passing is 1 on rank 0 and 2 on rank 1", spoil_agreement)) &&
           try_create("rank 1: problem.skeleton", spoil_skeleton) &&
           try_create("rank 1: problem.features", spoil_feature);
}

/* Rank 1's message number `number` of a call meets the fault. All ranks end in time. What a rank has, if it says
 * success, is right; where a message is lost, one at least says so; and nobody is told of another's rank wrongly. */
static bool try_message(enum fault fault, int number, bool gradients, int *sent)
{
    struct call call;
    clattn_ring *ring = NULL;
    ranks_renew_transport(&ranks);
    describe(&call, gradients);
    call.params.timeout_ms = TIMEOUT_MS;
    if (clattn_ring_create(&ring, &call.params, &call.problem))
        return complain("create", CLATTN_INVALID_ARGUMENT);
    if (ranks.rank == 1)
        fault_set(fault, number);
    const clattn_status status = start(ring, &call);
    *sent = fault_count();
    fault_set(FAULT_NONE, 0);
    bool good = status ? is_untouched(&call) : is_right(&call);
    if (status && (status != CLATTN_COMMUNICATION_FAILED || strncmp(clattn_error_message(), "rank ", 5) != 0))
        good = false;
    if (!good)
        complain(fault_names[fault], status);
    const bool all_well = ranks_all(&ranks, !status);
    if (all_well != (fault == FAULT_DELAY || fault == FAULT_NONE))
        good = complain(all_well ? "nobody noticed" : "a delay was taken for a loss", status);
    clattn_ring_destroy(&ring);
    return ranks_all(&ranks, good);
}

static bool try_messages(void)
{
    bool good = true;
    for (int gradients = 0; gradients < 2 && good; gradients++) {
        int sent = 0, ignored;
        good = try_message(FAULT_NONE, 0, gradients, &sent);
        sent = ranks_from(&ranks, 1, sent);
        for (int number = 1; number <= sent && good; number += test_is_full() ? 1 : 4)
            for (int fault = FAULT_DROP; fault <= FAULT_FAIL && good; fault++)
                good = try_message((enum fault)fault, number, gradients, &ignored);
        if (!ranks.rank)
            printf("%s: of %d messages, some or all dropped, delayed, failed\n", gradients ? "backward" : "forward",
                   sent);
    }
    ranks_renew_transport(&ranks);
    return good;
}

/* A call of OpenCL, or a command, of any rank fails: all ranks end alike, and those that say success are right. */
static bool try_call(clattn_ring *ring, bool gradients, const struct fault_control *layer, bool events, int number,
                     bool *injected)
{
    struct call call;
    describe(&call, gradients);
    if (ranks.rank == 0)
        (events ? layer->arm_event : layer->arm)(number, false, CL_OUT_OF_RESOURCES);
    ranks_all(&ranks, true);
    const clattn_status status = start(ring, &call);
    const bool alike = ranks_all(&ranks, !status) || ranks_all(&ranks, status != 0);
    if (ranks.rank == 0)
        layer->pause();
    *injected = layer->injected() > 0;
    bool good = alike && (status ? is_untouched(&call) : is_right(&call));
    if (status && strncmp(clattn_error_message(), "rank ", 5) != 0)
        good = false;
    if (!good)
        complain(events ? "a command that fails" : "a call that fails", status);
    describe(&call, gradients);
    if (good && (start(ring, &call) || !is_right(&call)))
        good = complain("after it", CLATTN_INVALID_ARGUMENT);
    return ranks_all(&ranks, good);
}

static bool try_calls(const struct fault_control *layer)
{
    bool good = true;
    for (int i = 0; i < 4 && good; i++) {
        const bool gradients = i % 2, events = i / 2;
        struct call call;
        clattn_ring *ring = NULL;
        int number = 1;
        describe(&call, gradients);
        good = !clattn_ring_create(&ring, &call.params, &call.problem);
        for (bool injected = true; good && injected; number += test_is_full() ? 1 : 5)
            good = try_call(ring, gradients, layer, events, number, &injected);
        clattn_ring_destroy(&ring);
        if (!ranks.rank)
            printf("%s: %s up to number %d failed\n", gradients ? "backward" : "forward", events ? "commands" : "calls",
                   number);
        good = good && number > 20;
    }
    return good;
}

/* NULL, and a word on it, where the program does not run below the layer. */
static const struct fault_control *layer_of(const char *path)
{
    void *const library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    const struct fault_control *const layer = library ? dlsym(library, "fault_control") : NULL;
    if (!layer)
        fprintf(stderr, "%s is not loaded: OPENCL_LAYERS has to name it\n", path);
    return layer;
}

static bool try_with(int64_t what, int argc, char **argv)
{
    int ignored;
    passing = what;
    bool good = learn();
    if (argc > 2 && !strcmp(argv[1], "opencl")) {
        const struct fault_control *const layer = layer_of(argv[2]);
        return good && layer && try_calls(layer);
    }
    if (argc > 2 && good)
        good = try_message(FAULT_KILL, atoi(argv[2]), false, &ignored);
    else if (argc > 1 && good)
        good = try_messages();
    else if (good)
        good = try_creates() && try_wrongs();
    return good;
}

static bool try_all(const struct ranks *own, int argc, char **argv)
{
    ranks = *own;
    if (argc > 2 && !strcmp(argv[1], "kill"))
        return try_with(atoi(argv[2]) % 2 ? CLATTN_RING_PASS_KV : CLATTN_RING_PASS_Q, argc, argv);
    return try_with(CLATTN_RING_PASS_KV, argc, argv) && try_with(CLATTN_RING_PASS_Q, argc, argv);
}

int main(int argc, char **argv)
{
    return ranks_run(argc, argv, try_all);
}
