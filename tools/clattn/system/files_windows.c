/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/path.h"
#include "system/error_windows.h"
#include "system/files.h"
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, ATTEMPTS = 100 };

const char files_separators[] = "/\\:";

static int descriptor_of(HANDLE file, int flags)
{
    if (file == INVALID_HANDLE_VALUE) {
        errno = error_number(GetLastError());
        return -1;
    }
    const int descriptor = _open_osfhandle((intptr_t)file, flags | _O_BINARY | _O_NOINHERIT);
    if (descriptor < 0)
        CloseHandle(file);
    return descriptor;
}

static HANDLE open_handle(const char *path, DWORD access, DWORD share, DWORD how)
{
    return CreateFileA(path, access, share, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
}

int files_open_read(const char *path)
{
    return descriptor_of(open_handle(path, GENERIC_READ, SHARED, OPEN_EXISTING), _O_RDONLY);
}

int files_open_write(const char *path)
{
    return descriptor_of(open_handle(path, GENERIC_WRITE, SHARED, OPEN_EXISTING), _O_WRONLY);
}

int files_open_nowhere(void)
{
    return descriptor_of(open_handle("NUL", GENERIC_READ | GENERIC_WRITE, SHARED, OPEN_EXISTING), _O_RDWR);
}

/* The C library's own tmpfile() wants to write to the root of the drive. */
FILE *files_temporary(void)
{
    char folder[MAX_PATH], path[MAX_PATH];
    if (!GetTempPathA(sizeof folder, folder) || !GetTempFileNameA(folder, "cla", 0, path))
        return NULL;
    const HANDLE file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, SHARED, NULL, CREATE_ALWAYS,
                                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    const int descriptor = descriptor_of(file, _O_RDWR);
    return descriptor < 0 ? NULL : _fdopen(descriptor, "w+b");
}

bool files_identify(const char *path, struct files_identity *identity)
{
    BY_HANDLE_FILE_INFORMATION found;
    const HANDLE file = CreateFileA(path, 0, SHARED, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        errno = error_number(GetLastError());
        return false;
    }
    const bool is_file = GetFileType(file) == FILE_TYPE_DISK && GetFileInformationByHandle(file, &found);
    *identity = (struct files_identity){.regular = false};
    if (is_file)
        *identity = (struct files_identity){found.dwVolumeSerialNumber,
                                            (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow,
                                            !(found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)};
    CloseHandle(file);
    return true;
}

/* Links are left to the system, which replaces the link itself. */
char *files_resolve(const char *path)
{
    return _fullpath(NULL, path, 0);
}

/* Others may read, rename and delete it: only who asks for it alone does not get it. */
int files_make_locked(const char *path, unsigned permissions, int *lock)
{
    (void)permissions; /* those of its folder */
    const int descriptor = descriptor_of(open_handle(path, GENERIC_WRITE, SHARED, CREATE_NEW), _O_WRONLY);
    if (descriptor >= 0)
        *lock = _dup(descriptor);
    return descriptor;
}

/* Who writes one has it open, so that nobody gets it alone. */
void files_remove_left(const char *path, bool (*is_left)(const char *entry, const char *name))
{
    WIN32_FIND_DATAA found;
    char *folder = path_folder(path), whole[2 * MAX_PATH];
    if (folder && strlen(folder) < MAX_PATH) {
        snprintf(whole, sizeof whole, "%s*", folder);
        const HANDLE search = FindFirstFileA(whole, &found);
        for (bool more = search != INVALID_HANDLE_VALUE; more; more = FindNextFileA(search, &found)) {
            if (!is_left(found.cFileName, path_name(path)))
                continue;
            snprintf(whole, sizeof whole, "%s%s", folder, found.cFileName);
            const HANDLE file = CreateFileA(whole, DELETE, 0, NULL, OPEN_EXISTING, FILE_FLAG_DELETE_ON_CLOSE, NULL);
            if (file != INVALID_HANDLE_VALUE)
                CloseHandle(file);
        }
        if (search != INVALID_HANDLE_VALUE)
            FindClose(search);
    }
    free(folder);
}

int files_replace(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    errno = error_number(GetLastError());
    return -1;
}

int files_open_log(const char *path)
{
    const int descriptor = descriptor_of(open_handle(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, OPEN_ALWAYS),
                                         _O_RDWR | _O_APPEND);
    if (descriptor < 0 && errno == EBUSY)
        errno = EWOULDBLOCK;
    return descriptor;
}

bool files_make_folder(const char *prefix, char *path, size_t size)
{
    char place[MAX_PATH];
    if (!GetTempPathA(sizeof place, place)) {
        errno = error_number(GetLastError());
        return false;
    }
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        snprintf(path, size, "%s%s-%lu-%d", place, prefix, (unsigned long)GetCurrentProcessId(), attempt);
        if (CreateDirectoryA(path, NULL))
            return true;
        errno = error_number(GetLastError());
    }
    return false;
}

void files_remove_folder(const char *path)
{
    WIN32_FIND_DATAA found;
    char whole[2 * MAX_PATH];
    snprintf(whole, sizeof whole, "%s\\*", path);
    const HANDLE search = FindFirstFileA(whole, &found);
    for (bool more = search != INVALID_HANDLE_VALUE; more; more = FindNextFileA(search, &found)) {
        snprintf(whole, sizeof whole, "%s\\%s", path, found.cFileName);
        DeleteFileA(whole); /* refuses folders */
    }
    if (search != INVALID_HANDLE_VALUE)
        FindClose(search);
    RemoveDirectoryA(path);
}
