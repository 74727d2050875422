/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Planning of forward_hopper's pipelines and of as many consumers as what is asked for leaves registers for. */
#include "plan/planner.h"
#include "plan/problem.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <string.h>

/* Tiles lie within a mask's blocks, but for blocks of fewer rows than a consumer's, or fewer keys than are worth a
 * product; pipelines make up for blocks of rows smaller than two consumers'. What a plan says of itself, forced, is the
 * same plan. */
static const struct {
    int d, block_q, block_kv;
    int b_r, b_c, work_group_size;
    const char *knobs;
    uint64_t local_bytes;
} suited[] = {
    {64, 64, 64, 64, 64, 640, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4",
     3 * 41 * 1024 + 40 * 1024 + 32 + 2 * 48 + 16},
    {64, 128, 128, 128, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=2",
     97 * 1024 + 32 * 1024 + 64 * 1024 + 64 + 4 * 48 + 16},
    {64, 256, 128, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     64 * 1024 + 64 * 1024 + 64 + 4 * 48},
    {64, 384, 64, 128, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=2", 0},
    {64, 192, 64, 64, 64, 640, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4", 0},
    {128, 128, 128, 128, 128, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     32 * 1024 + 192 * 1024 + 32 + 3 * 48},
    {64, 16, 16, 64, 64, 640, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4", 0},
    {128, 64, 64, 64, 64, 384, "stages=2 q_stages=2 ping_pong=0 tma=1 stale_max=1 pipelines=2", 0},
    {128, 128, 64, 128, 64, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", 0},
    {256, 64, 64, 128, 64, 384, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", 0},
};

static void masks_in_blocks_have_tiles_that_suit_them(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, suited) {
        struct cla_choice choice;
        struct clattn_plan_info info, again;
        struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                         .d = suited[i].d,
                                         .features = CLATTN_BLOCK_MASK,
                                         .block_q = suited[i].block_q,
                                         .block_kv = suited[i].block_kv};
        test_plan_is(&capabilities, problem, "forward_hopper",
                     (struct test_sizes){suited[i].b_r, suited[i].b_c, suited[i].knobs}, &info);
        assert_int_equal(info.work_group_size, suited[i].work_group_size);
        if (suited[i].local_bytes)
            assert_int_equal(info.local_bytes, suited[i].local_bytes);
        problem.skeleton = "forward_hopper";
        problem.b_r = info.b_r;
        problem.b_c = info.b_c;
        problem.work_group_size = info.work_group_size;
        problem.knobs = info.knobs;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &again), CLATTN_SUCCESS);
        assert_string_equal(again.knobs, info.knobs);
        assert_int_equal(again.work_group_size, info.work_group_size);
        assert_int_equal(again.local_bytes, info.local_bytes);
    }
}

/* Where most blocks are seen, tiles are as large as without a mask; four consumers then take no other feature. */
static void masks_that_are_mostly_seen_have_no_teams(void **state)
{
    (void)state;
    static const struct {
        int d, block;
        unsigned features;
        enum clattn_causal causal;
        int64_t n_q;
        float density;
        int b_r, b_c;
        const char *knobs;
    } rows[] = {
        {64, 64, 0, CLATTN_FULL, 0, 0.74f, 64, 64, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4"},
        {64, 64, 0, CLATTN_FULL, 0, 0.75f, 256, 64, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {64, 16, 0, CLATTN_CAUSAL_TOP_LEFT, 0, 1, 256, 64,
         "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {64, 128, 0, CLATTN_FULL, 0, 0.9f, 128, 64, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=2"},
        {64, 64, 0, CLATTN_FULL, 384, 0.9f, 128, 128, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {64, 64, CLATTN_DROPOUT, CLATTN_FULL, 0, 0.9f, 192, 128,
         "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {128, 64, 0, CLATTN_FULL, 0, 0.5f, 64, 64, "stages=2 q_stages=2 ping_pong=0 tma=1 stale_max=1 pipelines=2"},
        {128, 64, 0, CLATTN_FULL, 0, 0.9f, 128, 128, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {256, 64, 0, CLATTN_FULL, 0, 0.5f, 128, 64, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {256, 64, 0, CLATTN_FULL, 0, 0.9f, 128, 80, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = rows[i].d,
                                               .causal = rows[i].causal,
                                               .features = CLATTN_BLOCK_MASK | rows[i].features,
                                               .block_q = rows[i].block,
                                               .block_kv = rows[i].block,
                                               .expected_n_q = rows[i].n_q,
                                               .expected_density = rows[i].density};
        test_plan_is(&capabilities, problem, "forward_hopper",
                     (struct test_sizes){rows[i].b_r, rows[i].b_c, rows[i].knobs}, &info);
    }
}

/* Calls of many blocks that have few tiles each (the notes of forward_hopper, "Pipelines for short sequences"). */
static void many_blocks_of_few_tiles_have_pipelines(void **state)
{
    (void)state;
    static const char single[] = "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=4",
                      wide[] = "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=2",
                      paired[] = "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=2",
                      together[] = "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
                      two[] = "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1";
    static const struct {
        int d;
        int64_t heads, n_q, n_kv;
        enum clattn_causal causal;
        int b_r, b_c;
        const char *knobs; /* NULL: forward_matrix */
    } rows[] = {
        {64, 3072, 128, 128, CLATTN_FULL, 128, 64, wide},
        {64, 528, 128, 128, CLATTN_FULL, 128, 64, wide},
        {32, 6144, 128, 128, CLATTN_CAUSAL_BOTTOM_RIGHT, 128, 64, wide},
        {64, 1024, 384, 384, CLATTN_FULL, 128, 64, paired},
        {64, 1024, 640, 640, CLATTN_FULL, 128, 64, paired},
        {64, 1024, 768, 768, CLATTN_CAUSAL_TOP_LEFT, 128, 64, paired},
        {64, 512, 2048, 2048, CLATTN_CAUSAL_TOP_LEFT, 128, 64, paired},
        {64, 512, 2049, 2049, CLATTN_CAUSAL_TOP_LEFT, 256, 64, together},
        {64, 1024, 128, 4096, CLATTN_CAUSAL_BOTTOM_RIGHT, 128, 128,
         "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1"},
        {64, 1024, 1024, 1024, CLATTN_FULL, 256, 64, together},
        {64, 6144, 64, 64, CLATTN_FULL, 64, 64, single},
        {64, 6144, 32, 32, CLATTN_FULL, 64, 64, NULL},
        {64, 1055, 64, 64, CLATTN_FULL, 64, 64, NULL},
        {64, 6144, 64, 129, CLATTN_FULL, 64, 64, NULL},
        {128, 1536, 128, 128, CLATTN_CAUSAL_TOP_LEFT, 64, 64, wide},
        {80, 2304, 128, 128, CLATTN_FULL, 64, 64, wide},
        {128, 6144, 64, 64, CLATTN_FULL, 64, 64, wide},
        {128, 1536, 256, 256, CLATTN_FULL, 128, 128, two},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_BF16,
                                               .d = rows[i].d,
                                               .causal = rows[i].causal,
                                               .expected_heads = rows[i].heads,
                                               .expected_n_q = rows[i].n_q,
                                               .expected_n_kv = rows[i].n_kv};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (!rows[i].knobs != (strcmp(info.skeleton, "forward_matrix") == 0) ||
            (rows[i].knobs &&
             (info.b_r != rows[i].b_r || info.b_c != rows[i].b_c || strcmp(info.knobs, rows[i].knobs) != 0)))
            fail_msg("row %d: %s, blocks of %d x %d, %s", (int)i, info.skeleton, info.b_r, info.b_c, info.knobs);
    }
}

static void three_teams_are_refused(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct clattn_problem problem = {
        .dtype = CLATTN_FP16, .d = 64, .skeleton = "forward_hopper", .b_r = 64, .b_c = 64, .knobs = "pipelines=3"};
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(test_error.text, "pipelines"));
    problem.knobs = "pipelines=4"; /* of more consumers than there are registers for */
    problem.b_r = 128;
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    problem.b_r = 64;
    problem.knobs = "pipelines=4 stages=2 q_stages=1";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.work_group_size, 640);
}

/* A device with room for fewer work-items has fewer pipelines, not rows of none. */
static void fewer_items_are_fewer_teams(void **state)
{
    (void)state;
    static const int items[] = {640, 512, 384, 256};
    static const int work_group_sizes[] = {640, 384, 384, 256};
    EACH (i, items) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        struct clattn_capabilities capabilities = test_nvidia(900, 132);
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 64,
                                               .skeleton = "forward_hopper",
                                               .features = CLATTN_BLOCK_MASK,
                                               .block_q = 64,
                                               .block_kv = 64};
        capabilities.max_work_group_size = capabilities.max_work_item_size = (size_t)items[i];
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_r, 64);
        assert_int_equal(info.work_group_size, work_group_sizes[i]);
    }
}

static void the_users_functions_leave_four_consumers(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct clattn_problem problem = {.dtype = CLATTN_FP16, .d = 64, .score_mod = "some text"};
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.b_r, 256);
    problem.mask_mod = "some text";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.b_r, 256);
    problem.features = CLATTN_SOFTCAP; /* and polynomials beside them do not */
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.b_r, 192);
}

/* Consumers are as many as have registers for what modifies scores and weights: any one thing leaves four, two leave
 * three, but not a bias and another; what hides pairs by their places counts for nothing. */
enum { ALL = CLATTN_VARLEN | CLATTN_KEY_LENGTHS | CLATTN_SINKS | CLATTN_WINDOW };
enum { EVERY = ALL | CLATTN_SOFTCAP | CLATTN_ALIBI | CLATTN_BIAS | CLATTN_MASK | CLATTN_DROPOUT };
static const struct {
    unsigned features;
    bool functions;
    int block_q, block_kv;
    enum clattn_causal causal;
    int b_r, pipelines;
} modified[] = {
    {EVERY, true, 32, 64, CLATTN_CAUSAL_TOP_LEFT, 64, 2},
    {EVERY, true, 128, 128, CLATTN_CAUSAL_TOP_LEFT, 128, 1},
    {EVERY, true, 256, 128, CLATTN_CAUSAL_TOP_LEFT, 128, 1},
    {EVERY, true, 0, 0, CLATTN_FULL, 128, 1},
    {ALL, false, 32, 64, CLATTN_CAUSAL_TOP_LEFT, 64, 4},
    {CLATTN_BIAS, false, 32, 64, CLATTN_FULL, 64, 4},
    {ALL | CLATTN_BIAS, false, 32, 64, CLATTN_FULL, 64, 2},
    {CLATTN_MASK | CLATTN_DROPOUT, false, 32, 64, CLATTN_FULL, 64, 2},
    {CLATTN_MASK, true, 32, 64, CLATTN_FULL, 64, 2},
    {0, true, 256, 64, CLATTN_FULL, 256, 1},
    {CLATTN_SOFTCAP, true, 256, 64, CLATTN_FULL, 128, 1},
    {CLATTN_BIAS, false, 0, 0, CLATTN_FULL, 192, 1},
    {CLATTN_BIAS | CLATTN_MASK, false, 0, 0, CLATTN_FULL, 128, 1},
    {CLATTN_SOFTCAP | CLATTN_DROPOUT, false, 0, 0, CLATTN_CAUSAL_TOP_LEFT, 192, 1},
    {CLATTN_SOFTCAP | CLATTN_DROPOUT, true, 0, 0, CLATTN_FULL, 128, 1},
};

static void modifications_leave_fewer_consumers(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, modified) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 64,
                                               .causal = modified[i].causal,
                                               .features =
                                                   modified[i].features | (modified[i].block_q ? CLATTN_BLOCK_MASK : 0),
                                               .block_q = modified[i].block_q,
                                               .block_kv = modified[i].block_kv,
                                               .score_mod = modified[i].functions ? "some text" : NULL,
                                               .skeleton = "forward_hopper"};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (choice.config.b_r != modified[i].b_r || choice.config.pipelines != modified[i].pipelines)
            fail_msg("row %d: %d pipelines of %d modified", (int)i, choice.config.pipelines, choice.config.b_r);
    }
}

/* What spills goes to two consumers, which have twice the registers of four, and then to one. */
static void consumers_step_down(void **state)
{
    (void)state;
    static const int blocks[] = {64, 128, 256, 0};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, blocks) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        struct clattn_problem resolved;
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 64,
                                               .features = blocks[i] ? CLATTN_BLOCK_MASK : CLATTN_BIAS,
                                               .block_q = blocks[i],
                                               .block_kv = blocks[i]};
        assert_int_equal(cla_problem_resolve(&problem, &resolved, &test_error), CLATTN_SUCCESS);
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_true(info.work_group_size >= 512);
        for (int items = 384; items >= 256; items -= 128) {
            assert_int_equal(cla_plan_step_down(&capabilities, &resolved, "it spills", &choice, &info, &test_error),
                             CLATTN_SUCCESS);
            assert_int_equal(info.work_group_size, items);
            assert_int_equal(choice.config.b_r * choice.config.pipelines, (items - 128) / 2);
            assert_int_equal(choice.config.hopper.consumer_registers, items == 384 ? 232 : 0);
            assert_non_null(strstr(info.steps[info.step_count - 1].reason, "it spills"));
        }
        assert_int_equal(cla_plan_step_down(&capabilities, &resolved, "it spills", &choice, &info, &test_error),
                         CLATTN_NOTHING_FITS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_in_blocks_have_tiles_that_suit_them),
        cmocka_unit_test(masks_that_are_mostly_seen_have_no_teams),
        cmocka_unit_test(many_blocks_of_few_tiles_have_pipelines),
        cmocka_unit_test(three_teams_are_refused),
        cmocka_unit_test(fewer_items_are_fewer_teams),
        cmocka_unit_test(the_users_functions_leave_four_consumers),
        cmocka_unit_test(modifications_leave_fewer_consumers),
        cmocka_unit_test(consumers_step_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
