/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_CACHE_H
#define CLATTN_CACHE_H
#include <clattn/export.h>
#include <clattn/status.h>
#include <stddef.h>
#include <stdint.h>
CLATTN_BEGIN_DECLS
#define CLATTN_CACHE_MAX_BYTES (256u << 20)
CLATTN_API clattn_status clattn_cache_default_directory(char *path, size_t size);
CLATTN_API clattn_status clattn_cache_clear(const char *directory, int64_t *removed);
CLATTN_END_DECLS
#endif
