/* SPDX-License-Identifier: BSD-2-Clause */
#include <clattn/version.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *clattn_version(void)
{
    return TEXT(CLATTN_VERSION_MAJOR) "." TEXT(CLATTN_VERSION_MINOR) "." TEXT(CLATTN_VERSION_PATCH);
}
