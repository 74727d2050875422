/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/error_windows.h"
#include "system/system.h"
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <psapi.h>

const char system_opencl_hint[] = "OpenCL.dll does not find it: drivers of GPUs bring theirs, and write their names to "
                                  "HKEY_LOCAL_MACHINE\\SOFTWARE\\Khronos\\OpenCL\\Vendors";

void system_begin(void)
{
    _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    setlocale(LC_ALL, "C");
    _setmode(0, _O_BINARY);
    _setmode(1, _O_BINARY);
    _setmode(2, _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
}

int error_number(unsigned long error)
{
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
        return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return ENOMEM;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ENOSPC;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
        return EBUSY;
    default:
        return EACCES;
    }
}

bool system_program(char *path, size_t size)
{
    const DWORD length = GetModuleFileNameA(NULL, path, (DWORD)size);
    if (length && length < size)
        return true;
    errno = length ? ENAMETOOLONG : error_number(GetLastError());
    return false;
}

int system_processors(void)
{
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count ? (int)count : 1;
}

uint64_t system_memory(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

/* The job stays with the process: its handle is never closed. */
bool system_limit_memory(uint64_t bytes)
{
    PROCESS_MEMORY_COUNTERS now = {.cb = sizeof now};
    const HANDLE job = CreateJobObjectA(NULL, NULL);
    if (!job || !GetProcessMemoryInfo(GetCurrentProcess(), &now, sizeof now))
        return false;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_PROCESS_MEMORY,
                                                   .ProcessMemoryLimit = (SIZE_T)(now.PagefileUsage + bytes)};
    return SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits) &&
           AssignProcessToJobObject(job, GetCurrentProcess());
}

double system_clock(void)
{
    LARGE_INTEGER now, per_second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&per_second);
    return (double)now.QuadPart / (double)per_second.QuadPart;
}

void system_set_variable(const char *name, const char *value)
{
    if (*value)
        _putenv_s(name, value);
    else /* which would remove it */
        SetEnvironmentVariableA(name, value);
}

static void (*before_end)(void);

/* In a thread of its own; the next handler, the system's, ends the process. */
static BOOL WINAPI end(DWORD event)
{
    (void)event;
    before_end();
    return FALSE;
}

void system_before_end(void (*function)(void))
{
    before_end = function;
    SetConsoleCtrlHandler(end, TRUE);
}

void system_user(struct system_user *user)
{
    const char *home = getenv("USERPROFILE");
    DWORD name = sizeof user->name, host = sizeof user->host;
    *user = (struct system_user){.name = ""};
    if (!GetUserNameA(user->name, &name))
        user->name[0] = '\0';
    if (!GetComputerNameA(user->host, &host))
        user->host[0] = '\0';
    snprintf(user->home, sizeof user->home, "%s", home ? home : "");
    const DWORD length = GetCurrentDirectoryA(sizeof user->folder, user->folder);
    if (length >= sizeof user->folder)
        user->folder[0] = '\0';
}

/* The version that the system has, and not the one that it shows to programs without a manifest. */
static void read_version(OSVERSIONINFOW *version)
{
    const HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    const FARPROC found = ntdll ? GetProcAddress(ntdll, "RtlGetVersion") : NULL;
    LONG(WINAPI * get_version)(OSVERSIONINFOW *) = NULL;
    memcpy(&get_version, &found, sizeof get_version);
    if (get_version)
        get_version(version);
}

void system_kind(struct system_kind *kind)
{
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    const char *machine = getenv("PROCESSOR_ARCHITECTURE");
    read_version(&version);
    snprintf(kind->name, sizeof kind->name, "Windows");
    snprintf(kind->release, sizeof kind->release, "%lu.%lu.%lu", version.dwMajorVersion, version.dwMinorVersion,
             version.dwBuildNumber);
    snprintf(kind->machine, sizeof kind->machine, "%s", machine ? machine : "");
}
