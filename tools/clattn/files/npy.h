/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_NPY_H
#define CLATTN_TOOL_NPY_H

#include "failure.h"
#include "files/output_file.h"
#include "system/mapping.h"
#include <stddef.h>
#include <stdint.h>

/* NumPy's .npy files, versions 1 to 3: little-endian arrays in C order, of the types that attention takes. */

enum npy_type {
    NPY_FLOAT32, /* '<f4' */
    NPY_FLOAT16, /* '<f2' */
    NPY_UINT16,  /* '<u2': holds bf16 */
    NPY_BOOL,    /* '|b1': masks */
    NPY_UINT8,   /* '|u1': masks, and bytes of formats */
    NPY_INT32,   /* '<i4': lengths */
    NPY_INT64,   /* '<i8': lengths */
    NPY_INT8     /* '|i1': quantised keys and values */
};

#define NPY_MAX_DIMENSIONS 4

struct npy_header {
    enum npy_type type;
    int dimensions; /* 1 to 4 */
    int64_t shape[NPY_MAX_DIMENSIONS];
};

const char *npy_type_name(enum npy_type type); /* "<f4" */
size_t npy_type_size(enum npy_type type);

/* "(2, 8, 128, 64)" */
void npy_shape_text(const struct npy_header *header, char *text, size_t size);

/* Bytes of the array's data; 0 where a length is. A header that was parsed or written cannot overflow. */
size_t npy_data_bytes(const struct npy_header *header);

/* Parses the start of a file that has `size` bytes in all. *data_offset is where the elements begin. STATUS_FILE, with
 * a message naming `name` and what would be right, for anything but a whole array of a known type. */
int npy_parse_header(const char *name, const void *file, size_t size, struct npy_header *header, size_t *data_offset,
                     struct failure *failure);

/* A file opened for reading. The data is mapped, not read: pages come as they are used. */
struct npy_file {
    struct npy_header header;
    const void *data; /* aligned to the element type */
    struct mapping mapping;
    void *copy;
};

int npy_open(const char *path, struct npy_file *file, struct failure *failure);
void npy_close(struct npy_file *file); /* zero-initialised and closed files too */

/* Once the data has been used: STATUS_FILE where the file was shrunk or written to meanwhile. */
int npy_check(const char *path, const struct npy_file *file, struct failure *failure);

/* Writes the whole array and finishes the file; output_commit() then names it. */
int npy_write(struct output_file *output, const struct npy_header *header, const void *data, struct failure *failure);

#endif
