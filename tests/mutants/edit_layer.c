/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An OpenCL layer (OPENCL_LAYERS=/path/of/this.so) that edits programs' texts before the driver has them: each place
 * where CLATTN_MUTANT_FROM stands gets CLATTN_MUTANT_TO, and for each a byte is added to the file
 * CLATTN_MUTANT_FOUND. So a test meets a faulty kernel (kernels.py), and nothing is built anew. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include "support/layer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct _cl_icd_dispatch target, table;
static const char *from, *to, *found;

static void note(void)
{
    FILE *file = fopen(found, "a");
    const bool written = file && fputc('x', file) != EOF;
    if ((file && fclose(file)) || !written) {
        fprintf(stderr, "edit layer: %s cannot be written\n", found);
        abort();
    }
}

/* All strings as one. */
static char *joined(cl_uint count, const char **strings, const size_t *lengths)
{
    size_t all = 0, at = 0;
    for (cl_uint i = 0; i < count; i++)
        all += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    char *text = malloc(all + 1);
    for (cl_uint i = 0; text && i < count; i++) {
        const size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        memcpy(text + at, strings[i], length);
        at += length;
    }
    if (text)
        text[at] = '\0';
    return text;
}

static char *edited(const char *text)
{
    size_t places = 0;
    for (const char *at = strstr(text, from); at; at = strstr(at + strlen(from), from))
        places++;
    char *result = malloc(strlen(text) + places * strlen(to) + 1), *end = result;
    for (const char *next = strstr(text, from); result && next; next = strstr(text, from)) {
        memcpy(end, text, (size_t)(next - text));
        end += next - text;
        memcpy(end, to, strlen(to));
        end += strlen(to);
        text = next + strlen(from);
        note();
    }
    if (result)
        memcpy(end, text, strlen(text) + 1);
    return result;
}

static cl_program CL_API_CALL edit_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                                             const size_t *lengths, cl_int *code)
{
    char *text = joined(count, strings, lengths), *other = text ? edited(text) : NULL;
    cl_program program = NULL;
    if (other) {
        program = target.clCreateProgramWithSource(context, 1, (const char **)&other, NULL, code);
    } else if (code) {
        *code = CL_OUT_OF_HOST_MEMORY;
    }
    free(text);
    free(other);
    return program;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
    return layer_info("clattn edits", name, size, value, size_ret);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *below, cl_uint *entries_ret,
                                            const cl_icd_dispatch **table_ret)
{
    const cl_int code = layer_begin(entries, below, &target, &table, entries_ret, table_ret);
    if (code)
        return code;
    from = getenv("CLATTN_MUTANT_FROM");
    to = getenv("CLATTN_MUTANT_TO");
    found = getenv("CLATTN_MUTANT_FOUND");
    if (from && *from && to && found)
        table.clCreateProgramWithSource = edit_clCreateProgramWithSource;
    return CL_SUCCESS;
}
