/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CACHE_FILE_H
#define CLA_CACHE_FILE_H

#include "plan/cache_pages.h"
#include "plan/error.h"
#include <stddef.h>

/* A cache of keys as a file (plan/binary_format.h), whose identity says what its elements are. The payload, integers
 * little-endian, elements as the device has them:
 *
 *     8              sequences
 *     8              pages, with those among them that nobody has
 *     8 each         lengths [layers, sequences]
 *     4 each         for each sequence the numbers of its pages: as many as its longest layer takes
 *     K, then V      of each layer: its pages, zeros where no keys are; behind them, where there are such, the scales
 *                    of K and of V, and their zero points */

/* The bytes before the elements, and those of all elements; false where 64 bits do not hold them. `page_bytes`: of a
 * page of K and V of one layer together. */
bool cla_cache_file_bytes(const struct cla_cache_pages *pages, size_t page_bytes, size_t *table, size_t *elements);

void cla_cache_file_put_table(const struct cla_cache_pages *pages, unsigned char *payload);

/* Fills `pages`, which is made for as many layers, and for as many sequences as there may be, and empty; on an error
 * it is to be finished all the same. *elements gets where in the file they begin. `name` is the file's, for messages.
 */
clattn_status cla_cache_file_take(const char *name, const void *file, size_t size, const char *identity,
                                  size_t page_bytes, struct cla_cache_pages *pages, const unsigned char **elements,
                                  struct cla_error *error);

#endif
