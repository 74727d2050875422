/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/export.h>

/* The version of these headers. The build reads it from here, so it stands in one place.
 * MAJOR is the ABI: programs linked against one MAJOR run with every later MINOR of it. */
#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

CLATTN_BEGIN_DECLS

/* The version of the library that is linked, as "MAJOR.MINOR.PATCH". Static storage. Any thread. */
CLATTN_API const char *clattn_version(void);

CLATTN_END_DECLS

#endif
