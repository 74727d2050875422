/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is planned for forward_matrix: the fastest of what was timed where there is room for it, and what it refuses. */
#include "plan/matrix_units.h"
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <string.h>

/* Without what unit/test_plan_hopper.c is about. */
static struct clattn_capabilities nvidia(uint32_t compute_capability)
{
    return test_nvidia_without_warp_groups(compute_capability, 132);
}

/* A GPU of another vendor's. */
static struct clattn_capabilities without_vendor(void)
{
    struct clattn_capabilities capabilities = nvidia(0);
    capabilities.vendor_id = 0;
    capabilities.nv_registers_per_group = 0;
    strcpy(capabilities.device_name, "made up");
    capabilities.extensions[0] = 0;
    return capabilities;
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
    {900, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
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
    {900, CLATTN_FP32, 129, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {900, CLATTN_FP32, 64, 64, CLATTN_FULL, 32, "forward_simt", 0, 0, 0, ""},
    {900, CLATTN_FP32, 64, 64, CLATTN_FULL, 64, "forward_matrix", 64, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=1"},
    {900, CLATTN_FP32, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {900, CLATTN_FP32, 128, 128, CLATTN_FULL, 65, "forward_matrix", 128, 16, 128,
     "KEYS=16 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {806, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {806, CLATTN_FP16, 128, 128, CLATTN_FULL, 0, "forward_matrix", 128, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=2"},
    {705, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_matrix", 128, 64, 128,
     "KEYS=64 CLATTN_Q_REGISTERS=1 CLATTN_ROW_TILES=2"},
    {705, CLATTN_FP16, 128, 128, CLATTN_FULL, 0, "forward_matrix", 64, 32, 128,
     "KEYS=32 CLATTN_Q_REGISTERS=0 CLATTN_ROW_TILES=1"},
    {705, CLATTN_BF16, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {705, CLATTN_FP32, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
    {700, CLATTN_FP16, 64, 64, CLATTN_FULL, 0, "forward_simt", 0, 0, 0, ""},
};

static void nvidia_devices_get_their_tensor_cores(void **state)
{
    (void)state;
    EACH (i, expected) {
        const struct clattn_capabilities capabilities = nvidia(expected[i].compute_capability);
        const bool by_name = expected[i].dtype == CLATTN_FP32 && expected[i].b_r;
        const struct clattn_problem problem = {.dtype = expected[i].dtype,
                                               .skeleton = by_name ? expected[i].skeleton : NULL,
                                               .d = expected[i].d,
                                               .d_v = expected[i].d_v,
                                               .causal = expected[i].causal,
                                               .expected_n_q = expected[i].n_q};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, expected[i].skeleton);
        if (!expected[i].b_r)
            continue;
        assert_int_equal(info.b_r, expected[i].b_r);
        assert_int_equal(info.b_c, expected[i].b_c);
        assert_int_equal(info.work_group_size, expected[i].work_group_size);
        assert_non_null(strstr(info.constants, expected[i].constants));
        assert_true(info.local_bytes + 128 <= info.local_bytes_limit); /* which the driver adds */
        assert_true(info.private_bytes < 255 * 4);
        assert_int_equal(info.m_elements, info.local_bytes_limit / (expected[i].dtype == CLATTN_FP32 ? 4 : 2));
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
        assert_int_equal(
            test_plan(&capabilities, (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, &choice, &info),
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
    assert_int_equal(test_plan(&capabilities, (struct clattn_problem){.d = 128, .dtype = CLATTN_FP16}, &choice, &info),
                     0);
    assert_int_equal(info.local_bytes, (128 + 4 * 64) * 17 * 16 + 16);
    assert_int_equal(test_plan(&capabilities,
                               (struct clattn_problem){.d = 128, .dtype = CLATTN_FP16, .features = CLATTN_DROPOUT},
                               &choice, &info),
                     0);
    assert_int_equal(info.local_bytes,
                     (128 + 4 * 64) * 17 * 16 + 128 * 512 / 8 + 16); /* and what is dropped of 512 keys */
    assert_non_null(strstr(info.constants, "CLATTN_KEEPS_PHILOX=2"));
    assert_int_equal(test_plan(&capabilities,
                               (struct clattn_problem){.d = 1, .d_v = 256, .dtype = CLATTN_FP16, .b_r = 128, .b_c = 16},
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
    assert_int_equal(test_plan(capabilities, problem, &choice, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(test_error.text, skeleton));
    for (int i = 0; i < 3; i++)
        if (!strstr(test_error.text, says[i]))
            fail_msg("\"%s\" does not say \"%s\"", test_error.text, says[i]);
}

static void matrix_units_refuse_what_they_cannot(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        const char *says[3];
    } rows[] = {
        {{.d = 257}, {"problem.d ", "257", "1 to 256"}},
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
    static const char *const of_fp32_says[3] = {"problem.dtype", "fp32", "8.0"};
    static const char *const volta_says[3] = {"problem.skeleton", "7.0", "7.5"};
    static const char *const other_says[3] = {"problem.skeleton", "made up", "7.5"};
    const struct clattn_capabilities turing = nvidia(705), volta = nvidia(700);
    const struct clattn_capabilities other = without_vendor();
    refused(&turing, (struct clattn_problem){.d = 64, .dtype = CLATTN_BF16}, "forward_matrix", turing_says);
    refused(&turing, (struct clattn_problem){.d = 64}, "forward_matrix", of_fp32_says);
    refused(&volta, (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, "forward_matrix", volta_says);
    refused(&other, (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16}, "forward_matrix", other_says);
}

/* Elements of 32 bits have a unit of their own, and tiles of twice the bytes; of the emulations one takes them. */
static void fp32_has_a_unit(void **state)
{
    (void)state;
    static const char *const says[3] = {"fp32", "emulated_column", "fp16 and bf16"};
    const struct clattn_capabilities ampere = nvidia(800);
    struct clattn_plan_info info;
    struct cla_choice choice;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_FP16; dtype++) {
        const struct clattn_problem problem = {
            .d = 64, .dtype = (enum clattn_dtype)dtype, .b_r = 64, .b_c = 32, .skeleton = "forward_matrix"};
        assert_int_equal(test_plan(&ampere, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(choice.config.unit->name, dtype == CLATTN_FP32 ? "nvidia_tf32" : "nvidia_mma");
        assert_int_equal(info.local_bytes, (64 + 4 * 32) * (dtype == CLATTN_FP32 ? 17 : 9) * 16 + 16);
    }
    refused(&ampere, (struct clattn_problem){.d = 64, .knobs = "lanes=32 stale_max=0 keys=16", .b_r = 16, .b_c = 16},
            "forward_matrix_emulated", says);
}

/* Products by three of tf32 miss the error rule of fp32 in some gradients: a caller has to name them. */
static void fp32_is_taken_to_tensor_cores_by_name_alone(void **state)
{
    (void)state;
    static const struct {
        enum clattn_pass pass;
        const char *named, *skeleton;
    } rows[] = {{CLATTN_FORWARD, NULL, "forward_simt"},
                {CLATTN_FORWARD, "forward_matrix", "forward_matrix"},
                {CLATTN_BACKWARD, NULL, "backward_simt"},
                {CLATTN_BACKWARD, "backward_matrix", "backward_matrix"}};
    const struct clattn_capabilities hopper = nvidia(900);
    EACH (i, rows) {
        const struct clattn_problem problem = {.pass = rows[i].pass, .d = 128, .skeleton = rows[i].named};
        struct clattn_plan_info info;
        struct cla_choice choice;
        assert_int_equal(test_plan(&hopper, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, rows[i].skeleton);
    }
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
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
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
    assert_int_equal(test_plan(&capabilities,
                               (struct clattn_problem){.d = 64, .dtype = CLATTN_FP16, .b_r = 8, .b_c = 8}, &choice,
                               &info),
                     CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_simt");
}

/* What the kernel asserts of its constants, wherever a mask's blocks, local memory and small groups have led. Answers
 * whether anything was planned. */
static bool check_constants(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    if (test_plan(capabilities, *problem, &choice, &info))
        return false;
    const struct cla_config *config = &choice.config;
    const int rows = 16 * config->matrix.row_tiles, keys = config->matrix.keys;
    if (rows < 16 || keys < 16 || config->b_r < rows || config->b_r % rows || keys % 16 || config->b_c % keys ||
        config->work_group_size != config->b_r / rows * config->lanes)
        fail_msg(
            "d %d, blocks %d x %d, %llu bytes, %llu work-items, forced %d x %d of %d: B_r %d, B_c %d, keys %d, %d row "
            "tiles, %d work-items",
            problem->d, problem->block_q, problem->block_kv,
            (unsigned long long)capabilities->static_local_memory_bytes,
            (unsigned long long)capabilities->max_work_group_size, problem->b_r, problem->b_c, problem->work_group_size,
            config->b_r, config->b_c, keys, config->matrix.row_tiles, config->work_group_size);
    return true;
}

static void constants_are_what_the_kernel_takes(void **state)
{
    (void)state;
    static const char *const skeletons[] = {"forward_matrix", "forward_matrix_emulated"};
    static const uint64_t local_sizes[] = {16 << 10, 24 << 10, 32 << 10, 48 << 10, 63 << 10, 99 << 10, 226 << 10};
    static const uint64_t group_sizes[] = {32, 64, 96, 1024};
    static const int dimensions[] = {32, 64, 111, 128, 192, 256};
    static const int forced_groups[] = {0, 32, 96, 128};
    static const int blocks[] = {16, 32, 48, 80, 96, 112, 128, 176, 240};
    EACH (s, skeletons) {
        int planned = 0;
        EACH (l, local_sizes)
            EACH (g, group_sizes)
                EACH (d, dimensions)
                    EACH (f, forced_groups)
                        EACH (q, blocks)
                            EACH (kv, blocks) {
                                struct clattn_capabilities capabilities = nvidia(l % 2 ? 806 : 705);
                                capabilities.local_memory_bytes = capabilities.static_local_memory_bytes =
                                    local_sizes[l];
                                capabilities.max_work_group_size = group_sizes[g];
                                const struct clattn_problem problem = {.d = dimensions[d],
                                                                       .dtype = CLATTN_FP16,
                                                                       .skeleton = skeletons[s],
                                                                       .work_group_size = forced_groups[f],
                                                                       .features = CLATTN_BLOCK_MASK,
                                                                       .block_q = blocks[q],
                                                                       .block_kv = blocks[kv]};
                                planned += check_constants(&capabilities, &problem);
                            }
        assert_true(planned > 10000);
    }
}

/* Tiles that lie in one block of a mask; forward, where most blocks are expected to be seen, as many rows as without.
 */
static void masks_in_blocks_have_tiles_of_their_own(void **state)
{
    (void)state;
    static const struct {
        enum clattn_pass pass;
        int d, block;
        float density;
        int b_r, b_c, work_group_size;
    } rows[] = {
        {CLATTN_FORWARD, 64, 64, 0, 64, 64, 64},     {CLATTN_FORWARD, 64, 64, 0.99f, 128, 64, 128},
        {CLATTN_FORWARD, 128, 64, 0, 64, 32, 64},    {CLATTN_FORWARD, 128, 64, 0.99f, 128, 64, 128},
        {CLATTN_FORWARD, 128, 128, 0, 128, 64, 128}, {CLATTN_FORWARD, 128, 128, 1, 128, 64, 128},
        {CLATTN_FORWARD, 256, 64, 0, 64, 64, 128},   {CLATTN_FORWARD, 256, 64, 0.99f, 128, 64, 256},
        {CLATTN_BACKWARD, 64, 64, 0, 64, 64, 64},    {CLATTN_BACKWARD, 64, 64, 0.99f, 64, 64, 64},
        {CLATTN_BACKWARD, 128, 64, 0, 64, 64, 128},  {CLATTN_BACKWARD, 128, 64, 0.99f, 64, 64, 128},
    };
    const struct clattn_capabilities capabilities = nvidia(900);
    EACH (i, rows) {
        const struct clattn_problem problem = {.pass = rows[i].pass,
                                               .dtype = CLATTN_FP16,
                                               .d = rows[i].d,
                                               .features = CLATTN_BLOCK_MASK,
                                               .block_q = rows[i].block,
                                               .block_kv = rows[i].block,
                                               .expected_density = rows[i].density};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, rows[i].pass == CLATTN_FORWARD ? "forward_matrix" : "backward_matrix");
        assert_int_equal(info.b_r, rows[i].b_r);
        assert_int_equal(info.b_c, rows[i].b_c);
        assert_int_equal(info.work_group_size, rows[i].work_group_size);
    }
}

/* As long as there is room for it beside scores and outputs. */
static void short_rows_of_q_stay_in_registers(void **state)
{
    (void)state;
    static const struct {
        int d;
        unsigned features;
        int kept;
    } rows[] = {{64, 0, 1}, {64, CLATTN_SOFTCAP, 1}, {48, CLATTN_SOFTCAP, 1}, {32, CLATTN_DROPOUT, 1}, {72, 0, 0},
                {128, 0, 0}};
    const struct clattn_capabilities capabilities = nvidia(900);
    EACH (i, rows) {
        const struct clattn_problem problem = {.d = rows[i].d, .dtype = CLATTN_FP16, .features = rows[i].features};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "forward_matrix");
        assert_int_equal(choice.config.matrix.q_registers, rows[i].kept);
    }
}

/* Bounds of the tile before are tried where that was faster; the knob has the last word. */
static const struct {
    int d;
    unsigned features;
    enum clattn_causal causal;
    const char *knobs;
    int64_t keys;
    int stale_max;
} stale_maxima[] = {
    {64, 0, CLATTN_FULL, NULL, 0, 1},
    {64, CLATTN_SOFTCAP, CLATTN_FULL, NULL, 0, 1},
    {64, CLATTN_DROPOUT, CLATTN_FULL, NULL, 0, 1},
    {64, CLATTN_SOFTCAP, CLATTN_CAUSAL_TOP_LEFT, NULL, 0, 1},
    {64, CLATTN_ALIBI, CLATTN_FULL, NULL, 0, 1},
    {64, CLATTN_ALIBI, CLATTN_CAUSAL_BOTTOM_RIGHT, NULL, 0, 1},
    {64, CLATTN_MASK, CLATTN_FULL, NULL, 0, 0},
    {128, 0, CLATTN_FULL, NULL, 0, 1},
    {128, 0, CLATTN_CAUSAL_BOTTOM_RIGHT, NULL, 0, 1},
    {128, CLATTN_SOFTCAP, CLATTN_FULL, NULL, 0, 1},
    {128, CLATTN_DROPOUT, CLATTN_FULL, NULL, 0, 1},
    {128, CLATTN_WINDOW, CLATTN_CAUSAL_BOTTOM_RIGHT, NULL, 0, 1},
    {256, 0, CLATTN_FULL, NULL, 0, 0},
    {128, 0, CLATTN_FULL, NULL, 1023, 0},
    {128, 0, CLATTN_FULL, NULL, 1024, 1},
    {64, 0, CLATTN_FULL, NULL, 512, 1},
    {128, 0, CLATTN_FULL, "stale_max=0", 0, 0},
    {256, 0, CLATTN_FULL, "stale_max=1", 0, 1},
};

static void stale_maxima_are_planned_where_they_gain(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = nvidia(900);
    EACH (i, stale_maxima) {
        const struct clattn_problem problem = {.d = stale_maxima[i].d,
                                               .dtype = CLATTN_FP16,
                                               .features = stale_maxima[i].features,
                                               .causal = stale_maxima[i].causal,
                                               .expected_n_kv = stale_maxima[i].keys,
                                               .skeleton = stale_maxima[i].knobs ? "forward_matrix" : NULL,
                                               .knobs = stale_maxima[i].knobs};
        struct cla_choice choice;
        struct clattn_plan_info info;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_string_equal(info.skeleton, "forward_matrix");
        assert_int_equal(choice.config.matrix.stale_max, stale_maxima[i].stale_max);
        assert_non_null(
            strstr(info.constants, stale_maxima[i].stale_max ? "CLATTN_STALE_MAX=1" : "CLATTN_STALE_MAX=0"));
    }
}

/* Gradients of fp32: where dQ may be summed in any order one kernel forms all, up to d 128. */
static void one_kernel_adds_up_in_any_order(void **state)
{
    (void)state;
    static const struct {
        uint32_t compute_capability;
        int unordered, d, block_q, b_r, sums;
        const char *side; /* of dK and dV */
    } rows[] = {{900, 1, 64, 0, 64, 1, "dk_dv_slice=32 "},  {900, 1, 128, 0, 64, 1, "dk_dv_slice=16 "},
                {800, 1, 40, 0, 64, 1, "dk_dv_slice=32 "},  {900, 0, 64, 0, 128, 0, "dk_dv_slice=16 "},
                {900, 1, 64, 32, 64, 1, "dk_dv_slice=32 "}, {900, 1, 129, 0, 64, 0, "dk_dv_split=2"}};
    struct clattn_problem problem = {.pass = CLATTN_BACKWARD, .skeleton = "backward_matrix"};
    struct cla_choice choice;
    struct clattn_plan_info info;
    EACH (i, rows) {
        const struct clattn_capabilities capabilities = nvidia(rows[i].compute_capability);
        problem.unordered = rows[i].unordered;
        problem.d = problem.d_v = rows[i].d;
        problem.block_q = problem.block_kv = rows[i].block_q;
        problem.features = rows[i].block_q ? CLATTN_BLOCK_MASK : 0;
        assert_int_equal(test_plan(&capabilities, problem, &choice, &info), CLATTN_SUCCESS);
        assert_int_equal(info.sums, rows[i].sums);
        assert_int_equal(info.b_r, rows[i].b_r);
        assert_non_null(strstr(info.knobs, rows[i].side));
        assert_int_equal(test_sum_bytes(&choice, problem, true),
                         rows[i].sums * 4 * 64 * 16 * ((rows[i].d + 31) / 32 * 2));
    }
    const struct clattn_capabilities hopper = nvidia(900);
    problem = (struct clattn_problem){
        .pass = CLATTN_BACKWARD, .skeleton = "backward_matrix", .d = 64, .unordered = 1, .knobs = "dk_dv_split=2"};
    assert_int_equal(test_plan(&hopper, problem, &choice, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(test_error.text, "problem.unordered is 1, b_r is 64, dk_dv_split 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvidia_devices_get_their_tensor_cores),
        cmocka_unit_test(the_compute_capability_is_baked_in),
        cmocka_unit_test(matrix_tiles_take_what_the_kernel_declares),
        cmocka_unit_test(matrix_units_refuse_what_they_cannot),
        cmocka_unit_test(matrix_units_refuse_devices_without_them),
        cmocka_unit_test(fp32_has_a_unit),
        cmocka_unit_test(fp32_is_taken_to_tensor_cores_by_name_alone),
        cmocka_unit_test(matrix_units_honour_forced_sizes),
        cmocka_unit_test(constants_are_what_the_kernel_takes),
        cmocka_unit_test(masks_in_blocks_have_tiles_of_their_own),
        cmocka_unit_test(short_rows_of_q_stay_in_registers),
        cmocka_unit_test(stale_maxima_are_planned_where_they_gain),
        cmocka_unit_test(one_kernel_adds_up_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
