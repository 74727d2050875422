/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BINARY_CACHE_H
#define CLA_BINARY_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* A file is named by the hash of its identity and this. */
#define CLA_BINARY_CACHE_SUFFIX ".clattn"

/* The disk side of the caches: blocks of bytes under an identity text, one file each. Knows no OpenCL. Every failure is
 * quiet: false means "not there" or "could not be kept". `directory` "" means that nothing is kept. */
bool cla_binary_cache_load(const char *directory, const char *identity, void **payload, size_t *size); /* malloc'ed */
bool cla_binary_cache_store(const char *directory, const char *identity, const void *payload, size_t size);
void cla_binary_cache_drop(const char *directory, const char *identity);

#endif
