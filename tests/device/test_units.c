/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The skeletons over fragments that are not NVIDIA's: emulated units whose lanes have one column of an accumulator, in
 * sub-groups of 32 and of 64; Intel's, of 8 and of 16, whose products are executed by the hardware's lane maps; and any
 * other row of EMULATION (src/plan/matrix_units.c). Modifications of the scores alone, in both directions, against the
 * float64 reference (none, and all at once, which PoCL compiles for a minute, wait for CLATTN_TEST_FULL, as do two that
 * take it nearly as long by themselves). The arguments are the emulation's name and lanes. */
#include "plan/matrix_units.h"
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;
static struct random chance;
static const struct cla_matrix_unit *unit;
static char forward_knobs[64], backward_knobs[128];

enum { MOST_WORK = 1 << 16, EVERYTHING = (1 << CASE_FEATURES) - 1, PIECE = 16, QUARTERS = 4, SKIPPED = 77 };

/* Of the types that the emulation takes, this one. */
static enum clattn_dtype type_of(int number)
{
    static const enum clattn_dtype dtypes[] = {CLATTN_FP16, CLATTN_BF16, CLATTN_FP32};
    enum clattn_dtype taken[3];
    int count = 0;
    EACH (i, dtypes)
        if (unit->takes(NULL, dtypes[i]))
            taken[count++] = dtypes[i];
    return taken[number % count];
}

/* Programs take seconds, so that each runs two shapes; head dimensions of one piece and two. */
static struct forward_case small_case(unsigned features, int number)
{
    struct forward_case forward = case_random(&chance, features, MOST_WORK);
    forward.problem.d = forward.problem.d_v = number % 3 ? PIECE : 2 * PIECE - 5;
    forward.problem.dtype = type_of(number);
    forward.problem.b_r = number % 2 ? PIECE : 2 * PIECE;
    forward.problem.b_c = number % 2 ? 2 * PIECE : PIECE;
    case_vary(&chance, MOST_WORK, &forward);
    return forward;
}

static bool check_forward(struct forward_case forward)
{
    bool right = true;
    forward.problem.skeleton = "forward_matrix_emulated";
    forward.problem.knobs = forward_knobs;
    for (int n = 0; n < 2; n++) {
        right = forward_check(&device, &forward) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

static bool check_backward(struct forward_case forward)
{
    bool right = true;
    forward.problem.skeleton = "backward_matrix_emulated";
    forward.problem.knobs = backward_knobs;
    for (int n = 0; n < 2; n++) {
        right = backward_check(&device, &forward, BACKWARD_ALL) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

/* Of the features alone every fourth one, from `first` on: each emulation takes a quarter of them in either direction,
 * and all with CLATTN_TEST_FULL. One of them is dear: it takes PoCL 41 s to compile where others take 2 to 6. */
static int failures_of(bool (*check)(struct forward_case forward), int first, unsigned dear)
{
    int failures = test_is_full() ? !check(small_case(0, 1)) + !check(small_case(EVERYTHING, 2)) : 0;
    for (int n = 0; n < CASE_FEATURES; n++)
        if (test_is_full() || (n % QUARTERS == first && 1u << n != dear))
            failures += !check(small_case(1u << n, n / 2));
    return failures;
}

/* Which quarter is this emulation's, counted from `first`: a feature meets one forward, and another backward. Each row
 * of the table has the quarter before that of the row above. */
static int quarter(int first)
{
    int quarters = first;
    for (const struct cla_matrix_unit *row = cla_matrix_units + CLA_EMULATED; row != unit; row++)
        quarters += row->devices ? 0 : QUARTERS - 1;
    return quarters % QUARTERS;
}

static void every_feature_forward(void **state)
{
    (void)state;
    assert_int_equal(failures_of(check_forward, quarter(0), CLATTN_SOFTCAP), 0);
}

static void every_feature_backward(void **state)
{
    (void)state;
    assert_int_equal(failures_of(check_backward, quarter(1), CLATTN_BLOCK_MASK), 0);
}

/* A number of lanes that no emulation has, a number that none of those with so many has, rows that one sub-group does
 * not hold, and a type that it does not take. Messages say what there is. */
static void other_lanes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *knobs, *says;
        int b_r, work_group_size;
        enum clattn_dtype dtype;
    } rows[] = {{"lanes=63", "lanes=8 (emulated_dpas)", 16, 0, CLATTN_FP16},
                {"lanes=1 emulation=2", "lanes=1 (emulated)", 16, 0, CLATTN_FP16},
                {"lanes=64 emulation=1", "b_r is up to 64", 128, 0, CLATTN_FP16},
                {"lanes=64 emulation=1", "work_group_size is 1", 16, 1, CLATTN_FP16},
                {"lanes=64 emulation=1", "dtype is fp32", 16, 0, CLATTN_FP32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct clattn_problem problem = {.d = 16,
                                         .dtype = rows[i].dtype,
                                         .skeleton = "forward_matrix_emulated",
                                         .knobs = rows[i].knobs,
                                         .b_r = rows[i].b_r,
                                         .b_c = 16,
                                         .work_group_size = rows[i].work_group_size};
        clattn_plan *plan = NULL;
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_NOTHING_FITS);
        assert_non_null(strstr(clattn_error_message(), rows[i].knobs));
        assert_non_null(strstr(clattn_error_message(), rows[i].says));
    }
}

static const struct cla_matrix_unit *named(const char *name, int lanes)
{
    const struct cla_matrix_unit *row = cla_matrix_units;
    while (row->name && (row->devices || row->lanes != lanes || strcmp(row->name, name) != 0))
        row++;
    if (!row->name)
        fprintf(stderr, "%s, %d lanes: src/plan/matrix_units.c has no such emulation\n", name, lanes);
    return row->name ? row : NULL;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_forward),
        cmocka_unit_test(every_feature_backward),
        cmocka_unit_test(other_lanes_are_refused),
    };
    unit = named(count > 1 ? arguments[1] : "emulated_column", count > 2 ? atoi(arguments[2]) : 64);
    if (!unit)
        return EXIT_FAILURE;
    const int number = cla_matrix_emulation_number(unit);
    snprintf(forward_knobs, sizeof forward_knobs, "lanes=%d emulation=%d stale_max=0 keys=16", unit->lanes, number);
    snprintf(backward_knobs, sizeof backward_knobs,
             "lanes=%d emulation=%d dq_moving=16 dq_slice=16 dk_dv_moving=16 dk_dv_slice=16 dk_dv_split=1", unit->lanes,
             number);
    test_device_open(&device);
    if (!test_is_for(&cla_forward_matrix_emulated)) {
        fprintf(stderr, "skipped: emulations are not for this device\n");
        test_device_close(&device);
        return SKIPPED;
    }
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
