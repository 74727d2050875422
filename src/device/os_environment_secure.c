/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* secure_getenv */
#include "device/os_system.h"
#include <stdlib.h>

const char *cla_os_variable(const char *name)
{
    return secure_getenv(name);
}
