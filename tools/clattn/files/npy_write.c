/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/npy.h"
#include <stdio.h>
#include <string.h>

/* Version 1.0, padded so that the data starts at a multiple of 64 bytes, as NumPy does it. */
static size_t format_header(const struct npy_header *header, char *bytes, size_t size)
{
    char shape[128];
    npy_shape_text(header, shape, sizeof shape);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    const int length = snprintf(bytes + 10, size - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                                npy_type_name(header->type), shape);
    const size_t total = (10 + (size_t)length + 1 + 63) / 64 * 64;
    memset(bytes + 10 + length, ' ', total - 10 - (size_t)length);
    bytes[total - 1] = '\n';
    bytes[8] = (char)((total - 10) & 255);
    bytes[9] = (char)((total - 10) >> 8);
    return total;
}

int npy_write(struct output_file *output, const struct npy_header *header, const void *data, struct failure *failure)
{
    char bytes[512];
    const size_t length = format_header(header, bytes, sizeof bytes);
    int status = output_write(output, bytes, length, failure);
    if (!status)
        status = output_write(output, data, npy_data_bytes(header), failure);
    return status ? status : output_finish(output, failure);
}
