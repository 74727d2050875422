/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* readlink, sysconf */
#include "system.h"
#include <errno.h>
#include <limits.h>
#include <unistd.h>

bool system_program(char *path, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    if ((size_t)length < size - 1)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

int system_processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > INT_MAX ? INT_MAX : (int)count;
}

uint64_t system_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}
