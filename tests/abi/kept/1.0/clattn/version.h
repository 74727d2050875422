/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H
#include <clattn/export.h>
#define CLATTN_VERSION_MAJOR 1
#define CLATTN_VERSION_MINOR 0
#define CLATTN_VERSION_PATCH 0
CLATTN_BEGIN_DECLS
CLATTN_API const char *clattn_version(void);
CLATTN_END_DECLS
#endif
