/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a plan does where the device's compiler refuses a kernel. This program stands between the library and OpenCL and
 * plays the compiler.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "device/context.h"
#include "support/device.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;

/* How many of the next builds fail, with which code and log; how many of the next kernels say that they need much; how
 * many of the next builds succeed without being done, and what their binary is then said to be. */
static struct {
    int builds;
    cl_int code;
    const char *log;
    int small_groups, large_local, large_private;
    int pretended;
    bool retargets; /* texts for warp groups are built so, and what their binaries are retargeted to is a kernel */
    const char *binary;
} play;

typedef cl_int (*build_function)(cl_program, cl_uint, const cl_device_id *, const char *,
                                 void(CL_CALLBACK *)(cl_program, void *), void *);
typedef cl_int (*build_info_function)(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
typedef cl_int (*program_info_function)(cl_program, cl_program_info, size_t, void *, size_t *);
typedef cl_int (*group_info_function)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);

/* A cast from an object pointer to a function pointer, in the way POSIX asks for. */
#define FIND(function, name) *(void **)&(function) = dlsym(RTLD_NEXT, name)

/* Whether it is a text for warp groups, which no device here compiles. */
static bool is_marked(cl_program program)
{
    program_info_function next;
    static char source[1 << 20];
    FIND(next, "clGetProgramInfo");
    return next(program, CL_PROGRAM_SOURCE, sizeof source, source, NULL) == CL_SUCCESS && strstr(source, "//@");
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    build_function next;
    if (play.builds > 0) {
        play.builds--;
        return play.code;
    }
    if (play.retargets && is_marked(program))
        return CL_SUCCESS;
    if (play.pretended > 0) {
        play.pretended--;
        return CL_SUCCESS;
    }
    FIND(next, "clBuildProgram");
    return next(program, count, devices, options, notify, user);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id of, cl_program_build_info name, size_t size, void *value,
                             size_t *answered)
{
    build_info_function next;
    if (play.log && name == CL_PROGRAM_BUILD_LOG) {
        if (answered)
            *answered = strlen(play.log) + 1;
        if (value)
            memcpy(value, play.log, strlen(play.log) + 1);
        return CL_SUCCESS;
    }
    FIND(next, "clGetProgramBuildInfo");
    return next(program, of, name, size, value, answered);
}

/* The context has one device. */
cl_int clGetProgramInfo(cl_program program, cl_program_info name, size_t size, void *value, size_t *answered)
{
    program_info_function next;
    if (play.binary && name == CL_PROGRAM_BINARY_SIZES) {
        *(size_t *)value = strlen(play.binary);
        return CL_SUCCESS;
    }
    if (play.binary && name == CL_PROGRAM_BINARIES) {
        memcpy(*(unsigned char **)value, play.binary, strlen(play.binary));
        return CL_SUCCESS;
    }
    FIND(next, "clGetProgramInfo");
    return next(program, name, size, value, answered);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id of, cl_kernel_work_group_info name, size_t size,
                                void *value, size_t *answered)
{
    group_info_function next;
    FIND(next, "clGetKernelWorkGroupInfo");
    const cl_int code = next(kernel, of, name, size, value, answered);
    if (name == CL_KERNEL_WORK_GROUP_SIZE && play.small_groups > 0 && play.small_groups--)
        *(size_t *)value = 1;
    if (name == CL_KERNEL_LOCAL_MEM_SIZE && play.large_local > 0 && play.large_local--)
        *(cl_ulong *)value = (cl_ulong)1 << 40;
    if (name == CL_KERNEL_PRIVATE_MEM_SIZE && play.retargets)
        *(cl_ulong *)value = play.large_private > 0 && play.large_private-- ? 264 : 208;
    return code;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries, cl_int *states,
                                     cl_int *code)
{
    typedef cl_program (*function)(cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **,
                                   cl_int *, cl_int *);
    static const char *kernel = "__kernel void clattn_forward(void) {}";
    function next;
    if (play.retargets)
        return clCreateProgramWithSource(context, 1, &kernel, NULL, code);
    FIND(next, "clCreateProgramWithBinary");
    return next(context, count, devices, lengths, binaries, states, code);
}

static const struct clattn_problem problem = {.d = 24, .skeleton = "forward_simt"};

/* A context of its own, without a disk cache, so that every plan is built. */
static int set_up(void **state)
{
    (void)state;
    const struct clattn_context_params params = {
        .context = device.context, .device = device.device, .cache_directory = ""};
    clattn_context_destroy(&device.clattn);
    return clattn_context_create(&device.clattn, &params);
}

static int tear_down(void **state)
{
    (void)state;
    memset(&play, 0, sizeof play);
    return 0;
}

static struct clattn_plan_info plan_info(void)
{
    struct clattn_plan_info info;
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"));
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    clattn_plan_destroy(&plan);
    return info;
}

/* The plan is smaller than the one a preview promises, and its last step says why. */
static void assert_stepped_down(const char *why)
{
    struct clattn_plan_info planned;
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &problem, &planned),
                     CLATTN_SUCCESS);
    const struct clattn_plan_info info = plan_info();
    const struct clattn_plan_step *last = &info.steps[info.step_count - 1];
    assert_string_equal(last->name, "device");
    if (!strstr(last->reason, why))
        fail_msg("\"%s\" lacks \"%s\"", last->reason, why);
    assert_string_not_equal(info.constants, planned.constants);
    assert_int_equal(last->b_r, info.b_r);
    assert_int_equal(last->b_c, info.b_c);
    assert_int_equal(strlen(info.program_key), 32);
}

static void resources_that_run_out(void **state)
{
    (void)state;
    play.builds = 1;
    play.code = CL_OUT_OF_RESOURCES;
    assert_stepped_down("CL_OUT_OF_RESOURCES");
}

static void a_log_that_speaks_of_resources(void **state)
{
    (void)state;
    play.builds = 2;
    play.code = CL_BUILD_PROGRAM_FAILURE;
    play.log = "ptxas error : Entry function 'clattn_forward' uses too much shared data (0x40000 bytes, 0x38c00 max)";
    assert_stepped_down("too much shared data");
}

static void a_kernel_that_runs_in_small_groups_alone(void **state)
{
    (void)state;
    play.small_groups = 1;
    assert_stepped_down("at most 1 work-items");
}

static void a_kernel_that_takes_too_much_local_memory(void **state)
{
    (void)state;
    play.large_local = 1;
    assert_stepped_down("bytes of local memory");
}

static void assert_create_fails(const struct clattn_problem *wanted, clattn_status status, const char *part)
{
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, wanted), status);
    assert_null(plan);
    if (!strstr(clattn_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", clattn_error_message(), part);
}

static void an_error_in_the_kernel_is_one(void **state)
{
    (void)state;
    play.builds = 1000;
    play.code = CL_BUILD_PROGRAM_FAILURE;
    play.log = "cl/forward_simt.cl:7:3: error: use of undeclared identifier 'softmax'";
    assert_create_fails(&problem, CLATTN_BUILD_FAILED, "undeclared identifier");
    assert_int_equal(play.builds, 999); /* it was tried once */
}

/* What a planned kernel that does not compile says: the next kernel for the device, where there is one. */
static void the_way_out_is_named(void **state)
{
    (void)state;
    struct clattn_problem planned = {.d = 24};
    struct clattn_plan_info info;
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &planned, &info), CLATTN_SUCCESS);
    const bool last = !strcmp(info.skeleton, "forward_simt");
    play.builds = 1000;
    play.code = CL_BUILD_PROGRAM_FAILURE;
    play.log = "error: use of undeclared identifier 'softmax'";
    assert_create_fails(&planned, CLATTN_BUILD_FAILED, last ? "" : "problem.skeleton = \"forward_simt\"");
    assert_non_null(strstr(clattn_error_message(), "undeclared identifier"));
    assert_int_equal(last, !strstr(clattn_error_message(), "problem.skeleton"));
    assert_int_equal(play.builds, 999);
    planned.skeleton = info.skeleton;
    assert_create_fails(&planned, CLATTN_BUILD_FAILED, "undeclared identifier");
    assert_null(strstr(clattn_error_message(), "problem.skeleton"));
}

static void there_is_an_end_to_smaller_sizes(void **state)
{
    (void)state;
    play.builds = 1000;
    play.code = CL_OUT_OF_RESOURCES;
    assert_create_fails(&problem, CLATTN_NOTHING_FITS, "there is no smaller configuration");
    assert_true(play.builds > 0);
    play.builds = 0;
    plan_info(); /* a failure is not remembered */
}

static void forced_sizes_are_kept(void **state)
{
    (void)state;
    struct clattn_problem forced = problem;
    const struct clattn_plan_info info = plan_info();
    forced.b_r = info.b_r;
    play.small_groups = 1;
    assert_create_fails(&forced, CLATTN_NOTHING_FITS, "forced");
}

/* A device that is said to take retargeted PTX, with a driver whose PTX is not what is understood. */
static void pretend_hopper(void)
{
    device.clattn->capabilities.nv_wgmma = true;
    play.pretended = 1;
    play.binary = ".version 99.0\n.target sm_120\n";
}

static void ptx_that_cannot_be_retargeted(void **state)
{
    (void)state;
    const struct clattn_problem wanted = {.d = 64, .dtype = CLATTN_FP16};
    struct clattn_plan_info promised, info;
    clattn_plan *plan = NULL;
    pretend_hopper();
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &wanted, &promised),
                     CLATTN_SUCCESS);
    assert_string_equal(promised.skeleton, "forward_hopper");
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &wanted), "clattn_plan_create"));
    assert_int_equal(play.pretended, 0);
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    clattn_plan_destroy(&plan);
    device.clattn->capabilities.nv_wgmma = false;
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &wanted, &promised),
                     CLATTN_SUCCESS);
    assert_string_equal(info.skeleton, promised.skeleton);
    assert_string_equal(info.constants, promised.constants);
    const struct clattn_plan_step *last = &info.steps[info.step_count - 1];
    assert_string_equal(last->name, "device");
    assert_string_equal(last->reason, "without forward_hopper: its compiler says \"cannot be retargeted\"");
    assert_int_equal(last->b_r, info.b_r);
}

/* Who asks for the kernel by name gets an error that says why, and no other kernel. */
static void ptx_that_cannot_be_retargeted_but_is_asked_for(void **state)
{
    (void)state;
    pretend_hopper();
    assert_create_fails(
        &(struct clattn_problem){.d = 64, .dtype = CLATTN_FP16, .b_c = 16, .skeleton = "forward_hopper"},
        CLATTN_NOTHING_FITS, "cannot be retargeted");
    assert_int_equal(play.pretended, 0);
}

/* All programs of forward_hopper's compile here: what they say of registers decides. The device is said to have the
 * items and the local memory of a Hopper: with the 32 KB of some, two warp groups are all that fits. */
static clattn_status plan_hopper(int spilling, const char *knobs, struct clattn_plan_info *info)
{
    const struct clattn_problem wanted = {.d = 64, .dtype = CLATTN_FP16, .skeleton = "forward_hopper", .knobs = knobs};
    clattn_plan *plan = NULL;
    device.clattn->capabilities.nv_wgmma = true;
    device.clattn->capabilities.max_work_group_size = device.clattn->capabilities.max_work_item_size = 1024;
    device.clattn->capabilities.static_local_memory_bytes = 226 << 10;
    play.large_private = spilling;
    play.retargets = true;
    play.binary = ".version 8.3\n.target sm_90\n.entry clattn_forward()\n.reqntid 640\n{\n//@nothing;\n}\n";
    clattn_status status = clattn_plan_create(&plan, device.clattn, &wanted);
    if (!status)
        status = clattn_plan_get_info(plan, info);
    clattn_plan_destroy(&plan);
    return status;
}

static void warp_groups_that_spill(void **state)
{
    (void)state;
    struct clattn_plan_info planned, info;
    assert_true(test_succeeded(plan_hopper(0, NULL, &planned), "clattn_plan_create"));
    assert_true(planned.work_group_size > 384);
    assert_int_equal(set_up(state), 0);
    assert_true(test_succeeded(plan_hopper(1, NULL, &info), "clattn_plan_create"));
    assert_int_equal(info.work_group_size, 384);
    assert_string_equal(info.skeleton, "forward_hopper");
    assert_non_null(strstr(info.steps[info.step_count - 1].reason, "keeps 264 bytes"));
    assert_int_equal(set_up(state), 0);
    assert_int_equal(plan_hopper(1, "ping_pong=1", &info), CLATTN_NOTHING_FITS); /* the caller's own */
    assert_non_null(strstr(clattn_error_message(), "keeps 264 bytes"));
    assert_non_null(strstr(clattn_error_message(), "forced"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resources_that_run_out),
        TEST(a_log_that_speaks_of_resources),
        TEST(a_kernel_that_runs_in_small_groups_alone),
        TEST(a_kernel_that_takes_too_much_local_memory),
        TEST(an_error_in_the_kernel_is_one),
        TEST(the_way_out_is_named),
        TEST(there_is_an_end_to_smaller_sizes),
        TEST(forced_sizes_are_kept),
        TEST(ptx_that_cannot_be_retargeted),
        TEST(ptx_that_cannot_be_retargeted_but_is_asked_for),
        TEST(warp_groups_that_spill),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
