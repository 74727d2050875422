/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "device/context.h"
#include "device/os.h"
#include "device/probe.h"
#include "device_fixture.h"
#include <clattn/clattn.h>
#include <dirent.h>
#include <unistd.h>

static void assert_message_has(const char *part)
{
    if (!strstr(clattn_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", clattn_error_message(), part);
}

static void assert_create_fails(const struct clattn_context_params *params, clattn_status status, const char *part)
{
    clattn_context *context = (void *)&status;
    assert_int_equal(clattn_context_create(&context, params), status);
    assert_ptr_equal(context, &status); /* outputs are left alone */
    assert_message_has(part);
}

static clattn_context *create(const struct clattn_context_params *params)
{
    clattn_context *context = NULL;
    if (clattn_context_create(&context, params))
        fail_msg("%s", clattn_error_message());
    assert_non_null(context);
    return context;
}

static cl_uint references(void)
{
    cl_uint count = 0;
    assert_int_equal(clGetContextInfo(fixture_context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    struct clattn_context_params params = fixture_params();
    assert_int_equal(clattn_context_create(NULL, &params), CLATTN_INVALID_ARGUMENT);
    assert_message_has("context is NULL");
    assert_int_equal(times_said("context is NULL"), 1); /* the logger has the same text */
    assert_create_fails(NULL, CLATTN_INVALID_ARGUMENT, "params is NULL");
    params.context = NULL;
    assert_create_fails(&params, CLATTN_INVALID_ARGUMENT, "params->context is NULL");
    params = fixture_params();
    params.device = NULL;
    assert_create_fails(&params, CLATTN_INVALID_ARGUMENT, "params->device is NULL");
    params.log.function = NULL;
    assert_create_fails(&params, CLATTN_INVALID_ARGUMENT, "params->device is NULL");
}

static void query_device_names_wrong_arguments(void **state)
{
    (void)state;
    struct clattn_capabilities capabilities = {.compute_units = 12345};
    assert_int_equal(clattn_query_device(NULL, &capabilities), CLATTN_INVALID_ARGUMENT);
    assert_message_has("device is NULL");
    assert_int_equal(capabilities.compute_units, 12345);
    assert_int_equal(clattn_query_device(fixture_device, NULL), CLATTN_INVALID_ARGUMENT);
    assert_message_has("capabilities is NULL");
}

/* A device of the same platform that is not in the context: a part of the root device. */
static void a_device_outside_the_context_is_refused(void **state)
{
    (void)state;
    const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1,
                                                   CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id part = NULL;
    cl_uint parts = 0; /* (asked for some where there are none, rusticl 22.3.6 calls what it does not have) */
    clGetDeviceInfo(fixture_device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof parts, &parts, NULL);
    if (parts < 2 || clCreateSubDevices(fixture_device, halves, 1, &part, NULL) != CL_SUCCESS)
        skip();
    struct clattn_context_params params = fixture_params();
    params.device = part;
    assert_create_fails(&params, CLATTN_INVALID_ARGUMENT, "is not one of the devices of params->context");
    clReleaseDevice(part);
}

static void a_device_that_cannot_run_kernels_is_refused(void **state)
{
    (void)state;
    struct cla_error error = {0};
    struct clattn_capabilities capabilities = {.device_name = "Made Up", .available = true, .compiler_available = true};
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_SUCCESS);
    capabilities.compiler_available = false;
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_UNSUPPORTED_DEVICE);
    assert_non_null(strstr(error.text, "\"Made Up\" has no compiler"));
    capabilities = (struct clattn_capabilities){.device_name = "Made Up", .compiler_available = true};
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_UNSUPPORTED_DEVICE);
    assert_non_null(strstr(error.text, "\"Made Up\" is not available"));
}

static void a_driver_that_leaves_loops_is_refused(void **state)
{
    (void)state;
    struct cla_error error = {0};
    struct clattn_capabilities capabilities = {.platform_name = "rusticl",
                                               .device_name = "llvmpipe (LLVM 15.0.6, 256 bits)",
                                               .driver_version = "22.3.6",
                                               .available = true,
                                               .compiler_available = true};
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_UNSUPPORTED_DEVICE);
    assert_non_null(strstr(error.text, "Mesa 22.3.6 leaves loops"));
    strcpy(capabilities.driver_version, "25.0.7-2+deb13u1");
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_SUCCESS);
    strcpy(capabilities.driver_version, "22.3.6");
    strcpy(capabilities.device_name, "AMD Radeon"); /* its compiler is another */
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_SUCCESS);
}

static void a_way_of_pocls_that_is_wrong_is_refused(void **state)
{
    (void)state;
    struct cla_error error = {0};
    struct clattn_capabilities capabilities = {.platform_name = "Portable Computing Language",
                                               .device_name = "cpu",
                                               .available = true,
                                               .compiler_available = true};
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_SUCCESS);
    assert_int_equal(setenv("POCL_WORK_GROUP_METHOD", "cbs", 1), 0);
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_UNSUPPORTED_DEVICE);
    assert_non_null(strstr(error.text, "POCL_WORK_GROUP_METHOD is \"cbs\""));
    strcpy(capabilities.platform_name, "another");
    assert_int_equal(cla_check_device(&capabilities, &error), CLATTN_SUCCESS);
    assert_int_equal(unsetenv("POCL_WORK_GROUP_METHOD"), 0);
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    clattn_context *none = NULL;
    clattn_context_destroy(NULL);
    clattn_context_destroy(&none);
    assert_null(clattn_context_capabilities(NULL));
}

static void what_the_context_retains_it_releases(void **state)
{
    (void)state;
    const struct clattn_context_params params = fixture_params();
    const cl_uint before = references();
    clattn_context *context = create(&params);
    assert_int_equal(references(), before + 1);
    clattn_context_destroy(&context);
    assert_null(context);
    assert_int_equal(references(), before);
}

static void capabilities_are_filled_and_probed(void **state)
{
    (void)state;
    const struct clattn_context_params params = fixture_params();
    clattn_context *context = create(&params);
    const struct clattn_capabilities *probed = clattn_context_capabilities(context);
    struct clattn_capabilities queried;
    assert_int_equal(clattn_query_device(fixture_device, &queried), CLATTN_SUCCESS);

    assert_true(queried.available && queried.compiler_available);
    assert_true(strlen(queried.platform_name) > 0 && strlen(queried.device_name) > 0);
    assert_int_equal(strncmp(queried.device_version, "OpenCL ", 7), 0);
    assert_int_equal(strncmp(queried.opencl_c_version, "OpenCL C ", 9), 0);
    assert_true(queried.type != CLATTN_DEVICE_OTHER);
    assert_true(queried.compute_units > 0 && queried.max_work_group_size > 0 && queried.max_work_item_size > 0);
    assert_true(queried.global_memory_bytes >= queried.max_allocation_bytes && queried.max_allocation_bytes > 0);
    assert_true(queried.local_memory_bytes > 0 && queried.local_memory_type != CLATTN_LOCAL_MEMORY_NONE);
    assert_int_equal(queried.static_local_memory_bytes, 0);
    assert_false(queried.half_loads);

    assert_string_equal(probed->device_name, queried.device_name);
    assert_true(probed->static_local_memory_bytes + 1024 >= probed->local_memory_bytes);
    assert_true(probed->half_loads);
    assert_true(probed->preferred_work_group_multiple > 0);
    clattn_context_destroy(&context);
}

static void the_probe_is_kept(void **state)
{
    (void)state;
    const struct clattn_context_params params = fixture_params();
    clattn_context *first = create(&params), *second = create(&params);
    assert_int_equal(times_said("by running a kernel"), 1);
    assert_int_equal(times_said("by the cache"), 1);
    assert_memory_equal(&first->capabilities, &second->capabilities, sizeof first->capabilities);
    clattn_context_destroy(&first);
    clattn_context_destroy(&second);
}

/* The one file in the fixture's directory. */
static void only_file(char path[600])
{
    path[0] = '\0';
    DIR *listing = opendir(fixture_directory);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.')
            continue;
        assert_string_equal(path, "");
        snprintf(path, 600, "%s/%s", fixture_directory, entry->d_name);
    }
    closedir(listing);
    assert_string_not_equal(path, "");
}

static void a_damaged_probe_is_redone(void **state)
{
    (void)state;
    const struct clattn_context_params params = fixture_params();
    char path[600];
    size_t size = 0;
    clattn_context *context = create(&params);
    clattn_context_destroy(&context);
    only_file(path);
    char *file = cla_os_read_file(path, 1 << 20, &size);
    assert_non_null(file);
    file[size - 2] ^= 1;
    assert_true(cla_os_replace_file(path, file, size));
    free(file);
    for (int i = 0; i < 2; i++) {
        context = create(&params);
        clattn_context_destroy(&context);
    }
    assert_int_equal(times_said("by running a kernel"), 2);
    assert_int_equal(times_said("by the cache"), 1);
}

/* What NVIDIA's driver answers, on a device that gives any array: the probe must find more than was said. */
static void more_local_memory_than_said_is_found(void **state)
{
    (void)state;
    struct clattn_context context = {.context = fixture_context, .device = fixture_device, .log = fixture_params().log};
    struct cla_error error;
    assert_int_equal(clattn_query_device(fixture_device, &context.capabilities), CLATTN_SUCCESS);
    if (context.capabilities.local_memory_bytes < 226 * 1024)
        skip();
    context.capabilities.vendor_id = 0x10de;
    context.capabilities.local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL;
    context.capabilities.local_memory_bytes = 48 * 1024;
    assert_int_equal(cla_probe(&context, &error), CLATTN_SUCCESS);
    assert_int_equal(context.capabilities.static_local_memory_bytes, 226 * 1024);
}

/* A device whose compiler refuses the probe: nothing is known then, and planning goes by what the device says. */
static void a_probe_that_is_refused_is_no_error(void **state)
{
    (void)state;
    struct clattn_context context = {.context = fixture_context, .device = fixture_device, .log = fixture_params().log};
    struct cla_error error;
    assert_int_equal(clattn_query_device(fixture_device, &context.capabilities), CLATTN_SUCCESS);
    context.capabilities.max_work_group_size = 0; /* and so a work-group size that no compiler takes */
    assert_int_equal(cla_probe(&context, &error), CLATTN_SUCCESS);
    assert_int_equal(context.capabilities.static_local_memory_bytes, 0);
    assert_false(context.capabilities.half_loads);
    assert_int_equal(times_said("does not run even the kernel that probes it"), 1);
}

/* A word that is misspelt would leave on what it was meant to turn off. */
static void words_that_turn_nothing_off_are_warned_of(void **state)
{
    (void)state;
    struct clattn_context_params params = fixture_params();
    setenv("CLATTN_DISABLE", "amx, nvidia_wgmma,intel_dpas avx512_bf16,,amd_wmma amx_bf16s amd_mfma amx_bf16", 1);
    clattn_context *context = create(&params);
    assert_int_equal(times_said("which turns nothing off"), 2);
    assert_int_equal(times_said("CLATTN_DISABLE has \"amx\", which turns nothing off: its words are nvidia_wgmma, "
                                "avx512_bf16, amx_bf16, amd_wmma, amd_mfma, intel_dpas"),
                     1);
    assert_int_equal(times_said("\"amx_bf16s\""), 1);
    assert_false(clattn_context_capabilities(context)->cpu_amx_bf16);
    clattn_context_destroy(&context);
    unsetenv("CLATTN_DISABLE");
}

static void a_cache_that_cannot_be_is_no_error(void **state)
{
    (void)state;
    struct clattn_context_params params = fixture_params();
    char file[300], inside[320], longer[3000];
    snprintf(file, sizeof file, "%s/file", fixture_directory);
    snprintf(inside, sizeof inside, "%s/file/cache", fixture_directory);
    assert_true(cla_os_replace_file(file, "x", 1));
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const char *const directories[] = {"", file, inside, longer};
    for (int i = 0; i < 4; i++) {
        params.cache_directory = directories[i];
        clattn_context *context = create(&params);
        assert_true(clattn_context_capabilities(context)->half_loads);
        clattn_context_destroy(&context);
    }
    assert_int_equal(times_said("longer than"), 1);
}

static void the_default_cache_directory_is_used(void **state)
{
    (void)state;
    struct clattn_context_params params = fixture_params();
    char path[600];
    params.cache_directory = NULL;
    setenv("CLATTN_CACHE_DIR", fixture_directory, 1);
    clattn_context *context = create(&params);
    unsetenv("CLATTN_CACHE_DIR");
    clattn_context_destroy(&context);
    only_file(path);
}

/* Where the platform has a second device (with PoCL 3: POCL_DEVICES="pthread basic"). */
static void a_context_in_a_context_of_many_devices(void **state)
{
    (void)state;
    cl_platform_id platform = NULL;
    cl_device_id devices[16];
    cl_uint count = 0;
    clGetDeviceInfo(fixture_device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, devices, &count) != CL_SUCCESS || count < 2)
        skip();
    struct clattn_context_params params = fixture_params();
    params.context = clCreateContext(NULL, 2, devices, NULL, NULL, NULL);
    assert_non_null(params.context);
    for (int i = 0; i < 2; i++) {
        params.device = devices[i];
        for (int warm = 0; warm < 2; warm++) {
            struct cla_error error;
            char key[CLA_HASH_HEX];
            cl_program program = NULL;
            clattn_context *context = create(&params);
            assert_int_equal(cla_program_get(context, "empty", "__kernel void empty(void) {}\n", CLA_BUILD_OPTIONS,
                                             &program, key, &error),
                             CLATTN_SUCCESS);
            clReleaseProgram(program);
            clattn_context_destroy(&context);
        }
    }
    /* What was built for one of two equal devices serves the other. */
    char names[2][256];
    for (int i = 0; i < 2; i++)
        clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof names[i], names[i], NULL);
    const int built = strcmp(names[0], names[1]) ? 2 : 1;
    assert_int_equal(times_said("kernel empty: built"), built);
    assert_int_equal(times_said("kernel empty: loaded"), 4 - built);
    clReleaseContext(params.context);
}

static void statuses_and_version_have_names(void **state)
{
    (void)state;
    assert_string_equal(clattn_status_name(CLATTN_SUCCESS), "CLATTN_SUCCESS");
    for (int status = CLATTN_INVALID_ARGUMENT; status >= CLATTN_CANCELLED; status--)
        assert_int_equal(strncmp(clattn_status_name(status), "CLATTN_", 7), 0);
    assert_string_equal(clattn_status_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(clattn_status_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(clattn_status_name(-2046), "CLBlastInvalidLocalMemUsage");
    assert_string_equal(clattn_status_name(12345), "unknown status");
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH);
    assert_string_equal(clattn_version(), version);
}

static void *message_of_another_thread(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)(clattn_error_message()[0] == '\0');
}

static void messages_belong_to_their_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *empty = NULL;
    assert_int_equal(clattn_query_device(NULL, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(pthread_create(&thread, NULL, message_of_another_thread, NULL), 0);
    pthread_join(thread, &empty);
    assert_non_null(empty);
    assert_message_has("device is NULL");
}

int main(void)
{
    if (!open_device())
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        TEST(wrong_arguments_are_named),
        TEST(query_device_names_wrong_arguments),
        TEST(a_device_outside_the_context_is_refused),
        TEST(a_device_that_cannot_run_kernels_is_refused),
        TEST(a_driver_that_leaves_loops_is_refused),
        TEST(destroying_nothing_is_fine),
        TEST(what_the_context_retains_it_releases),
        TEST(capabilities_are_filled_and_probed),
        TEST(the_probe_is_kept),
        TEST(a_damaged_probe_is_redone),
        TEST(more_local_memory_than_said_is_found),
        TEST(a_probe_that_is_refused_is_no_error),
        TEST(words_that_turn_nothing_off_are_warned_of),
        TEST(a_cache_that_cannot_be_is_no_error),
        TEST(the_default_cache_directory_is_used),
        TEST(a_context_in_a_context_of_many_devices),
        TEST(statuses_and_version_have_names),
        TEST(messages_belong_to_their_thread),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    close_device();
    return failures;
}
