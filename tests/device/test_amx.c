/* SPDX-License-Identifier: BSD-2-Clause
 *
 * AMX in forward_cpu and backward_cpu, also on a processor without it (amx_processor.h): when it is taken, that the
 * kernels' instructions are run, and that they give the bits of their twin in plain OpenCL C. */
#define _GNU_SOURCE
#include "amx_processor.h"
#include "support/backward.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

static struct test_device device;

static uint64_t found(void)
{
    const struct clattn_context_params params = {.context = device.context, .device = device.device};
    clattn_context *context = NULL;
    if (clattn_context_create(&context, &params))
        fail_msg("%s", clattn_error_message());
    const uint64_t has = clattn_context_capabilities(context)->cpu_amx_bf16;
    clattn_context_destroy(&context);
    return has;
}

static void it_is_found(void **state)
{
    (void)state;
    assert_true(amx_processor_start()); /* cmocka has handlers of its own for each test */
    assert_int_equal(found(), 1);
    assert_true(amx_processor.requests > 0);
    assert_true(amx_processor.is_real || amx_processor.instructions > 0);
    assert_int_equal(amx_processor.stray, 0);
}

static void the_system_may_refuse(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    amx_processor.is_allowed = false;
    assert_int_equal(found(), 0);
}

static void wrong_products_are_noticed(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    if (amx_processor.is_real)
        skip();
    amx_processor.is_wrong = true;
    assert_int_equal(found(), 0);
}

/* The request holds for the whole process, so who says no is not asked for it either. */
static void the_environment_may_refuse(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    setenv("CLATTN_DISABLE", "nvidia_wgmma,amx_bf16", 1);
    assert_int_equal(found(), 0);
    unsetenv("CLATTN_DISABLE");
    assert_int_equal(amx_processor.requests, 0);
}

/* Tiles are never whole: 32 rows and keys, pairs of 32 columns. */
static struct forward_case case_by(const char *knobs, const char *skeleton)
{
    return (struct forward_case){.problem = {.dtype = CLATTN_BF16,
                                             .d = 40,
                                             .d_v = 72,
                                             .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                             .skeleton = skeleton,
                                             .knobs = knobs},
                                 .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 75, .n_kv = 101},
                                 .seed = 7};
}

static const char *const by_unit[] = {"dot=3 micro=32", "dot=4 micro=32"};

static void o_has_the_twins_bits(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    struct forward_arrays arrays[2];
    for (int i = 0; i < 2; i++) {
        const struct forward_case forward = case_by(by_unit[i], "forward_cpu");
        assert_true(forward_arrays_make(&forward, &arrays[i]));
        assert_true(forward_holds(&device, &forward, &arrays[i]));
    }
    const struct forward_case forward = case_by(NULL, NULL);
    const size_t rows = (size_t)(forward.shape.heads * forward.shape.n_q);
    assert_memory_equal(arrays[0].o, arrays[1].o, rows * (size_t)forward.problem.d_v * sizeof(float));
    assert_memory_equal(arrays[0].lse, arrays[1].lse, rows * sizeof(float));
    for (int i = 0; i < 2; i++)
        forward_arrays_free(&arrays[i]);
}

/* Blocks that go by tickets have b_r rows, half and a quarter of it, down to 128; by floats, too. */
static void blocks_of_all_sizes_hold(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    static const struct {
        struct clattn_shape shape;
        int b_r, causal;
    } cases[] = {
        {{.batch = 3, .heads = 6, .kv_heads = 2, .n_q = 530, .n_kv = 40}, 512, CLATTN_CAUSAL_BOTTOM_RIGHT},
        {{.batch = 1, .heads = 8, .kv_heads = 8, .n_q = 257, .n_kv = 33}, 512, CLATTN_FULL},
        {{.batch = 1, .heads = 7, .kv_heads = 7, .n_q = 300, .n_kv = 33}, 512, CLATTN_CAUSAL_TOP_LEFT},
        {{.batch = 1, .heads = 8, .kv_heads = 4, .n_q = 270, .n_kv = 33}, 256, CLATTN_FULL},
    };
    static const char *const units[] = {"dot=4 micro=32", "dot=0 tickets=1"};
    enum { CASES = sizeof cases / sizeof *cases };
    for (size_t n = 0; n < 2 * CASES; n++) {
        const size_t i = n % CASES;
        struct forward_case forward = case_by(units[n / CASES], "forward_cpu");
        forward.problem.b_r = cases[i].b_r;
        forward.problem.causal = cases[i].causal;
        forward.shape = cases[i].shape;
        struct forward_arrays arrays;
        assert_true(forward_arrays_make(&forward, &arrays));
        assert_true(forward_holds(&device, &forward, &arrays));
        forward_arrays_free(&arrays);
    }
}

static void gradients_have_the_twins_bits(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    const unsigned wanted = BACKWARD_D_Q | BACKWARD_D_K | BACKWARD_D_V;
    struct backward_arrays arrays[2];
    for (int i = 0; i < 2; i++) {
        const struct forward_case forward = case_by(by_unit[i], "backward_cpu");
        assert_true(backward_arrays_make(&forward, &arrays[i]));
        assert_true(backward_run(&device, NULL, &forward, wanted, &arrays[i]));
        assert_true(backward_judge(&forward, wanted, &arrays[i]));
    }
    const struct forward_case forward = case_by(NULL, NULL);
    assert_true(backward_same(&forward, wanted, &arrays[0], &arrays[1]));
    for (int i = 0; i < 2; i++)
        backward_arrays_free(&arrays[i]);
}

/* Intel's puts its own handler in the place of amx_processor's whenever it compiles. */
static bool compiler_takes_the_signal(void)
{
    return !amx_processor.is_real &&
           strcmp(clattn_context_capabilities(device.clattn)->platform_name, "Intel(R) OpenCL") == 0;
}

/* Drivers that run kernels on this processor as the library knows them (probe.c). */
static bool driver_is_known(void)
{
    const char *platform = clattn_context_capabilities(device.clattn)->platform_name;
    return strcmp(platform, "Portable Computing Language") == 0 || strcmp(platform, "Intel(R) OpenCL") == 0;
}

static void other_drivers_are_not_asked(void **state)
{
    (void)state;
    assert_true(amx_processor_start());
    assert_int_equal(found(), 0);
    assert_int_equal(amx_processor.requests, 0);
}

int main(void)
{
    enum { SKIPPED = 77 };
    if (!amx_processor_start())
        return SKIPPED;
    amx_processor.is_there = false; /* or opening the device would probe it */
    test_device_open(&device);
    const bool is_cpu = clattn_context_capabilities(device.clattn)->type == CLATTN_DEVICE_CPU;
    const bool is_skipped = !is_cpu || compiler_takes_the_signal();
    test_device_close(&device);
    if (is_skipped)
        return SKIPPED;
    amx_processor_start();
    test_device_open(&device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found),
        cmocka_unit_test(the_system_may_refuse),
        cmocka_unit_test(wrong_products_are_noticed),
        cmocka_unit_test(the_environment_may_refuse),
        cmocka_unit_test(o_has_the_twins_bits),
        cmocka_unit_test(blocks_of_all_sizes_hold),
        cmocka_unit_test(gradients_have_the_twins_bits),
    };
    const struct CMUnitTest others[] = {cmocka_unit_test(other_drivers_are_not_asked)};
    const int failures =
        driver_is_known() ? cmocka_run_group_tests(tests, NULL, NULL) : cmocka_run_group_tests(others, NULL, NULL);
    test_device_close(&device);
    return failures;
}
