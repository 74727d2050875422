/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The cost model of matrix units: its laws. */
#include "plan/matrix_cost.h"
#include "plan/sizes.h"
#include "support/unit.h"
#include <math.h>

static const struct cla_matrix_work typical = {.products = 16,
                                               .weights = 1,
                                               .words = 64,
                                               .chunks = 2,
                                               .slabs = 0.25,
                                               .stale_slabs = 0.25,
                                               .tiles = 0.25,
                                               .late_tiles = 0.25,
                                               .slab_waits = 0.5,
                                               .chained = 2};

static void more_work_never_costs_less(void **state)
{
    (void)state;
    for (const struct cla_matrix_rates *rates = cla_matrix_rates;; rates++) {
        const int lanes = rates->family == CLA_AMD_WIDE ? 64 : 32;
        const double clocks = cla_matrix_clocks(rates, lanes, &typical, 2);
        for (size_t n = 0; n < sizeof typical / sizeof(double); n++) {
            struct cla_matrix_work more = typical;
            ((double *)&more)[n] *= 2;
            assert_true(cla_matrix_clocks(rates, lanes, &more, 2) >= clocks);
        }
        assert_true(clocks >= rates->product * typical.products);
        if (rates->family == CLA_ANY_FAMILY)
            return;
    }
}

/* Of RDNA's vector unit products take the whole; of CDNA's nothing. */
static void products_take_the_unit_that_does_them(void **state)
{
    (void)state;
    struct cla_matrix_rates rates = *cla_matrix_rates_of(CLA_AMD, 11);
    assert_true(rates.by_vector_unit && !cla_matrix_rates_of(CLA_AMD_WIDE, 9)->by_vector_unit);
    assert_true(cla_matrix_rates_of(CLA_AMD, 12)->product < rates.product);
    assert_ptr_equal(cla_matrix_rates_of(CLA_INTEL, 16), cla_matrix_rates_of(CLA_NVIDIA, 90));
    rates.overlap = 64;
    const struct cla_matrix_work without = {.products = 16}, vector = {.weights = 10},
                                 both = {.products = 16, .weights = 10};
    const double sum =
        cla_matrix_clocks(&rates, 32, &without, INFINITY) + cla_matrix_clocks(&rates, 32, &vector, INFINITY);
    assert_true(fabs(cla_matrix_clocks(&rates, 32, &both, INFINITY) / sum - 1) < 0.02);
    rates.by_vector_unit = false;
    assert_true(cla_matrix_clocks(&rates, 32, &both, INFINITY) < 0.7 * sum);
}

/* Of a sub-group that has a scheduler alone all waits show, of many none; and never is one more a loss. */
static void sub_groups_hide_each_others_waits(void **state)
{
    (void)state;
    const struct cla_matrix_rates *rates = cla_matrix_rates_of(CLA_NVIDIA, 90);
    const double busy = cla_matrix_clocks(rates, 32, &typical, INFINITY);
    const double waits =
        0.5 * rates->slab_wait + 2 * rates->chained_wait + 0.25 * (rates->tile_wait + rates->late_wait);
    double before = cla_matrix_clocks(rates, 32, &typical, 1);
    assert_true(before > rates->alone * busy + waits && before < busy + rates->alone * busy + waits);
    for (int count = 2; count < 64; count++) {
        const double clocks = cla_matrix_clocks(rates, 32, &typical, count);
        assert_true(clocks < before && clocks > busy);
        before = clocks;
    }
    assert_true(before < 1.01 * busy);
    const struct cla_matrix_rates *amd = cla_matrix_rates_of(CLA_AMD_WIDE, 9);
    const double many = cla_matrix_clocks(amd, 64, &typical, INFINITY);
    assert_true(fabs(cla_matrix_clocks(amd, 64, &typical, 2) / many - 1) < 1e-9);
    assert_true(fabs(cla_matrix_clocks(amd, 64, &typical, 1) / many - 2) < 1e-9);
}

/* Of 100 rows blocks of 64 compute 128; of causal ones each sees half of the keys, and a block half of its own size
 * more. */
static void pairs_that_nobody_wants_are_counted(void **state)
{
    (void)state;
    struct clattn_problem problem = {.expected_n_q = 100, .expected_n_kv = 100};
    assert_true(fabs(cla_matrix_excess(&problem, 64, 32) - 1.28) < 1e-9);
    problem.expected_n_q = problem.expected_n_kv = 1024;
    assert_true(fabs(cla_matrix_excess(&problem, 64, 64) - 1) < 1e-9);
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    assert_true(fabs(cla_matrix_excess(&problem, 64, 64) - 1.125) < 1e-9);
    problem.expected_n_q = problem.expected_n_kv = 0;
    assert_true(fabs(cla_matrix_excess(&problem, 64, 64) - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_work_never_costs_less),
        cmocka_unit_test(products_take_the_unit_that_does_them),
        cmocka_unit_test(sub_groups_hide_each_others_waits),
        cmocka_unit_test(pairs_that_nobody_wants_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
