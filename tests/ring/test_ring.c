/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rings of any number of ranks against the float64 reference: each feature, alone and with others, on parts of all
 * kinds. As processes of MPI, by run.py, or threads (ranks.h): test_ring CASES [auto|kv|q], of which the first cases
 * are the features one by one. Of each case K and V pass in one pass, Q in the other; or what the second argument says.
 */
#include "ring/ranks.h"
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORK = 1 << 17, DROPOUT_ROWS = 16 };

static _Thread_local struct ranks ranks;
static _Thread_local int64_t passing; /* of the next ring */

/* Features by turns: those that a ring has, and that go together. */
static unsigned features_of(struct random *random, int n)
{
    static const unsigned alone[] = {0,
                                     CLATTN_WINDOW,
                                     CLATTN_ALIBI | CLATTN_DROPOUT,
                                     CLATTN_BIAS | CLATTN_SINKS,
                                     CLATTN_VARLEN,
                                     CLATTN_KEY_LENGTHS,
                                     CLATTN_BLOCK_MASK,
                                     CLATTN_MASK,
                                     CLATTN_SOFTCAP,
                                     CLATTN_VARLEN | CLATTN_WINDOW | CLATTN_ALIBI | CLATTN_SINKS};
    enum { ALONE = sizeof alone / sizeof *alone };
    const unsigned packed = CLATTN_WINDOW | CLATTN_ALIBI | CLATTN_SOFTCAP | CLATTN_SINKS | CLATTN_KEY_LENGTHS;
    const unsigned pairs = CLATTN_BIAS | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_DROPOUT;
    if (n < ALONE)
        return alone[n];
    return random_below(random, 3) ? case_random_features(random, 4, packed | pairs)
                                   : case_random_features(random, 3, packed) | CLATTN_VARLEN;
}

/* Parts: even, zigzag, or pieces of any lengths, many of which are empty where there are few rows. */
static void share_out(struct random *random, int64_t count, int64_t grain, struct clattn_ring_part *part)
{
    const int kind = (int)random_below(random, 3), pieces = 2 * ranks.count;
    int64_t ends[2 * RANKS_MOST + 1] = {0};
    if (kind < 2) {
        double weights[RANKS_MOST];
        const bool weighted = random_below(random, 2);
        for (int i = 0; i < ranks.count; i++)
            weights[i] = (double)random_below(random, 4) + (i == ranks.count / 2);
        clattn_ring_share((enum clattn_ring_sharing)kind, count, grain, ranks.count, ranks.rank,
                          weighted ? weights : NULL, part);
        return;
    }
    for (int i = 1; i < pieces; i++) {
        const int64_t end = random_below(random, count / grain + 1) * grain;
        int at = i;
        for (; at > 1 && ends[at - 1] > end; at--)
            ends[at] = ends[at - 1];
        ends[at] = end;
    }
    ends[pieces] = count;
    const int turn = (int)random_below(random, pieces);
    for (int i = 0; i < 2; i++) {
        const int piece = (ranks.rank + i * ranks.count + turn) % pieces;
        part->first[i] = ends[piece];
        part->count[i] = ends[piece + 1] - ends[piece];
    }
}

/* Stored tensors of a whole: inputs filled, outputs 0. */
struct stored {
    struct guard_view view;
    char *data;
    size_t bytes;
};

static struct stored store(const struct forward_case *forward, const struct forward_arrays *arrays,
                           enum forward_tensor kind, const struct clattn_layout *layout, const float *values)
{
    struct stored stored = {.view = forward_view(forward, arrays, kind, layout)};
    stored.bytes =
        reference_extent(stored.view.sizes, &stored.view.layout) * (size_t)clattn_dtype_size(stored.view.dtype);
    stored.data = calloc(stored.bytes + 1, 1);
    if (values)
        reference_scatter(stored.view.dtype, stored.view.sizes, &stored.view.layout, values, stored.data);
    return stored;
}

/* What the ranks wrote, each its own, as one; and dense. */
static void fetch(struct stored *stored, float *to)
{
    ranks_unite(&ranks, stored->data, stored->bytes);
    reference_gather(stored->view.dtype, stored->view.sizes, &stored->view.layout, stored->data, to);
}

/* What ranks sent is what they were to send, of what passed. */
static bool sent_as_said(const clattn_ring *ring)
{
    struct clattn_ring_info info;
    int64_t sent = 0;
    if (!test_succeeded(clattn_ring_last(ring, &info), "clattn_ring_last"))
        return false;
    for (int i = 0; i < ranks.count; i++)
        sent += ranks_from(&ranks, i, (int)info.bytes_sent);
    const bool rows_pass = passing ? passing == CLATTN_RING_PASS_Q : info.q_bytes < info.kv_bytes;
    const uint64_t said = rows_pass ? info.q_bytes : info.kv_bytes;
    if ((uint64_t)sent == said && info.passing == (rows_pass ? CLATTN_RING_PASS_Q : CLATTN_RING_PASS_KV))
        return true;
    fprintf(stderr, "passing %d: ranks sent %lld bytes; K and V %llu, Q %llu; passed %d\n", (int)passing,
            (long long)sent, (unsigned long long)info.kv_bytes, (unsigned long long)info.q_bytes, (int)info.passing);
    return false;
}

static bool call(const struct forward_case *forward, const struct clattn_ring_forward_args *args)
{
    clattn_ring *ring = NULL;
    const struct clattn_ring_params params = {.transport = ranks_transport(&ranks),
                                              .context = ranks.device.clattn,
                                              .queue = ranks.device.queue,
                                              .timeout_ms = 300000,
                                              .passing = passing};
    const bool ran = test_succeeded(clattn_ring_create(&ring, &params, &forward->problem), "clattn_ring_create") &&
                     test_succeeded(clattn_ring_forward(ring, args), "clattn_ring_forward") && sent_as_said(ring);
    clattn_ring_destroy(&ring);
    return ran;
}

static bool run(const struct forward_case *forward, const struct clattn_ring_part *rows,
                const struct clattn_ring_part *keys, struct forward_arrays *arrays)
{
    const struct clattn_layout none = {0};
    struct stored q = store(forward, arrays, FORWARD_Q, &forward->q, arrays->q);
    struct stored k = store(forward, arrays, FORWARD_K, &forward->k, arrays->k);
    struct stored v = store(forward, arrays, FORWARD_V, &forward->v, arrays->v);
    struct stored o = store(forward, arrays, FORWARD_O, &forward->o, NULL);
    struct stored vectors[3];
    void *bias = NULL;
    for (int i = 0; i < 3; i++)
        vectors[i] = store(forward, arrays, FORWARD_ROWS, &none, NULL);
    const struct clattn_ring_forward_args args = {
        .arrays = {.shape = forward->shape,
                   .q = q.data,
                   .k = k.data,
                   .v = v.data,
                   .o = o.data,
                   .q_layout = forward->q,
                   .k_layout = forward->k,
                   .v_layout = forward->v,
                   .o_layout = forward->o,
                   .lse = (float *)vectors[0].data,
                   .m = (float *)vectors[1].data,
                   .l = (float *)vectors[2].data,
                   .score = score_host_args(&forward->problem, &forward->score, &arrays->score, &bias)},
        .rows = *rows,
        .keys = *keys,
        .whole = 1};
    const bool ran = call(forward, &args);
    if (ran) {
        fetch(&o, arrays->o);
        fetch(&vectors[0], arrays->lse);
        fetch(&vectors[1], arrays->m);
        fetch(&vectors[2], arrays->l);
    }
    struct stored *const all[] = {&q, &k, &v, &o, &vectors[0], &vectors[1], &vectors[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(bias);
    return ran;
}

/* What a backward call takes and gives. */
struct passed_back {
    struct stored q, k, v, o, d_o, d_q, d_k, d_v, d_bias;
    void *bias;
};

static struct stored store_d_bias(const struct forward_case *forward, const struct forward_arrays *in)
{
    const enum clattn_dtype dtype = forward->problem.dtype;
    struct stored d_bias = {.view = {.dtype = dtype, .layout = in->score.pair_at}};
    memcpy(d_bias.view.sizes, in->score.pair_sizes, sizeof d_bias.view.sizes);
    d_bias.bytes = reference_extent(d_bias.view.sizes, &d_bias.view.layout) * (size_t)clattn_dtype_size(dtype);
    d_bias.data = forward->problem.features & CLATTN_BIAS ? calloc(d_bias.bytes + 1, 1) : NULL;
    return d_bias;
}

static struct passed_back store_all(const struct forward_case *forward, const struct backward_arrays *arrays)
{
    const struct forward_arrays *in = &arrays->forward;
    return (struct passed_back){.q = store(forward, in, FORWARD_Q, &forward->q, in->q),
                                .k = store(forward, in, FORWARD_K, &forward->k, in->k),
                                .v = store(forward, in, FORWARD_V, &forward->v, in->v),
                                .o = store(forward, in, FORWARD_O, &forward->o, in->o),
                                .d_o = store(forward, in, FORWARD_D_O, &forward->o, arrays->d_o),
                                .d_q = store(forward, in, FORWARD_Q, &forward->q, NULL),
                                .d_k = store(forward, in, FORWARD_K, &forward->k, NULL),
                                .d_v = store(forward, in, FORWARD_V, &forward->v, NULL),
                                .d_bias = store_d_bias(forward, in)};
}

static void free_all(struct passed_back *all)
{
    struct stored *const each[] = {&all->q,   &all->k,   &all->v,   &all->o,     &all->d_o,
                                   &all->d_q, &all->d_k, &all->d_v, &all->d_bias};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        free(each[i]->data);
    free(all->bias);
}

static void fetch_all(struct passed_back *all, struct backward_arrays *arrays)
{
    fetch(&all->d_q, arrays->d_q);
    fetch(&all->d_k, arrays->d_k);
    fetch(&all->d_v, arrays->d_v);
    if (all->d_bias.data)
        fetch(&all->d_bias, arrays->d_bias);
}

static struct clattn_host_backward_args host_args(const struct forward_case *forward, struct passed_back *all,
                                                  struct backward_arrays *arrays)
{
    const struct forward_arrays *in = &arrays->forward;
    return (struct clattn_host_backward_args){
        .shape = forward->shape,
        .q = all->q.data,
        .k = all->k.data,
        .v = all->v.data,
        .o = all->o.data,
        .d_o = all->d_o.data,
        .q_layout = forward->q,
        .k_layout = forward->k,
        .v_layout = forward->v,
        .o_layout = forward->o,
        .d_o_layout = forward->o,
        .m = in->m,
        .l = in->l,
        .d_q = all->d_q.data,
        .d_k = all->d_k.data,
        .d_v = all->d_v.data,
        .d_bias = all->d_bias.data,
        .d_sinks = forward->problem.features & CLATTN_SINKS ? arrays->d_sinks : NULL,
        .d_q_layout = forward->q,
        .d_k_layout = forward->k,
        .d_v_layout = forward->v,
        .d_bias_layout = all->d_bias.data ? in->score.pair_at : (struct clattn_layout){0},
        .score = score_host_args(&forward->problem, &forward->score, &in->score, &all->bias)};
}

static bool run_backward(const struct forward_case *forward, const struct clattn_ring_part *rows,
                         const struct clattn_ring_part *keys, struct backward_arrays *arrays)
{
    const struct clattn_ring_params params = {.transport = ranks_transport(&ranks),
                                              .context = ranks.device.clattn,
                                              .queue = ranks.device.queue,
                                              .timeout_ms = 300000,
                                              .passing = passing};
    struct clattn_problem problem = forward->problem;
    struct passed_back all = store_all(forward, arrays);
    clattn_ring *ring = NULL;
    problem.pass = CLATTN_BACKWARD;
    const struct clattn_ring_backward_args args = {
        .arrays = host_args(forward, &all, arrays), .rows = *rows, .keys = *keys, .whole = 1};
    const bool ran = test_succeeded(clattn_ring_create(&ring, &params, &problem), "clattn_ring_create") &&
                     test_succeeded(clattn_ring_backward(ring, &args), "clattn_ring_backward") && sent_as_said(ring);
    clattn_ring_destroy(&ring);
    if (ran)
        fetch_all(&all, arrays);
    free_all(&all);
    return ran;
}

/* d_bias of a bias that serves all of the batch is a sum within each rank; all ranks' rows differ, so uniting holds. */
static bool try_backward(const struct forward_case *forward, const struct clattn_ring_part *rows,
                         const struct clattn_ring_part *keys)
{
    struct backward_arrays first, again;
    bool right = backward_arrays_make(forward, &first) && backward_arrays_make(forward, &again) &&
                 run_backward(forward, rows, keys, &first) && run_backward(forward, rows, keys, &again) &&
                 backward_same(forward, BACKWARD_ALL, &first, &again);
    if (right && !ranks.rank)
        right = backward_judge(forward, BACKWARD_ALL, &first);
    backward_arrays_free(&first);
    backward_arrays_free(&again);
    return right;
}

static bool try_forward(const struct forward_case *forward, const struct clattn_ring_part *rows,
                        const struct clattn_ring_part *keys)
{
    struct forward_arrays first, again;
    bool right = forward_arrays_make(forward, &first) && forward_arrays_make(forward, &again) &&
                 run(forward, rows, keys, &first) && run(forward, rows, keys, &again) &&
                 compare_bits(forward, &first, &again);
    if (right && !ranks.rank)
        right = compare_outputs(forward, &first);
    forward_arrays_free(&first);
    forward_arrays_free(&again);
    return right;
}

/* Of a multiple of block_q, and of DROPOUT_ROWS with dropout. */
static int64_t grain_of(const struct clattn_problem *problem)
{
    const int64_t block = problem->features & CLATTN_BLOCK_MASK ? problem->block_q : 1;
    int64_t grain = block;
    while ((problem->features & CLATTN_DROPOUT) && grain % DROPOUT_ROWS)
        grain += block;
    return grain;
}

/* As the argument says; else both, by turns. */
static int64_t passing_of(const char *word, int turn)
{
    static const char *const words[] = {"auto", "kv", "q"};
    for (int i = 0; word && i < 3; i++)
        if (!strcmp(word, words[i]))
            return i;
    return turn % 2 ? CLATTN_RING_PASS_Q : CLATTN_RING_PASS_KV;
}

static bool try_both(const struct forward_case *forward, const struct clattn_ring_part *rows,
                     const struct clattn_ring_part *keys, int n, const char *word)
{
    passing = passing_of(word, n + 1);
    const bool forward_is_right = try_forward(forward, rows, keys);
    passing = passing_of(word, n);
    return try_backward(forward, rows, keys) && forward_is_right;
}

static bool try_case(struct random *random, int n, const char *word)
{
    struct forward_case forward = case_random(random, features_of(random, n), MOST_WORK);
    while ((forward.problem.features & CLATTN_DROPOUT) && forward.shape.n_q < 3 * DROPOUT_ROWS)
        case_vary(random, MOST_WORK, &forward); /* until several ranks have rows */
    const bool packed = forward.problem.features & CLATTN_VARLEN;
    const int64_t grain = grain_of(&forward.problem);
    struct clattn_ring_part rows = {0}, keys = {0};
    struct random cuts = {.state = random_next(random)};
    struct forward_arrays sizes;
    char text[256];
    forward.path = PATH_HOST;
    forward.packed = false;
    forward.score.csr = false;
    if (!forward_arrays_make(&forward, &sizes))
        return false;
    share_out(&cuts, packed ? sizes.score.total_q : forward.shape.n_q, grain, &rows);
    share_out(&cuts, packed ? sizes.score.total_kv : forward.shape.n_kv, 1, &keys);
    forward_arrays_free(&sizes);
    const bool right = try_both(&forward, &rows, &keys, n, word);
    forward_describe(&forward, text, sizeof text);
    if (!right)
        fprintf(stderr, "rank %d of %d: case %d: rows %lld+%lld %lld+%lld keys %lld+%lld %lld+%lld: %s\n", ranks.rank,
                ranks.count, n, (long long)rows.first[0], (long long)rows.count[0], (long long)rows.first[1],
                (long long)rows.count[1], (long long)keys.first[0], (long long)keys.count[0], (long long)keys.first[1],
                (long long)keys.count[1], text);
    return ranks_all(&ranks, right);
}

static bool try_cases(const struct ranks *own, int argc, char **argv)
{
    int failures = 0;
    ranks = *own;
    struct random random = {.state = case_seed()};
    for (int n = 0; n < (test_is_full() ? 40 : argc > 1 ? atoi(argv[1]) : 1); n++) {
        struct random of_case = {.state = random_next(&random)}; /* the same case whatever the number of ranks */
        failures += !try_case(&of_case, n, argc > 2 ? argv[2] : NULL);
    }
    return !failures;
}

int main(int argc, char **argv)
{
    return ranks_run(argc, argv, try_cases);
}
