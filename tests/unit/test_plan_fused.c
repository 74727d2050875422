/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Planning of backward_fused: what it takes and leaves to others, its two shapes, and where it stands among the
 * backward skeletons. */
#include "plan/problem.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

/* An NVIDIA device of this compute capability, without products by warp groups. */
static struct clattn_capabilities device(uint32_t compute_capability)
{
    return test_nvidia_without_warp_groups(compute_capability, 108);
}

static struct clattn_problem unordered(int d, int d_v)
{
    return (struct clattn_problem){.pass = CLATTN_BACKWARD, .dtype = CLATTN_FP16, .d = d, .d_v = d_v, .unordered = 1};
}

/* K and V, of 128 keys; places for 64 rows of Q and dO with two floats each; dS twice, where keys are shared P too. */
static void shapes_take_what_the_kernel_declares(void **state)
{
    (void)state;
    static const struct {
        uint32_t compute_capability;
        int d, d_v;
        int columns, stages, weights, items;
        int sum_pieces; /* of 64 rows by 16 columns */
        const char *knobs;
    } rows[] = {
        {800, 64, 64, 64, 2, 2, 128, 4, "dropout_once=0 own_keys=1"},
        {806, 40, 64, 64, 2, 2, 128, 4, "dropout_once=0 own_keys=1"},
        {900, 16, 1, 64, 2, 2, 128, 2, "dropout_once=0 own_keys=1"},
        {900, 128, 128, 128, 3, 4, 256, 8, "dropout_once=0 own_keys=0"},
        {900, 72, 40, 128, 3, 4, 256, 8, "dropout_once=0 own_keys=0"},
        {900, 40, 111, 128, 3, 4, 256, 4, "dropout_once=0 own_keys=0"},
        {800, 128, 128, 128, 2, 2, 256, 8, "dropout_once=0 own_keys=1"},
        {800, 59, 96, 128, 2, 2, 256, 4, "dropout_once=0 own_keys=1"},
    };
    EACH (i, rows)
        for (int dtype = CLATTN_FP16; dtype <= CLATTN_BF16; dtype++) {
            const struct clattn_capabilities capabilities = device(rows[i].compute_capability);
            struct clattn_problem problem = unordered(rows[i].d, rows[i].d_v);
            struct cla_choice choice;
            struct clattn_plan_info info;
            problem.dtype = (enum clattn_dtype)dtype;
            problem.skeleton = "backward_fused";
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            assert_string_equal(info.skeleton, "backward_fused");
            assert_string_equal(info.knobs, rows[i].knobs);
            assert_int_equal(info.b_r, 64);
            assert_int_equal(info.b_c, 128);
            assert_true(info.sums);
            const int row = 2 * rows[i].columns, stage = 64 * (2 * row + 8);
            assert_int_equal(info.local_bytes,
                             2 * 128 * row + rows[i].stages * stage + rows[i].weights * (64 * 128 * 2));
            assert_int_equal(test_sum_bytes(&choice, problem, true), 4 * rows[i].sum_pieces * 64 * 16);
            assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV).work_group_size,
                             rows[i].items);
            assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DQ).work_group_size, 128);
            assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV_AGAIN).work_group_size, 256);
        }
}

static void others_are_left_to_others(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        uint32_t compute_capability;
        const char *says, *instead;
    } rows[] = {
        {{.dtype = CLATTN_FP16, .d = 64}, 800, "problem.unordered is 0", "backward_matrix"},
        {{.dtype = CLATTN_FP32, .d = 64, .unordered = 1}, 800, "problem.dtype is fp32", "backward_simt"},
        {{.dtype = CLATTN_FP16, .d = 192, .unordered = 1}, 900, "problem.d is 192", "backward_matrix"},
        {{.dtype = CLATTN_FP16, .d = 64, .d_v = 136, .unordered = 1}, 900, "problem.d_v is 136", "backward_matrix"},
        {{.dtype = CLATTN_FP16, .d = 64, .unordered = 1}, 705, "7.5", "backward_matrix"},
        {{.dtype = CLATTN_FP16, .d = 128, .unordered = 1}, 806, "local memory", "backward_matrix"},
        {{.dtype = CLATTN_FP16, .d = 64, .unordered = 1, .b_r = 128}, 800, "problem.b_r 128", "backward_matrix"},
    };
    EACH (i, rows) {
        const struct clattn_capabilities capabilities = device(rows[i].compute_capability);
        struct clattn_problem problem = rows[i].problem;
        struct cla_choice choice;
        struct clattn_plan_info info;
        problem.pass = CLATTN_BACKWARD;
        problem.skeleton = "backward_fused";
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
        if (!strstr(test_error.text, rows[i].says))
            fail_msg("\"%s\" does not say \"%s\"", test_error.text, rows[i].says);
        problem.skeleton = NULL;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, rows[i].instead);
    }
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct clattn_problem chunks = unordered(64, 64);
    const struct clattn_capabilities capabilities = device(800);
    chunks.pass = CLATTN_BACKWARD_ACCUMULATE;
    assert_int_equal(test_plan(&capabilities, chunks, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "backward_matrix");
}

/* Whatever hides pairs or changes scores is served; what was never timed only by name. */
static void features_are_served(void **state)
{
    (void)state;
    static const unsigned sets[] = {
        CLATTN_WINDOW,  CLATTN_MASK,  CLATTN_KEY_LENGTHS, CLATTN_VARLEN,  CLATTN_SINKS,
        CLATTN_SOFTCAP, CLATTN_ALIBI, CLATTN_BIAS,        CLATTN_DROPOUT, CLATTN_DROPOUT | CLATTN_WINDOW};
    const struct clattn_capabilities capabilities = device(800);
    struct cla_choice choice;
    struct clattn_plan_info info;
    EACH (i, sets) {
        struct clattn_problem problem = unordered(128, 128);
        problem.features = sets[i];
        problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "backward_fused");
    }
}

/* Behind the one for warp groups, before the one that keeps an order. */
static void it_has_its_place_among_others(void **state)
{
    (void)state;
    static const struct {
        uint32_t compute_capability;
        bool wgmma;
        int unordered;
        const char *skeleton;
    } rows[] = {{900, true, 1, "backward_hopper"},  {900, false, 1, "backward_fused"},
                {800, false, 1, "backward_fused"},  {900, false, 0, "backward_matrix"},
                {800, false, 0, "backward_matrix"}, {705, false, 1, "backward_matrix"}};
    EACH (i, rows) {
        struct clattn_capabilities capabilities = device(rows[i].compute_capability);
        struct clattn_problem problem = unordered(128, 128);
        struct cla_choice choice;
        struct clattn_plan_info info;
        capabilities.nv_wgmma = rows[i].wgmma;
        problem.unordered = rows[i].unordered;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, rows[i].skeleton);
    }
}

/* Less local memory is served by the shape that takes less, then not at all; so it is when the device refuses. */
static void local_memory_decides_the_shape(void **state)
{
    (void)state;
    struct clattn_capabilities capabilities = device(900);
    struct cla_choice choice;
    struct clattn_plan_info info;
    static const struct {
        uint64_t bytes;
        const char *knobs; /* NULL: nothing fits */
    } rows[] = {{230912 + 128, "dropout_once=0 own_keys=0"},
                {230912 + 127, "dropout_once=0 own_keys=1"},
                {164864 + 128, "dropout_once=0 own_keys=1"},
                {164864 + 127, NULL}};
    EACH (i, rows) {
        struct clattn_problem problem = unordered(128, 128);
        problem.skeleton = "backward_fused";
        capabilities.static_local_memory_bytes = rows[i].bytes;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info),
                         rows[i].knobs ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
        if (rows[i].knobs)
            assert_string_equal(info.knobs, rows[i].knobs);
    }
    capabilities = device(900);
    struct clattn_problem resolved, problem = unordered(128, 128);
    problem.skeleton = "backward_fused";
    assert_int_equal(cla_problem_resolve(&problem, &resolved, &test_error), CLATTN_SUCCESS);
    assert_int_equal(cla_plan(&capabilities, &resolved, &choice, &info, &test_error), CLATTN_SUCCESS);
    assert_int_equal(choice.config.backward_fused.own_keys, 0);
    assert_int_equal(cla_plan_step_down(&capabilities, &resolved, "registers", &choice, &info, &test_error),
                     CLATTN_SUCCESS);
    assert_int_equal(choice.config.backward_fused.own_keys, 1);
    assert_int_equal(cla_plan_step_down(&capabilities, &resolved, "registers", &choice, &info, &test_error),
                     CLATTN_NOTHING_FITS);
}

/* Dropout's bits, two tiles of 64 x 128 pairs, are left out where they do not fit, not the shape; warps that share keys
 * have none. */
static const struct {
    uint32_t compute_capability;
    int d;
    uint64_t bytes;    /* of local memory; 0: the device's */
    uint64_t declared; /* 0: nothing fits */
    const char *knobs;
} rooms[] = {
    {900, 64, 0, 99328 + 2048, "dropout_once=1 own_keys=1"},
    {806, 64, 0, 99328, "dropout_once=0 own_keys=1"}, /* 98 KB */
    {900, 64, 99328 + 2048 + 128, 99328 + 2048, "dropout_once=1 own_keys=1"},
    {900, 64, 99328 + 2048 + 127, 99328, "dropout_once=0 own_keys=1"},
    {900, 64, 99328 + 127, 0, NULL},
    {900, 128, 0, 230912, "dropout_once=0 own_keys=0"},
    {900, 128, 230912 + 127, 164864 + 2048, "dropout_once=1 own_keys=1"},
    {900, 128, 164864 + 128, 164864, "dropout_once=0 own_keys=1"},
    {800, 128, 0, 164864, "dropout_once=0 own_keys=1"}, /* 162 KB */
};

static void drawing_once_takes_what_room_there_is(void **state)
{
    (void)state;
    EACH (i, rooms) {
        struct clattn_capabilities capabilities = device(rooms[i].compute_capability);
        struct clattn_problem problem = unordered(rooms[i].d, rooms[i].d);
        struct cla_choice choice;
        struct clattn_plan_info info;
        problem.skeleton = "backward_fused";
        problem.features = CLATTN_DROPOUT;
        if (rooms[i].bytes)
            capabilities.static_local_memory_bytes = rooms[i].bytes;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info),
                         rooms[i].declared ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
        if (!rooms[i].declared)
            continue;
        assert_string_equal(info.knobs, rooms[i].knobs);
        assert_int_equal(info.local_bytes, rooms[i].declared);
    }
    const struct clattn_capabilities capabilities = device(900);
    struct clattn_problem problem = unordered(64, 64);
    struct cla_choice choice;
    struct clattn_plan_info info;
    problem.skeleton = "backward_fused";
    problem.knobs = "dropout_once=1";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS); /* nothing is drawn */
    assert_non_null(strstr(test_error.text, "dropout_once 0 without dropout"));
    problem.features = CLATTN_DROPOUT;
    problem.knobs = "dropout_once=0";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.local_bytes, 99328);
}

/* The emulation plans what the real one would, with sub-groups of one item: by name alone, on any device. */
static const struct {
    uint64_t bytes;
    int d, items;
    const char *knobs; /* NULL: nothing fits */
} emulated_shapes[] = {{99328 + 256 + 128, 64, 4, "dropout_once=0 own_keys=1"},
                       {99328 + 256 + 127, 64, 0, NULL},
                       {230912 + 256 + 128, 128, 8, "dropout_once=0 own_keys=0"},
                       {230912 + 256 + 127, 128, 8, "dropout_once=0 own_keys=1"},
                       {164864 + 256 + 128, 65, 8, "dropout_once=0 own_keys=1"},
                       {164864 + 256 + 127, 65, 0, NULL}};

static void the_emulation_has_the_same_shapes(void **state)
{
    (void)state;
    EACH (i, emulated_shapes) {
        struct clattn_capabilities capabilities = device(700);
        struct clattn_problem problem = unordered(emulated_shapes[i].d, emulated_shapes[i].d);
        struct cla_choice choice;
        struct clattn_plan_info info;
        capabilities.static_local_memory_bytes = emulated_shapes[i].bytes;
        capabilities.max_work_group_size = capabilities.max_work_item_size = 8;
        problem.skeleton = "backward_fused_emulated";
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info),
                         emulated_shapes[i].knobs ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
        if (!emulated_shapes[i].knobs) {
            assert_non_null(strstr(test_error.text, "backward_fused_emulated"));
            continue;
        }
        assert_string_equal(info.skeleton, "backward_fused_emulated");
        assert_string_equal(info.knobs, emulated_shapes[i].knobs);
        assert_int_equal(choice.config.work_group_size, emulated_shapes[i].items);
        assert_null(strstr(info.constants, "COMPUTE_CAPABILITY"));
        assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV).work_group_size,
                         emulated_shapes[i].items);
        assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DQ).work_group_size, 4);
        assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV_AGAIN).work_group_size, 8);
        problem.unordered = 0;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
        assert_non_null(strstr(test_error.text, "backward_fused_emulated adds up dQ in any order"));
        problem.unordered = 1;
        capabilities.max_work_group_size = 7;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    }
    assert_false(cla_backward_fused_emulated.prefers(&(struct clattn_capabilities){.type = CLATTN_DEVICE_CPU},
                                                     &(struct clattn_problem){.unordered = 1}));
}

/* 64 columns have one shape. */
static void own_keys_is_a_knob(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = device(900);
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct clattn_problem problem = unordered(128, 128);
    problem.skeleton = "backward_fused";
    problem.knobs = "own_keys=1";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_non_null(strstr(info.constants, "CLATTN_OWN_KEYS=1"));
    problem.d = problem.d_v = 64;
    problem.knobs = "own_keys=0";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(test_error.text, "own_keys=0"));
}

static struct clattn_problem masked(int d, int d_v, int block_kv)
{
    struct clattn_problem problem = unordered(d, d_v);
    problem.skeleton = "backward_fused";
    problem.features = CLATTN_BLOCK_MASK;
    problem.block_q = 64;
    problem.block_kv = block_kv;
    return problem;
}

/* Work-groups of 64 keys, whose sub-groups are half as many: K and V of these; places for 64 rows of Q and dO with two
 * floats each and, where dropout is drawn once, 64 bits; dS twice, or once beyond 64 columns. */
static void short_blocks_take_few_keys(void **state)
{
    (void)state;
    static const struct {
        int d, d_v, block_kv, b_c, items;
        unsigned features;
        uint64_t declared;
        const char *knobs;
    } rows[] = {
        {64, 64, 64, 64, 64, 0, 66560, "dropout_once=0 own_keys=1"},
        {16, 40, 16, 64, 64, 0, 66560, "dropout_once=0 own_keys=1"},
        {64, 64, 192, 64, 64, CLATTN_DROPOUT, 66560 + 1024, "dropout_once=1 own_keys=1"},
        {64, 64, 128, 128, 128, 0, 99328, "dropout_once=0 own_keys=1"},
        {128, 128, 64, 64, 128, 0, 107520, "dropout_once=0 own_keys=1"},
        {40, 72, 48, 64, 128, CLATTN_DROPOUT, 107520, "dropout_once=0 own_keys=1"},
        {128, 128, 256, 128, 256, 0, 230912, "dropout_once=0 own_keys=0"},
    };
    const struct clattn_capabilities capabilities = device(900);
    EACH (i, rows) {
        struct clattn_problem problem = masked(rows[i].d, rows[i].d_v, rows[i].block_kv);
        struct cla_choice choice;
        struct clattn_plan_info info;
        problem.features |= rows[i].features;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_r, 64);
        assert_int_equal(info.b_c, rows[i].b_c);
        assert_int_equal(info.work_group_size, rows[i].items);
        assert_int_equal(info.local_bytes, rows[i].declared);
        assert_string_equal(info.knobs, rows[i].knobs);
        const int pieces = (rows[i].d + 15) / 16 + (rows[i].d_v + 15) / 16, held = rows[i].items == 64 ? 2 : 1;
        if (rows[i].b_c == 64)
            assert_int_equal(info.private_bytes, 4 * (8 * (held * pieces + 8) + 48));
        assert_int_equal(strstr(info.steps[1].reason, "blocks of the mask are short") != NULL, rows[i].b_c == 64);
        assert_non_null(strstr(info.constants, rows[i].b_c == 64 ? "CLATTN_DK_DV_SPLIT=2" : "CLATTN_DK_DV_SPLIT=1"));
        assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV).work_group_size, rows[i].items);
        assert_int_equal(cla_skeleton_form(choice.skeleton, &choice.config, CLA_DK_DV_AGAIN).work_group_size, 256);
    }
}

/* Where most blocks are seen; sizes that are asked for have the last word. */
static void short_blocks_that_are_mostly_seen_take_many_keys(void **state)
{
    (void)state;
    static const struct {
        int d, b_c;
        float density;
        int planned_b_c, items;
        const char *knobs;
    } rows[] = {
        {64, 0, 0.5f, 64, 64, "dropout_once=0 own_keys=1"},     {64, 0, 0.75f, 128, 128, "dropout_once=0 own_keys=1"},
        {128, 0, 0.5f, 64, 128, "dropout_once=0 own_keys=1"},   {128, 0, 0.99f, 128, 256, "dropout_once=0 own_keys=0"},
        {128, 64, 0.99f, 64, 128, "dropout_once=0 own_keys=1"},
    };
    const struct clattn_capabilities capabilities = device(900);
    EACH (i, rows) {
        struct clattn_problem problem = masked(rows[i].d, rows[i].d, 64);
        struct cla_choice choice;
        struct clattn_plan_info info;
        problem.b_c = rows[i].b_c;
        problem.expected_density = rows[i].density;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_c, rows[i].planned_b_c);
        assert_int_equal(info.work_group_size, rows[i].items);
        assert_string_equal(info.knobs, rows[i].knobs);
        assert_int_equal(strstr(info.steps[1].reason, "blocks of the mask are short") != NULL,
                         rows[i].planned_b_c == 64 && !rows[i].b_c);
    }
}

/* A compute unit is to hold two of them. */
static void short_blocks_take_many_keys_where_few_leave_it_idle(void **state)
{
    (void)state;
    static const struct {
        uint32_t compute_capability;
        int d;
        uint64_t bytes; /* of local memory; 0: the device's */
        int b_c;
    } rows[] = {
        {800, 64, 0, 64},
        {806, 64, 0, 128},
        {800, 128, 0, 128},
        {900, 128, 2 * (107520 + 128 + 1024) - 2048, 64},
        {900, 128, 2 * (107520 + 128 + 1024) - 2049, 128},
        {900, 64, 2 * (66560 + 128 + 1024) - 2048, 64},
        {900, 64, 2 * (66560 + 128 + 1024) - 2049, 128},
    };
    EACH (i, rows) {
        struct clattn_capabilities capabilities = device(rows[i].compute_capability);
        struct cla_choice choice;
        struct clattn_plan_info info;
        if (rows[i].bytes)
            capabilities.static_local_memory_bytes = rows[i].bytes;
        assert_int_equal(test_plan(&capabilities, masked(rows[i].d, rows[i].d, 64), &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.b_c, rows[i].b_c);
    }
}

static const struct {
    int d, b_c, work_group_size, block_kv;
    const char *knobs;
    int planned_b_c; /* 0: nothing fits */
    int items;
} forced_keys[] = {
    {64, 64, 0, 0, NULL, 64, 64},
    {64, 0, 64, 0, NULL, 64, 64},
    {64, 64, 128, 0, NULL, 0, 0},
    {64, 128, 0, 64, NULL, 128, 128},
    {64, 0, 128, 64, NULL, 128, 128},
    {64, 96, 0, 64, NULL, 0, 0},
    {64, 0, 96, 64, NULL, 0, 0},
    {128, 64, 0, 0, NULL, 64, 128},
    {128, 0, 128, 0, NULL, 64, 128},
    {128, 0, 256, 64, NULL, 128, 256},
    {128, 128, 0, 64, "own_keys=1", 128, 256},
    {128, 64, 0, 0, "own_keys=0", 0, 0},
    {128, 0, 0, 64, "own_keys=0", 128, 256}, /* keys that no one asked for give way */
    {128, 0, 128, 64, "own_keys=0", 0, 0},
    {128, 0, 0, 64, "own_keys=1", 64, 128},
};

static void keys_can_be_forced(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = device(900);
    EACH (i, forced_keys) {
        struct clattn_problem problem = masked(forced_keys[i].d, forced_keys[i].d, forced_keys[i].block_kv);
        struct cla_choice choice;
        struct clattn_plan_info info;
        if (!forced_keys[i].block_kv)
            problem.features = problem.block_q = 0;
        problem.b_c = forced_keys[i].b_c;
        problem.work_group_size = forced_keys[i].work_group_size;
        problem.knobs = forced_keys[i].knobs;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info),
                         forced_keys[i].planned_b_c ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
        if (!forced_keys[i].planned_b_c) {
            assert_non_null(strstr(test_error.text, "b_c 64 or 128"));
            continue;
        }
        assert_int_equal(info.b_c, forced_keys[i].planned_b_c);
        assert_int_equal(info.work_group_size, forced_keys[i].items);
    }
    struct clattn_problem problem = unordered(128, 128);
    struct cla_choice choice;
    struct clattn_plan_info info;
    problem.skeleton = "backward_fused";
    problem.features = CLATTN_DROPOUT;
    problem.b_c = 64;
    problem.knobs = "dropout_once=1";
    assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.local_bytes, 107520 + 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_take_what_the_kernel_declares),
        cmocka_unit_test(others_are_left_to_others),
        cmocka_unit_test(features_are_served),
        cmocka_unit_test(it_has_its_place_among_others),
        cmocka_unit_test(local_memory_decides_the_shape),
        cmocka_unit_test(drawing_once_takes_what_room_there_is),
        cmocka_unit_test(the_emulation_has_the_same_shapes),
        cmocka_unit_test(own_keys_is_a_knob),
        cmocka_unit_test(short_blocks_take_few_keys),
        cmocka_unit_test(short_blocks_that_are_mostly_seen_take_many_keys),
        cmocka_unit_test(short_blocks_take_many_keys_where_few_leave_it_idle),
        cmocka_unit_test(keys_can_be_forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
