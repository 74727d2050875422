/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The probe of matrix units, on emulated ones: it passes those that are right, and sees what is wrong. */
#include "plan/matrix_units.h"
#include "plan/source.h"
#include "support/device.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

static struct test_device device;

/* What cl/probe_unit.cl counts on an emulation, with one call in its text replaced by another: as if the unit did that
 * in its place. */
static int wrong_by_the_probe(const struct cla_matrix_unit *unit, enum clattn_dtype dtype, const char *call,
                              const char *other)
{
    enum { WORDS = 72 + 64 };
    const cl_uint salt = 12345;
    struct cla_text defines = {0}, text = {0};
    struct cla_error error;
    cl_uint data[WORDS] = {0};
    cl_int code = CL_SUCCESS;
    cla_text_printf(&defines, "#define CLATTN_DTYPE %d\n#define CLATTN_FEATURES 0\n", (int)dtype);
    cla_matrix_unit_define(unit, 0, &defines);
    assert_int_equal(cla_source_assemble(defines.data, unit->files[CLA_UNIT_PROBE], &text, &error), CLATTN_SUCCESS);
    char *at = NULL;
    for (char *next = text.data; call && (next = strstr(next, call)); next++) /* the last one is the kernel's own */
        at = next;
    if (call && (!at || strlen(other) != strlen(call)))
        fail_msg("%s: it is not in the text, or %s has another length", call, other);
    if (at)
        memcpy(at, other, strlen(other));
    const char *source = text.data;
    cl_program program = clCreateProgramWithSource(device.context, 1, &source, NULL, &code);
    assert_int_equal(clBuildProgram(program, 1, &device.device, "-cl-std=CL1.2", NULL, NULL), CL_SUCCESS);
    cl_kernel kernel = clCreateKernel(program, "clattn_probe", &code);
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE, sizeof data, NULL, &code);
    const size_t items = (size_t)unit->lanes;
    clEnqueueWriteBuffer(device.queue, buffer, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    clSetKernelArg(kernel, 1, sizeof salt, &salt);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL), CL_SUCCESS);
    clEnqueueReadBuffer(device.queue, buffer, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL);
    int wrong = 0;
    for (int i = 72; i < WORDS; i++)
        wrong += (int)data[i];
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    cla_text_free(&text);
    cla_text_free(&defines);
    return wrong;
}

static void units_that_are_right_pass(void **state)
{
    (void)state;
    static const enum clattn_dtype dtypes[] = {CLATTN_FP16, CLATTN_BF16};
    int tried = 0;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name; unit++)
        EACH (i, dtypes)
            if (!unit->devices && unit->takes(NULL, dtypes[i])) {
                if (wrong_by_the_probe(unit, dtypes[i], NULL, NULL))
                    fail_msg("%s, %d lanes: the probe finds it wrong", unit->name, unit->lanes);
                tried++;
            }
    assert_true(tried >= 10);
}

/* Each of them does not, by one of the units. */
static void units_that_are_wrong_fail(void **state)
{
    (void)state;
    static const struct {
        int lanes;
        const char *call, *other;
    } faults[] = {{8, "unit_load_bt(&b, right", "unit_load_bt(&b, left "},
                  {16, "unit_multiply(lane, &c, &a, &b)", "unit_multiply(lane, &c, &b, &a)"},
                  {32, "unit_store(to, PITCH, lane, &a)", "unit_store(to, PITCH, lane, &b)"},
                  {64, "unit_row_sum(lane, sum)", "unit_row_max(lane, sum)"},
                  {32, "unit_row_max(lane, most)", "unit_row_sum(lane, most)"}};
    EACH (i, faults) {
        const struct cla_matrix_unit *unit = cla_matrix_emulation(faults[i].lanes, 1);
        if (!wrong_by_the_probe(unit, CLATTN_FP16, faults[i].call, faults[i].other))
            fail_msg("%s, %d lanes: it passes with %s in the place of %s", unit->name, unit->lanes, faults[i].other,
                     faults[i].call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_that_are_right_pass),
        cmocka_unit_test(units_that_are_wrong_fail),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
