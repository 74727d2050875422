/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Q, K, V and O of types of their own (problem.q_type and its kind), against the float64 reference, on guarded memory:
 * on plain devices' skeletons in both directions, at the device and the host level. Skeletons on matrix units refuse
 * them, and a plan says why it has none. */
#include "support/backward.h"
#include "support/backward_parts.h"
#include "support/device.h"
#include "support/forward.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;

/* Of dO and what has none of its own; of Q, K, V and O. */
static const int combinations[][5] = {
    {CLATTN_FP32, CLATTN_AS_DTYPE, CLATTN_AS_FP16, CLATTN_AS_BF16, CLATTN_AS_FP16},
    {CLATTN_BF16, CLATTN_AS_FP32, CLATTN_AS_DTYPE, CLATTN_AS_FP16, CLATTN_AS_FP32},
};

static struct forward_case case_of(const struct cla_skeleton *skeleton, const int types[5], enum forward_path path)
{
    return (struct forward_case){.problem = {.pass = skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                             .dtype = (enum clattn_dtype)types[0],
                                             .q_type = types[1],
                                             .k_type = types[2],
                                             .v_type = types[3],
                                             .o_type = (enum clattn_operand_type)types[4],
                                             .d = 24,
                                             .d_v = 20,
                                             .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                             .skeleton = skeleton->name},
                                 .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 21, .n_kv = 37},
                                 .seed = 5,
                                 .path = path};
}

static void plain_skeletons(void **state)
{
    (void)state;
    bool good = true;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < 2 && !(*skeleton)->declines; i++) {
            const struct forward_case forward = case_of(*skeleton, combinations[i], i ? PATH_HOST : PATH_DEVICE);
            good = forward_check(&device, &forward) && good;
        }
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < 2 && !(*skeleton)->declines; i++) {
            const struct forward_case forward = case_of(*skeleton, combinations[i], i ? PATH_HOST : PATH_DEVICE);
            good = backward_check(&device, &forward, 1u << D_Q | 1u << D_K | 1u << D_V) && good;
        }
    assert_true(good);
}

/* fp16 alone, said in four ways, is one problem. */
static void one_type(void **state)
{
    (void)state;
    const struct clattn_problem said = {
        .d = 64, .q_type = CLATTN_AS_FP16, .k_type = CLATTN_AS_FP16, .v_type = CLATTN_AS_FP16};
    const struct clattn_problem plain = {.d = 64, .dtype = CLATTN_FP16, .o_type = CLATTN_AS_FP32};
    struct clattn_plan_info a, b;
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &said, &a), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &plain, &b), CLATTN_SUCCESS);
    assert_string_equal(a.constants, b.constants);
    assert_string_equal(a.skeleton, b.skeleton);
}

static void matrix_units(void **state)
{
    (void)state;
    struct clattn_problem problem = {
        .d = 64, .dtype = CLATTN_FP16, .k_type = CLATTN_AS_BF16, .skeleton = "forward_matrix"};
    struct clattn_capabilities hopper = *clattn_context_capabilities(device.clattn);
    struct clattn_plan_info info;
    assert_int_equal(clattn_plan_preview(&hopper, &problem, &info), CLATTN_NOTHING_FITS);
    assert_non_null(strstr(clattn_error_message(), "Q is fp16, K bf16, V fp16: forward_matrix takes them in one type"));
}

static void wrong_types(void **state)
{
    (void)state;
    struct clattn_plan_info info;
    const struct clattn_capabilities *here = clattn_context_capabilities(device.clattn);
    const struct clattn_problem problems[] = {{.d = 8, .q_type = -1}, {.d = 8, .k_type = 99}, {.d = 8, .v_type = 1000}};
    static const char *const words[] = {"problem.q_type is -1", "problem.k_type is 99", "problem.v_type is 1000"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clattn_plan_preview(here, &problems[i], &info), CLATTN_INVALID_TYPE);
        assert_non_null(strstr(clattn_error_message(), words[i]));
    }
}

int main(void)
{
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_skeletons), cmocka_unit_test(one_type),
                                       cmocka_unit_test(matrix_units), cmocka_unit_test(wrong_types)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
