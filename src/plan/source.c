/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/source.h"
#include "plan/features/feature.h"
#include <clattn/opencl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cla_embedded_file *find(const char *name)
{
    for (size_t i = 0; i < cla_embedded_file_count; i++) {
        if (strcmp(cla_embedded_files[i].name, name) == 0)
            return &cla_embedded_files[i];
    }
    return NULL;
}

/* Whether one of the files named before files[end] has brought the part along. */
static bool is_there(const char *const *files, size_t end, unsigned short part)
{
    for (size_t i = 0; i < end && files[i]; i++) {
        const struct cla_embedded_file *file = find(files[i]);
        for (size_t n = 0; file && n < file->part_count; n++)
            if (file->parts[n] == part)
                return true;
    }
    return false;
}

struct cla_hash cla_source_hash(const char *const *files)
{
    struct cla_hash both[2] = {{0}};
    for (size_t i = 0; files[i]; i++) {
        const struct cla_embedded_file *file = find(files[i]);
        for (size_t n = 0; file && n < file->part_count; n++) {
            const struct cla_embedded_file *part = &cla_embedded_files[file->parts[n]];
            if (is_there(files, i, file->parts[n]))
                continue;
            both[1] = cla_hash_bytes(part->data, part->size);
            both[0] = cla_hash_bytes(both, sizeof both);
        }
    }
    return both[0];
}

static void add_file(const struct cla_embedded_file *file, struct cla_text *text)
{
    cla_text_printf(text, "#line 1 \"cl/%s\"\n", file->name);
    cla_text_add(text, (const char *)file->data, file->size);
    if (file->data[file->size - 1] != '\n')
        cla_text_add(text, "\n", 1);
}

/* The value of CLATTN_FEATURES. */
static unsigned features_of(const char *defines)
{
    static const char name[] = "#define CLATTN_FEATURES ";
    const char *at = strstr(defines, name);
    return at ? (unsigned)strtoul(at + sizeof name - 1, NULL, 10) : 0;
}

/* The files of features that no file includes by name. */
static void add_features(unsigned features, const char *const *files, struct cla_text *text)
{
    for (int i = 0; i < cla_feature_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "score/%s.clh", cla_features[i].name);
        const struct cla_embedded_file *file = find(name);
        if (file && (features & cla_features[i].bit) &&
            !is_there(files, SIZE_MAX, (unsigned short)(file - cla_embedded_files)))
            add_file(file, text);
    }
}

/* A part of the program, and what comes of the table of features: above all else their names, and at the end of the
 * file that includes those of the first release, the others. */
static void add_part(const struct cla_embedded_file *part, unsigned features, const char *const *files,
                     struct cla_text *text)
{
    if (strcmp(part->name, "common/features.clh") == 0)
        cla_features_define(features, text);
    add_file(part, text);
    if (strcmp(part->name, "score/features.clh") == 0)
        add_features(features, files, text);
}

clattn_status cla_source_assemble(const char *defines, const char *const *files, struct cla_text *text,
                                  struct cla_error *error)
{
    cla_text_add(text, defines, strlen(defines));
    for (size_t i = 0; files[i]; i++) {
        const struct cla_embedded_file *file = find(files[i]);
        if (!file)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "the library holds no kernel file \"%s\"", files[i]);
        for (size_t n = 0; n < file->part_count; n++)
            if (!is_there(files, i, file->parts[n]))
                add_part(&cla_embedded_files[file->parts[n]], features_of(defines), files, text);
    }
    if (text->failed)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a program text");
    return CLATTN_SUCCESS;
}
