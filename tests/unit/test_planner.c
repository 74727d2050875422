/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner over thousands of made-up devices: what it promises must hold on every one. */
#include "plan/problem.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct clattn_capabilities device(enum clattn_device_type type, uint64_t local_bytes, uint64_t work_group)
{
    struct clattn_capabilities capabilities = {
        .device_name = "made up",
        .type = type,
        .available = true,
        .compiler_available = true,
        .compute_units = type == CLATTN_DEVICE_CPU ? 2 : 40,
        .max_work_group_size = work_group,
        .max_work_item_size = work_group,
        .preferred_work_group_multiple = type == CLATTN_DEVICE_CPU ? 8 : 32,
        .native_vector_width_float = type == CLATTN_DEVICE_CPU ? 16 : 1,
        .global_memory_bytes = UINT64_C(8) << 30,
        .max_allocation_bytes = UINT64_C(2) << 30,
        .cache_bytes = 1 << 20,
        .cache_line_bytes = 64,
        .local_memory_type = type == CLATTN_DEVICE_CPU ? CLATTN_LOCAL_MEMORY_GLOBAL : CLATTN_LOCAL_MEMORY_LOCAL,
        .local_memory_bytes = local_bytes,
        .half_loads = true,
    };
    return capabilities;
}

/* Without what unit/test_plan_hopper.c is about. What is planned for them: unit/test_plan_matrix.c. */
static struct clattn_capabilities nvidia(uint32_t compute_capability)
{
    return test_nvidia_without_warp_groups(compute_capability, 132);
}

static const uint64_t local_sizes[] = {1 << 10,  2 << 10,  4 << 10,   8 << 10,   16 << 10,  32 << 10, 48 << 10,
                                       64 << 10, 99 << 10, 128 << 10, 164 << 10, 226 << 10, 1 << 20};
static const uint64_t group_sizes[] = {1, 16, 63, 128, 256, 1024};
static const int head_dimensions[] = {1, 3, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256, 320, 384, 512};

static void check_limits(const struct clattn_capabilities *capabilities, const struct clattn_plan_info *info)
{
    const uint64_t groups = capabilities->max_work_group_size;
    if (info->b_r < 1 || info->b_c < 1 || info->work_group_size < 1 || (uint64_t)info->work_group_size > groups ||
        info->local_bytes > cla_usable_local_bytes(capabilities) || info->step_count < 1 || !info->constants[0])
        fail_msg("%s: B_r %d, B_c %d, %d of %llu work-items, %llu of %llu bytes", info->skeleton, info->b_r, info->b_c,
                 info->work_group_size, (unsigned long long)groups, (unsigned long long)info->local_bytes,
                 (unsigned long long)cla_usable_local_bytes(capabilities));
}

/* The smallest block of a skeleton: of matrix units a 16 x 16 piece and one sub-group. */
static void force_smallest(struct clattn_problem *problem)
{
    const bool matrix = problem->skeleton && strncmp(problem->skeleton, "forward_matrix", 14) == 0;
    problem->b_r = problem->b_c = matrix ? 16 : 1;
    problem->work_group_size = matrix && strcmp(problem->skeleton, "forward_matrix") == 0 ? 32 : 1;
}

/* Where forcing the smallest block plans, so must not forcing anything; and the other way round. The CPU skeleton needs
 * no local memory, so it always plans. */
static void check_existence(const struct clattn_capabilities *capabilities, struct clattn_problem problem, bool planned,
                            const struct clattn_plan_info *found)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    if (planned && strcmp(found->skeleton, "forward_cpu") == 0)
        return;
    force_smallest(&problem);
    const clattn_status status = test_plan(capabilities, problem, &choice, &info);
    if ((status == CLATTN_SUCCESS) != planned)
        fail_msg("d %d, d_v %d, %llu bytes, %llu work-items: planned %d, but the smallest block answers %d (%s)",
                 problem.d, problem.d_v, (unsigned long long)capabilities->local_memory_bytes,
                 (unsigned long long)capabilities->max_work_group_size, planned, status, test_error.text);
}

/* Each head dimension by one type, which the devices vary; with CLATTN_TEST_FULL=1 by all. */
static void check_device(const struct clattn_capabilities *capabilities, const char *skeleton)
{
    static size_t number;
    const bool all = getenv("CLATTN_TEST_FULL") != NULL;
    number++;
    EACH (i, head_dimensions) {
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
            if (!all && (i + number) % 3 != (size_t)dtype)
                continue;
            const struct clattn_problem problem = {.d = head_dimensions[i],
                                                   .d_v = head_dimensions[(i * 7 + 3) % 18],
                                                   .dtype = (enum clattn_dtype)dtype,
                                                   .skeleton = skeleton};
            struct cla_choice choice;
            struct clattn_plan_info info;
            const clattn_status status = test_plan(capabilities, problem, &choice, &info);
            if (status && status != CLATTN_NOTHING_FITS)
                fail_msg("status %d: %s", status, test_error.text);
            if (!status)
                check_limits(capabilities, &info);
            check_existence(capabilities, problem, !status, &info);
        }
    }
}

static void limits_hold_and_whatever_fits_is_found(void **state)
{
    (void)state;
    static const char *const skeletons[] = {NULL, "forward_simt", "forward_cpu", "forward_matrix",
                                            "forward_matrix_emulated"};
    EACH (l, local_sizes)
        EACH (g, group_sizes)
            EACH (s, skeletons)
                for (int type = CLATTN_DEVICE_CPU; type <= CLATTN_DEVICE_GPU; type++) {
                    const struct clattn_capabilities capabilities =
                        device((enum clattn_device_type)type, local_sizes[l], group_sizes[g]);
                    check_device(&capabilities, skeletons[s]);
                }
}

static const uint32_t compute_capabilities[] = {700, 705, 800, 806, 809, 900, 1000, 1201};

static void limits_hold_on_nvidia(void **state)
{
    (void)state;
    EACH (c, compute_capabilities)
        EACH (l, local_sizes)
            EACH (g, group_sizes) {
                struct clattn_capabilities capabilities = nvidia(compute_capabilities[c]);
                capabilities.static_local_memory_bytes = local_sizes[l];
                capabilities.max_work_group_size = group_sizes[g];
                check_device(&capabilities, "forward_matrix");
                if (compute_capabilities[c] == 705 && group_sizes[g] == 1024) /* fp16 and bf16 then part ways */
                    check_device(&capabilities, NULL);
            }
}

/* 4 KB, the least that the devices have, hold a 1 x 1 block of the largest heads. */
static void four_kilobytes_are_enough(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_problem problem = {.d = 512, .d_v = 512, .skeleton = "forward_simt"};
    EACH (g, group_sizes) {
        const struct clattn_capabilities capabilities = device(CLATTN_DEVICE_GPU, 4 << 10, group_sizes[g]);
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
    }
}

/* More local memory raises the paper's bound and never leads to a choice that the model holds for slower. (The area
 * B_r * B_c itself may shrink: a shape of better reuse can be smaller.) Estimates compare choices of one skeleton. */
static void check_growth(struct clattn_capabilities capabilities, const struct clattn_problem *problem)
{
    double estimate = -1;
    int64_t paper = 0;
    EACH (l, local_sizes) {
        capabilities.local_memory_bytes = local_sizes[l];
        struct cla_choice choice;
        struct clattn_plan_info info;
        if (test_plan(&capabilities, *problem, &choice, &info)) {
            assert_true(estimate < 0); /* once something fits, it fits in more */
            continue;
        }
        if ((estimate >= 0 && info.estimate > estimate) || (int64_t)info.paper_b_r * info.paper_b_c < paper)
            fail_msg("d %d, %llu bytes, %llu work-items: %d x %d is estimated at %g after %g", problem->d,
                     (unsigned long long)local_sizes[l], (unsigned long long)capabilities.max_work_group_size, info.b_r,
                     info.b_c, info.estimate, estimate);
        estimate = info.estimate;
        paper = (int64_t)info.paper_b_r * info.paper_b_c;
    }
}

/* Sizes and items that are powers of two, as all are here: an item's part is at most 8 x 8, a column of items 32. */
static bool is_searched(const struct cla_config *config)
{
    const int tx = config->simt.tx, ty = config->work_group_size / tx;
    return ty <= 32 && config->b_r <= 8 * ty && config->b_c <= 8 * tx;
}

/* The search passes over tiles that it takes for worse than its best so far. */
static void check_nothing_is_cheaper(const struct clattn_capabilities *capabilities, struct clattn_problem problem)
{
    static const int sides[] = {16, 32, 64, 128}, groups[] = {32, 128, 512};
    struct cla_choice choice;
    struct clattn_plan_info planned, forced;
    if (test_plan(capabilities, problem, &choice, &planned))
        return;
    EACH (r, sides)
        EACH (c, sides)
            EACH (g, groups) {
                problem.b_r = sides[r];
                problem.b_c = sides[c];
                problem.work_group_size = groups[g];
                if (!test_plan(capabilities, problem, &choice, &forced) && is_searched(&choice.config) &&
                    forced.estimate < planned.estimate)
                    fail_msg("%s, d %d, %llu bytes: %d x %d with %d items is estimated at %g, the plan %d x %d with %d "
                             "at %g",
                             planned.skeleton, problem.d, (unsigned long long)capabilities->local_memory_bytes,
                             forced.b_r, forced.b_c, forced.work_group_size, forced.estimate, planned.b_r, planned.b_c,
                             planned.work_group_size, planned.estimate);
            }
}

static void nothing_forced_is_cheaper_than_the_plan(void **state)
{
    (void)state;
    static const int heads[] = {7, 128};
    static const unsigned features[] = {0, CLATTN_BLOCK_MASK, CLATTN_SOFTCAP | CLATTN_DROPOUT};
    static const uint64_t sizes[] = {16 << 10, 48 << 10, 227 << 10};
    EACH (h, heads)
        EACH (f, features)
            EACH (s, sizes)
                for (int backward = 0; backward < 2; backward++) {
                    const struct clattn_capabilities capabilities = device(CLATTN_DEVICE_GPU, sizes[s], 512);
                    const struct clattn_problem problem = {.d = heads[h],
                                                           .features = features[f],
                                                           .block_q = f == 1 ? 64 : 0,
                                                           .block_kv = f == 1 ? 48 : 0,
                                                           .dropout_p = f == 2 ? 0.5F : 0,
                                                           .expected_n_q = f == 0 ? 200 : 0,
                                                           .pass = backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                                           .skeleton = backward ? "backward_simt" : "forward_simt"};
                    check_nothing_is_cheaper(&capabilities, problem);
                }
}

static void more_local_memory_never_plans_worse(void **state)
{
    (void)state;
    EACH (i, head_dimensions)
        EACH (g, group_sizes)
            for (int type = CLATTN_DEVICE_CPU; type <= CLATTN_DEVICE_GPU; type++)
                check_growth(device((enum clattn_device_type)type, 0, group_sizes[g]),
                             &(struct clattn_problem){.d = head_dimensions[i]});
}

static void nor_does_it_on_matrix_units(void **state)
{
    (void)state;
    EACH (c, compute_capabilities)
        EACH (i, head_dimensions)
            EACH (v, head_dimensions)
                for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_BOTTOM_RIGHT; causal++) {
                    struct clattn_capabilities capabilities = nvidia(compute_capabilities[c]);
                    capabilities.static_local_memory_bytes = 0;
                    check_growth(capabilities, &(struct clattn_problem){.d = head_dimensions[i],
                                                                        .d_v = head_dimensions[v],
                                                                        .dtype = CLATTN_FP16,
                                                                        .causal = (enum clattn_causal)causal,
                                                                        .skeleton = "forward_matrix"});
                }
}

static void the_papers_bound_is_the_papers(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = device(CLATTN_DEVICE_GPU, 48 << 10, 1024);
    assert_int_equal(test_plan(&capabilities,
                               (struct clattn_problem){.d = 64, .expected_n_q = 1000, .expected_n_kv = 999}, &choice,
                               &info),
                     CLATTN_SUCCESS);
    assert_int_equal(info.m_elements, 12288);
    assert_int_equal(info.paper_b_c, 48);
    assert_int_equal(info.paper_b_r, 48);
    assert_int_equal(info.t_r, (1000 + info.b_r - 1) / info.b_r);
    assert_int_equal(info.t_c, (999 + info.b_c - 1) / info.b_c);
    assert_string_equal(info.steps[0].name, "paper");
    assert_int_equal(info.steps[info.step_count - 1].b_r, info.b_r);
    assert_int_equal(info.steps[info.step_count - 1].b_c, info.b_c);
    assert_int_equal(test_plan(&capabilities, (struct clattn_problem){.d = 16}, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.paper_b_c, 192);
    assert_int_equal(info.paper_b_r, 16);
}

static void the_skeleton_follows_the_device(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct clattn_capabilities capabilities = device(CLATTN_DEVICE_CPU, 1 << 20, 4096);
    assert_int_equal(test_plan(&capabilities, (struct clattn_problem){.d = 64}, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_cpu");
    capabilities = device(CLATTN_DEVICE_GPU, 64 << 10, 256);
    assert_int_equal(test_plan(&capabilities, (struct clattn_problem){.d = 64}, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_simt");
    assert_int_equal(
        test_plan(&capabilities, (struct clattn_problem){.d = 64, .skeleton = "forward_cuda"}, &choice, &info),
        CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(test_error.text, "forward_cuda"));
    assert_non_null(strstr(test_error.text, "forward_simt"));
}

/* Stepping down from any choice ends, and each step is smaller than the one before. */
static void check_stepping_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *wanted)
{
    struct clattn_problem problem;
    struct cla_choice choice;
    struct clattn_plan_info info;
    assert_int_equal(cla_problem_resolve(wanted, &problem, &test_error), 0);
    assert_int_equal(cla_plan(capabilities, &problem, &choice, &info, &test_error), 0);
    int steps = 0;
    while (!cla_plan_step_down(capabilities, &problem, "a test", &choice, &info, &test_error)) {
        check_limits(capabilities, &info);
        assert_true(++steps < 100);
    }
    assert_int_equal(test_error.status, CLATTN_NOTHING_FITS);
}

static void stepping_down_ends(void **state)
{
    (void)state;
    EACH (i, head_dimensions)
        EACH (g, group_sizes)
            for (int type = CLATTN_DEVICE_CPU; type <= CLATTN_DEVICE_GPU; type++) {
                const struct clattn_capabilities capabilities =
                    device((enum clattn_device_type)type, 64 << 10, group_sizes[g]);
                check_stepping_down(&capabilities, &(struct clattn_problem){.d = head_dimensions[i]});
                if (head_dimensions[i] == 128)
                    check_stepping_down(&capabilities,
                                        &(struct clattn_problem){.d = head_dimensions[i], .pass = CLATTN_BACKWARD});
            }
    EACH (i, head_dimensions)
        EACH (c, compute_capabilities) {
            const struct clattn_capabilities capabilities = nvidia(compute_capabilities[c]);
            check_stepping_down(&capabilities, &(struct clattn_problem){.d = head_dimensions[i], .dtype = CLATTN_FP16});
            if (head_dimensions[i] == 128)
                check_stepping_down(
                    &capabilities,
                    &(struct clattn_problem){.d = head_dimensions[i], .dtype = CLATTN_FP16, .pass = CLATTN_BACKWARD});
        }
}

static void defines_are_integers_in_order(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct cla_text text = {0};
    const struct clattn_capabilities capabilities = device(CLATTN_DEVICE_GPU, 48 << 10, 256);
    struct clattn_problem problem;
    assert_int_equal(
        cla_problem_resolve(&(struct clattn_problem){.d = 40, .d_v = 24, .dtype = CLATTN_BF16}, &problem, &test_error),
        0);
    assert_int_equal(cla_plan(&capabilities, &problem, &choice, &info, &test_error), 0);
    cla_plan_defines(&problem, &choice, &text);
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "#define CLATTN_D 40\n"));
    assert_non_null(strstr(text.data, "#define CLATTN_D_V 24\n"));
    assert_non_null(strstr(text.data, "#define CLATTN_DTYPE 2\n"));
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
        char name[64], rest[8];
        int value;
        assert_int_equal(sscanf(line, "#define CLATTN_%63s %d%7s", name, &value, rest), 2);
    }
    cla_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold_and_whatever_fits_is_found),
        cmocka_unit_test(limits_hold_on_nvidia),
        cmocka_unit_test(four_kilobytes_are_enough),
        cmocka_unit_test(more_local_memory_never_plans_worse),
        cmocka_unit_test(nothing_forced_is_cheaper_than_the_plan),
        cmocka_unit_test(nor_does_it_on_matrix_units),
        cmocka_unit_test(the_papers_bound_is_the_papers),
        cmocka_unit_test(the_skeleton_follows_the_device),
        cmocka_unit_test(stepping_down_ends),
        cmocka_unit_test(defines_are_integers_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
