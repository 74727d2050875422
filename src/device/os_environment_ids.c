/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os_system.h"
#include <stdlib.h>
#include <unistd.h>

/* Of systems without secure_getenv. */
const char *cla_os_variable(const char *name)
{
    return getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
}
