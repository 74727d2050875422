/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/error_windows.h"
#include "system/process.h"
#include <errno.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Exit statuses of a process that was ended from here, and the first of those that stand for exceptions. */
enum { ENDED = 0x7e0de0de, POLL_MILLISECONDS = 5 };
#define FIRST_EXCEPTION 0xc0000000u

/* A word as the C library of the program that starts takes it apart: quotes, and backslashes before a quote, are marked
 * by a backslash. */
static char *append_word(char *at, const char *word)
{
    *at++ = '"';
    for (size_t slashes = 0;; word++) {
        if (*word == '\\') {
            slashes++;
            *at++ = *word;
            continue;
        }
        if (*word == '"' || !*word)
            for (; slashes; slashes--)
                *at++ = '\\';
        slashes = 0;
        if (!*word)
            break;
        if (*word == '"')
            *at++ = '\\';
        *at++ = *word;
    }
    *at++ = '"';
    return at;
}

static char *command_line(char *const *argv)
{
    size_t size = 1;
    for (char *const *word = argv; *word; word++)
        size += 2 * strlen(*word) + 3;
    char *line = malloc(size), *at = line;
    for (char *const *word = argv; line && *word; word++) {
        at = append_word(at, *word);
        *at++ = word[1] ? ' ' : '\0';
    }
    return line;
}

/* A program and its standard handles, stopped before its first instruction. */
static bool create(char *const *argv, HANDLE in, HANDLE out, HANDLE errors, DWORD flags, PROCESS_INFORMATION *made)
{
    STARTUPINFOA start = {
        .cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES, .hStdInput = in, .hStdOutput = out, .hStdError = errors};
    char *line = command_line(argv);
    if (!line) {
        errno = ENOMEM;
        return false;
    }
    const HANDLE given[] = {in, out, errors};
    for (int i = 0; i < 3; i++)
        SetHandleInformation(given[i], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    const bool done = CreateProcessA(NULL, line, NULL, NULL, TRUE, flags, NULL, NULL, &start, made);
    if (!done)
        errno = error_number(GetLastError());
    free(line);
    return done;
}

/* What is in it ends with its last handle, so that children do not outlive this process. */
static HANDLE make_job(void)
{
    const HANDLE job = CreateJobObjectA(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags =
                                                       JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
                                                       JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION};
    if (job)
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return job;
}

static HANDLE open_nowhere(void)
{
    return CreateFileA("NUL", GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
}

/* With the child's ends of the pipes. */
static bool start_between(const struct process_spec *spec, HANDLE in, HANDLE out, struct process *process)
{
    PROCESS_INFORMATION made;
    const HANDLE nowhere = spec->quiet && !spec->errors ? open_nowhere() : NULL, job = make_job();
    const HANDLE errors = spec->errors ? (HANDLE)_get_osfhandle(spec->errors)
                          : nowhere    ? nowhere
                                       : GetStdHandle(STD_ERROR_HANDLE);
    const bool done = job && create(spec->argv, in, out, errors, CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP, &made);
    if (done) {
        AssignProcessToJobObject(job, made.hProcess);
        ResumeThread(made.hThread);
        CloseHandle(made.hThread);
        process->id = (intptr_t)made.hProcess;
        process->group = (intptr_t)job;
    } else if (job) {
        CloseHandle(job);
    }
    if (nowhere)
        CloseHandle(nowhere);
    return done;
}

bool process_start(const struct process_spec *spec, struct process *process)
{
    HANDLE in, to, from, out;
    *process = (struct process){.id = 0};
    if (!CreatePipe(&in, &to, NULL, 0)) {
        errno = ENOMEM;
        return false;
    }
    if (!CreatePipe(&from, &out, NULL, 1 << 20)) {
        CloseHandle(in);
        CloseHandle(to);
        errno = ENOMEM;
        return false;
    }
    const bool done = start_between(spec, in, out, process);
    CloseHandle(in);
    CloseHandle(out);
    if (done) {
        process->to = (intptr_t)to;
        process->from = (intptr_t)from;
        return true;
    }
    CloseHandle(to);
    CloseHandle(from);
    return false;
}

static struct process_end describe(DWORD status)
{
    struct process_end end = {.exited = status < FIRST_EXCEPTION && status != ENDED, .status = (int)status};
    if (status == ENDED)
        snprintf(end.text, sizeof end.text, "it was ended");
    else if (!end.exited)
        snprintf(end.text, sizeof end.text, "exception 0x%08lx", (unsigned long)status);
    else
        snprintf(end.text, sizeof end.text, "exit status %lu", (unsigned long)status);
    return end;
}

struct process_end process_finish(struct process *process, bool at_once)
{
    const HANDLE handle = (HANDLE)process->id;
    DWORD status = ENDED;
    CloseHandle((HANDLE)process->to);
    CloseHandle((HANDLE)process->from);
    if (at_once)
        TerminateJobObject((HANDLE)process->group, ENDED);
    WaitForSingleObject(handle, INFINITE);
    GetExitCodeProcess(handle, &status);
    TerminateJobObject((HANDLE)process->group, ENDED);
    CloseHandle((HANDLE)process->group);
    CloseHandle(handle);
    *process = (struct process){.id = 0};
    return describe(status);
}

void process_leave(struct process *process)
{
    TerminateJobObject((HANDLE)process->group, ENDED);
    CloseHandle((HANDLE)process->group);
    CloseHandle((HANDLE)process->to);
    CloseHandle((HANDLE)process->from);
    CloseHandle((HANDLE)process->id);
    *process = (struct process){.id = 0};
}

bool process_send(const struct process *process, const char *text, size_t size)
{
    while (size) {
        DWORD count = 0;
        if (!WriteFile((HANDLE)process->to, text, size < 1u << 20 ? (DWORD)size : 1u << 20, &count, NULL))
            return false;
        text += count;
        size -= count;
    }
    return true;
}

/* Bytes that can be read; -1: the other end is closed. */
static ptrdiff_t available(const struct process *process)
{
    DWORD bytes = 0;
    return PeekNamedPipe((HANDLE)process->from, NULL, 0, NULL, &bytes, NULL) ? (ptrdiff_t)bytes : -1;
}

/* Windows can wait for no pipe of this kind: it is asked again and again. */
void process_wait(const struct process *const *processes, int count, double seconds)
{
    const ULONGLONG until = GetTickCount64() + (ULONGLONG)(seconds * 1e3);
    do {
        for (int i = 0; i < count; i++)
            if (processes[i]->id && available(processes[i]))
                return;
        Sleep(POLL_MILLISECONDS);
    } while (GetTickCount64() < until);
}

ptrdiff_t process_receive(const struct process *process, char *text, size_t size)
{
    const ptrdiff_t bytes = available(process);
    DWORD count = 0;
    if (bytes <= 0)
        return bytes;
    const DWORD wanted = (size_t)bytes < size ? (DWORD)bytes : (DWORD)size;
    return ReadFile((HANDLE)process->from, text, wanted, &count, NULL) ? (ptrdiff_t)count : -1;
}

bool process_has_ended(const struct process *process)
{
    return WaitForSingleObject((HANDLE)process->id, 0) == WAIT_OBJECT_0;
}

int process_run(char *const *argv, int input, int output, bool *well)
{
    PROCESS_INFORMATION made;
    DWORD status = 1;
    if (!create(argv, (HANDLE)_get_osfhandle(input), (HANDLE)_get_osfhandle(output), GetStdHandle(STD_ERROR_HANDLE), 0,
                &made))
        return errno;
    WaitForSingleObject(made.hProcess, INFINITE);
    GetExitCodeProcess(made.hProcess, &status);
    CloseHandle(made.hThread);
    CloseHandle(made.hProcess);
    *well = status == 0;
    return 0;
}

/* No program takes a process over here: this one waits, and exits as the other did. Ctrl-C meets both. */
void process_become(const char *program, char *const *argv)
{
    PROCESS_INFORMATION made;
    DWORD status = 1;
    int count = 0;
    while (argv[count])
        count++;
    char **words = calloc((size_t)count + 1, sizeof *words);
    if (!words)
        return;
    memcpy(words, argv, (size_t)count * sizeof *words);
    words[0] = (char *)program;
    const bool begun = create(words, GetStdHandle(STD_INPUT_HANDLE), GetStdHandle(STD_OUTPUT_HANDLE),
                              GetStdHandle(STD_ERROR_HANDLE), 0, &made);
    free(words);
    if (!begun)
        return;
    SetConsoleCtrlHandler(NULL, TRUE);
    WaitForSingleObject(made.hProcess, INFINITE);
    GetExitCodeProcess(made.hProcess, &status);
    exit((int)status);
}
