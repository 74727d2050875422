/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* RTLD_DEFAULT of all C libraries */
#include "device/os.h"
#include <dlfcn.h>

void *cla_os_library(const char *file, const char **reason)
{
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        *reason = dlerror();
    return library;
}

void *cla_os_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void *cla_os_opencl_symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}
