/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where the sums of dQ lie in the workspace, for shapes up to the largest numbers, against the same count in 128 bits.
 */
#include "attention/sums.h"
#include "plan/kernel_params.h"
#include "support/unit.h"

__extension__ typedef unsigned __int128 wide;

enum { LINE_WORDS = 32 };

static wide up(wide words)
{
    return (words + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
}

static wide blocks(int64_t length, int size)
{
    return ((wide)length + (wide)size - 1) / (wide)size;
}

/* The words up to the end; 0: too many. */
static wide expected_end(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t first)
{
    /* Products of three sizes of 63 bits do not fit 128. */
    const wide limit = (wide)1 << 63, heads = (wide)shape->batch * (wide)shape->heads,
               kv_heads = (wide)shape->batch * (wide)shape->kv_heads;
    if (heads >= limit || kv_heads >= limit)
        return 0;
    const wide rows = heads * blocks(shape->n_q, plan->info.b_r), keys = kv_heads * blocks(shape->n_kv, plan->info.b_c);
    if (rows >= limit || keys > INT32_MAX - INT16_MAX || rows * (wide)plan->chains > INT32_MAX)
        return 0;
    const wide all = rows * (wide)plan->chains;
    wide end = up(((wide)first + 3) / 4);
    end += up(1) + up(all) + up(keys) + up((wide)4 * CLA_MAP_WORDS * plan->most_groups);
    end += plan->orders_blocks ? up(2 * keys) : 0;
    end += up(all * (wide)plan->sum_floats);
    return end < limit / 4 ? end : 0;
}

static void check(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t first)
{
    struct cla_sums sums;
    struct cla_error error = {0};
    const wide end = expected_end(plan, shape, first);
    const clattn_status status = cla_sums_locate(plan, shape, first, &sums, &error);
    assert_int_equal(status, end ? CLATTN_SUCCESS : CLATTN_TOO_LARGE);
    if (status)
        return;
    assert_true(sums.end_byte == end * 4);
    assert_true(sums.tickets < sums.counters && sums.counters <= sums.flags && sums.flags <= sums.maps);
    assert_true(sums.maps <= sums.order && sums.order <= sums.sums && sums.tickets >= (int64_t)(first / 4));
    assert_true(sums.tickets % LINE_WORDS == 0 && sums.sums % LINE_WORDS == 0);
    assert_true(sums.cleared.first == sums.tickets);
    const int64_t cleared_end = sums.cleared.first + sums.cleared.count;
    assert_true(cleared_end == (plan->clears_sums ? (int64_t)(sums.end_byte / 4) : sums.maps));
}

/* Every combination of small and large sizes. */
static void places_are_counted_without_overflow(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 257, 65536, INT32_MAX, INT64_C(1) << 40, INT64_C(1) << 62, INT64_MAX};
    static const size_t firsts[] = {0, 4, 1000, (size_t)1 << 40, INT64_MAX - 200};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    long good = 0;
    for (int variant = 0; variant < 4; variant++) {
        struct clattn_plan plan = {.info = {.b_r = 64, .b_c = variant & 1 ? 128 : 1},
                                   .sum_floats = variant & 2 ? INT64_C(1) << 40 : 64 * 64,
                                   .chains = variant & 1 ? 2 : 1,
                                   .most_groups = variant & 2 ? 132 : 0,
                                   .clears_sums = variant & 1,
                                   .orders_blocks = variant & 2};
        for (int i = 0; i < SIZES * SIZES * SIZES * SIZES; i++) {
            const struct clattn_shape shape = {.batch = sizes[i % SIZES],
                                               .heads = sizes[i / SIZES % SIZES],
                                               .kv_heads = sizes[i / SIZES % SIZES],
                                               .n_q = sizes[i / SIZES / SIZES % SIZES],
                                               .n_kv = sizes[i / SIZES / SIZES / SIZES]};
            EACH (j, firsts)
                check(&plan, &shape, firsts[j]);
            good += expected_end(&plan, &shape, 0) != 0;
        }
    }
    assert_true(good > 1000);
}

static void a_plan_without_sums_takes_no_room(void **state)
{
    (void)state;
    const struct clattn_plan plan = {.info = {.b_r = 64, .b_c = 64}};
    const struct clattn_shape shape = {.batch = INT64_MAX, .heads = INT64_MAX, .n_q = 1, .n_kv = 1};
    struct cla_sums sums;
    struct cla_error error = {0};
    assert_int_equal(cla_sums_locate(&plan, &shape, 40, &sums, &error), CLATTN_SUCCESS);
    assert_int_equal(sums.end_byte, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_are_counted_without_overflow),
                                       cmocka_unit_test(a_plan_without_sums_takes_no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
