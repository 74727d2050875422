/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs one pass on a simulated device, for SIMULATED_COUNT to say what it executed (rates.py), and compares what comes
 * out with the reference, for faults in kernels to be seen (mutants.py).
 *
 *     executed PASS DTYPE D N_Q N_KV FEATURES SPREAD B_R B_C WORK_GROUP [KNOBS]
 *
 * PASS is forward or backward, DTYPE fp16 or bf16; FEATURES are the bits of clattn/score.h and may end in ":NUMBER",
 * the softcap, or the probability of dropout, which is then planned with, or in "@NUMBER", the probability for a plan
 * without; SPREAD is the deviation of the scores; sizes of 0 are planned. Exit status 1: it could not run, or is
 * wrong. */
#include "support/backward.h"
#include "support/compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASS = 1, DTYPE, D, N_Q, N_KV, FEATURES, SPREAD, B_R, B_C, WORK_GROUP, KNOBS };

static struct forward_case case_of(int count, char **words)
{
    const bool backward = strcmp(words[PASS], "backward") == 0;
    struct forward_case forward = {
        .problem = {.pass = backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                    .dtype = strcmp(words[DTYPE], "bf16") == 0 ? CLATTN_BF16 : CLATTN_FP16,
                    .d = atoi(words[D]),
                    .features = (unsigned)strtoul(words[FEATURES], NULL, 0),
                    .skeleton = backward ? "backward_matrix" : "forward_matrix",
                    .b_r = atoi(words[B_R]),
                    .b_c = atoi(words[B_C]),
                    .work_group_size = atoi(words[WORK_GROUP]),
                    .knobs = count > KNOBS ? words[KNOBS] : NULL,
                    .splits = 1},
        .shape = {.batch = 1, .heads = 1, .kv_heads = 1, .n_q = atoi(words[N_Q]), .n_kv = atoi(words[N_KV])},
        .score = score_typical(),
        .spread = atof(words[SPREAD]),
        .seed = 1};
    forward.problem.d_v = forward.problem.d;
    const char *const cap = strpbrk(words[FEATURES], ":@");
    if (cap && forward.problem.features & CLATTN_DROPOUT) {
        forward.score.dropout_p = (float)atof(cap + 1);
        forward.problem.dropout_p = *cap == ':' ? forward.score.dropout_p : 0;
    } else if (cap)
        forward.score.softcap = (float)atof(cap + 1);
    return forward;
}

static bool run(const struct test_device *device, const struct forward_case *forward)
{
    const unsigned wanted = BACKWARD_D_Q | BACKWARD_D_K | BACKWARD_D_V;
    struct backward_arrays arrays = {0};
    bool ok;
    if (forward->problem.pass == CLATTN_BACKWARD) {
        ok = backward_arrays_make(forward, &arrays) && backward_run(device, NULL, forward, wanted, &arrays) &&
             backward_judge(forward, wanted, &arrays);
        backward_arrays_free(&arrays);
        return ok;
    }
    ok = forward_arrays_make(forward, &arrays.forward);
    arrays.forward.without_m = true;
    ok = ok && forward_run(device, NULL, forward, &arrays.forward) && compare_outputs(forward, &arrays.forward);
    forward_arrays_free(&arrays.forward);
    return ok;
}

int main(int count, char **words)
{
    if (count <= WORK_GROUP) {
        fprintf(stderr, "usage: %s PASS DTYPE D N_Q N_KV FEATURES SPREAD B_R B_C WORK_GROUP [KNOBS]\n", words[0]);
        return 2;
    }
    struct test_device device;
    test_device_open(&device);
    const struct forward_case forward = case_of(count, words);
    const bool ok = run(&device, &forward);
    test_device_close(&device);
    return ok ? 0 : 1;
}
