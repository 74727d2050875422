/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_MAPPING_H
#define CLATTN_TOOL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* A file mapped for reading, that another process may shrink or change meanwhile. Reading a page that is no longer
 * there gives zeros in place of SIGBUS, and mapping_changed() tells. (Windows lets nobody shrink it.) */
struct mapping {
    void *start; /* NULL: there is none */
    size_t bytes;
    int descriptor, slot;
    struct timespec modified;
};

/* Takes the open file over, of so many bytes, more than 0. False, with errno, where it cannot be mapped. */
bool mapping_make(int descriptor, size_t bytes, struct mapping *mapping);

/* Whether the file may have been another than it was when it was mapped. */
bool mapping_changed(const struct mapping *mapping);

void mapping_end(struct mapping *mapping); /* zero-initialised and ended ones too */

#endif
