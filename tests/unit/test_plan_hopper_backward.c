/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Planning of backward_hopper: its one tile, the places beside it, and what it leaves to others. */
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

/* K and V once, Q and dO twice, dS twice, summands; rows of d and d_v in panels of 128 bytes, 64 rows or 128 keys.
 * Up to 64 columns 96 rows; beyond 128 columns 48, if so dK and dV of 64 keys fit a consumer's registers. */
static void it_has_one_tile(void **state)
{
    (void)state;
    static const struct {
        int d, d_v;
        int keys; /* 128; 64, which the consumers share */
        int panels, v_panels;
        int parts, part; /* of dQ's tile, and floats of one; */
        int sums;        /* places of them: two, where there are two passes and room */
        int tile_rows, d_o_places;
    } rows[] = {{64, 64, 128, 1, 1, 1, 64 * 96, 1, 96, 2},   {128, 128, 128, 2, 2, 2, 64 * 64, 1, 64, 2},
                {40, 128, 128, 1, 2, 2, 64 * 32, 1, 64, 2},  {96, 16, 128, 2, 1, 2, 64 * 64, 1, 64, 2},
                {256, 256, 64, 4, 4, 4, 64 * 64, 1, 64, 1},  {136, 40, 128, 3, 1, 3, 64 * 48, 1, 48, 2},
                {64, 160, 128, 1, 3, 1, 64 * 48, 1, 48, 2},  {192, 192, 64, 3, 3, 4, 64 * 64, 2, 64, 1},
                {192, 128, 128, 3, 2, 3, 64 * 48, 1, 48, 2}, {160, 160, 128, 3, 3, 3, 64 * 48, 1, 48, 1},
                {224, 64, 64, 4, 1, 4, 64 * 64, 2, 64, 1}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows)
        for (int unordered = 0; unordered <= 1; unordered++) {
            struct cla_choice choice;
            struct clattn_plan_info info;
            char define[64], knobs[128];
            const struct clattn_problem problem = {.pass = CLATTN_BACKWARD,
                                                   .dtype = CLATTN_BF16,
                                                   .d = rows[i].d,
                                                   .d_v = rows[i].d_v,
                                                   .unordered = unordered};
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            assert_string_equal(info.skeleton, "backward_hopper");
            assert_int_equal(info.b_r, 64);
            assert_int_equal(info.b_c, rows[i].keys);
            const bool shared = rows[i].keys == 64;
            const int across = rows[i].panels + rows[i].v_panels, tile_rows = rows[i].tile_rows,
                      places = across == 2 ? 2 : 1; /* of K and V */
            snprintf(knobs, sizeof knobs,
                     "dq_sums=1 kv_stages=%d late_d_v=%d shares=0 stages=2 sum_stages=%d tile_rows=%d", places,
                     tile_rows == 96, rows[i].sums, tile_rows);
            assert_string_equal(info.knobs, knobs);
            const int passing = (2 * rows[i].panels + rows[i].d_o_places * rows[i].v_panels) * tile_rows,
                      ds = 2 * (tile_rows == 64 ? rows[i].keys : 2 * tile_rows);
            const int all_sums = tile_rows == 64 ? rows[i].sums * 2 * rows[i].part : rows[i].parts * rows[i].part;
            const int tiles =
                (places * across * rows[i].keys + passing + ds) * 128 + 4 * all_sums + (shared ? 4 * 64 * 64 : 0);
            const int notes = (8 + 2) * 16, statistics = 2 * tile_rows * (shared ? 8 : 16);
            const int barriers = 2 * 16 + places * 3 * 8 + 2 * 16 + rows[i].d_o_places * 16 + 2 * 16 +
                                 rows[i].sums * 3 * 8 + (shared ? 16 : 0);
            const int block = unordered ? 0 : 8 * rows[i].sums; /* that summands are of */
            assert_int_equal(info.local_bytes, tiles + notes + block + barriers + statistics);
            assert_int_equal(test_sum_bytes(&choice, problem, false), 4 * rows[i].parts * rows[i].part);
            snprintf(define, sizeof define, "CLATTN_UNORDERED=%d ", unordered);
            assert_non_null(strstr(info.constants, define));
            assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV).work_group_size, 384);
            assert_true(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV).retargeted);
            assert_false(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DQ).retargeted);
        }
}

/* Consumers who pass over tiles hold two places of Q and dO, so that a third is taken where there is room. */
static void it_has_a_third_stage_where_tiles_are_skipped(void **state)
{
    (void)state;
    static const struct {
        int d, block, unordered;
        unsigned features;
        const char *knobs;
        bool passes, orders;
    } rows[] = {
        {64, 64, 1, 0, "dq_sums=1 kv_stages=2 late_d_v=0 shares=0 stages=3 sum_stages=1 tile_rows=64", true, true},
        {128, 64, 1, 0, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=3 sum_stages=1 tile_rows=64", true, true},
        {128, 64, 1, CLATTN_DROPOUT, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64",
         true, true},
        {128, 96, 1, 0, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=3 sum_stages=1 tile_rows=64", true, true},
        {64, 128, 1, 0, "dq_sums=1 kv_stages=2 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true},
        {64, 256, 1, 0, "dq_sums=1 kv_stages=2 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true},
        {64, 128, 0, 0, "dq_sums=2 kv_stages=2 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true},
        {128, 128, 0, 0, "dq_sums=2 kv_stages=1 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true},
        {128, 64, 0, 0, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=3 sum_stages=1 tile_rows=64", true, false},
        {64, 64, 0, 0, "dq_sums=2 kv_stages=2 late_d_v=0 shares=0 stages=3 sum_stages=1 tile_rows=64", true, false},
        {256, 64, 0, 0, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true},
        {256, 64, 1, 0, "dq_sums=1 kv_stages=1 late_d_v=0 shares=0 stages=2 sum_stages=1 tile_rows=64", false, true}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        struct clattn_problem problem = {.pass = CLATTN_BACKWARD,
                                         .dtype = CLATTN_FP16,
                                         .d = rows[i].d,
                                         .features = CLATTN_BLOCK_MASK | rows[i].features,
                                         .block_q = rows[i].block,
                                         .block_kv = rows[i].block,
                                         .unordered = rows[i].unordered};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "backward_hopper");
        assert_string_equal(info.knobs, rows[i].knobs);
        bool says = false, is_cut = true, says_sums = false, says_order = false;
        for (int step = 0; step < info.step_count; step++) {
            says = says || strstr(info.steps[step].reason, "skip tiles");
            says_sums = says_sums || strstr(info.steps[step].reason, "2 sums, each for its share of the blocks");
            says_order = says_order || strstr(info.steps[step].reason,
                                              rows[i].unordered ? "the longest come first" : "the shortest come first");
            is_cut = is_cut && !strstr(info.steps[step].reason, "one to a compute unit");
        }
        assert_int_equal(says, rows[i].passes);
        assert_false(is_cut);
        assert_int_equal(says_sums, strstr(rows[i].knobs, "dq_sums=2") != NULL);
        assert_int_equal(says_order, rows[i].orders);
        assert_int_equal(strstr(info.constants, "CLATTN_ORDERS_BLOCKS=1") != NULL, rows[i].orders);
        problem.expected_density =
            0.99f; /* blocks make no tile smaller, whatever is hidden; few then wait for others */
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "backward_hopper");
        assert_int_equal(choice.config.backward_hopper.dq_sums, 1);
        assert_string_equal(info.knobs + strlen("dq_sums=1"), rows[i].knobs + strlen("dq_sums=1"));
    }
}

static void it_leaves_others_to_others(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct clattn_capabilities without = capabilities;
    struct cla_choice choice;
    struct clattn_plan_info info;
    static const struct {
        struct clattn_problem problem;
        const char *says;
    } rows[] = {
        {{.dtype = CLATTN_FP16, .d = 264, .pass = CLATTN_BACKWARD}, "problem.d is 264"},
        {{.dtype = CLATTN_FP16, .d = 64, .pass = CLATTN_BACKWARD_ACCUMULATE}, "CLATTN_BACKWARD_ACCUMULATE"},
        {{.dtype = CLATTN_FP16, .d = 64, .b_r = 128, .pass = CLATTN_BACKWARD}, "problem.b_r 128"},
        {{.dtype = CLATTN_FP16, .d = 128, .knobs = "stages=4", .pass = CLATTN_BACKWARD}, "\"stages=4\""},
        {{.dtype = CLATTN_FP16, .d = 64, .knobs = "dq_sums=2", .unordered = 1, .pass = CLATTN_BACKWARD},
         "dq_sums is 2"},
        {{.dtype = CLATTN_FP16, .d = 64, .knobs = "tile_rows=40", .pass = CLATTN_BACKWARD}, "tile_rows is 40"},
        {{.dtype = CLATTN_FP16, .d = 256, .knobs = "tile_rows=48", .pass = CLATTN_BACKWARD}, "tile_rows is 48"},
        {{.dtype = CLATTN_FP16, .d = 64, .features = CLATTN_DROPOUT, .knobs = "tile_rows=48", .pass = CLATTN_BACKWARD},
         "where there is dropout it has to be 64"},
        {{.dtype = CLATTN_FP16,
          .d = 64,
          .features = CLATTN_BLOCK_MASK,
          .block_q = 64,
          .block_kv = 64,
          .knobs = "tile_rows=48",
          .pass = CLATTN_BACKWARD},
         "take tile_rows=64"},
    };
    without.nv_wgmma = false;
    EACH (i, rows) {
        struct clattn_problem problem = rows[i].problem;
        problem.skeleton = "backward_hopper";
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
        if (!strstr(test_error.text, rows[i].says))
            fail_msg("\"%s\" does not say \"%s\"", test_error.text, rows[i].says);
        problem.skeleton = problem.knobs = NULL;
        if (i < 2) {
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            assert_string_equal(info.skeleton, i == 0 ? "backward_simt" : "backward_matrix");
        }
    }
    struct clattn_problem plain = {.dtype = CLATTN_FP16, .d = 128, .pass = CLATTN_BACKWARD};
    assert_int_equal(test_plan(&without, plain, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "backward_matrix");
    plain.unordered = 2;
    assert_int_equal(test_plan(&capabilities, plain, &choice, &info), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(test_error.text, "problem.unordered is 2"));
}

/* In order, short sequences that a device computes at once. */
static void it_leaves_short_sequences(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    static const struct {
        int64_t heads, n;
        int d, unordered;
        const char *skeleton;
    } rows[] = {
        {8, 44, 128, 0, "backward_matrix"},   {32, 200, 64, 0, "backward_matrix"}, {8, 400, 64, 0, "backward_hopper"},
        {128, 200, 64, 0, "backward_hopper"}, {8, 44, 128, 1, "backward_hopper"},  {8, 44, 256, 0, "backward_hopper"},
    };
    EACH (i, rows) {
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = rows[i].d,
                                               .pass = CLATTN_BACKWARD,
                                               .unordered = rows[i].unordered,
                                               .expected_heads = rows[i].heads,
                                               .expected_n_q = rows[i].n,
                                               .expected_n_kv = rows[i].n};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, rows[i].skeleton);
    }
}

/* Up to 32 rows and keys of narrow heads, which nothing modifies, have blocks that are not much larger. */
static void few_rows_have_small_blocks(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        int d, b_r, b_c;
        unsigned features;
    } rows[] = {
        {20, 64, 32, 64, 0},  {32, 32, 32, 64, 0}, {33, 64, 128, 128, 0}, {20, 64, 128, 128, CLATTN_SINKS},
        {20, 128, 64, 64, 0},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        const struct clattn_problem problem = {.dtype = CLATTN_BF16,
                                               .d = rows[i].d,
                                               .pass = CLATTN_BACKWARD,
                                               .features = rows[i].features,
                                               .skeleton = "backward_matrix",
                                               .expected_heads = 8,
                                               .expected_n_q = rows[i].n,
                                               .expected_n_kv = rows[i].n};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_r, rows[i].b_r);
        assert_int_equal(info.b_c, rows[i].b_c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_one_tile),
        cmocka_unit_test(it_has_a_third_stage_where_tiles_are_skipped),
        cmocka_unit_test(it_leaves_others_to_others),
        cmocka_unit_test(it_leaves_short_sequences),
        cmocka_unit_test(few_rows_have_small_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
