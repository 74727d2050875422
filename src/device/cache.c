/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/binary_cache.h"
#include "device/os.h"
#include "device/report.h"
#include <clattn/cache.h>

/* Longer than any path that the operating system takes. */
enum { PATH_BYTES = 8192 };

clattn_status clattn_cache_default_directory(char *path, size_t size)
{
    struct cla_error error = {0};
    if (!path)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "path is NULL: it must point to `size` bytes");
    else if (!cla_os_cache_directory(path, size))
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "size is %zu: the default cache directory does not fit", size);
    return error.status ? cla_report(NULL, &error) : CLATTN_SUCCESS;
}

clattn_status clattn_cache_clear(const char *directory, int64_t *removed)
{
    char path[PATH_BYTES];
    if (!directory) {
        const clattn_status status = clattn_cache_default_directory(path, sizeof path);
        if (status)
            return status;
        directory = path;
    }
    const int64_t count = directory[0] ? cla_os_trim_directory(directory, CLA_BINARY_CACHE_SUFFIX, 0) : 0;
    if (removed)
        *removed = count;
    return CLATTN_SUCCESS;
}
