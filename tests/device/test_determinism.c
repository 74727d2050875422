/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The same plan on the same device gives the same bits, run after run: a race shows itself here first. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/turn.h"
#include "support/unit.h"
#include <stdio.h>

static struct test_device device;
static int plans; /* that ran */

/* A kernel made for GPUs runs slowly on a CPU, where it is there to be right and not to be used; and on one, which has
 * few work-items at a time, a race shows itself soon or not at all. */
enum { RUNS = 250, RUNS_ON_CPU = 40, RUNS_WHERE_FOREIGN = 10 };

static bool is_cpu(void)
{
    return clattn_context_capabilities(device.clattn)->type == CLATTN_DEVICE_CPU;
}

static int runs_at_home(void)
{
    return is_cpu() && !test_is_full() ? RUNS_ON_CPU : RUNS;
}

/* On a CPU, half of what is made for GPUs. */
static bool takes(const struct cla_skeleton *skeleton)
{
    return !is_cpu() || test_takes(&device, skeleton, 1, 2);
}

/* The reference takes longer than all runs: what it judges is the first of the batch, whose arrays come first. */
static struct forward_case judged_part(const struct forward_case *forward)
{
    struct forward_case part = *forward;
    if (part.shape.batch > 2 && !test_is_full())
        part.shape.batch = 2;
    return part;
}

static bool same_bits_every_time(const struct forward_case *forward, struct forward_arrays *arrays, int runs)
{
    const struct forward_case part = judged_part(forward);
    clattn_plan *plan = NULL;
    plans++;
    const bool same =
        test_succeeded(clattn_plan_create(&plan, device.clattn, &forward->problem), "clattn_plan_create") &&
        forward_repeats(&device, plan, forward, arrays, runs) && compare_outputs(&part, arrays);
    clattn_plan_destroy(&plan);
    return same;
}

/* Of those for GPUs a CPU has half in each scene. */
static int failures_of(const char *scene, struct forward_case forward)
{
    int failures = 0;
    struct forward_arrays arrays;
    if (!test_asks_for(false))
        skip();
    assert_true(forward_arrays_make(&forward, &arrays));
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        if (!test_is_turn_of(*skeleton, scene))
            continue;
        forward.problem.skeleton = (*skeleton)->name;
        for (int n = 0; n < (test_knobs(*skeleton, 1) ? 2 : 1) && test_serves(&device, &forward.problem); n++) {
            forward.problem.knobs = test_knobs(*skeleton, n);
            failures +=
                !same_bits_every_time(&forward, &arrays, takes(*skeleton) ? runs_at_home() : RUNS_WHERE_FOREIGN);
        }
        forward.problem.knobs = NULL;
    }
    forward_arrays_free(&arrays);
    return failures;
}

static void many_small_heads(void **state)
{
    (void)state;
    const struct forward_case forward = {.problem = {.d = 32, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                         .shape = {.batch = 60, .heads = 4, .n_q = 17, .n_kv = 23},
                                         .seed = 1};
    assert_int_equal(failures_of(__func__, forward), 0);
}

static void few_longer_heads(void **state)
{
    (void)state;
    const struct forward_case forward = {.problem = {.dtype = CLATTN_FP16, .d = 64},
                                         .shape = {.batch = 1, .heads = 4, .kv_heads = 2, .n_q = 113, .n_kv = 203},
                                         .seed = 2};
    assert_int_equal(failures_of(__func__, forward), 0);
}

static void odd_sizes(void **state)
{
    (void)state;
    const struct forward_case forward = {.problem = {.dtype = CLATTN_BF16, .d = 111, .d_v = 59},
                                         .shape = {.batch = 2, .heads = 3, .kv_heads = 1, .n_q = 3, .n_kv = 239},
                                         .seed = 3};
    assert_int_equal(failures_of(__func__, forward), 0);
}

/* What kernels on matrix units take: many work-groups that share keys and compute units, tiles that are cut and others.
 * A CPU, which compiles each for seconds, takes the second and the last. */
static void many_heads_of_16_bits(void **state)
{
    (void)state;
    static const struct {
        int d, causal;
        unsigned features;
    } rows[] = {{64, 0, 0}, {64, 1, 0}, {128, 0, 0}, {128, 1, 0}, {256, 1, 0}, {64, 1, CLATTN_DROPOUT}};
    int failures = 0;
    EACH (i, rows) {
        struct forward_case forward = {
            .problem = {.dtype = i % 2 ? CLATTN_BF16 : CLATTN_FP16,
                        .d = rows[i].d,
                        .causal = rows[i].causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL},
            .shape = {.batch = is_cpu() ? 1 : 60, .heads = 2, .kv_heads = 1, .n_q = 130, .n_kv = is_cpu() ? 300 : 600},
            .score = score_typical(),
            .seed = 10 + i};
        case_set_features(&forward, rows[i].features);
        if (i % 4 == 1 || !is_cpu() || test_is_full())
            failures += failures_of(__func__, forward);
    }
    assert_int_equal(failures, 0);
}

static bool same_gradients_every_time(const struct forward_case *forward, struct backward_arrays *arrays, int runs)
{
    const struct forward_case part = judged_part(forward);
    struct clattn_problem problem = forward->problem;
    clattn_plan *plan = NULL;
    problem.pass = CLATTN_BACKWARD;
    plans++;
    const bool same = test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create") &&
                      backward_repeats(&device, plan, forward, BACKWARD_ALL, arrays, runs) &&
                      backward_judge(&part, BACKWARD_ALL, arrays);
    clattn_plan_destroy(&plan);
    return same;
}

static int failures_of_gradients(struct forward_case forward, int runs)
{
    int failures = 0;
    struct backward_arrays arrays;
    if (!test_asks_for(true))
        skip();
    assert_true(backward_arrays_make(&forward, &arrays));
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct clattn_problem problem = forward.problem;
        problem.pass = CLATTN_BACKWARD;
        problem.skeleton = forward.problem.skeleton = (*skeleton)->name;
        if (takes(*skeleton) && test_serves(&device, &problem))
            failures += !same_gradients_every_time(&forward, &arrays, runs);
    }
    backward_arrays_free(&arrays);
    return failures;
}

/* Several blocks of keys add to the dQ of each row, and many heads at a time where that is what a device is for. */
static void gradients(void **state)
{
    (void)state;
    static const int widths[] = {64, 128};
    int failures = 0;
    EACH (i, widths) {
        const struct forward_case forward = {
            .problem = {.dtype = CLATTN_FP16, .d = widths[i], .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
            .shape = {.batch = is_cpu() ? 2 : 60, .heads = 2, .kv_heads = 1, .n_q = 130, .n_kv = 300},
            .seed = 4};
        failures += failures_of_gradients(forward, runs_at_home());
    }
    assert_int_equal(failures, 0);
}

/* Blocks of a mask leave different numbers of tiles of each block of keys: these come in an order of their own, to one
 * sum or two, and consumers pass over tiles. Heads are long enough that many blocks of one are under way. Of a CPU's,
 * which are not, two will do. */
static void gradients_of_masks(void **state)
{
    (void)state;
    static const struct {
        int d, block;
    } rows[] = {{64, 128}, {64, 64}, {128, 128}, {128, 64}, {256, 64}};
    EACH (i, rows) {
        const struct forward_case forward = {.problem = {.dtype = CLATTN_FP16,
                                                         .d = rows[i].d,
                                                         .features = CLATTN_BLOCK_MASK,
                                                         .block_q = rows[i].block,
                                                         .block_kv = rows[i].block},
                                             .shape = {.batch = is_cpu() ? 1 : 20,
                                                       .heads = 1,
                                                       .n_q = is_cpu() ? 130 : 450,
                                                       .n_kv = is_cpu() ? 300 : 900},
                                             .score = {.density = 0.5},
                                             .seed = 5 + i};
        if (i % 2 || !is_cpu() || test_is_full())
            assert_int_equal(failures_of_gradients(forward, is_cpu() ? RUNS_WHERE_FOREIGN : RUNS), 0);
    }
}

/* The last: a skeleton that was asked for must have run. */
static void something_ran(void **state)
{
    (void)state;
    print_message("%d plans ran\n", plans);
    assert_int_not_equal(plans, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_small_heads), cmocka_unit_test(few_longer_heads),
                                       cmocka_unit_test(odd_sizes),        cmocka_unit_test(many_heads_of_16_bits),
                                       cmocka_unit_test(gradients),        cmocka_unit_test(gradients_of_masks),
                                       cmocka_unit_test(something_ran)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
