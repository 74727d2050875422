/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/text.h"
#include "plan/source.h"
#include "support/unit.h"
#include <string.h>

cl_kernel test_build_text(const struct test_device *device, const char *defines, const char *const *files,
                          const char *text, const char *name, cl_program *program)
{
    struct cla_text all = {0};
    struct cla_error error;
    cl_int code = CL_SUCCESS;
    assert_int_equal(cla_source_assemble(defines, files, &all, &error), CLATTN_SUCCESS);
    cla_text_add(&all, text, strlen(text));
    assert_false(all.failed);
    *program = clCreateProgramWithSource(device->context, 1, (const char **)&all.data, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clBuildProgram(*program, 1, &device->device, "-cl-std=CL1.2", NULL, NULL), CL_SUCCESS);
    cla_text_free(&all);
    const cl_kernel kernel = clCreateKernel(*program, name, &code);
    assert_int_equal(code, CL_SUCCESS);
    return kernel;
}
