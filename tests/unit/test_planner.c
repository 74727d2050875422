/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner over thousands of made-up devices: what it promises must hold on every one. */
#include "plan/planner.h"
#include "plan/problem.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

static struct cla_error error;

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

/* Without what unit/test_plan_hopper.c is about. */
static struct clattn_capabilities nvidia(uint32_t compute_capability)
{
    struct clattn_capabilities capabilities = test_nvidia(compute_capability, 132);
    capabilities.nv_wgmma = false;
    return capabilities;
}

static clattn_status plan(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_choice *choice, struct clattn_plan_info *info)
{
    struct clattn_problem resolved;
    const clattn_status status = cla_problem_resolve(problem, &resolved, &error);
    return status ? status : cla_plan(capabilities, &resolved, choice, info, &error);
}

static const uint64_t local_sizes[] = {1 << 10,  2 << 10,  4 << 10,   8 << 10,   16 << 10,  32 << 10, 48 << 10,
                                       64 << 10, 99 << 10, 128 << 10, 164 << 10, 226 << 10, 1 << 20};
static const uint64_t group_sizes[] = {1, 16, 63, 128, 256, 1024};
static const int head_dimensions[] = {1, 3, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256, 320, 384, 512};

#define EACH(index, array) for (size_t index = 0; index < sizeof array / sizeof *array; index++)

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
    const clattn_status status = plan(capabilities, &problem, &choice, &info);
    if ((status == CLATTN_SUCCESS) != planned)
        fail_msg("d %d, d_v %d, %llu bytes, %llu work-items: planned %d, but the smallest block answers %d (%s)",
                 problem.d, problem.d_v, (unsigned long long)capabilities->local_memory_bytes,
                 (unsigned long long)capabilities->max_work_group_size, planned, status, error.text);
}

static void check_device(const struct clattn_capabilities *capabilities, const char *skeleton)
{
    EACH (i, head_dimensions) {
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
            const struct clattn_problem problem = {.d = head_dimensions[i],
                                                   .d_v = head_dimensions[(i * 7 + 3) % 18],
                                                   .dtype = (enum clattn_dtype)dtype,
                                                   .skeleton = skeleton};
            struct cla_choice choice;
            struct clattn_plan_info info;
            const clattn_status status = plan(capabilities, &problem, &choice, &info);
            if (status && status != CLATTN_NOTHING_FITS)
                fail_msg("status %d: %s", status, error.text);
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
        assert_int_equal(plan(&capabilities, &problem, &choice, &info), CLATTN_SUCCESS);
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
        if (plan(&capabilities, problem, &choice, &info)) {
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
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64, .expected_n_q = 1000, .expected_n_kv = 999},
                          &choice, &info),
                     CLATTN_SUCCESS);
    assert_int_equal(info.m_elements, 12288);
    assert_int_equal(info.paper_b_c, 48);
    assert_int_equal(info.paper_b_r, 48);
    assert_int_equal(info.t_r, (1000 + info.b_r - 1) / info.b_r);
    assert_int_equal(info.t_c, (999 + info.b_c - 1) / info.b_c);
    assert_string_equal(info.steps[0].name, "paper");
    assert_int_equal(info.steps[info.step_count - 1].b_r, info.b_r);
    assert_int_equal(info.steps[info.step_count - 1].b_c, info.b_c);
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 16}, &choice, &info), CLATTN_SUCCESS);
    assert_int_equal(info.paper_b_c, 192);
    assert_int_equal(info.paper_b_r, 16);
}

static void the_skeleton_follows_the_device(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct clattn_capabilities capabilities = device(CLATTN_DEVICE_CPU, 1 << 20, 4096);
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64}, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_cpu");
    capabilities = device(CLATTN_DEVICE_GPU, 64 << 10, 256);
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64}, &choice, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_simt");
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64, .skeleton = "forward_cuda"}, &choice, &info),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "forward_cuda"));
    assert_non_null(strstr(error.text, "forward_simt"));
}

/* What the fastest configurations were on the devices that were timed, and what others have room for. */
static const struct {
    uint32_t compute_capability;
    enum clattn_dtype dtype;
    int d, d_v;
    enum clattn_causal causal;
    int64_t n_q;
    const char *skeleton;
    int b_r, b_c, work_group_size;
    const char *constants;
} expected[] = {
    {900, CLATTN_FP16, 32, 32, CLATTN_FULL, 0, "forward_matrix", 128, 128, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {900, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 128, 128,
     "KEYS=128 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {900, CLATTN_BF16, 64, 64, CLATTN_CAUSAL_TOP_LEFT, 4096, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {900, CLATTN_FP16, 128, 128, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {900, CLATTN_BF16, 128, 128, CLATTN_CAUSAL_BOTTOM_RIGHT, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {900, CLATTN_BF16, 128, 128, CLATTN_FULL, 64, "forward_matrix", 64, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=1"},
    {900, CLATTN_FP16, 192, 128, CLATTN_FULL, 0, "forward_matrix", 64, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=1"},
    {900, CLATTN_FP16, 256, 256, CLATTN_FULL, 0, "forward_matrix", 128, 64, 256,
     "KEYS=64 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=1"},
    {900, CLATTN_FP16, 257, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {900, CLATTN_FP32, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {806, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {806, CLATTN_FP16, 128, 128, CLATTN_FULL, 0, "forward_matrix", 128, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {705, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {705, CLATTN_FP16, 128, 128, CLATTN_FULL, 0, "forward_matrix", 64, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=1"},
    {705, CLATTN_BF16, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {700, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
};

static void nvidia_devices_get_their_tensor_cores(void **state)
{
    (void)state;
    EACH (i, expected) {
        const struct clattn_capabilities capabilities = nvidia(expected[i].compute_capability);
        const struct clattn_problem problem = {.dtype = expected[i].dtype,
                                               .d = expected[i].d,
                                               .d_v = expected[i].d_v,
                                               .causal = expected[i].causal,
                                               .expected_n_q = expected[i].n_q};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(plan(&capabilities, &problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, expected[i].skeleton);
        if (!expected[i].b_r)
            continue;
        assert_int_equal(info.b_r, expected[i].b_r);
        assert_int_equal(info.b_c, expected[i].b_c);
        assert_int_equal(info.work_group_size, expected[i].work_group_size);
        assert_non_null(strstr(info.constants, expected[i].constants));
        assert_true(info.local_bytes + 128 <= info.local_bytes_limit); /* which the driver adds */
        assert_true(info.private_bytes < 255 * 4);
        assert_int_equal(info.m_elements, info.local_bytes_limit / 2);
    }
}

static void the_compute_capability_is_baked_in(void **state)
{
    (void)state;
    static const struct {
        uint32_t capability;
        const char *constant;
    } rows[] = {{900, "CLATTN_COMPUTE_CAPABILITY=90 "},
                {806, "CLATTN_COMPUTE_CAPABILITY=86 "},
                {705, "CLATTN_COMPUTE_CAPABILITY=75 "},
                {1201, "CLATTN_COMPUTE_CAPABILITY=121 "}};
    EACH (i, rows) {
        const struct clattn_capabilities capabilities = nvidia(rows[i].capability);
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, &choice, &info),
                         CLATTN_SUCCESS);
        assert_non_null(strstr(info.constants, rows[i].constant));
    }
}

/* d = 128 on an H200: K and V twice and Q, each row 17 chunks of 16 bytes, and 16 bytes for the group's vote. */
static void matrix_tiles_take_what_the_kernel_declares(void **state)
{
    (void)state;
    struct cla_choice choice;
    struct clattn_plan_info info;
    const struct clattn_capabilities capabilities = nvidia(900);
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 128, .dtype = CLATTN_FP16}, &choice, &info), 0);
    assert_int_equal(info.local_bytes, (128 + 4 * 64) * 17 * 16 + 16);
    assert_int_equal(plan(&capabilities,
                          &(struct clattn_problem){.d = 1, .d_v = 256, .dtype = CLATTN_FP16, .b_r = 128, .b_c = 16},
                          &choice, &info),
                     0);
    assert_string_equal(info.skeleton, "forward_matrix");
    assert_int_equal(info.local_bytes, 128 * 33 * 16 + 16); /* the outputs need more than the inputs did */
}

/* What a matrix skeleton cannot serve: its message says which argument, its value, and what would be right. */
static void refused(const struct clattn_capabilities *capabilities, struct clattn_problem problem, const char *skeleton,
                    const char *const says[3])
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    problem.skeleton = skeleton;
    assert_int_equal(plan(capabilities, &problem, &choice, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(error.text, skeleton));
    for (int i = 0; i < 3; i++)
        if (!strstr(error.text, says[i]))
            fail_msg("\"%s\" does not say \"%s\"", error.text, says[i]);
}

static void matrix_units_refuse_what_they_cannot(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        const char *says[3];
    } rows[] = {
        {{.d = 64}, {"problem.dtype", "fp32", "CLATTN_BF16"}},
        {{.d = 257, .dtype = CLATTN_FP16}, {"problem.d ", "257", "1 to 256"}},
        {{.d = 64, .d_v = 300, .dtype = CLATTN_FP16}, {"problem.d_v", "300", "1 to 256"}},
        {{.d = 64, .dtype = CLATTN_FP16, .scale = -1e9f}, {"problem.scale", "-1e+09", "6.9e7"}},
        {{.d = 64, .dtype = CLATTN_FP16, .b_r = 24}, {"problem.b_r", "24", "multiples of 16"}},
        {{.d = 64, .dtype = CLATTN_FP16, .b_c = 8}, {"b_c", "8", "multiples of 16"}},
        {{.d = 64, .dtype = CLATTN_BF16, .b_c = 4096}, {"b_c", "4096", "bytes of local memory"}},
        {{.d = 64, .dtype = CLATTN_BF16, .b_r = 64, .work_group_size = 96}, {"work_group_size", "96", "quarter"}},
    };
    const struct clattn_capabilities hopper = nvidia(900);
    EACH (i, rows) {
        refused(&hopper, rows[i].problem, "forward_matrix", rows[i].says);
        refused(&hopper, rows[i].problem, "forward_matrix_emulated", rows[i].says);
    }
}

static void matrix_units_refuse_devices_without_them(void **state)
{
    (void)state;
    static const char *const turing_says[3] = {"problem.dtype", "bf16", "8.0"};
    static const char *const volta_says[3] = {"problem.skeleton", "7.0", "7.5"};
    static const char *const other_says[3] = {"problem.skeleton", "made up", "7.5"};
    const struct clattn_capabilities turing = nvidia(705), volta = nvidia(700);
    const struct clattn_capabilities other = device(CLATTN_DEVICE_GPU, 64 << 10, 1024);
    refused(&turing, (struct clattn_problem){.d = 64, .dtype = CLATTN_BF16}, "forward_matrix", turing_says);
    refused(&volta, (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, "forward_matrix", volta_says);
    refused(&other, (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, "forward_matrix", other_says);
}

static void matrix_units_honour_forced_sizes(void **state)
{
    (void)state;
    static const struct {
        int b_r, b_c, work_group_size, row_tiles, keys;
    } rows[] = {{16, 16, 32, 1, 16},  {64, 0, 0, 2, 64}, {48, 48, 0, 1, 48}, {128, 0, 256, 1, 64},
                {128, 32, 64, 4, 32}, {0, 0, 64, 2, 64}, {0, 96, 0, 2, 48},  {96, 80, 64, 3, 16}};
    const struct clattn_capabilities capabilities = nvidia(900);
    EACH (i, rows) {
        const struct clattn_problem problem = {.d = 128,
                                               .dtype = CLATTN_BF16,
                                               .b_r = rows[i].b_r,
                                               .b_c = rows[i].b_c,
                                               .work_group_size = rows[i].work_group_size};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(plan(&capabilities, &problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "forward_matrix");
        assert_true(!rows[i].b_r || info.b_r == rows[i].b_r);
        assert_true(!rows[i].b_c || info.b_c == rows[i].b_c);
        assert_true(!rows[i].work_group_size || info.work_group_size == rows[i].work_group_size);
        assert_int_equal(choice.config.matrix.row_tiles, rows[i].row_tiles);
        assert_int_equal(choice.config.matrix.keys, rows[i].keys);
        assert_int_equal(info.work_group_size, info.b_r / (16 * choice.config.matrix.row_tiles) * 32);
    }
    /* Sizes that matrix units cannot have go to a kernel that can, unless it was named. */
    struct cla_choice choice;
    struct clattn_plan_info info;
    assert_int_equal(plan(&capabilities, &(struct clattn_problem){.d = 64, .dtype = CLATTN_FP16, .b_r = 8, .b_c = 8},
                          &choice, &info),
                     CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_simt");
}

/* Stepping down from any choice ends, and each step is smaller than the one before. */
static void check_stepping_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *wanted)
{
    struct clattn_problem problem;
    struct cla_choice choice;
    struct clattn_plan_info info;
    assert_int_equal(cla_problem_resolve(wanted, &problem, &error), 0);
    assert_int_equal(cla_plan(capabilities, &problem, &choice, &info, &error), 0);
    int steps = 0;
    while (!cla_plan_step_down(capabilities, &problem, "a test", &choice, &info, &error)) {
        check_limits(capabilities, &info);
        assert_true(++steps < 100);
    }
    assert_int_equal(error.status, CLATTN_NOTHING_FITS);
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
            }
    EACH (i, head_dimensions)
        EACH (c, compute_capabilities) {
            const struct clattn_capabilities capabilities = nvidia(compute_capabilities[c]);
            check_stepping_down(&capabilities, &(struct clattn_problem){.d = head_dimensions[i], .dtype = CLATTN_FP16});
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
        cla_problem_resolve(&(struct clattn_problem){.d = 40, .d_v = 24, .dtype = CLATTN_BF16}, &problem, &error), 0);
    assert_int_equal(cla_plan(&capabilities, &problem, &choice, &info, &error), 0);
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
        cmocka_unit_test(nor_does_it_on_matrix_units),
        cmocka_unit_test(the_papers_bound_is_the_papers),
        cmocka_unit_test(the_skeleton_follows_the_device),
        cmocka_unit_test(nvidia_devices_get_their_tensor_cores),
        cmocka_unit_test(the_compute_capability_is_baked_in),
        cmocka_unit_test(matrix_tiles_take_what_the_kernel_declares),
        cmocka_unit_test(matrix_units_refuse_what_they_cannot),
        cmocka_unit_test(matrix_units_refuse_devices_without_them),
        cmocka_unit_test(matrix_units_honour_forced_sizes),
        cmocka_unit_test(stepping_down_ends),
        cmocka_unit_test(defines_are_integers_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
