/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What drivers and devices have of their own, each faked by what it reports: plans stay within it. */
#include "plan/machine.h"
#include "plan/skeleton.h"
#include "support/unit.h"
#include <clattn/plan.h>
#include <stdio.h>
#include <string.h>

enum { KILOBYTE = 1024 };

/* A plan of it, and what must hold. */
typedef void judge(const struct clattn_capabilities *device, const struct clattn_problem *problem,
                   const struct clattn_plan_info *info);

static bool runs_on(const struct clattn_plan_info *info, const char *ending)
{
    const size_t length = strlen(info->skeleton), tail = strlen(ending);
    return length >= tail && strcmp(info->skeleton + length - tail, ending) == 0;
}

/* Larger groups compile, and fail when they are enqueued. */
static void in_256_items(const struct clattn_capabilities *device, const struct clattn_problem *problem,
                         const struct clattn_plan_info *info)
{
    (void)problem;
    assert_true(info->work_group_size <= 256);
    assert_true(info->work_group_size % (int)device->sub_group_size == 0);
}

/* PoCL before version 6 makes loops of what lies between barriers, and takes minutes over kernels that have many. */
static void without_barriers(const struct clattn_capabilities *device, const struct clattn_problem *problem,
                             const struct clattn_plan_info *info)
{
    (void)device;
    (void)problem;
    assert_true(runs_on(info, "_cpu"));
    assert_int_equal(info->work_group_size, 1);
    assert_int_equal(info->local_bytes, 0);
}

/* It runs kernels for GPUs, whose items share what they read; a CPU's would leave it 16 lanes of one. */
static void as_a_gpu(const struct clattn_capabilities *device, const struct clattn_problem *problem,
                     const struct clattn_plan_info *info)
{
    (void)problem;
    assert_true(runs_on(info, "_simt"));
    assert_true((uint64_t)info->work_group_size <= device->max_work_group_size);
    assert_true(info->local_bytes <= device->local_memory_bytes);
}

/* What it reports is what it gives without static arrays; those are larger. */
static void beyond_48_kilobytes(const struct clattn_capabilities *device, const struct clattn_problem *problem,
                                const struct clattn_plan_info *info)
{
    (void)device;
    assert_true(info->local_bytes_limit > 48 * KILOBYTE);
    if (problem->d >= 128)
        assert_true(info->local_bytes > 48 * KILOBYTE);
}

static const struct quirk {
    const char *name;
    struct clattn_capabilities device;
    judge *judge;
} quirks[] = {
    {"AMD: groups of 256, wavefronts of 64",
     {.type = CLATTN_DEVICE_GPU,
      .device_name = "gfx906",
      .vendor_id = 0x1002,
      .extensions = "cl_khr_fp16 cl_amd_device_attribute_query",
      .compute_units = 60,
      .max_work_group_size = 256,
      .max_work_item_size = 1024,
      .sub_group_size = 64,
      .preferred_work_group_multiple = 64,
      .amd_simd_per_compute_unit = 4,
      .amd_local_memory_per_compute_unit = 64 * KILOBYTE,
      .local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL,
      .local_memory_bytes = 64 * KILOBYTE,
      .global_memory_bytes = 16ull << 30,
      .max_allocation_bytes = 8ull << 30},
     in_256_items},
    {"PoCL: barriers are loops",
     {.type = CLATTN_DEVICE_CPU,
      .platform_name = "Portable Computing Language",
      .compute_units = 8,
      .max_work_group_size = 4096,
      .max_work_item_size = 4096,
      .native_vector_width_float = 8,
      .local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL,
      .local_memory_bytes = 512 * KILOBYTE,
      .global_memory_bytes = 16ull << 30,
      .max_allocation_bytes = 4ull << 30},
     without_barriers},
    {"Mali: local memory is device memory",
     {.type = CLATTN_DEVICE_GPU,
      .device_name = "Mali-G78",
      .vendor = "ARM",
      .extensions = "cl_khr_fp16",
      .compute_units = 20,
      .max_work_group_size = 512,
      .max_work_item_size = 512,
      .preferred_work_group_multiple = 16,
      .local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL,
      .local_memory_bytes = 32 * KILOBYTE,
      .unified_memory = true,
      .global_memory_bytes = 8ull << 30,
      .max_allocation_bytes = 4ull << 30},
     as_a_gpu},
    {"Adreno: 32 KB, groups of 1024, sub-groups of 64 or 128",
     {.type = CLATTN_DEVICE_GPU,
      .device_name = "QUALCOMM Adreno(TM)",
      .vendor = "QUALCOMM",
      .extensions = "cl_khr_fp16",
      .compute_units = 6,
      .max_work_group_size = 1024,
      .max_work_item_size = 1024,
      .preferred_work_group_multiple = 128,
      .local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL,
      .local_memory_bytes = 32 * KILOBYTE,
      .unified_memory = true,
      .global_memory_bytes = 6ull << 30,
      .max_allocation_bytes = 1ull << 30},
     as_a_gpu},
    {"NVIDIA: says 48 KB, gives static arrays more",
     {.type = CLATTN_DEVICE_GPU,
      .device_name = "NVIDIA A100",
      .vendor_id = 0x10de,
      .extensions = "cl_nv_device_attribute_query",
      .compute_units = 108,
      .max_work_group_size = 1024,
      .max_work_item_size = 1024,
      .sub_group_size = 32,
      .preferred_work_group_multiple = 32,
      .nv_compute_capability = 800,
      .nv_registers_per_group = 65536,
      .local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL,
      .local_memory_bytes = 48 * KILOBYTE,
      .global_memory_bytes = 40ull << 30,
      .max_allocation_bytes = 10ull << 30},
     beyond_48_kilobytes},
};

static void check(const struct quirk *quirk, struct clattn_problem problem)
{
    struct clattn_plan_info info;
    struct clattn_capabilities device = quirk->device;
    device.available = device.compiler_available = true;
    device.address_bits = 64;
    clattn_capabilities_apply_known(&device);
    if (clattn_plan_preview(&device, &problem, &info))
        fail_msg("%s, d %d: %s", quirk->name, problem.d, clattn_error_message());
    quirk->judge(&device, &problem, &info);
}

static void plans_stay_within_what_a_device_has_of_its_own(void **state)
{
    (void)state;
    static const int widths[] = {16, 40, 64, 128, 256, 512};
    EACH (n, quirks)
        EACH (i, widths)
            for (int pass = 0; pass < 2; pass++)
                check(&quirks[n], (struct clattn_problem){.d = widths[i],
                                                          .dtype = CLATTN_FP16,
                                                          .pass = pass ? CLATTN_BACKWARD : CLATTN_FORWARD});
}

/* Intel's device with so many lanes, whose probe was right. */
#define WITH_DPAS(name, lanes)                                                                                         \
    {                                                                                                                  \
        .device_name = name, .vendor_id = 0x8086,                                                                      \
        .extensions = "cl_intel_subgroup_matrix_multiply_accumulate cl_intel_required_subgroup_size "                  \
                      "cl_intel_subgroup_local_block_io",                                                              \
        .sub_group_size = lanes, .matrix_unit_right = 1                                                                \
    }

/* Devices whose plans take no matrix unit, and what they say of it; NULL: nothing, for they take one. */
static const struct {
    struct clattn_capabilities device;
    struct clattn_problem problem;
    const char *says;
} choices[] = {
    {{.device_name = "AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 19.1.7)",
      .platform_name = "rusticl",
      .vendor_id = 0x1002,
      .extensions = "cl_khr_fp16 cl_khr_il_program",
      .sub_group_size = 32},
     {.d = 64, .dtype = CLATTN_FP16},
     "none: the driver has no cl_amd_device_attribute_query"},
    {{.device_name = "gfx1030",
      .vendor_id = 0x1002,
      .extensions = "cl_amd_device_attribute_query",
      .sub_group_size = 32,
      .amd_simd_per_compute_unit = 4},
     {.d = 64, .dtype = CLATTN_BF16},
     "none: there are kernels for gfx1100"},
    {{.device_name = "gfx1100",
      .vendor_id = 0x1002,
      .extensions = "cl_amd_device_attribute_query",
      .sub_group_size = 64,
      .amd_simd_per_compute_unit = 4},
     {.d = 64, .dtype = CLATTN_FP16, .pass = CLATTN_BACKWARD},
     "gfx1201 (sub-groups of 32)"},
    {{.device_name = "gfx1100",
      .vendor_id = 0x1002,
      .extensions = "cl_amd_device_attribute_query",
      .sub_group_size = 32,
      .amd_simd_per_compute_unit = 4},
     {.d = 64, .dtype = CLATTN_FP16},
     "amd_wmma is taken by problem.skeleton alone: no tile came out right"},
    {{.device_name = "gfx1100",
      .vendor_id = 0x1002,
      .extensions = "cl_amd_device_attribute_query",
      .sub_group_size = 32,
      .amd_simd_per_compute_unit = 4,
      .matrix_unit_right = 1},
     {.d = 64, .dtype = CLATTN_FP16},
     NULL},
    {{.device_name = "Intel(R) Iris(R) Xe Graphics",
      .vendor_id = 0x8086,
      .extensions = "cl_khr_fp16 cl_intel_required_subgroup_size cl_intel_subgroup_local_block_io",
      .sub_group_size = 8},
     {.d = 64, .dtype = CLATTN_FP16},
     "none: the driver has no cl_intel_subgroup_matrix_multiply_accumulate"},
    {{.device_name = "PVC",
      .vendor_id = 0x8086,
      .extensions = "cl_intel_subgroup_matrix_multiply_accumulate cl_intel_required_subgroup_size "
                    "cl_intel_subgroup_local_block_io",
      .sub_group_size = 32},
     {.d = 64, .dtype = CLATTN_FP16},
     "none: the smallest sub-group has 32 items"},
    {WITH_DPAS("PVC", 16), {.d = 64, .dtype = CLATTN_FP32}, "intel_dpas takes fp16 and bf16"},
    {WITH_DPAS("PVC", 16), {.d = 64, .d_v = 192, .dtype = CLATTN_FP16}, "intel_dpas takes head dimensions up to 128"},
    {WITH_DPAS("PVC", 16),
     {.d = 128, .dtype = CLATTN_FP16, .features = CLATTN_DROPOUT},
     "intel_dpas is taken for head dimensions up to 96 with dropout, by problem.skeleton alone up to 128"},
    {WITH_DPAS("DG2", 8),
     {.d = 64, .dtype = CLATTN_FP16, .dropout_p = 0.1f, .features = CLATTN_DROPOUT},
     "intel_dpas is taken for head dimensions up to 32 with dropout, by problem.skeleton alone up to 64"},
    {WITH_DPAS("DG2", 8),
     {.d = 32, .dtype = CLATTN_FP16, .pass = CLATTN_BACKWARD},
     "intel_dpas is taken in backward passes by problem.skeleton alone"},
    {WITH_DPAS("DG2", 8), {.d = 32, .dtype = CLATTN_BF16}, NULL},
    {{.device_name = "gfx942:sramecc+",
      .vendor_id = 0x1002,
      .extensions = "cl_amd_device_attribute_query",
      .sub_group_size = 64,
      .amd_simd_per_compute_unit = 4,
      .matrix_unit_right = 1},
     {.d = 64, .dtype = CLATTN_FP16, .b_r = 24, .b_c = 24},
     "amd_mfma is not taken: with these sizes"},
    {{.device_name = "GeForce GTX 1080",
      .vendor_id = 0x10de,
      .extensions = "cl_nv_device_attribute_query",
      .sub_group_size = 32,
      .nv_compute_capability = 601},
     {.d = 64, .dtype = CLATTN_FP16},
     "none: compute capability 6.1, where tensor cores come with 7.5"},
    {{.device_name = "Mali-G78", .vendor = "ARM"}, {.d = 64}, "none: there are no kernels for one of this device"},
};

static const char *reason_of(const struct clattn_plan_info *info)
{
    for (int i = 0; i < info->step_count; i++)
        if (strcmp(info->steps[i].name, "matrix unit") == 0)
            return info->steps[i].reason;
    return NULL;
}

static void check_choice(struct clattn_capabilities device, struct clattn_problem problem, const char *says)
{
    struct clattn_plan_info info;
    device.type = CLATTN_DEVICE_GPU;
    device.available = device.compiler_available = true;
    device.address_bits = 64;
    device.compute_units = 32;
    device.max_work_group_size = device.max_work_item_size = 256;
    device.local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL;
    device.local_memory_bytes = 64 * KILOBYTE;
    device.global_memory_bytes = device.max_allocation_bytes = 8ull << 30;
    if (clattn_plan_preview(&device, &problem, &info))
        fail_msg("%s: %s", device.device_name, clattn_error_message());
    const char *reason = reason_of(&info);
    if (says ? !runs_on(&info, "_simt") || !reason || !strstr(reason, says) : !runs_on(&info, "_matrix") || reason)
        fail_msg("%s: %s, \"%s\", expected \"%s\"", device.device_name, info.skeleton, reason ? reason : "",
                 says ? says : "");
}

static void plans_say_why_they_take_no_matrix_unit(void **state)
{
    (void)state;
    EACH (i, choices)
        check_choice(choices[i].device, choices[i].problem, choices[i].says);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_stay_within_what_a_device_has_of_its_own),
                                       cmocka_unit_test(plans_say_why_they_take_no_matrix_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
