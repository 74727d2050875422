/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/small_program.h"
#include "plan/skeletons/cpu_tiles.h"
#include "plan/source.h"

clattn_status cla_small_program(struct clattn_context *context, const char *name, struct cla_text *defines,
                                const char *const *files, cl_program *program, struct cla_error *error)
{
    struct cla_text text = {0};
    char key[CLA_HASH_HEX];
    clattn_status status;
    cla_text_printf(defines, "#define CLATTN_VECTOR_WIDTH %d\n", cla_cpu_vector_width(&context->capabilities));
    if (defines->failed)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the program text of %s", name);
    else
        status = cla_source_assemble(defines->data, files, &text, error);
    if (!status)
        status = cla_program_get(context, name, text.data, CLA_BUILD_OPTIONS, program, key, error);
    cla_text_free(&text);
    cla_text_free(defines);
    return status;
}

int cla_small_work_group(const struct clattn_capabilities *capabilities)
{
    int size = 256;
    if (capabilities->type == CLATTN_DEVICE_CPU)
        return 1;
    while (size > 1 &&
           ((uint64_t)size > capabilities->max_work_group_size || (uint64_t)size > capabilities->max_work_item_size))
        size /= 2;
    return size;
}
