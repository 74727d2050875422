/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/error_windows.h"
#include "system/mapping.h"
#include <errno.h>
#include <io.h>
#include <unistd.h>
#include <windows.h>

/* Ticks of 100 ns. */
static struct timespec modified_of(FILETIME time)
{
    const ULONGLONG ticks = (ULONGLONG)time.dwHighDateTime << 32 | time.dwLowDateTime;
    return (struct timespec){(time_t)(ticks / 10000000), (long)(ticks % 10000000) * 100};
}

static bool describe(int descriptor, struct timespec *modified, size_t *bytes)
{
    BY_HANDLE_FILE_INFORMATION found;
    if (!GetFileInformationByHandle((HANDLE)_get_osfhandle(descriptor), &found)) {
        errno = error_number(GetLastError());
        return false;
    }
    *modified = modified_of(found.ftLastWriteTime);
    *bytes = (size_t)((ULONGLONG)found.nFileSizeHigh << 32 | found.nFileSizeLow);
    return true;
}

bool mapping_make(int descriptor, size_t bytes, struct mapping *mapping)
{
    struct timespec modified;
    size_t now;
    *mapping = (struct mapping){.start = NULL};
    if (!describe(descriptor, &modified, &now))
        return false;
    const HANDLE file = (HANDLE)_get_osfhandle(descriptor);
    const HANDLE object = CreateFileMappingA(file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *start = object ? MapViewOfFile(object, FILE_MAP_READ, 0, 0, bytes) : NULL;
    const DWORD reason = GetLastError();
    if (object)
        CloseHandle(object); /* the view keeps it */
    if (!start) {
        errno = error_number(reason);
        return false;
    }
    *mapping = (struct mapping){start, bytes, descriptor, 0, modified};
    return true;
}

bool mapping_changed(const struct mapping *mapping)
{
    struct timespec modified;
    size_t bytes;
    if (!mapping->start)
        return false;
    return !describe(mapping->descriptor, &modified, &bytes) || bytes < mapping->bytes ||
           modified.tv_sec != mapping->modified.tv_sec || modified.tv_nsec != mapping->modified.tv_nsec;
}

void mapping_end(struct mapping *mapping)
{
    if (!mapping->start)
        return;
    UnmapViewOfFile(mapping->start);
    close(mapping->descriptor);
    *mapping = (struct mapping){.start = NULL};
}
