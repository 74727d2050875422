/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What planners know of devices, each vendor's from what it reports; and the sizes that were measured: each names a
 * kernel that there is and a file that says where it is from (argv[1] is the source folder). */
#include "plan/machine.h"
#include "plan/sizes.h"
#include "plan/skeletons/hopper_sizes.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *folder = ".";

static const struct {
    struct clattn_capabilities given;
    struct cla_machine made;
} vendors[] = {
    {{.type = CLATTN_DEVICE_GPU,
      .vendor_id = 0x10de,
      .nv_compute_capability = 900,
      .nv_registers_per_group = 65536,
      .sub_group_size = 32,
      .compute_units = 132,
      .max_work_group_size = 1024,
      .local_memory_bytes = 48 << 10,
      .static_local_memory_bytes = 226 << 10},
     {CLA_NVIDIA, 32, 4, 132, 2048, 65536, 248, 1024, 226 << 10, 1, 50 << 20, 1, 0, false}},
    {{.type = CLATTN_DEVICE_GPU, .nv_compute_capability = 705, .nv_registers_per_group = 32768, .compute_units = 40},
     {CLA_NVIDIA_TURING, 32, 4, 40, 2048, 32768, 128, 0, 0, 1, (6 << 20) * 40 / 72, 1, 0, false}},
    /* half of the compute units, as MIG deals them out; the driver tells of first-level caches */
    {{.type = CLATTN_DEVICE_GPU, .nv_compute_capability = 900, .compute_units = 66, .cache_bytes = 66 << 15},
     {CLA_NVIDIA, 32, 4, 66, 2048, 65536, 128, 0, 0, 1, 25 << 20, 1, 0, false}},
    /* one of which nothing is known */
    {{.type = CLATTN_DEVICE_GPU, .nv_compute_capability = 5000, .compute_units = 500, .cache_bytes = 3 << 20},
     {CLA_NVIDIA, 32, 4, 500, 2048, 65536, 128, 0, 0, 1, 3 << 20, 1, 0, false}},
    /* CDNA: wavefronts of 64 */
    {{.type = CLATTN_DEVICE_GPU,
      .vendor_id = 0x1002,
      .amd_simd_per_compute_unit = 4,
      .sub_group_size = 64,
      .compute_units = 304,
      .max_work_group_size = 256,
      .max_work_item_size = 1024,
      .local_memory_bytes = 64 << 10},
     {CLA_AMD_WIDE, 64, 4, 304, 2048, 131072, 112, 256, 64 << 10, 1, 0, 2, 0, false}},
    /* RDNA, a compute unit with two SIMDs */
    {{.type = CLATTN_DEVICE_GPU, .amd_simd_per_compute_unit = 2, .sub_group_size = 32, .compute_units = 96},
     {CLA_AMD, 32, 2, 96, 1024, 65536, 112, 0, 0, 1, 0, 2, 0, false}},
    /* a pair of them, which has local memory twice; RDNA 3 with more registers */
    {{.type = CLATTN_DEVICE_GPU,
      .device_name = "gfx1100",
      .vendor_id = 0x1002,
      .amd_simd_per_compute_unit = 4,
      .sub_group_size = 32,
      .compute_units = 48,
      .max_work_group_size = 256,
      .cache_bytes = 32 << 10,
      .local_memory_bytes = 64 << 10},
     {CLA_AMD, 32, 4, 48, 2048, 196608, 112, 256, 64 << 10, 2, 32 << 10, 2, 0, false}},
    /* Arc A770: 512 vector engines, 16 to a core */
    {{.type = CLATTN_DEVICE_GPU,
      .vendor_id = 0x8086,
      .sub_group_size = 8,
      .preferred_work_group_multiple = 64,
      .compute_units = 512,
      .max_work_group_size = 1024,
      .cache_bytes = 16 << 20,
      .extensions = "cl_intel_required_subgroup_size cl_intel_subgroup_matrix_multiply_accumulate"},
     {CLA_INTEL_NARROW, 8, 16, 32, 512, 131072, 128, 256, 0, 1, 16 << 20, 1, 8, true}},
    {{.type = CLATTN_DEVICE_GPU, .vendor_id = 0x8086, .sub_group_size = 16, .compute_units = 4},
     {CLA_INTEL, 16, 8, 1, 1024, 131072, 112, 0, 0, 1, 0, 1, 0, false}},
    /* Intel's CPU is a CPU */
    {{.type = CLATTN_DEVICE_CPU, .vendor_id = 0x8086, .sub_group_size = 1, .compute_units = 2},
     {CLA_CPU, 32, 4, 2, 2048, 65536, 128, 0, 0, 1, 0, 1, 0, false}},
    {{.type = CLATTN_DEVICE_GPU, .preferred_work_group_multiple = 16},
     {CLA_ANY_FAMILY, 16, 4, 1, 2048, 65536, 128, 0, 0, 1, 0, 1, 0, false}},
    {{.type = CLATTN_DEVICE_GPU, .preferred_work_group_multiple = 1024},
     {CLA_ANY_FAMILY, 32, 4, 1, 2048, 65536, 128, 0, 0, 1, 0, 1, 0, false}},
};

static void each_vendor_has_its_own_facts(void **state)
{
    (void)state;
    EACH (i, vendors) {
        const struct cla_machine machine = cla_machine_of(&vendors[i].given), *made = &vendors[i].made;
        assert_int_equal(machine.family, made->family);
        assert_int_equal(machine.lanes, made->lanes);
        assert_int_equal(machine.schedulers, made->schedulers);
        assert_int_equal(machine.units, made->units);
        assert_int_equal(machine.unit_items, made->unit_items);
        assert_int_equal(machine.unit_registers, made->unit_registers);
        assert_int_equal(machine.item_words, made->item_words);
        assert_int_equal(machine.group_items, made->group_items);
        assert_int_equal(machine.local_bytes, made->local_bytes);
        assert_int_equal(machine.local_parts, made->local_parts);
        assert_int_equal(machine.cache_bytes, made->cache_bytes);
        assert_int_equal(machine.least_sub_groups, made->least_sub_groups);
        assert_int_equal(machine.sub_group_wanted, made->sub_group_wanted);
        assert_int_equal(machine.large_registers, made->large_registers);
    }
}

static void check_source(const char *source)
{
    const char *file = strstr(source, "tests/data/measured/");
    char path[1024];
    assert_true(strlen(source) > 3);
    if (!file) {
        assert_ptr_equal(strstr(source, "none: "), source); /* then it says why it is as it is */
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (access(path, R_OK))
        fail_msg("%s is not there", path);
}

static void sizes_say_where_they_are_from(void **state)
{
    (void)state;
    for (const struct cla_size *size = cla_sizes; size->kernel; size++) {
        const struct cla_skeleton *skeleton = cla_skeleton_find(size->kernel);
        assert_non_null(skeleton);
        assert_true(size->most_d >= 32 && size->most_d <= skeleton->largest_d);
        assert_true(size->config.b_r % 16 == 0 && size->config.b_r >= 64 && size->config.b_c % 16 == 0);
        check_source(size->source);
    }
    check_source(cla_rates.source);
    assert_string_equal(cla_simt_weights.source, "H200");
}

/* Each kernel's reach up to its largest head dimension, and no row stands behind one that takes all that it would. */
static void no_size_is_out_of_reach(void **state)
{
    (void)state;
    for (const struct cla_size *size = cla_sizes; size->kernel; size++) {
        const struct cla_size_wish wish = {size->situations, size->config.b_r, size->config.b_c, size->fp32};
        const struct cla_size *found = cla_size_find(size->kernel, size->family, size->most_d, &wish), *next = size + 1;
        if (size->situations != CLA_HOPPER_ANY) /* which is what the rows before leave */
            assert_ptr_equal(found, size);
        if (!next->kernel || strcmp(next->kernel, size->kernel) != 0)
            assert_int_equal(size->most_d, cla_skeleton_find(size->kernel)->largest_d);
    }
    const struct cla_size_wish any = {0};
    assert_null(cla_size_find("forward_matrix", CLA_ANY_FAMILY, 257, &any));
    assert_int_equal(cla_size_find("forward_matrix", CLA_NVIDIA_TURING, 65, &any)->config.b_r, 64);
    assert_int_equal(cla_size_find("forward_matrix", CLA_NVIDIA, 65, &any)->config.b_r, 128);
    assert_int_equal(cla_size_find("forward_matrix", CLA_NVIDIA_TURING, 64, &any)->config.b_r, 128);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_vendor_has_its_own_facts),
        cmocka_unit_test(sizes_say_where_they_are_from),
        cmocka_unit_test(no_size_is_out_of_reach),
    };
    folder = argc > 1 ? argv[1] : folder;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
