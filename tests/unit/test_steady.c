/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which repetitions other work disturbed, and how often a row is then measured again, by a clock that is made up. */
#include "bench/steady.h"
#include "statistics.h"
#include "support/unit.h"
#include <math.h>
#include <string.h>

enum { REPETITIONS = 9 };

/* A machine on which a call takes 1 ms, and `slowed` times as long while other work runs: from `begin` to `end`, of
 * each `period` that long. */
struct machine {
    double now, begin, end, slowed;
    double period;       /* 0: once */
    int calls, fails_at; /* 0: never */
    double times[REPETITIONS], kept_median;
    int kept_round, rounds;
};

static double call(struct machine *machine)
{
    const double now = machine->period > 0.0 ? fmod(machine->now, machine->period) : machine->now;
    const bool busy = now >= machine->begin && now < machine->end;
    const double ms = busy ? machine->slowed : 1.0;
    machine->now += ms;
    return ms * (1.0 + 0.01 * (machine->calls++ % 3 - 1)); /* as far as clocks and caches go */
}

static int take(void *context, double *disagreement)
{
    struct machine *machine = context;
    for (int i = 0; i < REPETITIONS; i++)
        machine->times[i] = call(machine);
    *disagreement = steady_disagreement(machine->times, REPETITIONS);
    return ++machine->rounds == machine->fails_at ? 7 : 0;
}

static void keep(void *context)
{
    struct machine *machine = context;
    double sorted[REPETITIONS];
    memcpy(sorted, machine->times, sizeof sorted);
    machine->kept_median = statistics_of(sorted, REPETITIONS).median;
    machine->kept_round = machine->rounds;
}

static int measure(struct machine *machine, int again)
{
    int taken;
    const int status = steady_measure(&(struct steady_rounds){take, keep, machine}, again, &taken);
    assert_int_equal(taken, machine->rounds);
    return status;
}

static void a_calm_machine_is_measured_once(void **state)
{
    (void)state;
    struct machine machine = {.slowed = 1.0};
    assert_int_equal(measure(&machine, 2), 0);
    assert_int_equal(machine.rounds, 1);
    assert_float_equal(machine.kept_median, 1.0, 1e-9);
}

/* Four of nine repetitions: the median itself is right, and nothing says so. */
static void work_that_ends_is_waited_for(void **state)
{
    (void)state;
    struct machine machine = {.end = 6.0, .slowed = 1.5};
    assert_int_equal(measure(&machine, 2), 0);
    assert_int_equal(machine.rounds, 2);
    assert_int_equal(machine.kept_round, 2);
    assert_float_equal(machine.kept_median, 1.0, 1e-9);
}

static void a_call_in_the_way_does_not_count(void **state)
{
    (void)state;
    struct machine machine = {.begin = 4.0, .end = 4.5, .slowed = 9.0}; /* one repetition of nine */
    assert_int_equal(measure(&machine, 2), 0);
    assert_int_equal(machine.rounds, 1);
}

/* Work that comes and goes, and never ends. */
static void rounds_have_a_bound(void **state)
{
    (void)state;
    for (int again = 0; again < 4; again++) {
        struct machine machine = {.end = 10.0, .period = 14.0, .slowed = 2.0}; /* five calls, and four */
        assert_int_equal(measure(&machine, again), 0);
        assert_int_equal(machine.rounds, again + 1);
        assert_true(steady_is_disturbed(steady_disagreement(machine.times, REPETITIONS)));
    }
}

struct script {
    const double *disagreements;
    int rounds, kept;
};

static int take_next(void *context, double *disagreement)
{
    struct script *script = context;
    *disagreement = script->disagreements[script->rounds++];
    return 0;
}

static void keep_it(void *context)
{
    struct script *script = context;
    script->kept = script->rounds;
}

static void the_calmest_round_is_kept(void **state)
{
    (void)state;
    static const double all[][3] = {{0.3, 0.1, 0.2}, {0.1, 0.3, 0.2}, {0.3, 0.2, 0.1}, {0.3, 0.04, 0.0}};
    static const int kept[] = {2, 1, 3, 2}, rounds[] = {3, 3, 3, 2};
    EACH (i, all) {
        struct script script = {.disagreements = all[i]};
        int taken;
        assert_int_equal(steady_measure(&(struct steady_rounds){take_next, keep_it, &script}, 2, &taken), 0);
        assert_int_equal(script.kept, kept[i]);
        assert_int_equal(taken, rounds[i]);
    }
}

static void too_few_say_nothing(void **state)
{
    (void)state;
    const double times[] = {1.0, 9.0, 1.0, 1.0};
    assert_float_equal(steady_disagreement(times, 0), -1.0, 0.0);
    assert_float_equal(steady_disagreement(times, 2), -1.0, 0.0);
    assert_false(steady_is_disturbed(-1.0));
    assert_float_equal(steady_disagreement(times, 3), 0.0, 0.0);
}

/* By hand: halves 1.5 and 3.5, 1.5 and 4, and 2 and 2, whose distances are 1 1 0 1 1 0. */
static void disagreement_is_of_the_median(void **state)
{
    (void)state;
    const double apart[] = {1.0, 2.0, 2.0, 3.0, 4.0}, halves[] = {1.0, 2.0, 2.0, 4.0, 4.0};
    assert_float_equal(steady_disagreement(apart, 5), (3.5 - 1.5) / 2.0, 1e-12);
    assert_float_equal(steady_disagreement(halves, 5), (4.0 - 1.5) / 2.0, 1e-12);
    const double by_turns[] = {1.0, 3.0, 2.0, 1.0, 3.0, 2.0};
    assert_float_equal(steady_disagreement(by_turns, 6), 0.5, 1e-12);
}

static void what_fails_ends_it(void **state)
{
    (void)state;
    struct machine machine = {.end = 6.0, .slowed = 1.5, .fails_at = 1};
    assert_int_equal(measure(&machine, 2), 7);
    assert_int_equal(machine.rounds, 1);
    assert_int_equal(machine.kept_round, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_machine_is_measured_once),  cmocka_unit_test(work_that_ends_is_waited_for),
        cmocka_unit_test(a_call_in_the_way_does_not_count), cmocka_unit_test(rounds_have_a_bound),
        cmocka_unit_test(the_calmest_round_is_kept),        cmocka_unit_test(too_few_say_nothing),
        cmocka_unit_test(disagreement_is_of_the_median),    cmocka_unit_test(what_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
