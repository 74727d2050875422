/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"
#include "device/os_system.h"
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Files are written under their name with this and eight digits behind it. Who writes one lets nobody else open it to
 * write or delete, so that one that can be opened so was left by a writer that was killed. */
static const char fresh_mark[] = ".new-";
enum { FRESH_DIGITS = 8, FRESH_ATTEMPTS = 16, LOCK_STEP = 10 /* milliseconds between two attempts */ };

bool cla_os_is_fresh(const char *rest)
{
    const size_t mark = sizeof fresh_mark - 1;
    return strncmp(rest, fresh_mark, mark) == 0 && strlen(rest) == mark + FRESH_DIGITS &&
           strspn(rest + mark, "0123456789abcdef") == FRESH_DIGITS;
}

static bool write_all(HANDLE file, const char *data, size_t size)
{
    while (size > 0) {
        const DWORD piece = size < 1u << 30 ? (DWORD)size : 1u << 30;
        DWORD count = 0;
        if (!WriteFile(file, data, piece, &count, NULL) || !count)
            return false;
        data += count;
        size -= count;
    }
    return true;
}

/* Makes a file of a fresh name. */
static HANDLE make_fresh(const char *path, char *fresh, size_t size)
{
    LARGE_INTEGER clock;
    for (int attempt = 0; attempt < FRESH_ATTEMPTS; attempt++) {
        QueryPerformanceCounter(&clock);
        const unsigned number = (unsigned)clock.QuadPart * 2654435761u ^ GetCurrentThreadId() << 8 ^ (unsigned)attempt;
        snprintf(fresh, size, "%s%s%08x", path, fresh_mark, number);
        const HANDLE file = CreateFileA(fresh, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file != INVALID_HANDLE_VALUE || GetLastError() != ERROR_FILE_EXISTS)
            return file;
    }
    return INVALID_HANDLE_VALUE;
}

static bool replace_file(const char *path, const void *data, size_t size, bool durable)
{
    const size_t room = strlen(path) + sizeof fresh_mark + FRESH_DIGITS;
    char *fresh = malloc(room);
    const HANDLE file = fresh ? make_fresh(path, fresh, room) : INVALID_HANDLE_VALUE;
    bool done = false;
    if (file != INVALID_HANDLE_VALUE) {
        done = write_all(file, data, size) && (!durable || FlushFileBuffers(file));
        done = CloseHandle(file) && done;
        done = done && MoveFileExA(fresh, path, MOVEFILE_REPLACE_EXISTING | (durable ? MOVEFILE_WRITE_THROUGH : 0));
        if (!done)
            DeleteFileA(fresh);
    }
    free(fresh);
    return done;
}

bool cla_os_replace_file(const char *path, const void *data, size_t size)
{
    return replace_file(path, data, size, false);
}

/* Removes a file that nobody writes to any more. */
static bool remove_abandoned(const char *path)
{
    const HANDLE file = CreateFileA(path, DELETE, 0, NULL, OPEN_EXISTING, FILE_FLAG_DELETE_ON_CLOSE, NULL);
    return file != INVALID_HANDLE_VALUE && CloseHandle(file);
}

struct cla_os_folder {
    char *path; /* with a separator, and room for a file's name behind `length` */
    size_t length;
    HANDLE search; /* invalid before the first file and behind the last */
    bool begun;
};

struct cla_os_folder *cla_os_folder_open(const char *path)
{
    const DWORD attributes = path[0] ? GetFileAttributesA(path) : INVALID_FILE_ATTRIBUTES;
    if (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_DIRECTORY))
        return NULL;
    struct cla_os_folder *folder = malloc(sizeof *folder);
    const size_t length = strlen(path) + 1;
    char *copy = folder ? malloc(length + MAX_PATH) : NULL;
    if (!copy) {
        free(folder);
        return NULL;
    }
    *folder = (struct cla_os_folder){.path = copy, .length = length, .search = INVALID_HANDLE_VALUE};
    memcpy(copy, path, length - 1);
    strcpy(copy + length - 1, "\\");
    return folder;
}

void cla_os_folder_close(struct cla_os_folder *folder)
{
    if (folder->search != INVALID_HANDLE_VALUE)
        FindClose(folder->search);
    free(folder->path);
    free(folder);
}

static bool find_next(struct cla_os_folder *folder, WIN32_FIND_DATAA *found)
{
    if (folder->begun)
        return folder->search != INVALID_HANDLE_VALUE && FindNextFileA(folder->search, found);
    folder->begun = true;
    strcpy(folder->path + folder->length, "*");
    folder->search = FindFirstFileA(folder->path, found);
    return folder->search != INVALID_HANDLE_VALUE;
}

bool cla_os_folder_next(struct cla_os_folder *folder, struct cla_os_file *file)
{
    WIN32_FIND_DATAA found;
    while (find_next(folder, &found)) {
        if (found.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT) ||
            strlen(found.cFileName) >= sizeof file->name)
            continue;
        const uint64_t ticks =
            (uint64_t)found.ftLastWriteTime.dwHighDateTime << 32 | found.ftLastWriteTime.dwLowDateTime;
        strcpy(file->name, found.cFileName);
        file->seconds = (int64_t)(ticks / 10000000); /* of 100 ns */
        file->nanoseconds = (int64_t)(ticks % 10000000) * 100;
        file->bytes = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow;
        return true;
    }
    return false;
}

bool cla_os_folder_remove(struct cla_os_folder *folder, const char *name)
{
    strcpy(folder->path + folder->length, name);
    return DeleteFileA(folder->path);
}

bool cla_os_folder_remove_abandoned(struct cla_os_folder *folder, const char *name)
{
    strcpy(folder->path + folder->length, name);
    return remove_abandoned(folder->path);
}

/* Removes what killed writers of this file have left beside it. */
static void remove_leftovers(const char *path)
{
    size_t directory = strlen(path);
    while (directory && path[directory - 1] != '/' && path[directory - 1] != '\\')
        directory--;
    const char *const name = path + directory;
    char folder_path[MAX_PATH] = ".";
    if (directory && directory < sizeof folder_path)
        snprintf(folder_path, sizeof folder_path, "%.*s", (int)directory, path);
    struct cla_os_folder *const folder = cla_os_folder_open(folder_path);
    struct cla_os_file file;
    while (folder && cla_os_folder_next(folder, &file))
        if (strncmp(file.name, name, strlen(name)) == 0 && cla_os_is_fresh(file.name + strlen(name)))
            cla_os_folder_remove_abandoned(folder, file.name);
    if (folder)
        cla_os_folder_close(folder);
}

bool cla_os_replace_kept_file(const char *path, const void *data, size_t size)
{
    remove_leftovers(path);
    return replace_file(path, data, size, true);
}

void cla_os_touch(const char *path)
{
    FILETIME now;
    const HANDLE file = CreateFileA(path, FILE_WRITE_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                    NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return;
    GetSystemTimeAsFileTime(&now);
    SetFileTime(file, NULL, NULL, &now);
    CloseHandle(file);
}

void cla_os_remove_file(const char *path)
{
    DeleteFileA(path);
}

int cla_os_lock(const char *path, int milliseconds)
{
    const int file = open(path, O_RDWR | O_CREAT | O_BINARY | O_NOINHERIT, 0600);
    if (file < 0)
        return -1;
    const HANDLE handle = (HANDLE)_get_osfhandle(file);
    OVERLAPPED whole = {0};
    while (!LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &whole)) {
        if (milliseconds <= 0) {
            close(file);
            return -1;
        }
        Sleep(LOCK_STEP);
        milliseconds -= LOCK_STEP;
    }
    return file;
}

void cla_os_unlock(int lock)
{
    close(lock);
}
