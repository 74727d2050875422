/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which unit forward_cpu and backward_cpu multiply by: pairs of bf16 where the processor has them and all operands are
 * bf16, multiply-adds of floats else. */
#include "plan/recipe.h"
#include "support/cpu.h"
#include "support/planned.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

/* What a device has. */
enum { NOTHING, PAIRS, TILES, BOTH };

static struct clattn_capabilities cpu(int has, uint32_t width)
{
    struct clattn_capabilities capabilities = test_cpu(width);
    capabilities.cpu_bf16_dot = has & PAIRS ? 1 : 0;
    capabilities.cpu_amx_bf16 = has & TILES ? 1 : 0;
    return capabilities;
}

static int dot_of(const struct clattn_capabilities *capabilities, struct clattn_problem problem)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    if (test_plan(capabilities, problem, &choice, &info))
        fail_msg("%s", test_error.text);
    char constant[32];
    snprintf(constant, sizeof constant, "CLATTN_DOT=%d ", choice.config.cpu.dot);
    assert_non_null(strstr(info.constants, constant));
    return choice.config.cpu.dot;
}

static void it_is_taken_where_all_is_bf16(void **state)
{
    (void)state;
    static const struct {
        int has;
        uint32_t width;
        struct clattn_problem problem;
        int dot;
    } rows[] = {
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_BF16}, 1},
        {PAIRS, 16, {.d = 40, .d_v = 72, .dtype = CLATTN_BF16, .pass = CLATTN_BACKWARD}, 1},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_BF16, .pass = CLATTN_ACCUMULATE}, 1},
        {PAIRS, 16, {.d = 64, .q_type = CLATTN_AS_BF16, .k_type = CLATTN_AS_BF16, .v_type = CLATTN_AS_BF16}, 1},
        {NOTHING, 16, {.d = 64, .dtype = CLATTN_BF16}, 0},
        {PAIRS, 8, {.d = 64, .dtype = CLATTN_BF16}, 0},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_FP16}, 0},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_FP32}, 0},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_BF16, .v_type = CLATTN_AS_FP16}, 0},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_BF16, .pass = CLATTN_BACKWARD, .k_type = CLATTN_AS_FP32}, 0},
        {PAIRS, 16, {.d = 64, .dtype = CLATTN_BF16, .features = CLATTN_BLOCK_MASK, .block_q = 16, .block_kv = 16}, 0},
        {TILES, 16, {.d = 64, .dtype = CLATTN_BF16}, 3},
        {BOTH, 16, {.d = 40, .d_v = 72, .dtype = CLATTN_BF16, .pass = CLATTN_BACKWARD}, 3},
        {BOTH, 16, {.d = 64, .dtype = CLATTN_BF16, .b_c = 48}, 1},
        {BOTH, 16, {.d = 64, .dtype = CLATTN_BF16, .features = CLATTN_BLOCK_MASK, .block_q = 32, .block_kv = 32}, 3},
        {BOTH, 16, {.d = 64, .dtype = CLATTN_BF16, .features = CLATTN_BLOCK_MASK, .block_q = 16, .block_kv = 16}, 0},
        {TILES, 16, {.d = 64, .dtype = CLATTN_FP16}, 0},
        {TILES, 8, {.d = 64, .dtype = CLATTN_BF16}, 0},
    };
    EACH (i, rows) {
        const struct clattn_capabilities capabilities = cpu(rows[i].has, rows[i].width);
        assert_int_equal(dot_of(&capabilities, rows[i].problem), rows[i].dot);
    }
}

static void one_kernel_forms_all_gradients(void **state)
{
    (void)state;
    static const struct {
        int has;
        const char *knobs;
        int fused;
    } rows[] = {
        {NOTHING, NULL, 1},
        {PAIRS, NULL, 1},
        {PAIRS, "fused=0", 0},
        {PAIRS, "dot=4 micro=32", 1},
        {PAIRS, "dot=4 micro=32 row_vectors=1", 0}, /* a tile takes two vectors of lanes */
        {TILES, NULL, 0},
        {TILES, "fused=1", 1},
    };
    EACH (i, rows) {
        struct clattn_capabilities capabilities = cpu(rows[i].has, 16);
        struct cla_choice choice;
        struct clattn_plan_info info;
        const struct clattn_problem problem = {
            .d = 64, .dtype = CLATTN_BF16, .pass = CLATTN_BACKWARD, .skeleton = "backward_cpu", .knobs = rows[i].knobs};
        if (test_plan(&capabilities, problem, &choice, &info))
            fail_msg("%s", test_error.text);
        assert_int_equal(choice.config.cpu.fused, rows[i].fused);
    }
}

/* Eight for each unit, which go to whichever is free; but one for each where their sums are large. */
static void keys_are_shared_out(void **state)
{
    (void)state;
    static const struct {
        uint32_t units;
        struct clattn_shape shape; /* without batch */
        int64_t shares;
    } rows[] = {
        {2, {.heads = 32, .kv_heads = 32, .n_q = 1024, .n_kv = 1024}, 1},
        {2, {.heads = 2, .kv_heads = 2, .n_q = 4096, .n_kv = 4096}, 8},
        {2, {.heads = 6, .kv_heads = 3, .n_q = 4096, .n_kv = 4096}, 6},
        {16, {.heads = 32, .kv_heads = 32, .n_q = 4096, .n_kv = 4096}, 4},
        {16, {.heads = 32, .kv_heads = 32, .n_q = 512, .n_kv = 512}, 2},     /* blocks of 256 keys */
        {16, {.heads = 32, .kv_heads = 32, .n_q = 16384, .n_kv = 16384}, 2}, /* 256 MiB of sums each, of 2 GiB */
        {16, {.heads = 32, .kv_heads = 32, .n_q = 65536, .n_kv = 65536}, 1},
        {16, {.heads = 8, .kv_heads = 8, .n_q = 1 << 20, .n_kv = 1 << 20}, 2}, /* so that all have one */
    };
    EACH (i, rows) {
        struct clattn_capabilities capabilities = cpu(NOTHING, 16);
        capabilities.compute_units = rows[i].units;
        const struct clattn_problem problem = {.d = 128,
                                               .d_v = 128,
                                               .pass = CLATTN_BACKWARD,
                                               .b_r = 256,
                                               .b_c = 256,
                                               .skeleton = "backward_cpu",
                                               .knobs = "fused=1"};
        struct cla_choice choice;
        struct clattn_plan_info info;
        if (test_plan(&capabilities, problem, &choice, &info))
            fail_msg("%s", test_error.text);
        struct cla_run run = {.problem = &problem,
                              .config = &choice.config,
                              .capabilities = &capabilities,
                              .shape = rows[i].shape,
                              .keys = rows[i].shape.n_kv,
                              .splits = 1,
                              .outputs = UINT64_MAX};
        run.shape.batch = 1;
        struct cla_recipe recipe = cla_recipe_of(choice.skeleton, &run);
        assert_false(recipe.too_large);
        assert_int_equal(recipe.stages[0].blocks, rows[i].shares);
        cla_recipe_place(&recipe, 0);
        assert_int_equal(cla_recipe_zeroed(&recipe).count, 2); /* the tickets of both times */
    }
}

/* Where blocks shrink, all of few heads are halved, and each has a work-group. */
static void blocks_by_tickets_shrink(void **state)
{
    (void)state;
    static const struct {
        const char *knobs, *sizes;
        int b_r, n_q;
        int64_t groups;
    } rows[] = {
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=3 ", 512, 1025, 6},
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=3 ", 640, 1025, 4},
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=1 ", 544, 1025, 2}, /* half of it is not whole panels */
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=2 ", 384, 1025, 6},
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=2 ", 256, 1025, 10},
        {"dot=4 micro=32", "CLATTN_TICKET_SIZES=1 ", 192, 1025, 6}, /* half of it is less than 128 */
        {"dot=1 tickets=0", "CLATTN_TICKET_SIZES=0 ", 512, 1025, 3},
        {"dot=1 tickets=1", "CLATTN_TICKET_SIZES=3 ", 512, 1025, 6},
        {"dot=0 tickets=1", "CLATTN_TICKET_SIZES=2 ", 256, 1025, 10},
        {"dot=0 tickets=1", "CLATTN_TICKET_SIZES=1 ", 128, 1025, 9},
    };
    EACH (i, rows) {
        const struct clattn_capabilities capabilities = cpu(PAIRS, 16);
        const struct clattn_problem problem = {.d = 64,
                                               .d_v = 64,
                                               .dtype = CLATTN_BF16,
                                               .b_r = rows[i].b_r,
                                               .skeleton = "forward_cpu",
                                               .knobs = rows[i].knobs};
        struct cla_choice choice;
        struct clattn_plan_info info;
        if (test_plan(&capabilities, problem, &choice, &info))
            fail_msg("%s", test_error.text);
        assert_non_null(strstr(info.constants, rows[i].sizes));
        const struct cla_run run = {.problem = &problem,
                                    .config = &choice.config,
                                    .capabilities = &capabilities,
                                    .shape = {.batch = 1, .heads = 1, .kv_heads = 1, .n_q = rows[i].n_q, .n_kv = 64},
                                    .keys = 64,
                                    .splits = 1};
        assert_int_equal(cla_recipe_of(choice.skeleton, &run).stages[0].blocks, rows[i].groups);
    }
}

static void it_is_forced_where_it_can_be(void **state)
{
    (void)state;
    static const struct {
        int has;
        enum clattn_dtype dtype;
        const char *knobs, *says; /* NULL: it is taken */
    } rows[] = {
        {PAIRS, CLATTN_BF16, "dot=0", NULL},
        {NOTHING, CLATTN_BF16, "dot=2", NULL},
        {NOTHING, CLATTN_BF16, "dot=2 vector_width=4", NULL},
        {NOTHING, CLATTN_BF16, "dot=1", "AVX512-BF16"},
        {PAIRS, CLATTN_BF16, "dot=1 vector_width=8", "vector_width 16"},
        {PAIRS, CLATTN_BF16, "dot=1 micro=6", "micro"},
        {PAIRS, CLATTN_FP16, "dot=1", "bf16 alone"},
        {PAIRS, CLATTN_FP32, "dot=2", "bf16 alone"},
        {TILES, CLATTN_BF16, "dot=0 micro=8", NULL},
        {NOTHING, CLATTN_BF16, "dot=4 micro=32", NULL},
        {NOTHING, CLATTN_BF16, "dot=4 micro=32 row_vectors=1", NULL},
        {PAIRS, CLATTN_BF16, "dot=3 micro=32", "AMX"},
        {PAIRS, CLATTN_BF16, "dot=4 micro=16", "micro 32"},
        {TILES, CLATTN_FP16, "dot=3 micro=32", "bf16 alone"},
    };
    static const char *const names[] = {"forward_cpu", "backward_cpu"};
    EACH (i, rows)
        EACH (pass, names) {
            const struct clattn_capabilities capabilities = cpu(rows[i].has, 16);
            struct cla_choice choice;
            struct clattn_plan_info info;
            const struct clattn_problem problem = {.d = 64,
                                                   .dtype = rows[i].dtype,
                                                   .pass = pass ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                                   .skeleton = names[pass],
                                                   .knobs = rows[i].knobs};
            const clattn_status status = test_plan(&capabilities, problem, &choice, &info);
            if (!rows[i].says && status)
                fail_msg("%s, %s: %s", names[pass], rows[i].knobs, test_error.text);
            assert_int_equal(status, rows[i].says ? CLATTN_NOTHING_FITS : CLATTN_SUCCESS);
            if (rows[i].says)
                assert_non_null(strstr(test_error.text, rows[i].says));
        }
}

/* Tiles and blocks of pairs take half the room of floats. */
static void it_takes_less_room(void **state)
{
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t bytes[2];
        for (int has = NOTHING; has <= PAIRS; has++) {
            const struct clattn_capabilities capabilities = cpu(has, 16);
            const struct clattn_problem problem = {
                .d = 128, .dtype = CLATTN_BF16, .pass = pass ? CLATTN_BACKWARD : CLATTN_FORWARD};
            struct cla_choice choice;
            struct clattn_plan_info info;
            assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
            bytes[has] = info.private_bytes;
        }
        assert_true(bytes[1] < bytes[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_taken_where_all_is_bf16), cmocka_unit_test(one_kernel_forms_all_gradients),
        cmocka_unit_test(keys_are_shared_out),           cmocka_unit_test(blocks_by_tickets_shrink),
        cmocka_unit_test(it_is_forced_where_it_can_be),  cmocka_unit_test(it_takes_less_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
