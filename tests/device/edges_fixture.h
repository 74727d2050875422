/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EDGES_FIXTURE_H
#define EDGES_FIXTURE_H

/* What the tests of edges share: a small case with inputs that a test spoils, in the forward pass, in chunks and in the
 * backward pass, on every skeleton. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/state.h"
#include "support/turn.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;

enum { D = 40, N = 90, HEADS = 2 };

static struct forward_case basic(unsigned features)
{
    struct forward_case forward = {.problem = {.d = D},
                                   .shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N},
                                   .score = score_typical(),
                                   .seed = 21};
    case_set_features(&forward, features);
    return forward;
}

/* Changes the inputs of a case that was generated; `d_o` is NULL in the passes that have none. */
typedef void (*spoil_function)(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o);

static void spoil_nothing(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)arrays, (void)d_o;
}

static bool spoilt_holds(const struct forward_case *forward, spoil_function spoil, bool in_chunks)
{
    struct forward_arrays arrays;
    if (!forward_arrays_make(forward, &arrays))
        return false;
    spoil(forward, &arrays, NULL);
    const bool packed = forward->problem.features & CLATTN_VARLEN;
    const int64_t keys = packed ? arrays.score.total_kv : forward->shape.n_kv, ends[] = {keys / 3, keys / 2, keys};
    const bool right = in_chunks ? state_run(&device, forward, ends, 3, &arrays) && compare_outputs(forward, &arrays)
                                 : forward_holds(&device, forward, &arrays);
    forward_arrays_free(&arrays);
    return right;
}

static bool backward_holds(const struct forward_case *forward, spoil_function spoil)
{
    struct backward_arrays arrays;
    if (!backward_arrays_make(forward, &arrays))
        return false;
    spoil(forward, &arrays.forward, arrays.d_o);
    const bool right = backward_arrays_refresh(forward, &arrays) &&
                       backward_run(&device, NULL, forward, BACKWARD_ALL, &arrays) &&
                       backward_judge(forward, BACKWARD_ALL, &arrays);
    backward_arrays_free(&arrays);
    return right;
}

static int count_failure(const struct forward_case *forward, const char *pass, bool right)
{
    char text[512];
    if (!right) {
        forward_describe(forward, text, sizeof text);
        print_error("fails: %s, %s\n", pass, text);
    }
    return !right;
}

/* The type follows from the features, so that the edges of one kernel share what was compiled; 16 bits where a skeleton
 * has no wider ones. */
static int failures_of_direction(struct forward_case forward, spoil_function spoil, bool backward)
{
    int failures = 0;
    const struct cla_skeleton *const *skeleton = backward ? test_backward_skeletons() : test_skeletons();
    const unsigned features = forward.problem.features;
    for (int n = 0; skeleton[n]; n++) {
        const int variant = (int)(features % 13) + n;
        forward.problem.skeleton = skeleton[n]->name;
        forward.problem.unordered = cla_skeleton_describe(skeleton[n]).any_order;
        forward.problem.pass = backward ? CLATTN_BACKWARD : CLATTN_FORWARD;
        forward.problem.dtype = (enum clattn_dtype)(variant % 3);
        if (forward.problem.dtype == CLATTN_FP32 && !test_serves(&device, &forward.problem))
            forward.problem.dtype = features % 2 ? CLATTN_FP16 : CLATTN_BF16;
        forward.problem.knobs = backward ? NULL : test_knobs(skeleton[n], variant);
        /* emulations have what devices' kernels do after a NaN; of those of gradients each edge meets one;
         * and half of the edges in each of CI's turns */
        const bool by_turns = !backward || test_is_full() || (n + (int)(features % 3)) % 2 == 0;
        const bool in_turn = test_is_turn((int)(features % 5) + n / 2, 2);
        const bool taken =
            (skeleton[n]->emulated && by_turns && in_turn) || test_takes(&device, skeleton[n], variant, 13);
        if (!taken || !test_serves(&device, &forward.problem))
            continue;
        if (backward) {
            failures += count_failure(&forward, "backward", backward_holds(&forward, spoil));
        } else {
            failures += count_failure(&forward, "forward", spoilt_holds(&forward, spoil, false));
            forward.problem.knobs = NULL;
            failures += state_serves(&device, forward.problem) &&
                        count_failure(&forward, "state", spoilt_holds(&forward, spoil, true));
        }
    }
    return failures;
}

static int failures_of(struct forward_case forward, spoil_function spoil)
{
    return (test_asks_for(false) ? failures_of_direction(forward, spoil, false) : 0) +
           (test_asks_for(true) ? failures_of_direction(forward, spoil, true) : 0);
}

static void assert_holds(struct forward_case forward, spoil_function spoil)
{
    assert_int_equal(failures_of(forward, spoil), 0);
}

/* Fills rows of a dense [heads, n, width] tensor. */
static void set_rows(float *tensor, int64_t n, int64_t width, int64_t first, int64_t end, float value)
{
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = (head * n + first) * width; i < (head * n + end) * width; i++)
            tensor[i] = value;
}

#endif
