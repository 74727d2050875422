/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Dumps of clinfo: two real ones and those of AMD's and Intel's devices (argv[1] is the folder that holds them), and
 * made-up texts with keys that are missing, doubled, of another type or an error message. */
#include "clinfo/clinfo.h"
#include "support/unit.h"
#include <clattn/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder = "tests/data/clinfo";

static struct clinfo_devices read_dump(const char *name)
{
    char path[512];
    struct clinfo_devices devices;
    struct failure failure = {.text = ""};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (clinfo_read(path, &devices, &failure))
        fail_msg("%s", failure.text);
    return devices;
}

static struct clinfo_devices parse(const char *text)
{
    struct clinfo_devices devices;
    struct failure failure = {.text = ""};
    char *exact = malloc(strlen(text) + 1); /* so that a sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, text, strlen(text));
    if (clinfo_parse("dump", exact, strlen(text), &devices, &failure))
        fail_msg("%s", failure.text);
    free(exact);
    return devices;
}

static void refused(const char *text)
{
    struct clinfo_devices devices;
    struct failure failure = {.text = ""};
    assert_int_equal(clinfo_parse("dump", text, strlen(text), &devices, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "dump"));
    assert_non_null(strstr(failure.text, "clinfo --json"));
    assert_null(devices.items);
}

/* The value of a constant that the plan's program text has; 0: it has none. */
static int constant_of(const struct clattn_plan_info *info, const char *name)
{
    const char *at = strstr(info->constants, name);
    return at ? atoi(at + strlen(name)) : 0;
}

/* AMD's: a SIMD has two waves, by local memory, which on RDNA a pair of compute units has twice. Intel's: kernels ask
 * for the smallest sub-group. */
static void check_made_up(const char *name, const struct clattn_capabilities *device, struct clattn_problem problem)
{
    const bool is_amd = device->vendor_id == 0x1002;
    struct clattn_plan_info info;
    problem.dtype = CLATTN_FP16;
    if (clattn_plan_preview(device, &problem, &info))
        fail_msg("%s: %s", name, clattn_error_message());
    const uint64_t local = device->local_memory_bytes * (is_amd && device->sub_group_size == 32 ? 2 : 1);
    const uint64_t groups = local / info.local_bytes, waves = info.work_group_size / device->sub_group_size;
    assert_true(info.work_group_size <= 256);
    assert_true(info.local_bytes <= device->local_memory_bytes);
    if (is_amd)
        assert_true(groups * waves / device->amd_simd_per_compute_unit >= 2);
    const char *const asked = strstr(info.skeleton, "_matrix") ? "CLATTN_LANES=" : "CLATTN_SUB_GROUP=";
    assert_int_equal(constant_of(&info, asked), is_amd ? 0 : device->sub_group_size);
}

static void gpus_that_are_not_here_get_sensible_plans(void **state)
{
    (void)state;
    static const char *const names[] = {"amd-gfx1030.raw", "amd-gfx1100.raw", "amd-gfx1201.raw",
                                        "amd-gfx90a.raw",  "amd-gfx942.raw",  "intel-tgl.raw",
                                        "intel-dg2.raw",   "intel-pvc.raw",   "intel-bmg.raw"};
    EACH (i, names) {
        struct clinfo_devices devices = read_dump(names[i]);
        struct clattn_capabilities *device = &devices.items[0].capabilities;
        assert_int_equal(devices.count, 1);
        clattn_capabilities_apply_known(device);
        for (int d = 32; d <= 256; d *= 2)
            for (int pass = 0; pass < 2; pass++)
                check_made_up(names[i], device,
                              (struct clattn_problem){.d = d, .pass = pass ? CLATTN_BACKWARD : CLATTN_FORWARD});
        clinfo_free(&devices);
    }
}

/* Intel's matrix engines: where they are named, in the smallest sub-groups, up to the head dimension that registers
 * hold; and as planned, as far as no register goes to memory. */
static void check_dpas(const char *name, int lanes, int most_d, int planned_d, int planned_d_backward)
{
    struct clinfo_devices devices = read_dump(name);
    struct clattn_capabilities *device = &devices.items[0].capabilities;
    clattn_capabilities_apply_known(device);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 16; d <= 256; d *= 2) {
            struct clattn_plan_info info;
            struct clattn_problem problem = {
                .d = d, .dtype = pass ? CLATTN_BF16 : CLATTN_FP16, .pass = pass ? CLATTN_BACKWARD : CLATTN_FORWARD};
            const bool fits = d <= most_d, planned = d <= (pass ? planned_d_backward : planned_d);
            assert_int_equal(clattn_plan_preview(device, &problem, &info), CLATTN_SUCCESS);
            assert_int_equal(strstr(info.skeleton, "_matrix") != NULL, planned);
            problem.skeleton = pass ? "backward_matrix" : "forward_matrix";
            assert_int_equal(clattn_plan_preview(device, &problem, &info), fits ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
            if (fits)
                assert_int_equal(constant_of(&info, "CLATTN_LANES="), lanes);
        }
    clinfo_free(&devices);
}

static void intels_matrix_engines_are_taken_as_registers_allow(void **state)
{
    (void)state;
    check_dpas("intel-tgl.raw", 0, 0, 0, 0);
    check_dpas("intel-dg2.raw", 8, 64, 32, 0);
    check_dpas("intel-pvc.raw", 16, 128, 128, 128);
    check_dpas("intel-bmg.raw", 16, 128, 128, 128);
}

static void the_h200_dump_has_its_two_devices(void **state)
{
    (void)state;
    struct clinfo_devices devices = read_dump("nvidia-h200.json");
    assert_int_equal(devices.count, 2);
    const struct clattn_capabilities *cpu = &devices.items[0].capabilities, *gpu = &devices.items[1].capabilities;
    assert_true(devices.items[0].platform == 0 && devices.items[1].platform == 1 && devices.items[1].device == 0);
    assert_string_equal(cpu->platform_name, "Portable Computing Language");
    assert_int_equal(cpu->type, CLATTN_DEVICE_CPU);
    assert_int_equal(cpu->local_memory_type, CLATTN_LOCAL_MEMORY_GLOBAL);
    assert_int_equal(cpu->local_memory_bytes, 2097152);
    assert_int_equal(cpu->native_vector_width_float, 16);
    assert_int_equal(cpu->compute_units, 16);
    assert_int_equal(cpu->max_work_group_size, 4096);
    assert_int_equal(cpu->sub_group_size, 1);
    assert_true(cpu->unified_memory && cpu->available && cpu->compiler_available);

    assert_string_equal(gpu->platform_name, "NVIDIA CUDA");
    assert_string_equal(gpu->device_name, "NVIDIA H200");
    assert_string_equal(gpu->driver_version, "580.159.04");
    assert_string_equal(gpu->opencl_c_version, "OpenCL C 1.2");
    assert_int_equal(gpu->type, CLATTN_DEVICE_GPU);
    assert_int_equal(gpu->vendor_id, 0x10de);
    assert_int_equal(gpu->local_memory_type, CLATTN_LOCAL_MEMORY_LOCAL);
    assert_int_equal(gpu->local_memory_bytes, 49152);
    assert_int_equal(gpu->compute_units, 132);
    assert_int_equal(gpu->max_work_item_size, 1024);
    assert_int_equal(gpu->preferred_work_group_multiple, 32);
    assert_int_equal(gpu->sub_group_size, 32);
    assert_int_equal(gpu->nv_compute_capability, 900);
    assert_int_equal(gpu->nv_registers_per_group, 65536);
    assert_true(gpu->global_memory_bytes == 150109880320u && gpu->max_allocation_bytes == 37527470080u);
    assert_non_null(strstr(gpu->extensions, "cl_nv_device_attribute_query"));
    assert_false(gpu->unified_memory);
    clinfo_free(&devices);
}

/* What the dump plans is what the device itself would. */
static void the_h200_dump_plans_tensor_cores(void **state)
{
    (void)state;
    struct clinfo_devices devices = read_dump("nvidia-h200.json");
    assert_int_equal(devices.count, 2);
    struct clattn_capabilities *gpu = &devices.items[1].capabilities;
    struct clattn_problem problem = {.d = 128, .dtype = CLATTN_BF16, .expected_n_q = 1000, .expected_n_kv = 1000};
    struct clattn_plan_info info;
    clattn_capabilities_apply_known(gpu);
    assert_int_equal(clattn_plan_preview(gpu, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_hopper");
    assert_true(info.b_r == 128 && info.b_c == 128 && info.work_group_size == 384);
    assert_non_null(strstr(info.constants, "CLATTN_COMPUTE_CAPABILITY=90 "));
    problem.expected_n_q = problem.expected_n_kv = 0;
    problem.pass = CLATTN_BACKWARD; /* measured */
    problem.dtype = CLATTN_FP16;
    assert_int_equal(clattn_plan_preview(gpu, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "backward_hopper");
    assert_int_equal(info.source, CLATTN_PLAN_BUILT_IN);
    problem.pass = CLATTN_FORWARD;
    problem.d = 64;
    problem.dtype = CLATTN_BF16;
    assert_int_equal(clattn_plan_preview(gpu, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_hopper");
    assert_true(info.b_r == 256 && info.b_c == 64 && info.work_group_size == 640);
    gpu->nv_wgmma = false;
    assert_int_equal(clattn_plan_preview(gpu, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_matrix");
    assert_true(info.b_r == 128 && info.b_c == 64 && info.work_group_size == 128);
    problem.dtype = CLATTN_FP32;
    assert_int_equal(clattn_plan_preview(gpu, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_simt");
    problem.dtype = CLATTN_FP16;
    assert_int_equal(clattn_plan_preview(&devices.items[0].capabilities, &problem, &info), CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, "forward_cpu");
    clinfo_free(&devices);
}

static void the_raw_dump_has_its_device(void **state)
{
    (void)state;
    struct clinfo_devices devices = read_dump("pocl.raw");
    assert_int_equal(devices.count, 1);
    const struct clattn_capabilities *c = &devices.items[0].capabilities;
    assert_string_equal(c->platform_name, "Portable Computing Language");
    assert_non_null(strstr(c->platform_version, "PoCL 3.1"));
    assert_int_equal(c->type, CLATTN_DEVICE_CPU);
    assert_int_equal(c->vendor_id, 0x8086);
    assert_int_equal(c->compute_units, 2);
    assert_int_equal(c->max_work_item_size, 4096);
    assert_int_equal(c->local_memory_type, CLATTN_LOCAL_MEMORY_GLOBAL);
    assert_int_equal(c->local_memory_bytes, 1048576);
    assert_int_equal(c->native_vector_width_float, 16);
    assert_int_equal(c->address_bits, 64);
    assert_true(c->unified_memory && c->available && c->compiler_available);
    clinfo_free(&devices);
}

static void missing_keys_are_not_known(void **state)
{
    (void)state;
    struct clinfo_devices devices = parse("{\"devices\": [{\"online\": [{\"CL_DEVICE_NAME\": \"x\"}]}]}");
    assert_int_equal(devices.count, 1);
    const struct clattn_capabilities *c = &devices.items[0].capabilities;
    assert_string_equal(c->device_name, "x");
    assert_true(c->available && c->compiler_available); /* clinfo lists what is online */
    assert_true(!c->local_memory_bytes && !c->max_work_group_size && !c->type && !c->platform_name[0]);
    clinfo_free(&devices);
}

static void odd_values_are_understood_or_passed_over(void **state)
{
    (void)state;
    struct clinfo_devices devices = parse(
        "noise from a driver\n"
        "{\"platforms\": [{\"CL_PLATFORM_NAME\": \"P\", \"CL_PLATFORM_NAME\": \"Q\"}], \"devices\": [{\"online\": [{"
        "\"CL_DEVICE_OPENCL_C_ALL_VERSIONS\": {\"OpenCL C\": 1, \"OpenCL C\": 2},"
        "\"CL_DEVICE_LOCAL_MEM_SIZE\": \"<printDeviceInfo:1: get CL_DEVICE_LOCAL_MEM_SIZE : error -30>\","
        "\"CL_DEVICE_TYPE\": {\" raw \": 4, \"type\": [\"CL_DEVICE_TYPE_GPU\"]},"
        "\"CL_DEVICE_VENDOR_ID\": \"0x1002\","
        "\"CL_DEVICE_MAX_COMPUTE_UNITS\": {},"
        "\"CL_DEVICE_MAX_WORK_ITEM_SIZES\": [256, 128, 64],"
        "\"CL_DEVICE_MAX_WORK_GROUP_SIZE\": 256,"
        "\"CL_DEVICE_MAX_CLOCK_FREQUENCY\": -1,"
        "\"CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE\": 0,"
        "\"CL_DEVICE_SUB_GROUP_SIZES_INTEL\": [32, 8, 16],"
        "\"CL_DEVICE_LOCAL_MEM_TYPE\": \"CL_LOCAL\","
        "\"CL_DEVICE_GLOBAL_MEM_SIZE\": 18446744073709551615,"
        "\"CL_DEVICE_AVAILABLE\": true, \"CL_DEVICE_COMPILER_AVAILABLE\": false,"
        "\"CL_DEVICE_NAME\": [\"a\", \"list\"], \"CL_DEVICE_VENDOR\": null}]}]} trailing");
    assert_int_equal(devices.count, 1);
    const struct clattn_capabilities *c = &devices.items[0].capabilities;
    assert_string_equal(c->platform_name, "Q");
    assert_int_equal(c->type, CLATTN_DEVICE_GPU);
    assert_int_equal(c->vendor_id, 0x1002);
    assert_int_equal(c->max_work_item_size, 256);
    assert_int_equal(c->max_work_group_size, 256);
    assert_int_equal(c->sub_group_size, 8);
    assert_int_equal(c->local_memory_type, CLATTN_LOCAL_MEMORY_LOCAL);
    assert_true(c->available && !c->compiler_available);
    assert_true(!c->local_memory_bytes && !c->compute_units && !c->clock_mhz && !c->vendor[0]);
    clinfo_free(&devices);
}

/* Pointers and identifiers as bare hexadecimal numbers, which are no JSON; platforms with no device, and two of one
 * name. */
static void platforms_of_every_kind_are_told_apart(void **state)
{
    (void)state;
    struct clinfo_devices devices =
        parse("{\"platforms\": [{\"CL_PLATFORM_NAME\": \"empty\", \"CL_PLATFORM_ID\": 0x7f12aB},"
              "{\"CL_PLATFORM_NAME\": \"P\"}, {}, {\"CL_PLATFORM_NAME\": \"P\"}], \"devices\": [{\"online\": []},"
              "{\"online\": [{\"CL_DEVICE_NAME\": \"a 0x1 \\\" 0x2\", \"CL_DEVICE_VENDOR_ID\": 0x10de,"
              "\"CL_DEVICE_PLATFORM\": 0X7FFFF7F0, \"CL_DEVICE_MAX_COMPUTE_UNITS\": {\" raw \": 0x10}},"
              "7, {\"CL_DEVICE_NAME\": \"b\"}], \"offline\": [{\"CL_DEVICE_NAME\": \"off\"}]}, {},"
              "{\"online\": [{\"CL_DEVICE_NAME\": \"c\"}]}]}");
    assert_int_equal(devices.count, 3);
    assert_string_equal(devices.items[0].capabilities.device_name, "a 0x1 \" 0x2");
    assert_int_equal(devices.items[0].capabilities.vendor_id, 0x10de);
    assert_int_equal(devices.items[0].capabilities.compute_units, 16);
    assert_true(devices.items[1].platform == 1 && devices.items[1].device == 2);
    assert_true(devices.items[2].platform == 3 && devices.items[2].device == 0);
    assert_string_equal(devices.items[2].capabilities.platform_name, "P");
    clinfo_free(&devices);
}

static void bytes_that_are_not_utf8_do_not_hide_a_device(void **state)
{
    (void)state;
    struct clinfo_devices devices = parse("{\"devices\":[{\"online\":[{\"CL_DEVICE_NAME\":\"Intel\xae X\ty\"}]}]}");
    assert_string_equal(devices.items[0].capabilities.device_name, "Intel? X y");
    clinfo_free(&devices);
}

static void raw_lines_of_two_platforms_keep_apart(void **state)
{
    (void)state;
    struct clinfo_devices devices = parse("#PLATFORMS 2\n"
                                          "  CL_PLATFORM_NAME    First\n"
                                          "  CL_PLATFORM_VERSION OpenCL 1.2\r\n"
                                          "\n"
                                          "  CL_PLATFORM_NAME    Second one\n"
                                          "[A/*]  CL_PLATFORM_NAME First\n"
                                          "[A/*]  #DEVICES 0\n"
                                          "[B/*]  CL_PLATFORM_NAME Second one\n"
                                          "[B/0]  CL_DEVICE_NAME  b0\n"
                                          "[B/0]  CL_DEVICE_TYPE  CL_DEVICE_TYPE_GPU\n"
                                          "[B/0]  CL_DEVICE_LOCAL_MEM_SIZE  <error -30>\n"
                                          "[B/0]  CL_DEVICE_LOCAL_MEM_SIZE  65536\n"
                                          "[B/0]  CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD 4\n"
                                          "[B/0]  CL_DEVICE_WAVEFRONT_WIDTH_AMD 64\n"
                                          "[B/1]  CL_DEVICE_NAME  b1\r\n"
                                          "[B/1]  CL_DEVICE_AVAILABLE CL_FALSE");
    assert_int_equal(devices.count, 2);
    assert_string_equal(devices.items[0].capabilities.platform_name, "Second one");
    assert_true(devices.items[0].platform == 1 && devices.items[0].device == 0 && devices.items[1].device == 1);
    assert_int_equal(devices.items[0].capabilities.local_memory_bytes, 65536);
    assert_int_equal(devices.items[0].capabilities.preferred_work_group_multiple, 64);
    assert_string_equal(devices.items[1].capabilities.device_name, "b1");
    assert_false(devices.items[1].capabilities.available);
    clinfo_free(&devices);
}

static void what_is_no_dump_is_refused(void **state)
{
    (void)state;
    refused("");
    refused("Number of platforms 1\n  Platform Name  PoCL\n"); /* clinfo without --json or --raw */
    refused("{\"devices\": [");
    refused("{\"devices\": 3}");
    refused("{\"devices\": [{\"online\": []}]}");
    refused("{\"platforms\": [{\"CL_PLATFORM_NAME\": \"P\"}]}");
}

/* Cut anywhere, or with any byte changed, a dump gives devices or a message. */
static void damaged_dumps_do_no_harm(void **state)
{
    (void)state;
    char text[] = "{\"platforms\":[{\"CL_PLATFORM_NAME\":\"P\"}],\"devices\":[{\"online\":[{\"CL_DEVICE_NAME\":\"d\","
                  "\"CL_DEVICE_TYPE\":{\"raw\":4},\"CL_DEVICE_LOCAL_MEM_SIZE\":49152}]}]}";
    for (size_t size = 0; size < sizeof text; size++) {
        struct clinfo_devices devices;
        struct failure failure;
        clinfo_parse("dump", text, size, &devices, &failure);
        clinfo_free(&devices);
    }
    for (size_t at = 0; at + 1 < sizeof text; at++) {
        for (int value = 1; value < 256; value += 3) {
            struct clinfo_devices devices;
            struct failure failure;
            const char held = text[at];
            text[at] = (char)value;
            clinfo_parse("dump", text, sizeof text - 1, &devices, &failure);
            clinfo_free(&devices);
            text[at] = held;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intels_matrix_engines_are_taken_as_registers_allow),
        cmocka_unit_test(the_h200_dump_has_its_two_devices),
        cmocka_unit_test(gpus_that_are_not_here_get_sensible_plans),
        cmocka_unit_test(the_h200_dump_plans_tensor_cores),
        cmocka_unit_test(the_raw_dump_has_its_device),
        cmocka_unit_test(missing_keys_are_not_known),
        cmocka_unit_test(odd_values_are_understood_or_passed_over),
        cmocka_unit_test(platforms_of_every_kind_are_told_apart),
        cmocka_unit_test(bytes_that_are_not_utf8_do_not_hide_a_device),
        cmocka_unit_test(raw_lines_of_two_platforms_keep_apart),
        cmocka_unit_test(what_is_no_dump_is_refused),
        cmocka_unit_test(damaged_dumps_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
