/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is planned for few rows on NVIDIA's devices, which take K and V straight from device memory. */
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <string.h>

/* Rows of a block, sub-groups that share it, and splits, as the fastest were on an H200. */
static void short_calls_have_fewer_rows(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    static const struct {
        int64_t batch, n_kv;
        int d, group, b_r, sharers, splits;
    } rows[] = {
        {1, 1024, 128, 4, 8, 4, 8},   {1, 4096, 128, 4, 8, 8, 16},  {1, 8192, 128, 4, 8, 8, 16},
        {1, 8192, 128, 8, 8, 8, 16},  {8, 1024, 128, 4, 8, 4, 4},   {4, 2048, 128, 4, 8, 8, 4},
        {8, 8192, 128, 4, 16, 4, 4},  {1, 32768, 128, 4, 8, 8, 16}, {64, 1024, 128, 4, 16, 4, 1},
        {1, 1024, 128, 16, 16, 8, 4}, {1, 4096, 64, 4, 8, 4, 16},   {1, 8192, 64, 4, 8, 8, 16},
        {2, 32768, 128, 4, 8, 8, 8},  {4, 32768, 128, 4, 8, 8, 4},  {3, 32768, 128, 4, 16, 4, 11},
        {1, 32768, 128, 8, 8, 8, 16}, {4, 2048, 64, 4, 8, 8, 4},
    };
    EACH (i, rows) {
        const struct clattn_problem problem = {.d = rows[i].d,
                                               .dtype = CLATTN_BF16,
                                               .expected_n_q = 1,
                                               .expected_n_kv = rows[i].n_kv,
                                               .expected_heads = rows[i].batch * 8 * rows[i].group,
                                               .expected_kv_heads = rows[i].batch * 8};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (!choice.config.matrix.streams || info.b_r != rows[i].b_r ||
            choice.config.matrix.sharers != rows[i].sharers || info.splits != rows[i].splits)
            fail_msg("number %d: %d rows, %d sub-groups, %d splits", (int)i, info.b_r, choice.config.matrix.sharers,
                     info.splits);
    }
}

/* Fewer splits are the planner's to choose: with those that are asked for, or none, work-groups stay as they were. */
static void splits_that_are_asked_for_keep_their_work_groups(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    static const struct {
        int splits, sharers;
        int64_t split_keys;
        enum clattn_pass pass;
    } rows[] = {{CLATTN_SPLITS_BY_SHAPE, 8, 0, CLATTN_FORWARD},
                {32, 4, 0, CLATTN_FORWARD},
                {0, 4, 1024, CLATTN_FORWARD},
                {0, 1, 0, CLATTN_ACCUMULATE}};
    EACH (i, rows) {
        const struct clattn_problem problem = {.pass = rows[i].pass,
                                               .d = 128,
                                               .dtype = CLATTN_BF16,
                                               .splits = rows[i].splits,
                                               .split_keys = rows[i].split_keys,
                                               .expected_n_q = 1,
                                               .expected_n_kv = 32768,
                                               .expected_heads = 32,
                                               .expected_kv_heads = 8};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (info.b_r != (i ? 16 : 8) || choice.config.matrix.sharers != rows[i].sharers)
            fail_msg("number %d: %d rows, %d sub-groups", (int)i, info.b_r, choice.config.matrix.sharers);
    }
}

/* What a second-level cache holds differs from device to device: the most keys of a sequence with fewer rows a block,
 * on 40 heads of K and V, which have few splits. 0.72 of the cache has room for them. */
static void short_calls_are_those_that_the_cache_holds(void **state)
{
    (void)state;
    static const struct {
        uint32_t capability, units;
        int64_t keys;
    } rows[] = {{900, 132, 1843}, {900, 66, 921}, {800, 108, 1474}, {809, 128, 2654}, {1000, 148, 4644}};
    EACH (i, rows)
        for (int more = 0; more < 2; more++) {
            const struct clattn_capabilities capabilities = test_nvidia(rows[i].capability, rows[i].units);
            const struct clattn_problem problem = {.d = 128,
                                                   .dtype = CLATTN_BF16,
                                                   .expected_n_q = 1,
                                                   .expected_n_kv = rows[i].keys + more,
                                                   .expected_heads = 160,
                                                   .expected_kv_heads = 40};
            struct cla_choice choice;
            struct clattn_plan_info info;
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            assert_string_equal(info.skeleton, "forward_matrix");
            if (info.b_r != (more ? 16 : 8))
                fail_msg("capability %u, %u units, %lld keys: %d rows", rows[i].capability, rows[i].units,
                         (long long)problem.expected_n_kv, info.b_r);
        }
}

static struct clattn_problem forced_to(int b_r, int b_c, int work_group_size)
{
    return (struct clattn_problem){.skeleton = "forward_matrix",
                                   .d = 128,
                                   .dtype = CLATTN_FP16,
                                   .b_r = b_r,
                                   .b_c = b_c,
                                   .work_group_size = work_group_size,
                                   .expected_n_q = 1,
                                   .expected_n_kv = 8192,
                                   .expected_heads = 32,
                                   .expected_kv_heads = 8};
}

/* As many sub-groups as are asked for, or an error that says how many there may be. */
static void forced_work_groups_are_kept_or_refused(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (int rows = 8; rows <= 16; rows *= 2)
        for (int items = 1; items <= 2048; items++) {
            if (rows == 16 && items < 64) /* one sub-group, which may have tiles of K and V, too */
                continue;
            struct cla_choice choice;
            struct clattn_plan_info info;
            const clattn_status status = test_plan(&capabilities, forced_to(rows, 0, items), &choice, &info);
            const bool fits = items % 32 == 0 && items <= 512;
            assert_int_equal(status, fits ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
            if (fits && (info.work_group_size != items || !choice.config.matrix.streams ||
                         choice.config.matrix.sharers != items / 32))
                fail_msg("%d rows, %d items: planned are %d, knobs %s", rows, items, info.work_group_size, info.knobs);
        }
}

static void messages_say_what_streams_take(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    static const struct {
        int b_r, b_c, work_group_size, d;
        const char *knobs, *message;
    } rows[] = {
        {8, 0, 100, 128, NULL,
         "problem.work_group_size is 100: with problem.b_r 8 sub-groups of 32 work-items share a block's keys in "
         "forward_matrix, from 1 to 16 of them with d = 128, d_v = 128 here: a multiple of 32 up to 512"},
        {16, 0, 544, 128, NULL, "problem.work_group_size is 544: with problem.b_r 16 sub-groups of 32"},
        {8, 48, 0, 128, NULL,
         "problem.b_r is 8, problem.b_c 48, problem.work_group_size 0 (0 is planned): forward_matrix has blocks of 8 "
         "rows where d is a multiple of 32 and d_v of 64, both up to 128, but they are 128 and 128, b_c is 16 or 32"},
        {8, 0, 0, 96, NULL, "both up to 128, but they are 96 and 96"},
        {16, 0, 64, 96, NULL,
         "forward_matrix has blocks of 16 rows that sub-groups share where d is a multiple of 32 and d_v of 64, both "
         "up to 128, but they are 96 and 96, b_c is 16 or 32, elements have 16 bits and there is no dropout; elsewhere "
         "work_group_size is that of one sub-group"},
        {8, 0, 128, 128, "sharers=8",
         "problem.work_group_size is 128: problem.knobs \"sharers=8\" of forward_matrix come to 256 work-items"},
        {24, 0, 0, 128, NULL, "b_r and b_c are multiples of 16 (b_r 8 for few rows)"},
    };
    EACH (i, rows) {
        struct clattn_problem problem = forced_to(rows[i].b_r, rows[i].b_c, rows[i].work_group_size);
        problem.d = rows[i].d;
        problem.knobs = rows[i].knobs;
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
        if (!strstr(test_error.text, rows[i].message))
            fail_msg("number %d: %s", (int)i, test_error.text);
    }
}

/* Keys and values in pages or in a format, which no other kernel on tensor cores reads, for any number of rows. */
static void pages_and_formats_stream_whatever_the_rows(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia_without_warp_groups(900, 132);
    static const int64_t rows[] = {1, 16, 17, 64, 65, 4096};
    EACH (i, rows)
        for (int in_format = 0; in_format < 2; in_format++) {
            const struct clattn_problem problem = {.d = 128,
                                                   .dtype = CLATTN_FP16,
                                                   .features = in_format ? 0 : CLATTN_PAGES,
                                                   .page_keys = in_format ? 0 : 16,
                                                   .k_type = in_format ? CLATTN_AS_Q8_0 : 0,
                                                   .v_type = in_format ? CLATTN_AS_Q8_0 : 0,
                                                   .expected_n_q = rows[i],
                                                   .expected_n_kv = 8192,
                                                   .expected_heads = 32};
            struct cla_choice choice;
            struct clattn_plan_info info;
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            assert_string_equal(info.skeleton, "forward_matrix");
            assert_int_equal(choice.config.matrix.streams, 1);
            assert_int_equal(info.b_r, !in_format && rows[i] <= 8 ? 8 : 16);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_calls_have_fewer_rows),
        cmocka_unit_test(splits_that_are_asked_for_keep_their_work_groups),
        cmocka_unit_test(short_calls_are_those_that_the_cache_holds),
        cmocka_unit_test(forced_work_groups_are_kept_or_refused),
        cmocka_unit_test(messages_say_what_streams_take),
        cmocka_unit_test(pages_and_formats_stream_whatever_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
