/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rings beside the host level of one device, on arrays of the whole and on arrays of the part: lengths of keys and
 * rows, shifts, a tree mask, a bias, sinks and the gradient by LSE, all at once. Started by run.py.
 */
#include "random.h"
#include "ring/ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 37, N_KV = 53, D = 16, D_V = 8, TREE = 40, WORDS = 2 };
enum {
    FEATURES =
        CLATTN_ROW_SHIFTS | CLATTN_QUERY_LENGTHS | CLATTN_KEY_LENGTHS | CLATTN_TREE_MASK | CLATTN_BIAS | CLATTN_SINKS
};

/* Tensors of [BATCH, heads, rows, columns]; those of keys have keys as rows. */
enum tensor { Q, K, V, O, D_O, D_Q, D_K, D_V_, LSE, M, L, D_LSE, BIAS, D_BIAS, BITS, TENSORS };

static const struct {
    const char *name;
    int heads, rows, columns;
} sizes[TENSORS] = {[Q] = {"q", HEADS, N_Q, D},          [K] = {"k", KV_HEADS, N_KV, D},
                    [V] = {"v", KV_HEADS, N_KV, D_V},    [O] = {"o", HEADS, N_Q, D_V},
                    [D_O] = {"d_o", HEADS, N_Q, D_V},    [D_Q] = {"d_q", HEADS, N_Q, D},
                    [D_K] = {"d_k", KV_HEADS, N_KV, D},  [D_V_] = {"d_v", KV_HEADS, N_KV, D_V},
                    [LSE] = {"lse", HEADS, N_Q, 1},      [M] = {"m", HEADS, N_Q, 1},
                    [L] = {"l", HEADS, N_Q, 1},          [D_LSE] = {"d_lse", HEADS, N_Q, 1},
                    [BIAS] = {"bias", HEADS, N_Q, N_KV}, [D_BIAS] = {"d_bias", HEADS, N_Q, N_KV},
                    [BITS] = {"tree", HEADS, N_Q, WORDS}};

static const int32_t key_lengths[] = {N_KV, 44}, query_lengths[] = {N_Q, 21}, row_shifts[] = {14, 25};
static float sinks[HEADS] = {0.5f, -1.0f, 0.0f, 1.5f};
static _Thread_local float d_sinks[HEADS];

static _Thread_local struct ranks ranks;

/* Floats, or words of bits. */
struct arrays {
    float *of[TENSORS];
};

static bool is_of_keys(enum tensor which)
{
    return sizes[which].rows == N_KV;
}

static size_t elements(enum tensor which, int64_t rows)
{
    return (size_t)(BATCH * sizes[which].heads * rows * sizes[which].columns);
}

static bool is_output(enum tensor which)
{
    return which == O || which == LSE || which == M || which == L || (which >= D_Q && which <= D_V_) || which == D_BIAS;
}

static void make(struct arrays *arrays)
{
    struct random random = {.state = 44};
    for (int i = 0; i < TENSORS; i++) {
        const size_t count = elements(i, sizes[i].rows);
        arrays->of[i] = calloc(count, sizeof(float));
        random_normal(&random, 0.7, arrays->of[i], is_output(i) ? 0 : count);
        for (size_t j = 0; i == BITS && j < count; j++)
            ((uint32_t *)arrays->of[i])[j] = (uint32_t)random_next(&random);
    }
}

static void release(struct arrays *arrays)
{
    for (int i = 0; i < TENSORS; i++)
        free(arrays->of[i]);
}

/* Copies the part's rows (or keys) from the whole to an array of the part, or back. */
static void copy_part(enum tensor which, const struct clattn_ring_part *part, float *whole, float *local, bool back)
{
    const int64_t rows = part->count[0] + part->count[1], columns = sizes[which].columns;
    for (int64_t head = 0; head < BATCH * sizes[which].heads; head++)
        for (int64_t i = 0; i < rows; i++) {
            const int64_t row = i < part->count[0] ? part->first[0] + i : part->first[1] + i - part->count[0];
            float *const of_whole = whole + (head * sizes[which].rows + row) * columns;
            float *const of_local = local + (head * rows + i) * columns;
            memcpy(back ? of_whole : of_local, back ? of_local : of_whole, (size_t)columns * sizeof(float));
        }
}

static struct clattn_host_score_args score_of(const struct arrays *arrays, bool gradients)
{
    struct clattn_host_score_args score = {.key_lengths = key_lengths,
                                           .query_lengths = query_lengths,
                                           .row_shifts = row_shifts,
                                           .sinks = sinks,
                                           .bias = arrays->of[BIAS],
                                           .tree_mask = (const int32_t *)arrays->of[BITS],
                                           .tree_keys = TREE};
    if (gradients)
        score.d_lse = arrays->of[D_LSE];
    return score;
}

static struct clattn_problem problem_of(bool gradients)
{
    return (struct clattn_problem){.pass = gradients ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                   .d = D,
                                   .d_v = D_V,
                                   .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                   .features = FEATURES | (gradients ? CLATTN_LSE_GRADIENT : 0)};
}

static const struct clattn_shape shape = {
    .batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};

static struct clattn_host_forward_args forward_of(const struct arrays *arrays)
{
    float *const *of = arrays->of;
    return (struct clattn_host_forward_args){.shape = shape,
                                             .q = of[Q],
                                             .k = of[K],
                                             .v = of[V],
                                             .o = of[O],
                                             .lse = of[LSE],
                                             .m = of[M],
                                             .l = of[L],
                                             .score = score_of(arrays, false)};
}

static struct clattn_host_backward_args backward_of(const struct arrays *arrays)
{
    float *const *of = arrays->of;
    return (struct clattn_host_backward_args){.shape = shape,
                                              .q = of[Q],
                                              .k = of[K],
                                              .v = of[V],
                                              .o = of[O],
                                              .d_o = of[D_O],
                                              .m = of[M],
                                              .l = of[L],
                                              .d_q = of[D_Q],
                                              .d_k = of[D_K],
                                              .d_v = of[D_V_],
                                              .d_bias = of[D_BIAS],
                                              .d_sinks = d_sinks,
                                              .score = score_of(arrays, true)};
}

/* One device, all of it; on each rank. */
static bool compute_alone(struct arrays *arrays)
{
    const struct clattn_host_params params = {.context = ranks.device.clattn};
    const struct clattn_problem forward = problem_of(false), backward = problem_of(true);
    const struct clattn_host_forward_args forward_args = forward_of(arrays);
    const struct clattn_host_backward_args backward_args = backward_of(arrays);
    clattn_host *host = NULL;
    const bool good = test_succeeded(clattn_host_create(&host, &params), "clattn_host_create") &&
                      test_succeeded(clattn_host_forward(host, &forward, &forward_args), "clattn_host_forward") &&
                      test_succeeded(clattn_host_backward(host, &backward, &backward_args), "clattn_host_backward");
    clattn_host_destroy(&host);
    return good;
}

static bool compute_shared(const struct arrays *arrays, const struct clattn_ring_part *rows,
                           const struct clattn_ring_part *keys, bool whole)
{
    const struct clattn_ring_params params = {.transport = ranks_transport(&ranks),
                                              .context = ranks.device.clattn,
                                              .queue = ranks.device.queue,
                                              .timeout_ms = 300000};
    const struct clattn_problem forward = problem_of(false), backward = problem_of(true);
    const struct clattn_ring_forward_args forward_args = {
        .arrays = forward_of(arrays), .rows = *rows, .keys = *keys, .whole = whole};
    const struct clattn_ring_backward_args backward_args = {
        .arrays = backward_of(arrays), .rows = *rows, .keys = *keys, .whole = whole};
    clattn_ring *ring = NULL;
    bool good = test_succeeded(clattn_ring_create(&ring, &params, &forward), "clattn_ring_create") &&
                test_succeeded(clattn_ring_forward(ring, &forward_args), "clattn_ring_forward");
    clattn_ring_destroy(&ring);
    good = good && test_succeeded(clattn_ring_create(&ring, &params, &backward), "clattn_ring_create") &&
           test_succeeded(clattn_ring_backward(ring, &backward_args), "clattn_ring_backward");
    clattn_ring_destroy(&ring);
    return good;
}

static bool near(const char *name, const float *found, const float *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (found[i] != wanted[i] && !(fabsf(found[i] - wanted[i]) <= 3e-5f * (1.0f + fabsf(wanted[i])))) {
            fprintf(stderr, "rank %d of %d: %s[%zu] is %.9g, and %.9g on one device\n", ranks.rank, ranks.count, name,
                    i, (double)found[i], (double)wanted[i]);
            return false;
        }
    return true;
}

/* With `whole`, what is not this rank's has to stay 0; each rank's own becomes an array of its part, to be compared. */
static bool try_arrays(const struct arrays *wanted, bool whole)
{
    struct clattn_ring_part rows, keys;
    struct arrays mine = {{NULL}}, part = {{NULL}};
    float wanted_sinks[HEADS];
    memcpy(wanted_sinks, d_sinks, sizeof wanted_sinks);
    clattn_ring_share(CLATTN_RING_ZIGZAG, N_Q, 1, ranks.count, ranks.rank, NULL, &rows);
    clattn_ring_share(CLATTN_RING_EVEN, N_KV, 4, ranks.count, ranks.rank, NULL, &keys);
    make(&mine);
    make(&part);
    for (int i = 0; i < TENSORS; i++)
        copy_part(i, is_of_keys(i) ? &keys : &rows, mine.of[i], part.of[i], false);
    bool good = compute_shared(whole ? &mine : &part, &rows, &keys, whole);
    for (int i = 0; i < TENSORS && good; i++) {
        const struct clattn_ring_part *own = is_of_keys(i) ? &keys : &rows;
        if (!is_output(i))
            continue;
        if (whole)
            copy_part(i, own, mine.of[i], part.of[i], false);
        float *const local = calloc(elements(i, sizes[i].rows), sizeof *local);
        copy_part(i, own, wanted->of[i], local, false);
        good = near(sizes[i].name, part.of[i], local, elements(i, own->count[0] + own->count[1]));
        free(local);
    }
    good = good && near("d_sinks", d_sinks, wanted_sinks, HEADS);
    memcpy(d_sinks, wanted_sinks, sizeof wanted_sinks);
    release(&mine);
    release(&part);
    return good;
}

static bool compare(const struct ranks *own, int argc, char **argv)
{
    struct arrays wanted;
    (void)argc;
    (void)argv;
    ranks = *own;
    make(&wanted);
    bool good = ranks_all(&ranks, compute_alone(&wanted));
    for (int whole = 0; whole < 2; whole++)
        good = ranks_all(&ranks, good && try_arrays(&wanted, whole));
    release(&wanted);
    return good;
}

int main(int argc, char **argv)
{
    return ranks_run(argc, argv, compare);
}
