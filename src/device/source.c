/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/source.h"
#include <clattn/opencl.h>
#include <string.h>

static const struct cla_embedded_file *find(const char *name)
{
    for (size_t i = 0; i < cla_embedded_file_count; i++) {
        if (strcmp(cla_embedded_files[i].name, name) == 0)
            return &cla_embedded_files[i];
    }
    return NULL;
}

struct cla_hash cla_source_hash(const char *const *files)
{
    struct cla_hash both[2] = {{0}};
    for (; *files; files++) {
        const struct cla_embedded_file *file = find(*files);
        both[1] = file ? cla_hash_bytes(file->data, file->size) : (struct cla_hash){0};
        both[0] = cla_hash_bytes(both, sizeof both);
    }
    return both[0];
}

clattn_status cla_source_assemble(const char *defines, const char *const *files, struct cla_text *text,
                                  struct cla_error *error)
{
    cla_text_add(text, defines, strlen(defines));
    for (; *files; files++) {
        const struct cla_embedded_file *file = find(*files);
        if (!file)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "the library holds no kernel file \"%s\"", *files);
        cla_text_printf(text, "#line 1 \"cl/%s\"\n", file->name);
        cla_text_add(text, (const char *)file->data, file->size);
        if (file->data[file->size - 1] != '\n')
            cla_text_add(text, "\n", 1);
    }
    if (text->failed)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a program text");
    return CLATTN_SUCCESS;
}
