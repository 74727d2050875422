/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every documented error of the host level: the status, the argument's name in the message, and arrays as they were.
 */
#include "api_fixture.h"

static void assert_host_refuses(const struct clattn_host_forward_args *args, clattn_status status, const char *part)
{
    const int told = times_told;
    assert_failed(clattn_host_forward(host, &problem, args), status, part);
    assert_int_equal(times_told, told + 1);
}

static void host_errors(void **state)
{
    (void)state;
    struct clattn_host_forward_args args = good_host_args();
    assert_failed(clattn_host_forward(NULL, &problem, &args), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_forward(host, NULL, &args), CLATTN_INVALID_ARGUMENT, "problem is NULL");
    assert_host_refuses(NULL, CLATTN_INVALID_ARGUMENT, "args is NULL");
    args.q = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "q is NULL");
    args = good_host_args();
    args.v = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "v is NULL");
    args = good_host_args();
    args.o = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "o is NULL");
    args = good_host_args();
    args.shape.n_kv = -5;
    assert_host_refuses(&args, CLATTN_INVALID_SHAPE, "shape.n_kv is -5");
    args = good_host_args();
    args.k_layout.row = -3;
    assert_host_refuses(&args, CLATTN_INVALID_LAYOUT, "k.layout.row is -3: strides are not negative");
    args = good_host_args();
    args.o_layout = (struct clattn_layout){.head = 96, .column = 1};
    assert_host_refuses(&args, CLATTN_INVALID_LAYOUT, "o.layout.row is 0");
    args = good_host_args();
    args.l = args.m + HEADS * N_Q - 1;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "l at ");
    args = good_host_args();
    args.lse = arrays[O];
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "lse at ");
    assert_nothing_written();
}

/* Two billion rows: more than a device allocates (so many keys would stream). Where all lie in one place, that one is
 * copied; outputs have none. */
static void arrays_too_large_for_the_device(void **state)
{
    (void)state;
    struct clattn_host_forward_args args = good_host_args();
    args.shape.n_q = INT64_C(0x7fffffff) - 4096;
    args.lse = args.m = args.l = NULL;
    char expected[96];
    snprintf(expected, sizeof expected, "q takes %lld bytes on the device, which can allocate at most",
             (long long)(args.shape.n_q * args.shape.heads * problem.d * 4));
    assert_host_refuses(&args, CLATTN_TOO_LARGE, expected);
    args.shape.n_q = args.shape.n_kv = 1;
    args.shape.batch = INT32_MAX;
    args.q_layout = args.k_layout = args.v_layout = (struct clattn_layout){.column = 1};
    args.shape.heads = args.shape.kv_heads = INT32_MAX;
    args.o = arrays[O];
    args.o_layout = (struct clattn_layout){.batch = INT64_C(1) << 31, .head = 1};
    clattn_host_forward(host, &problem, &args); /* whatever it says, it overflows nothing */
    assert_nothing_written();
}

static void host_handle_errors(void **state)
{
    (void)state;
    clattn_host *made = host, *none = NULL;
    struct clattn_host_info info;
    struct clattn_host_params params = {0};
    assert_failed(clattn_host_create(NULL, &params), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_create(&made, NULL), CLATTN_INVALID_ARGUMENT, "params is NULL");
    assert_failed(clattn_host_create(&made, &params), CLATTN_INVALID_ARGUMENT, "params->context is NULL");
    params = (struct clattn_host_params){.context = device.clattn, .queue = foreign_queue};
    assert_failed(clattn_host_create(&made, &params), CLATTN_INVALID_ARGUMENT, "queue belongs to the cl_context");
    assert_ptr_equal(made, host);
    assert_failed(clattn_host_last(NULL, NULL, &info), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_last(host, NULL, &info), CLATTN_INVALID_ARGUMENT, "host has not computed anything");
    clattn_host_destroy(NULL);
    clattn_host_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(host_errors),
        TEST(arrays_too_large_for_the_device),
        TEST(host_handle_errors),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
