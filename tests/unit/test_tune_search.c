/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The search on a made-up device, whose costs, noise, failures and clock are known. */
#include "failure.h"
#include "random.h"
#include "support/unit.h"
#include "tune/prior.h"
#include "tune/search.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A device of so many candidates: what each truly costs, and what befalls it. */
struct device {
    double ms[TUNE_MOST];
    enum clattn_tuning_state state[TUNE_MOST];
    double noise, drift; /* relative; drift is that of all costs, by second */
    double busy_seconds; /* as long as this all costs double, and as long they do not; 0: never */
    double first_seconds, run_seconds;
    double clock;
    double stop_at; /* of the clock, when the user stops; 0: never */
    struct random random;
    int measured[TUNE_MOST], first[TUNE_MOST], calls;
    double longest_overrun;
};

static double now(void *user)
{
    return ((struct device *)user)->clock;
}

static bool stop(void *user)
{
    const struct device *device = user;
    return device->stop_at > 0 && device->clock >= device->stop_at;
}

/* One run at a time: the machine's other work comes and goes. */
static double run(struct device *device, int index, double at)
{
    float normal;
    random_normal(&device->random, 1.0, &normal, 1);
    const bool busy = device->busy_seconds > 0 && fmod(at, 2 * device->busy_seconds) > device->busy_seconds;
    return device->ms[index] * (1 + fabs((double)normal) * device->noise) * (1 + device->drift * at) * (busy ? 2 : 1);
}

static struct tune_answer measure(void *user, const struct tune_request *request)
{
    struct device *device = user;
    const int index = request->index;
    struct tune_answer answer = {.state = device->state[index]};
    double took = request->first ? device->first_seconds : 0;
    assert_in_range(request->runs, 1, TUNE_MOST_RUNS);
    assert_true(request->seconds > 0);
    /* Whatever is not right stays so, and is not asked for again. */
    if (device->measured[index]++)
        assert_int_equal(device->state[index], CLATTN_TUNING_OK);
    device->first[index] += request->first;
    device->calls++;
    if (answer.state == CLATTN_TUNING_TIMEOUT)
        took = request->seconds;
    assert_true(!request->paired || (index && device->state[0] == CLATTN_TUNING_OK));
    for (int i = 0; answer.state == CLATTN_TUNING_OK && i < request->runs; i++) {
        answer.ms[i] = run(device, index, device->clock + took);
        took += device->run_seconds;
        answer.base_ms[i] = request->paired ? run(device, 0, device->clock + took) : 0;
        took += request->paired ? device->run_seconds : 0;
        answer.runs++;
        if (request->paired && request->limit > 0 && answer.ms[i] > request->limit * answer.base_ms[i])
            break;
    }
    if (took > request->seconds) { /* it is ended */
        took = request->seconds;
        answer = (struct tune_answer){.state = CLATTN_TUNING_TIMEOUT, .given_up = true};
    }
    device->clock += took;
    return answer;
}

static struct tune_search search_of(struct device *device, int count, double budget)
{
    return (struct tune_search){.count = count,
                                .budget = budget,
                                .deadline = 10,
                                .measure = measure,
                                .clock = now,
                                .stop = stop,
                                .user = device};
}

/* A model that is right in the large and off by as much as `error` in the small: candidates are sorted by it. */
static struct device made_up(int count, double error, uint64_t seed)
{
    struct device device = {.noise = 0.01, .first_seconds = 1, .run_seconds = 0.02, .random = {.state = seed}};
    struct random random = {.state = seed + 77};
    for (int i = 0; i < count; i++) {
        float normal;
        random_normal(&random, error, &normal, 1);
        device.ms[i] = (1 + 0.02 * i) * exp((double)normal);
    }
    device.ms[0] *= 1.3;
    return device;
}

static int fastest(const struct device *device, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (device->state[i] == CLATTN_TUNING_OK && device->ms[i] < device->ms[best])
            best = i;
    return best;
}

static void the_optimum_is_found_within_the_budget(void **state)
{
    (void)state;
    enum { COUNT = 48 };
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct device device = made_up(COUNT, 0.05, seed);
        struct tune_search search = search_of(&device, COUNT, 120);
        tune_search_run(&search);
        assert_true(search.complete);
        assert_true(device.clock <= 120 * 1.1);
        assert_true(search.best >= 0);
        const double best = device.ms[fastest(&device, COUNT)];
        if (device.ms[search.best] > 1.02 * best)
            fail_msg("seed %d: found %g, the optimum is %g", (int)seed, device.ms[search.best], best);
    }
}

/* With a model that says much, far fewer are measured than there are. */
static void a_good_model_saves_measurements(void **state)
{
    (void)state;
    enum { COUNT = 64 };
    struct device device = made_up(COUNT, 0.01, 3);
    struct tune_search search = search_of(&device, COUNT, 1e6);
    tune_search_run(&search);
    int tried = 0;
    for (int i = 0; i < COUNT; i++)
        tried += device.measured[i] > 0;
    assert_true(tried < 32);
    assert_true(device.ms[search.best] <= 1.02 * device.ms[fastest(&device, COUNT)]);
}

static void the_budget_holds_however_small(void **state)
{
    (void)state;
    enum { COUNT = 48 };
    int long_enough = 0, better = 0;
    for (int tenths = 1; tenths <= 600; tenths += 7) {
        struct device device = made_up(COUNT, 0.2, (uint64_t)tenths);
        device.state[5] = device.state[9] = CLATTN_TUNING_TIMEOUT;
        struct tune_search search = search_of(&device, COUNT, tenths / 10.0);
        tune_search_run(&search);
        assert_true(device.clock <= tenths / 10.0 * 1.1);
        if (tenths > 20)
            assert_true(search.best >= 0 && search.best_ms > 0 && search.base_ms > 0);
        assert_true(search.best <= 0 || device.ms[search.best] < device.ms[0]);
        long_enough += tenths > 300;
        better += tenths > 300 && search.best > 0;
    }
    /* Two candidates that hang leave time enough to find one that is better than a choice that is 30 % off, if not the
     * best. */
    assert_true(long_enough > 40 && better >= 0.95 * long_enough);
}

static void what_is_not_right_never_wins(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct device device = made_up(COUNT, 0.05, 11);
    static const enum clattn_tuning_state bad[] = {CLATTN_TUNING_WRONG, CLATTN_TUNING_INFEASIBLE,
                                                   CLATTN_TUNING_TIMEOUT};
    for (int i = 1; i < COUNT; i += 2) {
        device.state[i] = bad[i / 2 % 3];
        device.ms[i] = 0.01;
    }
    struct tune_search search = search_of(&device, COUNT, 300);
    tune_search_run(&search);
    assert_int_equal(search.items[1].state, CLATTN_TUNING_WRONG);
    assert_int_equal(search.items[5].state, CLATTN_TUNING_TIMEOUT);
    assert_int_equal(device.state[search.best], CLATTN_TUNING_OK);
    assert_true(device.ms[search.best] <= 1.02 * device.ms[fastest(&device, COUNT)]);

    for (int i = 0; i < COUNT; i++)
        device.state[i] = CLATTN_TUNING_WRONG;
    memset(device.measured, 0, sizeof device.measured);
    search = search_of(&device, COUNT, 300);
    tune_search_run(&search);
    assert_int_equal(search.best, -1);

    device.state[7] = CLATTN_TUNING_OK; /* the untuned choice does not work: any that does is better */
    memset(device.measured, 0, sizeof device.measured);
    search = search_of(&device, COUNT, 300);
    tune_search_run(&search);
    assert_int_equal(search.best, 7);
    assert_true(search.base_ms == 0 && search.best_ms > 0);
}

/* Where all are the same, or nearly, the untuned choice stays, whatever the noise and however the clock drifts. */
static void noise_does_not_win(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    int kept = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct device device = made_up(COUNT, 0, seed);
        device.noise = 0.03;
        device.drift = 0.002;
        for (int i = 0; i < COUNT; i++)
            device.ms[i] = 1;
        struct tune_search search = search_of(&device, COUNT, 300);
        tune_search_run(&search);
        kept += search.best == 0;
    }
    assert_true(kept >= 36);
}

/* All are the same, each run is off by a third, and there is time for a few of each: nothing has been shown to be
 * better.
 */
static void luck_does_not_win(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    int kept = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct device device = made_up(COUNT, 0, seed);
        device.noise = 0.33;
        for (int i = 0; i < COUNT; i++)
            device.ms[i] = 1;
        struct tune_search search = search_of(&device, COUNT, 8 + (double)seed / 4);
        tune_search_run(&search);
        assert_false(search.complete);
        kept += search.best == 0;
    }
    assert_true(kept >= 39);
}

/* Other work takes half of the machine, now and then. */
static void other_work_does_not_win(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct device device = made_up(COUNT, 0.05, seed);
        device.busy_seconds = 0.7 + 0.2 * (double)seed;
        struct tune_search search = search_of(&device, COUNT, 200);
        tune_search_run(&search);
        const double best = device.ms[fastest(&device, COUNT)];
        if (device.ms[search.best] > 1.03 * best)
            fail_msg("seed %d: found %g, the optimum is %g", (int)seed, device.ms[search.best], best);
        assert_true(fabs(search.best_ms / search.base_ms - device.ms[search.best] / device.ms[0]) < 0.05);
    }
}

/* The clock of the device falls by a third while the list is gone through: by then measured ones must not win for it.
 */
static void drift_does_not_win(void **state)
{
    (void)state;
    enum { COUNT = 24 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct device device = made_up(COUNT, 0.05, seed);
        device.drift = 0.01;
        struct tune_search search = search_of(&device, COUNT, 200);
        tune_search_run(&search);
        assert_true(device.ms[search.best] <= 1.06 * device.ms[fastest(&device, COUNT)]);
    }
}

static void an_interrupt_keeps_what_was_found(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    for (int second = 1; second < 60; second += 3) {
        struct device device = made_up(COUNT, 0.1, 5);
        device.stop_at = second;
        struct tune_search search = search_of(&device, COUNT, 300);
        tune_search_run(&search);
        assert_true(device.clock < second + 2);
        if (second < 20)
            assert_false(search.complete);
        assert_true(search.best >= 0);
        assert_true(search.items[search.best].tried && device.ms[search.best] <= device.ms[0]);
    }
}

static void what_is_known_is_not_measured_first(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct device device = made_up(COUNT, 0.05, 8);
    struct tune_search search = search_of(&device, COUNT, 200);
    device.state[3] = CLATTN_TUNING_WRONG;
    for (int i = 0; i < 12; i++)
        search.items[i] = (struct tune_item){
            .tried = true, .known = true, .state = device.state[i], .ms = i == 3 ? 0 : device.ms[i], .runs = 3};
    tune_search_run(&search);
    assert_int_equal(device.measured[3], 0);
    int again = 0;
    for (int i = 0; i < 12; i++)
        again += device.measured[i] > 0;
    assert_true(again <= 9); /* those that were among the better ones */
    assert_true(device.ms[search.best] <= 1.02 * device.ms[fastest(&device, COUNT)]);
}

static struct clattn_plan_info made_candidate(int b_r)
{
    struct clattn_plan_info info = {.b_r = b_r, .b_c = 64, .work_group_size = 1};
    strcpy(info.skeleton, "forward_cpu");
    snprintf(info.knobs, sizeof info.knobs, "micro=%d", b_r % 3);
    return info;
}

/* What won in a class comes right after the planner's choice in the next one that is alike, and in no other. */
static void what_won_before_is_tried_first(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    static const double scores[COUNT] = {1, 0.98, 1.2, 0.9, 0.95, 0.99};
    static struct tune_prior prior;
    struct clattn_plan_info candidates[COUNT], ordered[COUNT];
    const struct tune_problem first = {.dtype = CLATTN_FP16, .d = 64, .d_v = 64, .n_q = 1024, .n_kv = 1024};
    struct tune_problem next = {.dtype = CLATTN_BF16, .d = 64, .d_v = 64, .causal = true, .n_q = 4096, .n_kv = 4096};
    struct tune_search search = {.count = COUNT, .base_ms = 3, .best = 3};
    for (int i = 0; i < COUNT; i++) {
        candidates[i] = made_candidate(16 * (i + 1));
        search.items[i] = (struct tune_item){.tried = true, .score = scores[i]};
    }
    search.items[4].state = CLATTN_TUNING_WRONG;
    tune_prior_learn(&prior, &first, &search, candidates);
    memcpy(ordered, candidates, sizeof ordered);
    tune_prior_order(&prior, &next, ordered, COUNT);
    static const int wanted[COUNT] = {0, 3, 1, 5, 2, 4};
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(ordered[i].b_r, candidates[wanted[i]].b_r);
    const struct tune_candidate third = tune_candidate_of(&candidates[2]);
    tune_prior_note(&prior, &next, &third); /* the latest comes first, however often it is noted */
    tune_prior_note(&prior, &first, &third);
    memcpy(ordered, candidates, sizeof ordered);
    tune_prior_order(&prior, &next, ordered, COUNT);
    assert_true(ordered[0].b_r == 16 && ordered[1].b_r == candidates[2].b_r && ordered[2].b_r == candidates[3].b_r);
    next.dtype = CLATTN_FP32;
    memcpy(ordered, candidates, sizeof ordered);
    tune_prior_order(&prior, &next, ordered, COUNT);
    assert_memory_equal(ordered, candidates, sizeof ordered);
    for (int i = 0; i < 3 * TUNE_LIKED; i++) { /* only so many are remembered, and the last is */
        const struct clattn_plan_info info = made_candidate(1000 + i);
        const struct tune_candidate one = tune_candidate_of(&info);
        tune_prior_note(&prior, &first, &one);
    }
    assert_int_equal(prior.count, TUNE_LIKED);
    assert_int_equal(prior.items[0].candidate.b_r, 1000 + 3 * TUNE_LIKED - 1);
}

/* What a file says was best on the device, and no more of it. */
static void what_a_file_says_is_recalled(void **state)
{
    (void)state;
    static struct tune_prior prior;
    static const struct {
        const char *device;
        int b_r;
        bool best;
    } rows[] = {{"P / D", 16, false}, {"P / D", 32, true}, {"P / E", 48, true}};
    struct clattn_plan_info candidates[3];
    const struct tune_problem problem = {.dtype = CLATTN_FP16, .d = 64, .d_v = 64, .n_q = 4096, .n_kv = 4096};
    clattn_tuning *records = NULL;
    assert_int_equal(clattn_tuning_create(&records), CLATTN_SUCCESS);
    for (int i = 0; i < 3; i++) {
        candidates[i] = made_candidate(rows[i].b_r);
        struct clattn_tuning_record record = {.driver = "1",
                                              .kernels = "*",
                                              .dtype = CLATTN_FP16,
                                              .d = 64,
                                              .d_v = 64,
                                              .n_q_up_to = 1024,
                                              .n_kv_up_to = 1024,
                                              .skeleton = "forward_cpu",
                                              .b_r = rows[i].b_r,
                                              .b_c = 64,
                                              .work_group_size = 1,
                                              .ms = 1,
                                              .runs = 3,
                                              .best = rows[i].best};
        strcpy(record.device, rows[i].device);
        strcpy(record.knobs, candidates[i].knobs);
        assert_int_equal(clattn_tuning_add(records, &record), CLATTN_SUCCESS);
    }
    tune_prior_recall(&prior, records, "P / D");
    assert_int_equal(prior.count, 1);
    const struct clattn_plan_info wanted = candidates[1];
    candidates[1] = candidates[2];
    candidates[2] = wanted;
    tune_prior_order(&prior, &problem, candidates, 3);
    assert_int_equal(candidates[1].b_r, 32);
    clattn_tuning_destroy(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimum_is_found_within_the_budget),
        cmocka_unit_test(a_good_model_saves_measurements),
        cmocka_unit_test(the_budget_holds_however_small),
        cmocka_unit_test(what_is_not_right_never_wins),
        cmocka_unit_test(noise_does_not_win),
        cmocka_unit_test(luck_does_not_win),
        cmocka_unit_test(drift_does_not_win),
        cmocka_unit_test(other_work_does_not_win),
        cmocka_unit_test(an_interrupt_keeps_what_was_found),
        cmocka_unit_test(what_is_known_is_not_measured_first),
        cmocka_unit_test(what_won_before_is_tried_first),
        cmocka_unit_test(what_a_file_says_is_recalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
