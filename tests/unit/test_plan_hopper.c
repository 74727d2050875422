/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Planning of forward_hopper: limits, the configurations that were timed, forced sizes, and what it refuses. */
#include "plan/skeleton.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <string.h>

static const struct {
    int d, d_v, n_q;
    int b_r, b_c, work_group_size;
    const char *knobs;
    enum clattn_causal causal;
    unsigned features;
} timed[] = {
    {32, 32, 0, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 128, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 256, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 384, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 4096, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SINKS},
    {64, 64, 8192, 192, 128, 512, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 128, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, 0},
    {64, 64, 384, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_CAUSAL_TOP_LEFT,
     0},
    {64, 64, 16384, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, 0},
    {64, 64, 4096, 192, 128, 512, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_DROPOUT},
    {64, 64, 4096, 192, 128, 512, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_DROPOUT},
    {64, 64, 2048, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_DROPOUT},
    {64, 64, 4096, 192, 128, 512, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_WINDOW},
    {128, 64, 4096, 192, 128, 512, "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {64, 64, 4096, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_SOFTCAP | CLATTN_SINKS},
    {64, 64, 384, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SOFTCAP},
    {64, 64, 16384, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SOFTCAP},
    {64, 64, 4096, 192, 128, 512, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SOFTCAP | CLATTN_WINDOW},
    {64, 64, 4096, 128, 128, 384, "stages=3 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_SOFTCAP | CLATTN_ALIBI},
    {64, 64, 4096, 256, 64, 640, "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SOFTCAP},
    {128, 128, 0, 192, 80, 512, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {128, 128, 2048, 192, 80, 512, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SINKS},
    {80, 80, 4096, 192, 80, 512, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {128, 128, 0, 128, 128, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, 0},
    {128, 128, 4096, 128, 128, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, 0},
    {128, 128, 8192, 128, 176, 384, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, 0},
    {128, 128, 8192, 128, 128, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1",
     CLATTN_CAUSAL_TOP_LEFT, CLATTN_WINDOW},
    {64, 64, 4096, 64, 64, 640, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4", CLATTN_FULL,
     CLATTN_WINDOW},
    {64, 64, 512, 64, 64, 640, "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=4", CLATTN_FULL,
     CLATTN_WINDOW | CLATTN_SINKS},
    {128, 128, 512, 128, 128, 384, "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {128, 128, 4096, 128, 128, 384, "stages=3 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_SOFTCAP},
    {128, 128, 4096, 128, 128, 384, "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_DROPOUT},
    {128, 128, 4096, 128, 128, 384, "stages=2 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL,
     CLATTN_ALIBI},
    {192, 128, 0, 128, 128, 384, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {192, 192, 0, 128, 96, 384, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
    {256, 256, 0, 128, 80, 384, "stages=2 q_stages=1 ping_pong=1 tma=1 stale_max=1 pipelines=1", CLATTN_FULL, 0},
};

static void the_fastest_are_taken(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (int dtype = CLATTN_FP16; dtype <= CLATTN_BF16; dtype++)
        EACH (i, timed) {
            struct clattn_plan_info info;
            const struct clattn_problem problem = {.dtype = (enum clattn_dtype)dtype,
                                                   .d = timed[i].d,
                                                   .d_v = timed[i].d_v,
                                                   .causal = timed[i].causal,
                                                   .features = timed[i].features,
                                                   .expected_n_q = timed[i].n_q};
            test_plan_is(&capabilities, problem, "forward_hopper",
                         (struct test_sizes){timed[i].b_r, timed[i].b_c, timed[i].knobs}, &info);
            assert_int_equal(info.work_group_size, timed[i].work_group_size);
        }
}

/* Beyond 192 columns tiles of 64 keys, where they are no more than those of 80. */
static void short_wide_tiles_are_full(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        int b_c;
    } rows[] = {{161, 64}, {192, 64}, {193, 80}, {128, 64}, {80, 80}, {300, 80}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 256,
                                               .skeleton = "forward_hopper",
                                               .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                               .expected_heads = 128,
                                               .expected_kv_heads = 128,
                                               .expected_n_q = rows[i].n,
                                               .expected_n_kv = rows[i].n};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_c, rows[i].b_c);
    }
}

/* What a call is said to be decides, too. Blocks of 256 rows for 132 compute units: 128 of them are one round, 144
 * would be two, of which one is mostly idle; smaller ones share out better. Descriptors are for calls of several tiles
 * a work-group, and a tile is not all keys of a narrow head. */
static void sizes_suit_the_number_of_blocks(void **state)
{
    (void)state;
    static const struct {
        int64_t heads, n_q, n_kv;
        enum clattn_causal causal;
        int b_r, b_c, tma;
    } rows[] = {
        {8, 4096, 4096, CLATTN_FULL, 256, 64, 1},    {9, 4096, 4096, CLATTN_FULL, 128, 128, 1},
        {24, 2048, 2048, CLATTN_FULL, 128, 128, 1},  {24, 2048, 2048, CLATTN_CAUSAL_TOP_LEFT, 256, 64, 1},
        {1, 20000, 20000, CLATTN_FULL, 192, 128, 1}, {4, 100000, 100000, CLATTN_FULL, 256, 64, 1},
        {44, 512, 128, CLATTN_FULL, 256, 64, 0},     {600, 512, 128, CLATTN_FULL, 256, 64, 1},
        {1, 128, 100, CLATTN_FULL, 128, 128, 0},     {5000, 128, 128, CLATTN_FULL, 128, 64, 1},
        {200, 128, 129, CLATTN_FULL, 128, 128, 0},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 64,
                                               .causal = rows[i].causal,
                                               .expected_heads = rows[i].heads,
                                               .expected_n_q = rows[i].n_q,
                                               .expected_n_kv = rows[i].n_kv};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (info.b_r != rows[i].b_r || info.b_c != rows[i].b_c || choice.config.hopper.tma != rows[i].tma)
            fail_msg("row %d: blocks of %d x %d, tma=%d", (int)i, info.b_r, info.b_c, choice.config.hopper.tma);
    }
}

/* Rows at the end of many keys: tiles for as many keys as their rows have, and no splits where causal blocks fill one
 * round, each with a work-group to itself. */
static void rows_at_the_end_of_many_keys(void **state)
{
    (void)state;
    static const struct {
        int64_t heads, n_q, n_kv;
        enum clattn_causal causal;
        int b_c, splits;
    } rows[] = {
        {32, 512, 32768, CLATTN_CAUSAL_BOTTOM_RIGHT, 176, 1},
        {32, 256, 32768, CLATTN_CAUSAL_BOTTOM_RIGHT, 176, 2},
        {32, 512, 4096, CLATTN_CAUSAL_BOTTOM_RIGHT, 128, 1},
        {32, 512, 32768, CLATTN_CAUSAL_TOP_LEFT, 128, 1},
        {32, 512, 32768, CLATTN_FULL, 128, 1},
        {33, 512, 32768, CLATTN_CAUSAL_BOTTOM_RIGHT, 176, 1},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_BF16,
                                               .d = 128,
                                               .causal = rows[i].causal,
                                               .expected_heads = rows[i].heads,
                                               .expected_n_q = rows[i].n_q,
                                               .expected_n_kv = rows[i].n_kv};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        if (info.b_r != 128 || info.b_c != rows[i].b_c || info.splits != rows[i].splits)
            fail_msg("row %d: blocks of %d x %d, %d splits", (int)i, info.b_r, info.b_c, info.splits);
    }
}

/* d = 128: Q once, K and V three times, each row 256 bytes; a barrier each for full and empty, a note of 16 bytes
 * beside each Q. */
static void tiles_take_what_the_kernel_declares(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    assert_int_equal(test_plan(&capabilities, (struct clattn_problem){.dtype = CLATTN_FP16, .d = 128}, &choice, &info),
                     CLATTN_SUCCESS);
    assert_int_equal(info.local_bytes, (192 + 6 * 80) * 256 + (2 * 8 + 16) + 3 * 4 * 8);
}

static uint64_t bytes_of(struct clattn_problem problem, int *linear)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_hopper");
    *linear = choice.config.hopper.alibi_linear;
    return info.local_bytes;
}

/* Local memory that features add to a configuration of forward_hopper; linear: whether it has ALiBi's panel. */
static uint64_t added_bytes(int d, int d_v, int b_r, int b_c, const char *knobs, unsigned features, int *linear)
{
    struct clattn_problem problem = {
        .dtype = CLATTN_BF16, .d = d, .d_v = d_v, .b_r = b_r, .b_c = b_c, .knobs = knobs, .skeleton = "forward_hopper"};
    const uint64_t without = bytes_of(problem, linear);
    assert_int_equal(*linear, 0);
    problem.features = features;
    return bytes_of(problem, linear) - without;
}

/* Beside ALiBi alone, a panel of as many rows as a tile or the places of Q have; block sizes stay what they are. */
static void alibi_has_a_panel_where_there_is_room(void **state)
{
    (void)state;
    static const struct {
        int d, d_v, b_r, b_c;
        const char *knobs;
        unsigned features;
        int rows;
    } rows[] = {
        {64, 64, 192, 128, "stages=3 q_stages=2", CLATTN_ALIBI, 128},
        {128, 128, 128, 128, "stages=2 q_stages=2", CLATTN_ALIBI | CLATTN_WINDOW | CLATTN_SINKS, 128},
        {128, 128, 192, 80, "stages=3 q_stages=1", CLATTN_ALIBI, 80},
        {64, 64, 64, 16, NULL, CLATTN_ALIBI, 128},
        {128, 128, 128, 176, "stages=2 q_stages=1", CLATTN_ALIBI, 0}, /* no room */
        {192, 128, 0, 0, NULL, CLATTN_ALIBI, 0},
        {128, 192, 0, 0, NULL, CLATTN_ALIBI, 0},
        {64, 64, 192, 128, "stages=3", CLATTN_ALIBI | CLATTN_SOFTCAP, 0},
        {64, 64, 192, 128, "stages=3", CLATTN_ALIBI | CLATTN_BIAS, 0},
        {64, 64, 0, 0, NULL, CLATTN_SINKS, 0},
    };
    EACH (i, rows) {
        int linear;
        assert_int_equal(
            added_bytes(rows[i].d, rows[i].d_v, rows[i].b_r, rows[i].b_c, rows[i].knobs, rows[i].features, &linear),
            128 * (uint64_t)rows[i].rows);
        assert_int_equal(linear, rows[i].rows != 0);
    }
}

/* A call of Philox serves 512 keys: it is kept from tile to tile where none has keys of two. */
static void calls_are_kept_where_tiles_divide_them(void **state)
{
    (void)state;
    static const struct {
        int b_r, b_c;
        const char *define;
    } rows[] = {{192, 128, "CLATTN_KEEPS_PHILOX=1 "},
                {256, 64, "CLATTN_KEEPS_PHILOX=1 "},
                {192, 96, "CLATTN_KEEPS_PHILOX=0 "},
                {192, 80, "CLATTN_KEEPS_PHILOX=0 "}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = 64,
                                               .skeleton = "forward_hopper",
                                               .features = CLATTN_DROPOUT,
                                               .b_r = rows[i].b_r,
                                               .b_c = rows[i].b_c};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_non_null(strstr(info.constants, rows[i].define));
    }
}

/* What it has for boxes follows from the knob, whose absence is what it is planned as. */
static void boxes_are_a_knob(void **state)
{
    (void)state;
    static const struct {
        const char *knobs, *written, *define;
    } rows[] = {
        {"stages=2 q_stages=1 ping_pong=0", "stages=2 q_stages=1 ping_pong=0 tma=1 stale_max=1 pipelines=1",
         "CLATTN_TMA=1 "},
        {"tma=1", "stages=4 q_stages=2 ping_pong=1 tma=1 stale_max=1 pipelines=1", "CLATTN_TMA=1 "},
        {"tma=0 stale_max=0", "stages=4 q_stages=2 ping_pong=1 tma=0 stale_max=0 pipelines=1", "CLATTN_TMA=0 "},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {
            .dtype = CLATTN_FP16, .d = 64, .skeleton = "forward_hopper", .knobs = rows[i].knobs};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.knobs, rows[i].written);
        assert_non_null(strstr(info.constants, rows[i].define));
    }
}

/* Behind the states of splits, on a multiple of 128 bytes, 128 for each map of each group; nothing without rows. */
static void others_are_left_to_others(void **state)
{
    (void)state;
    struct clattn_capabilities capabilities = test_nvidia(900, 132), without = capabilities;
    struct cla_choice choice;
    struct clattn_plan_info info;
    static const struct clattn_problem problems[] = {
        {.dtype = CLATTN_FP16, .d = 59},
        {.dtype = CLATTN_FP16, .d = 64, .expected_n_q = 1},
        {.dtype = CLATTN_BF16, .d = 128, .pass = CLATTN_ACCUMULATE},
    };
    EACH (i, problems) {
        assert_int_equal(test_plan(&capabilities, problems[i], &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "forward_matrix");
    }
    without.nv_wgmma = false;
    assert_int_equal(test_plan(&without, (struct clattn_problem){.dtype = CLATTN_FP16, .d = 128}, &choice, &info),
                     CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_matrix");
}

static void assert_refused(const struct clattn_capabilities *capabilities, struct clattn_problem problem,
                           const char *says)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    problem.skeleton = "forward_hopper";
    assert_int_equal(test_plan(capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    if (!strstr(test_error.text, says))
        fail_msg("\"%s\" does not say \"%s\"", test_error.text, says);
}

static void what_it_cannot_is_refused(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct clattn_capabilities without = capabilities;
    without.nv_wgmma = false;
    const struct clattn_problem plain = {.dtype = CLATTN_FP16, .d = 64};
    struct clattn_problem problem = plain;
    assert_refused(&without, plain, "does not multiply by warp groups");
    problem.dtype = CLATTN_FP32;
    assert_refused(&capabilities, problem, "problem.dtype is fp32");
    problem = plain;
    problem.d = 264;
    assert_refused(&capabilities, problem, "problem.d is 264");
    problem = plain;
    problem.pass = CLATTN_ACCUMULATE;
    assert_refused(&capabilities, problem, "CLATTN_ACCUMULATE");
    problem = plain;
    problem.b_r = 96;
    assert_refused(&capabilities, problem, "b_r 96");
    problem = plain;
    problem.b_r = 320;
    assert_refused(&capabilities, problem, "b_r 320");
    problem.b_r = 256;
    problem.b_c = 80; /* four consumers have no registers for more than 64 keys */
    assert_refused(&capabilities, problem, "b_c 80");
    problem = plain;
    problem.b_c = 40;
    assert_refused(&capabilities, problem, "b_c 40");
    problem = plain;
    problem.work_group_size = 128;
    assert_refused(&capabilities, problem, "work_group_size 128");
    problem = plain;
    problem.d = 256;
    problem.b_c = 256;
    assert_refused(&capabilities, problem, "b_c 256");
}

static void forced_sizes_are_honoured(void **state)
{
    (void)state;
    static const struct {
        int b_r, b_c, work_group_size, planned_b_r;
    } rows[] = {{64, 16, 0, 64},     {192, 0, 0, 192}, {0, 96, 0, 192}, {0, 0, 256, 64},
                {128, 64, 384, 128}, {256, 0, 0, 256}, {0, 0, 640, 256}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (i, rows) {
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {.dtype = CLATTN_BF16,
                                               .d = 64,
                                               .skeleton = "forward_hopper",
                                               .b_r = rows[i].b_r,
                                               .b_c = rows[i].b_c,
                                               .work_group_size = rows[i].work_group_size};
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_r, rows[i].planned_b_r);
        assert_true(!rows[i].b_c || info.b_c == rows[i].b_c);
        assert_int_equal(info.work_group_size, 128 + 2 * info.b_r);
        assert_int_equal(choice.config.hopper.ping_pong, info.b_r > 64);
    }
}

/* Of a window alone, too, which has pipelines of tiles of 64 x 64 where nothing is asked for. */
static void forced_keys_keep_what_suits_them(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct clattn_problem problem = {.dtype = CLATTN_FP16, .d = 64, .features = CLATTN_WINDOW, .b_c = 128};
    problem.skeleton = "forward_hopper";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.b_r, 192);
    assert_int_equal(info.b_c, 128);
    assert_non_null(strstr(info.knobs, "pipelines=1"));
}

/* Whatever the limits: they hold, and where the smallest block fits, something is planned. */
static void limits_hold_and_whatever_fits_is_found(void **state)
{
    (void)state;
    static const uint64_t local[] = {4 << 10, 16 << 10, 48 << 10, 98 << 10, 164 << 10, 226 << 10};
    static const uint64_t groups[] = {128, 256, 384, 512, 1024};
    static const int dimensions[] = {1, 8, 40, 64, 72, 128, 136, 192, 256};
    EACH (l, local)
        EACH (g, groups)
            EACH (d, dimensions)
                EACH (v, dimensions) {
                    struct clattn_capabilities capabilities = test_nvidia(900, 132);
                    capabilities.static_local_memory_bytes = local[l];
                    capabilities.max_work_group_size = groups[g];
                    struct clattn_problem problem = {
                        .dtype = CLATTN_FP16, .d = dimensions[d], .d_v = dimensions[v], .skeleton = "forward_hopper"};
                    struct cla_choice choice;
                    struct clattn_plan_info info;
                    const clattn_status status = test_plan(&capabilities, problem, &choice, &info);
                    if (!status) {
                        assert_true(info.local_bytes <= local[l]);
                        assert_true((uint64_t)info.work_group_size <= groups[g]);
                        /* registers: scores, their weights, outputs */
                        assert_true(info.b_c * 3 / 4 + dimensions[v] / 2 <= (info.b_r == 192 ? 128 : 192));
                    }
                    problem.b_r = 64;
                    problem.b_c = 16;
                    problem.work_group_size = 256;
                    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), status);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_are_taken),
        cmocka_unit_test(short_wide_tiles_are_full),
        cmocka_unit_test(sizes_suit_the_number_of_blocks),
        cmocka_unit_test(rows_at_the_end_of_many_keys),
        cmocka_unit_test(tiles_take_what_the_kernel_declares),
        cmocka_unit_test(others_are_left_to_others),
        cmocka_unit_test(what_it_cannot_is_refused),
        cmocka_unit_test(forced_sizes_are_honoured),
        cmocka_unit_test(forced_keys_keep_what_suits_them),
        cmocka_unit_test(limits_hold_and_whatever_fits_is_found),
        cmocka_unit_test(boxes_are_a_knob),
        cmocka_unit_test(alibi_has_a_panel_where_there_is_room),
        cmocka_unit_test(calls_are_kept_where_tiles_divide_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
