/* SPDX-License-Identifier: BSD-2-Clause
 *
 * K and V in formats: backward passes, layouts that tear blocks, and scales that do not belong are refused by name. */
#include "support/device.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;

static void wrong_problems_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        const char *words;
    } rows[] = {
        {{.d = 64, .q_type = CLATTN_AS_INT8}, "problem.q_type is 4 (int8): formats are those of K and V alone"},
        {{.d = 64, .k_type = 10}, "problem.k_type is 10"},
        {{.d = 64, .pass = CLATTN_BACKWARD, .v_type = CLATTN_AS_Q4_0}, "backward passes read no formats"},
        {{.d = 64, .k_type = CLATTN_AS_Q8_0, .k_scale_group = 32}, "problem.k_scale_group is 32 with k_type q8_0"},
        {{.d = 64, .v_type = CLATTN_AS_FP8_E5M2, .zero_points = CLATTN_V_ZEROS},
         "v_type fp8_e5m2: INT8 and INT4 alone"},
        {{.d = 64, .zero_points = 4}, "problem.zero_points is 4"},
    };
    struct clattn_plan_info info;
    EACH (i, rows) {
        assert_int_not_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &rows[i].problem, &info),
                             CLATTN_SUCCESS);
        if (!strstr(clattn_error_message(), rows[i].words))
            fail_msg("\"%s\" lacks \"%s\"", clattn_error_message(), rows[i].words);
    }
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    static float q[2 * 64], o[2 * 64], scales[4];
    static uint8_t bytes[64 * 64];
    static const struct clattn_host_kv_scales with = {.k_scales = scales, .k_scales_layout = {.strided = 1}},
                                              apart = {.k_scales = scales,
                                                       .k_zeros = scales,
                                                       .k_scales_layout = {.strided = 1},
                                                       .k_zeros_layout = {.row = 1}};
    static const struct {
        int type;
        int64_t zeros, row, column, chunk;
        const struct clattn_host_kv_scales *scales;
        const char *words;
    } rows[] = {
        {CLATTN_AS_Q8_0, 0, 80, 1, 0, NULL, "k.layout.row is 80: elements of this type lie in blocks of 32"},
        {CLATTN_AS_INT4, 0, 65, 1, 0, &with, "k.layout.row is 65: elements of this type lie in blocks of 2"},
        {CLATTN_AS_INT8, 0, 128, 2, 0, &with, "k.layout.column is 2: elements of int8 follow each other"},
        {CLATTN_AS_INT8, 0, 64, 1, 0, NULL, "k_scales is NULL"},
        {CLATTN_AS_Q8_0, 0, 64, 1, 0, &with, "score.kv_scales->k_scales is given"},
        {CLATTN_AS_INT8, CLATTN_K_ZEROS, 64, 1, 0, &apart, "score.kv_scales->k_zeros has strides 0, 0, 1, 0"},
        {CLATTN_AS_INT8, 0, 64, 1, 2, &with, "kv_chunk is 2 with k_type int8"},
    };
    clattn_host *host = NULL;
    assert_int_equal(clattn_host_create(&host, &(struct clattn_host_params){.context = device.clattn}), CLATTN_SUCCESS);
    EACH (i, rows) {
        const struct clattn_problem problem = {.d = 64, .k_type = rows[i].type, .zero_points = rows[i].zeros};
        const struct clattn_host_forward_args args = {.shape = {.batch = 1, .heads = 1, .n_q = 2, .n_kv = 4},
                                                      .q = q,
                                                      .k = bytes,
                                                      .v = bytes,
                                                      .o = o,
                                                      .k_layout = {.row = rows[i].row, .column = rows[i].column},
                                                      .score = {.kv_scales = rows[i].scales},
                                                      .kv_chunk = rows[i].chunk};
        assert_int_not_equal(clattn_host_forward(host, &problem, &args), CLATTN_SUCCESS);
        if (!strstr(clattn_error_message(), rows[i].words))
            fail_msg("\"%s\" lacks \"%s\"", clattn_error_message(), rows[i].words);
    }
    clattn_host_destroy(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_problems_are_refused),
                                       cmocka_unit_test(wrong_calls_are_refused)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
