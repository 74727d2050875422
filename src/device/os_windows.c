/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"
#include "device/os_system.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <aclapi.h>

/* Paths are in the process's code page, as those of main() are; a program whose manifest says UTF-8 has that. */

const struct cla_os_place cla_os_cache_places[] = {{"LOCALAPPDATA", "\\clattn\\cache", true}, {0}};
const struct cla_os_place cla_os_tuning_places[] = {{"APPDATA", "\\clattn\\tuning.json", true}, {0}};

const char *cla_os_variable(const char *name)
{
    const char *const value = getenv(name);
    char none[1];
    if (value)
        return value;
    /* The C library knows no variable that is empty. */
    SetLastError(ERROR_SUCCESS);
    return !GetEnvironmentVariableA(name, none, sizeof none) && GetLastError() != ERROR_ENVVAR_NOT_FOUND ? "" : NULL;
}

bool cla_os_is_absolute(const char *path)
{
    return (path[0] && path[1] == ':' && (path[2] == '\\' || path[2] == '/')) || (path[0] == '\\' && path[1] == '\\');
}

static bool is_directory(const char *path)
{
    const DWORD attributes = GetFileAttributesA(path);
    return attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY;
}

/* New directories have their parent's permissions: below a user's own folders, that is the user alone. */
bool cla_os_make_directory(const char *path)
{
    const size_t length = strlen(path);
    if (!length || is_directory(path))
        return length > 0;
    char *prefix = malloc(length + 1);
    if (!prefix)
        return false;
    memcpy(prefix, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        const char separator = prefix[i];
        if (separator != '/' && separator != '\\')
            continue;
        prefix[i] = '\0';
        CreateDirectoryA(prefix, NULL);
        prefix[i] = separator;
    }
    CreateDirectoryA(prefix, NULL);
    free(prefix);
    return is_directory(path);
}

static bool read_all(HANDLE file, char *data, size_t size)
{
    while (size > 0) {
        const DWORD piece = size < 1u << 30 ? (DWORD)size : 1u << 30;
        DWORD count = 0;
        if (!ReadFile(file, data, piece, &count, NULL) || !count)
            return false;
        data += count;
        size -= count;
    }
    return true;
}

/* What an open file holds, if it is a regular one; closes it. */
static void *read_and_close(HANDLE file, size_t max_bytes, size_t *size)
{
    LARGE_INTEGER bytes;
    char *data = NULL;
    if (file == INVALID_HANDLE_VALUE)
        return NULL;
    if (GetFileType(file) == FILE_TYPE_DISK && GetFileSizeEx(file, &bytes) && (uint64_t)bytes.QuadPart <= max_bytes)
        data = malloc((size_t)bytes.QuadPart + 1);
    if (data && !read_all(file, data, (size_t)bytes.QuadPart)) {
        free(data);
        data = NULL;
    }
    if (data)
        *size = (size_t)bytes.QuadPart;
    CloseHandle(file);
    return data;
}

static HANDLE open_to_read(const char *path)
{
    return CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                       FILE_ATTRIBUTE_NORMAL, NULL);
}

void *cla_os_read_file(const char *path, size_t max_bytes, size_t *size)
{
    return read_and_close(open_to_read(path), max_bytes, size);
}

/* Everybody, all who are logged on, or the group of users. */
static bool is_of_others(PSID who)
{
    static const WELL_KNOWN_SID_TYPE others[] = {WinWorldSid, WinAuthenticatedUserSid, WinBuiltinUsersSid};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (IsWellKnownSid(who, others[i]))
            return true;
    return false;
}

/* Whether an entry of a list of rights lets others write. What is denied elsewhere in the list does not count. */
static bool entry_lets_others_write(ACCESS_ALLOWED_ACE *entry)
{
    static const ACCESS_MASK writing =
        FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | DELETE | GENERIC_WRITE | GENERIC_ALL;
    const BYTE type = entry->Header.AceType;
    return (type == ACCESS_ALLOWED_ACE_TYPE || type == ACCESS_ALLOWED_CALLBACK_ACE_TYPE) &&
           !(entry->Header.AceFlags & INHERIT_ONLY_ACE) && entry->Mask & writing && is_of_others(&entry->SidStart);
}

static bool lets_others_write(PACL list)
{
    for (DWORD i = 0; i < list->AceCount; i++) {
        void *entry;
        if (!GetAce(list, i, &entry) || entry_lets_others_write(entry))
            return true;
    }
    return false;
}

/* The user, whom a process with more rights may have taken for its group of administrators; or the system. */
static bool is_trusted(PSID owner)
{
    BYTE user[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    HANDLE token;
    DWORD bytes;
    if (IsWellKnownSid(owner, WinBuiltinAdministratorsSid) || IsWellKnownSid(owner, WinLocalSystemSid))
        return true;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return false;
    const bool known = GetTokenInformation(token, TokenUser, user, sizeof user, &bytes);
    CloseHandle(token);
    return known && EqualSid(owner, ((TOKEN_USER *)user)->User.Sid);
}

static const char *distrust_of(const char *path)
{
    PSID owner = NULL;
    PACL list = NULL;
    PSECURITY_DESCRIPTOR descriptor = NULL;
    char copy[MAX_PATH];
    const char *distrust = NULL;
    if (strlen(path) >= sizeof copy)
        return "its path is too long";
    strcpy(copy, path);
    if (GetNamedSecurityInfoA(copy, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner,
                              NULL, &list, NULL, &descriptor) != ERROR_SUCCESS)
        return "its permissions cannot be read";
    if (!is_trusted(owner))
        distrust = "it belongs to another user";
    else if (!list || lets_others_write(list))
        distrust = "other users may write to it";
    LocalFree(descriptor);
    return distrust;
}

const char *cla_os_distrusts_directory(const char *path)
{
    return is_directory(path) ? distrust_of(path) : NULL;
}

/* The directory of the file that a path names. */
static const char *distrust_of_directory(const char *path)
{
    char directory[MAX_PATH];
    size_t length = strlen(path);
    while (length && path[length - 1] != '/' && path[length - 1] != '\\')
        length--;
    if (length >= sizeof directory)
        return "its path is too long";
    memcpy(directory, path, length);
    directory[length] = '\0';
    return distrust_of(length ? directory : ".");
}

void *cla_os_read_own_file(const char *path, size_t max_bytes, size_t *size, const char **distrust)
{
    const char *said = NULL;
    void *data = NULL;
    if (cla_os_exists(path)) {
        said = distrust_of_directory(path) ? "other users may write to its directory, or own it" : distrust_of(path);
        if (!said)
            data = cla_os_read_file(path, max_bytes, size);
    }
    if (distrust)
        *distrust = said;
    return data;
}

bool cla_os_exists(const char *path)
{
    if (GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES)
        return true;
    const DWORD reason = GetLastError();
    return reason != ERROR_FILE_NOT_FOUND && reason != ERROR_PATH_NOT_FOUND;
}

/* From the program's own directory, the system's and those that the program added; not from the current one. */
void *cla_os_library(const char *file, const char **reason)
{
    static _Thread_local char text[256];
    const HMODULE library = LoadLibraryExA(file, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    if (library)
        return (void *)library;
    const DWORD code = GetLastError();
    snprintf(text, sizeof text, "%s: error %lu", file, (unsigned long)code);
    *reason = text;
    return NULL;
}

void *cla_os_library_symbol(void *library, const char *name)
{
    const FARPROC function = GetProcAddress((HMODULE)library, name);
    void *symbol;
    memcpy(&symbol, &function, sizeof symbol);
    return symbol;
}

void *cla_os_opencl_symbol(const char *name)
{
    const HMODULE library = GetModuleHandleA("OpenCL.dll");
    return library ? cla_os_library_symbol((void *)library, name) : NULL;
}
