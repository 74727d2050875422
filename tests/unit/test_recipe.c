/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What calls run: regions of the workspace, for shapes up to the largest numbers, against the same count in 128 bits;
 * and the kernels, by what is wanted of a call. */
#include "plan/recipe.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { LINE = 128, UNITS = 132 };

static struct cla_choice planned(struct clattn_problem *problem)
{
    const struct clattn_capabilities capabilities = test_nvidia(900, UNITS);
    struct cla_choice choice;
    struct clattn_plan_info info;
    problem->dtype = CLATTN_FP16;
    problem->d_v = problem->d_v ? problem->d_v : problem->d;
    if (test_plan(&capabilities, *problem, &choice, &info))
        fail_msg("%s", test_error.text);
    return choice;
}

/* The recipe of a call that wants everything. */
static struct cla_recipe recipe_of(const struct clattn_problem *problem, const struct cla_choice *choice,
                                   const struct clattn_shape *shape, size_t first)
{
    const struct clattn_capabilities capabilities = test_nvidia(900, UNITS);
    const struct cla_run run = {.problem = problem,
                                .config = &choice->config,
                                .capabilities = &capabilities,
                                .shape = *shape,
                                .keys = shape->n_kv,
                                .splits = problem->splits > 1 ? problem->splits : 1,
                                .outputs = UINT64_MAX,
                                .d_bias = {shape->batch, shape->heads, shape->n_q, shape->n_kv}};
    struct cla_recipe recipe = cla_recipe_of(choice->skeleton, &run);
    cla_recipe_place(&recipe, first);
    return recipe;
}

static wide up(wide bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static wide blocks(int64_t length, int size)
{
    return ((wide)length + (wide)size - 1) / (wide)size;
}

#define TOO_MANY (~(wide)0)

/* dK and dV of each share, in fp32, whose d and d_v are 256 where there are any. */
static wide shares_bytes(const struct cla_choice *choice, wide keys)
{
    const int shares = choice->config.backward_hopper.shares;
    return shares > 1 ? up(keys * (wide)(shares * choice->config.b_c * 2 * 256 * 4)) : 0;
}

/* The bytes up to the end of the sums of dQ, or TOO_MANY. `orders`: words for each block of keys beside its flag. */
static wide expected_end(const struct cla_choice *choice, const struct clattn_shape *shape, size_t first, int orders,
                         wide floats)
{
    /* Products of three sizes of 63 bits do not fit 128. */
    const wide limit = (wide)1 << 63, heads = (wide)shape->batch * (wide)shape->heads,
               kv_heads = (wide)shape->batch * (wide)shape->kv_heads;
    if (heads >= limit || kv_heads >= limit)
        return TOO_MANY;
    const bool hopper = choice->skeleton == &cla_backward_hopper;
    const wide rows =
                   heads * blocks(shape->n_q, hopper ? choice->config.backward_hopper.tile_rows : choice->config.b_r),
               keys = kv_heads * blocks(shape->n_kv, choice->config.b_c);
    const wide all = rows * (wide)(hopper ? choice->config.backward_hopper.dq_sums : 1);
    if (rows >= limit || keys > INT32_MAX - INT16_MAX || all > INT32_MAX)
        return TOO_MANY;
    wide end = up(first);
    if (hopper)
        end += LINE + up(4 * all);
    end += up(4 * keys);
    if (hopper)
        end += UNITS * 4 * LINE + (orders ? up(4 * orders * keys) : 0) + shares_bytes(choice, keys);
    end += all * floats * 4;
    return end < limit ? end : TOO_MANY;
}

/* Regions lie one after the other, on lines of their own; those that are zeroed side by side. */
static void check_regions(const struct cla_recipe *recipe, size_t first)
{
    int64_t at = (int64_t)first;
    const struct cla_words zeroed = cla_recipe_zeroed(recipe);
    for (int i = 0; i < recipe->region_count; i++) {
        const struct cla_region *region = &recipe->regions[i];
        assert_non_null(region->name);
        assert_int_equal(region->first * 4 % LINE, 0);
        assert_true(region->first * 4 >= at && region->first * 4 < at + LINE);
        at = region->first * 4 + region->bytes;
        const bool within = region->first >= zeroed.first && region->first * 4 < (zeroed.first + zeroed.count) * 4;
        if (region->bytes)
            assert_int_equal(region->zeroed, within);
    }
    assert_true((size_t)at == recipe->end_byte);
}

/* What the argument block says is where the regions are. */
static void check_told(const struct cla_recipe *recipe)
{
    struct cla_backward_params params;
    memset(&params, 0xff, sizeof params);
    cla_recipe_tell(recipe, &params);
    for (int i = 0; i < recipe->region_count; i++) {
        const struct cla_region *region = &recipe->regions[i];
        int64_t told;
        assert_true(region->told_at < sizeof params);
        memcpy(&told, (const char *)&params + region->told_at, sizeof told);
        assert_int_equal(told, region->first);
    }
    assert_int_equal(params.n_q, -1);
}

static void check(const struct clattn_problem *problem, const struct cla_choice *choice,
                  const struct clattn_shape *shape, size_t first, int orders, wide floats, long *good)
{
    const struct cla_recipe recipe = recipe_of(problem, choice, shape, first);
    const wide end = expected_end(choice, shape, first, orders, floats);
    assert_int_equal(recipe.too_large, end == TOO_MANY);
    if (end == TOO_MANY)
        return;
    assert_true(recipe.end_byte == end);
    check_regions(&recipe, first);
    check_told(&recipe);
    ++*good;
}

/* Every combination of small and large sizes. */
static void sums_are_counted_without_overflow(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 257, 65536, INT32_MAX, INT64_C(1) << 40, INT64_C(1) << 62, INT64_MAX};
    static const size_t firsts[] = {0, 4, 1000, (size_t)1 << 40, INT64_MAX - 200};
    enum { SIZES = sizeof sizes / sizeof sizes[0], LENGTHS = 6 };
    static const struct {
        struct clattn_problem problem;
        int orders;
        int floats;
    } rows[] = {
        {{.d = 64, .pass = CLATTN_BACKWARD, .skeleton = "backward_hopper", .knobs = "shares=1"}, 0, 96 * 64},
        {{.d = 256, .pass = CLATTN_BACKWARD, .skeleton = "backward_hopper", .knobs = "shares=3"}, 0, 64 * 256},
        {{.d = 192, .d_v = 128, .pass = CLATTN_BACKWARD, .skeleton = "backward_hopper", .knobs = "shares=1"},
         0,
         48 * 192},
        {{.d = 64,
          .pass = CLATTN_BACKWARD,
          .features = CLATTN_BLOCK_MASK,
          .block_q = 128,
          .block_kv = 128,
          .skeleton = "backward_hopper",
          .knobs = "shares=1"},
         2,
         64 * 64},
        {{.d = 96, .pass = CLATTN_BACKWARD, .unordered = 1, .skeleton = "backward_fused"}, 0, 64 * 128},
    };
    EACH (row, rows) {
        struct clattn_problem problem = rows[row].problem;
        const struct cla_choice choice = planned(&problem);
        long good = 0;
        for (int i = 0; i < SIZES * SIZES * LENGTHS * LENGTHS; i++) {
            const int64_t heads = sizes[i / SIZES % SIZES];
            const struct clattn_shape shape = {.batch = sizes[i % SIZES],
                                               .heads = heads,
                                               .kv_heads = heads,
                                               .n_q = sizes[i / SIZES / SIZES % LENGTHS],
                                               .n_kv = sizes[i / SIZES / SIZES / LENGTHS]};
            EACH (j, firsts)
                check(&problem, &choice, &shape, firsts[j], rows[row].orders, (wide)rows[row].floats, &good);
        }
        assert_true(good > 500);
    }
}

/* TMA descriptors of forward_hopper: three for each team of a work-group, behind the states of splits. */
static void descriptors_lie_behind_states(void **state)
{
    (void)state;
    static const struct {
        const char *knobs;
        int splits, d;
        int64_t n_q, first, end_byte; /* of words, and bytes; first -1: there are none */
    } rows[] = {
        {NULL, 1, 128, 100, 0, UNITS * 3 * LINE},
        {"tma=0", 1, 128, 100, -1, 0},
        {NULL, 1, 128, 0, -1, 0},
        {"tma=0", 2, 8, 1, -1, (16 + 16 + 2 * 3 * 8) * 4},
        {NULL, 2, 8, 1, 96, 96 * 4 + UNITS * 3 * LINE},
        {NULL, 2, 8, 0, -1, 0},
    };
    EACH (i, rows) {
        struct clattn_problem problem = {
            .d = rows[i].d, .splits = rows[i].splits, .skeleton = "forward_hopper", .knobs = rows[i].knobs};
        const struct cla_choice choice = planned(&problem);
        const struct clattn_shape shape = {.batch = 1, .heads = 3, .kv_heads = 3, .n_q = rows[i].n_q, .n_kv = 1000};
        const struct cla_recipe recipe = recipe_of(&problem, &choice, &shape, 0);
        struct cla_forward_params params = {.descriptors = -1};
        assert_int_equal(choice.config.pipelines, 1);
        assert_int_equal(recipe.splits, rows[i].splits);
        assert_int_equal(recipe.stage_count, 1);
        assert_int_equal(recipe.stages[0].kernel, rows[i].splits > 1 ? CLA_SPLIT : CLA_WHOLE);
        assert_int_equal(recipe.stages[0].most_groups, UNITS);
        cla_recipe_tell(&recipe, &params);
        assert_int_equal(params.descriptors, rows[i].first);
        assert_int_equal(recipe.end_byte, rows[i].end_byte);
        check_regions(&recipe, 0);
    }
}

/* The kernels of a call, as their numbers, by what is wanted. */
static void kernels_that_write_nothing_are_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *skeleton;
        uint64_t outputs;
        const char *kernels;
    } rows[] = {
        {"backward_matrix", UINT64_C(1) << CLA_D_Q | UINT64_C(1) << CLA_D_K | UINT64_C(1) << CLA_BIAS_GRAD, "102"},
        {"backward_matrix", UINT64_C(1) << CLA_D_Q, "0"},
        {"backward_matrix", UINT64_C(1) << CLA_D_V, "1"},
        {"backward_matrix", 0, ""},
        {"backward_simt", UINT64_C(1) << CLA_D_Q | UINT64_C(1) << CLA_D_K | UINT64_C(1) << CLA_BIAS_GRAD, "012"},
        {"backward_simt", UINT64_C(1) << CLA_D_K, "01"},
        {"backward_simt", UINT64_C(1) << CLA_D_V, "1"},
        {"backward_fused", UINT64_C(1) << CLA_D_Q | UINT64_C(1) << CLA_D_V, "130"},
        {"backward_fused", UINT64_C(1) << CLA_D_Q, "10"},
        {"backward_fused", UINT64_C(1) << CLA_D_K, "13"},
        {"backward_fused", UINT64_C(1) << CLA_BIAS_GRAD, "2"},
        {"backward_hopper", UINT64_C(1) << CLA_D_Q | UINT64_C(1) << CLA_D_K | UINT64_C(1) << CLA_D_V, "41530"},
        {"backward_hopper", UINT64_C(1) << CLA_D_Q, "410"},
        {"backward_hopper", UINT64_C(1) << CLA_BIAS_GRAD, "2"},
    };
    const struct clattn_capabilities capabilities = test_nvidia(900, UNITS);
    EACH (i, rows) {
        struct clattn_problem problem = {.d = 64,
                                         .pass = CLATTN_BACKWARD,
                                         .unordered = 1,
                                         .features = CLATTN_BLOCK_MASK | CLATTN_BIAS,
                                         .block_q = 128,
                                         .block_kv = 128,
                                         .skeleton = rows[i].skeleton};
        const struct cla_choice choice = planned(&problem);
        const struct cla_run run = {.problem = &problem,
                                    .config = &choice.config,
                                    .capabilities = &capabilities,
                                    .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 1000, .n_kv = 500},
                                    .keys = 500,
                                    .splits = 1,
                                    .outputs = rows[i].outputs,
                                    .d_bias = {1, 4, 1000, 500}};
        const struct cla_recipe recipe = cla_recipe_of(choice.skeleton, &run);
        char kernels[CLA_MOST_STAGES + 1] = "";
        for (int j = 0; j < recipe.stage_count; j++)
            kernels[j] = (char)('0' + recipe.stages[j].kernel);
        assert_string_equal(kernels, rows[i].kernels);
        for (int j = 0; j < recipe.stage_count; j++)
            assert_true(recipe.stages[j].batch * recipe.stages[j].heads * recipe.stages[j].blocks > 0);
    }
}

/* Blocks of keys that are too few for the device, or too uneven. */
static void few_blocks_of_keys_are_shared_out(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, heads, kv_heads, n;
        int causal, least, most;
    } rows[] = {{1, 32, 8, 8192, 1, 1, 1}, {1, 64, 8, 4096, 0, 1, 1}, {4, 16, 16, 4096, 1, 1, 1},
                {1, 32, 1, 8192, 1, 4, 8}, {1, 32, 1, 8192, 0, 2, 8}, {2, 14, 2, 1000, 0, 2, 8},
                {1, 1, 1, 1, 0, 1, 1},     {0, 1, 1, 9, 0, 1, 1},     {1, 0, 0, 9, 0, 1, 1}};
    EACH (i, rows) {
        struct clattn_problem problem = {
            .d = 128, .pass = CLATTN_BACKWARD, .causal = rows[i].causal, .skeleton = "backward_hopper"};
        const struct cla_choice choice = planned(&problem);
        const struct clattn_shape shape = {rows[i].batch, rows[i].heads, rows[i].kv_heads, rows[i].n, rows[i].n};
        const struct cla_recipe recipe = recipe_of(&problem, &choice, &shape, 0);
        struct cla_backward_params params;
        cla_recipe_tell(&recipe, &params);
        assert_in_range(params.shares, rows[i].least, rows[i].most);
        assert_int_equal(params.group, rows[i].kv_heads ? rows[i].heads / rows[i].kv_heads : 0);
        int64_t bytes = 0;
        for (int j = 0; j < recipe.region_count; j++)
            if (recipe.regions[j].told_at == offsetof(struct cla_backward_params, share_sums))
                bytes = recipe.regions[j].bytes;
        const int64_t blocks = rows[i].batch * rows[i].kv_heads * ((rows[i].n + 127) / 128);
        assert_int_equal(bytes, params.shares > 1 ? blocks * params.shares * 128 * 256 * 4 : 0);
    }
}

/* Only backward_hopper's work-groups wait for each other (an emulation pretends to); the word for that is zeroed. */
static void who_waits_says_where(void **state)
{
    (void)state;
    const struct clattn_shape shape = {.batch = 1, .heads = 2, .kv_heads = 2, .n_q = 70, .n_kv = 70};
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton; skeleton++) {
        struct clattn_problem problem = {.d = 64,
                                         .pass = (*skeleton)->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                         .unordered = cla_skeleton_describe(*skeleton).any_order,
                                         .skeleton = (*skeleton)->name};
        const struct cla_choice choice = planned(&problem);
        const struct cla_recipe recipe = recipe_of(&problem, &choice, &shape, 40);
        assert_int_equal(recipe.stuck_region >= 0,
                         *skeleton == &cla_backward_hopper || *skeleton == &cla_backward_fused_emulated);
        if (recipe.stuck_region >= 0)
            assert_true(recipe.regions[recipe.stuck_region].zeroed &&
                        (recipe.stuck_word + 1) * 4 <= recipe.regions[recipe.stuck_region].bytes);
        if (!recipe.region_count)
            assert_int_equal(recipe.end_byte, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_counted_without_overflow),
        cmocka_unit_test(descriptors_lie_behind_states),
        cmocka_unit_test(kernels_that_write_nothing_are_left_out),
        cmocka_unit_test(few_blocks_of_keys_are_shared_out),
        cmocka_unit_test(who_waits_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
