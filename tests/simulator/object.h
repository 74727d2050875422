/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A code object as clang's AMDGPU back end links it: its image in memory, and its kernels. */
#ifndef SIMULATED_OBJECT_H
#define SIMULATED_OBJECT_H

#include "machine.h"

enum { MOST_ARGUMENTS = 64, MOST_KERNELS = 16 };

struct argument {
    char kind[40]; /* "global_buffer", "by_value", "hidden_..." */
    uint32_t offset, bytes;
};

struct object_kernel {
    char name[128];
    struct kernel_code code;
    struct argument arguments[MOST_ARGUMENTS];
    int arguments_count;
    uint32_t required_group[3]; /* 0: any */
    uint32_t most_items;
};

struct object {
    uint8_t *image;
    size_t image_bytes;
    struct object_kernel kernels[MOST_KERNELS];
    int kernels_count;
};

/* Reads an ELF file of so many bytes; false where it is none that is understood. */
bool object_read(const uint8_t *file, size_t bytes, struct object *object);
void object_free(struct object *object);

#endif
