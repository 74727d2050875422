/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The other passes and the score modifications, tiny, for Oclgrind to watch: as simulated.c, on memory that ends with
 * its last element.
 *
 *     passes backward | state | features | splits [even | odd | matrix | sums [SET]]
 *
 * `even` and `odd` take every other set of features, for two runs that share them.
 * `matrix` takes the emulated matrix skeletons in place of the portable ones: Oclgrind can run them where they are
 * compiled unoptimised (run.py). `sums` takes those of them that add up dQ in any order, which need more local memory;
 * of the sets of features all, or that number: after several of them in one process Oclgrind 21.10 calls sums
 * uninitialised that it calls right when each has a process of its own.
 */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;

/* Small enough for an interpreter. Two batch elements, so that a second sequence begins behind the first; odd lengths
 * that are several blocks of 16. */
static struct forward_case tiny(int d, unsigned features, uint64_t seed)
{
    struct forward_case forward = {.problem = {.dtype = (enum clattn_dtype)(seed % 3),
                                               .d = d,
                                               .d_v = seed % 2 ? d : d + 3,
                                               .causal = (enum clattn_causal)(seed / 3 % 3)},
                                   .shape = {.batch = 2, .heads = 2, .kv_heads = 1, .n_q = 5, .n_kv = 19},
                                   .score = score_typical(),
                                   .seed = seed};
    case_set_features(&forward, features);
    forward.score.window_left = 9;
    forward.score.window_right = 3;
    forward.score.csr = seed % 2 == 0;
    forward.score.one_head = seed % 2 == 0;
    if (features & CLATTN_BLOCK_MASK)
        forward.shape.n_q = 18;
    return forward;
}

/* Each alone is more than an interpreter is worth: what shares an argument or a loop goes together. */
static const unsigned feature_sets[] = {
    0,
    CLATTN_WINDOW | CLATTN_SOFTCAP | CLATTN_BIAS,
    CLATTN_BLOCK_MASK | CLATTN_DROPOUT,
    CLATTN_VARLEN | CLATTN_ALIBI | CLATTN_SINKS,
    CLATTN_MASK | CLATTN_KEY_LENGTHS | CASE_SCORE_MOD | CASE_MASK_MOD,
};
enum { SETS = sizeof feature_sets / sizeof feature_sets[0] };

static bool say(const char *what, const struct forward_case *forward, bool right)
{
    char text[512];
    forward_describe(forward, text, sizeof text);
    printf("%s: %s, %s\n", right ? "right" : "WRONG", what, text);
    fflush(stdout);
    return right;
}

static bool matrix, sums;
static int only = -1; /* the set of features; -1: all */
static int turn = -1; /* 0 or 1: the sets whose numbers are even or odd */

/* Emulations are asked for here alone: Oclgrind calls itself a GPU, for which tests leave them out. */
static bool watched(const struct cla_skeleton *skeleton)
{
    return matrix ? skeleton->emulated && cla_skeleton_describe(skeleton).any_order == sums : !skeleton->declines;
}

/* A matrix skeleton multiplies 16-bit elements, and costs the interpreter half a minute where others take a second: one
 * case of each pass. CLATTN_TEST_FULL=1 takes all. */
static bool takes(int n, struct forward_case *forward, const struct cla_skeleton *skeleton)
{
    forward->problem.skeleton = skeleton->name;
    forward->problem.unordered = cla_skeleton_describe(skeleton).any_order;
    if (matrix) {
        forward->problem.dtype = forward->problem.dtype == CLATTN_FP32 ? CLATTN_FP16 : forward->problem.dtype;
        forward->shape.batch = forward->shape.heads = 1;
    }
    const bool all = test_is_full();
    if (turn >= 0 && n % 2 != turn)
        return false;
    if (sums && all) { /* two tiles of rows, of two heads where there is nothing else, which pass two work-groups */
        forward->shape.heads = n ? 1 : 2;
        forward->shape.n_q = 66;
        forward->shape.n_kv = 130;
    }
    return only >= 0 ? n == only : !matrix || n == 1 || all;
}

static int failures_of_backward(const struct cla_skeleton *skeleton)
{
    int failures = 0;
    for (int n = 0; n < SETS; n++) {
        struct forward_case forward = tiny(5 + 4 * n, feature_sets[n], (uint64_t)n + 1);
        if (!takes(n, &forward, skeleton))
            continue;
        failures += !say("backward", &forward, backward_check(&device, &forward, BACKWARD_ALL));
        forward.kv_chunk = 7; /* of the plain case, of packed keys, and of what adds up a bias's gradient */
        if (!matrix && (n == 0 || n == 1 || n == 3))
            failures += !say("backward in chunks", &forward, backward_check(&device, &forward, BACKWARD_ALL));
    }
    return failures;
}

static int failures_of_features(const struct cla_skeleton *skeleton)
{
    int failures = 0;
    for (int n = 1; n < SETS; n++) {
        struct forward_case forward = tiny(5 + 4 * n, feature_sets[n], (uint64_t)n + 1);
        if (takes(n, &forward, skeleton))
            failures += !say("forward", &forward, forward_check(&device, &forward));
    }
    return failures;
}

/* Of two and three splits, one without keys. Few rows: from several blocks of them on, Oclgrind 21.10 calls the state
 * of a process's second pass uninitialised, though a workspace full of NaN leaves no NaN in the results. */
static int failures_of_splits(const struct cla_skeleton *skeleton)
{
    static const unsigned sets[] = {0, CLATTN_DROPOUT, CLATTN_SINKS | CLATTN_WINDOW};
    int failures = 0;
    for (int n = 0; n < 3; n++) {
        struct forward_case forward = tiny(13, sets[n], 3);
        if (turn >= 0 && n % 2 != turn)
            continue;
        forward.problem.skeleton = skeleton->name;
        forward.problem.splits = 2 + n % 2;
        failures += !say("keys split", &forward, forward_check(&device, &forward));
    }
    return failures;
}

/* Two states that meet: the first has two chunks, the second one, which is the last keys. */
static bool run_states(const struct forward_case *forward, struct forward_arrays *arrays)
{
    struct state_session session;
    struct state states[2] = {{0}};
    if (!state_open(&session, &device, forward, arrays))
        return false;
    const bool packed = forward->problem.features & CLATTN_VARLEN;
    const int64_t keys = packed ? arrays->score.total_kv : forward->shape.n_kv;
    const bool ran = state_begin(&session, &states[0]) && state_begin(&session, &states[1]) &&
                     state_accumulate(&session, &states[0], 0, 3) && state_accumulate(&session, &states[0], 3, 10) &&
                     state_accumulate(&session, &states[1], 13, keys - 13) &&
                     state_merge(&session, &states[0], &states[1]) && state_finish(&session, &states[0]);
    state_free(&states[0]);
    state_free(&states[1]);
    state_close(&session);
    return ran;
}

static int failures_of_state(const struct cla_skeleton *skeleton)
{
    static const unsigned sets[] = {0, CLATTN_SINKS | CLATTN_DROPOUT, CLATTN_VARLEN | CLATTN_SINKS,
                                    CLATTN_BLOCK_MASK | CLATTN_WINDOW};
    int failures = 0;
    for (int n = 0; n < (int)(sizeof sets / sizeof sets[0]); n++) {
        struct forward_case forward = tiny(6 + 5 * n, sets[n], (uint64_t)n + 3);
        struct forward_arrays arrays;
        if (!takes(n, &forward, skeleton))
            continue;
        if (!forward_arrays_make(&forward, &arrays))
            return failures + 1;
        const bool right = run_states(&forward, &arrays) && compare_outputs(&forward, &arrays);
        failures += !say("state", &forward, right);
        forward_arrays_free(&arrays);
    }
    return failures;
}

int main(int argc, char **argv)
{
    const char *pass = argc > 1 ? argv[1] : "";
    const bool backward = !strcmp(pass, "backward"), state = !strcmp(pass, "state"), splits = !strcmp(pass, "splits");
    int failures = 0, count = 0;
    if (!backward && !state && !splits && strcmp(pass, "features") != 0) {
        fprintf(stderr, "usage: passes backward | state | features | splits [even | odd | matrix | sums]\n");
        return 2;
    }
    sums = argc > 2 && !strcmp(argv[2], "sums");
    matrix = sums || (argc > 2 && !strcmp(argv[2], "matrix"));
    only = argc > 3 ? atoi(argv[3]) : -1;
    turn = argc <= 2 ? -1 : !strcmp(argv[2], "even") ? 0 : !strcmp(argv[2], "odd") ? 1 : -1;
    guard_exact = true;
    test_device_open(&device);
    const struct cla_skeleton *const *next = matrix     ? cla_skeletons
                                             : backward ? test_backward_skeletons()
                                                        : test_skeletons();
    for (; *next; next++) {
        if (!watched(*next) || (*next)->backward != backward)
            continue;
        count++;
        failures += backward ? failures_of_backward(*next)
                    : state  ? failures_of_state(*next)
                    : splits ? failures_of_splits(*next)
                             : failures_of_features(*next);
    }
    if (!count)
        fprintf(stderr, "there is no such skeleton\n");
    test_device_close(&device);
    return failures || !count ? EXIT_FAILURE : EXIT_SUCCESS;
}
