/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rows of the built-in tuning table (src/plan/tuning/tuning_built_in.json) compute what they should: each one's
 * block sizes and knobs together, which no other test puts together, beside the float64 reference. Rows that were
 * measured on another kind of device are tried as well, where their kernel runs. */
#include "plan/tuning/tuning_db.h"
#include "support/backward.h"
#include "support/cases.h"
#include "support/turn.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

static struct test_device device;

/* Of n_q x n_kv: blocks that do not come out even, and some rows that see no key. */
static const int64_t lengths[][2] = {{113, 203}, {203, 113}, {512, 256}, {1023, 1024}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static struct forward_case case_of(const struct clattn_tuning_record *row, int n)
{
    return (struct forward_case){.problem = {.pass = row->pass,
                                             .dtype = row->dtype,
                                             .d = row->d,
                                             .d_v = row->d_v,
                                             .causal = row->causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL,
                                             .skeleton = row->skeleton,
                                             .b_r = row->b_r,
                                             .b_c = row->b_c,
                                             .work_group_size = row->work_group_size,
                                             .knobs = row->knobs[0] ? row->knobs : NULL,
                                             .unordered = n % 2},
                                 .shape = {.batch = 1, .heads = 2, .n_q = lengths[n][0], .n_kv = lengths[n][1]},
                                 .seed = case_seed() + (uint64_t)n};
}

static bool check(const struct clattn_tuning_record *row, int n)
{
    const struct forward_case item = case_of(row, n);
    return row->pass == CLATTN_FORWARD ? forward_check(&device, &item) : backward_check(&device, &item, BACKWARD_ALL);
}

/* Rows of other classes of lengths have the same kernel. */
static bool is_first(int at)
{
    const struct clattn_tuning_record *a = &cla_tuning_built_in[at];
    for (const struct clattn_tuning_record *b = cla_tuning_built_in; b < a; b++)
        if (a->pass == b->pass && a->dtype == b->dtype && a->d == b->d && a->d_v == b->d_v && a->causal == b->causal &&
            a->b_r == b->b_r && a->b_c == b->b_c && !strcmp(a->skeleton, b->skeleton) && !strcmp(a->knobs, b->knobs))
            return false;
    return true;
}

/* Whether a CPU without AMX was measured, whose row names no unit (`dot`) and whose knobs AMX's unit does not take. */
static bool is_of_another_unit(const struct clattn_tuning_record *row, const struct cla_skeleton *skeleton)
{
    return skeleton->for_cpus && row->dtype == CLATTN_BF16 && !strstr(row->knobs, "dot=") &&
           clattn_context_capabilities(device.clattn)->cpu_amx_bf16;
}

static void rows_are_right(void **state)
{
    (void)state;
    int failures = 0, taken = 0;
    for (int i = 0; i < cla_tuning_built_in_count; i++) {
        const struct clattn_tuning_record *row = &cla_tuning_built_in[i];
        struct forward_case item = case_of(row, 0);
        const struct cla_skeleton *skeleton = cla_skeleton_find(row->skeleton);
        assert_non_null(skeleton);
        if (!test_is_turn(i, 8) || !is_first(i) || !test_is_for(skeleton) || !test_serves(&device, &item.problem) ||
            is_of_another_unit(row, skeleton))
            continue;
        taken++;
        for (int n = 0; n < LENGTHS; n++)
            failures += !check(row, n);
    }
    fprintf(stderr, "%d rows\n", taken);
    assert_int_equal(failures, 0);
    if (!taken)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_right)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
