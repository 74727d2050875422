/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* O_ constants, dirent64 */
#include "fault/host_calls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The state of one kind of fault. */
struct state {
    bool armed, sticky;
    long nth, calls, injected;
    unsigned long trace;
    int code;
    const char *victim;
};
static struct state memory, files;

static void arm(struct state *state, long nth, bool sticky, int code)
{
    *state = (struct state){.armed = true, .sticky = sticky, .nth = nth, .code = code, .victim = "none"};
}

static unsigned long hash(const char *name)
{
    unsigned long sum = 1;
    for (; *name; name++)
        sum = sum * 31 + (unsigned char)*name;
    return sum;
}

/* Whether this call fails. */
static bool meets(struct state *state, const char *name)
{
    if (!state->armed)
        return false;
    state->calls++;
    state->trace += (unsigned long)state->calls * hash(name);
    if (state->calls != state->nth && !(state->sticky && state->calls > state->nth))
        return false;
    if (!state->injected++)
        state->victim = name;
    return true;
}

#define CONTROL(state)                                                                                                 \
    static void state##_arm(long nth, bool sticky, cl_int code)                                                        \
    {                                                                                                                  \
        arm(&(state), nth, sticky, code);                                                                              \
    }                                                                                                                  \
    static void state##_pause(void)                                                                                    \
    {                                                                                                                  \
        (state).armed = false;                                                                                         \
    }                                                                                                                  \
    static void state##_resume(void)                                                                                   \
    {                                                                                                                  \
        (state).armed = true;                                                                                          \
    }                                                                                                                  \
    static long state##_calls(void)                                                                                    \
    {                                                                                                                  \
        return (state).calls;                                                                                          \
    }                                                                                                                  \
    static unsigned long state##_trace(void)                                                                           \
    {                                                                                                                  \
        return (state).trace;                                                                                          \
    }                                                                                                                  \
    static long state##_injected(void)                                                                                 \
    {                                                                                                                  \
        return (state).injected;                                                                                       \
    }                                                                                                                  \
    static const char *state##_victim(void)                                                                            \
    {                                                                                                                  \
        return (state).victim;                                                                                         \
    }                                                                                                                  \
    const struct fault_control host_##state = {.arm = state##_arm,                                                     \
                                               .pause = state##_pause,                                                 \
                                               .resume = state##_resume,                                               \
                                               .calls = state##_calls,                                                 \
                                               .trace = state##_trace,                                                 \
                                               .injected = state##_injected,                                           \
                                               .victim = state##_victim}
CONTROL(memory);
CONTROL(files);

/* Memory: which blocks are there. */

enum { PLACES = 1 << 16 };
static void *places[PLACES];
static long live;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static void *const taken_out = &live; /* a place that was used: a search goes on behind it */

static size_t place_of(const void *block)
{
    return (size_t)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48) % PLACES;
}

static void *added(void *block)
{
    pthread_mutex_lock(&places_lock);
    for (size_t i = place_of(block), tries = 0; block && tries < PLACES; i = (i + 1) % PLACES, tries++)
        if (!places[i] || places[i] == taken_out) {
            places[i] = block;
            live++;
            break;
        }
    pthread_mutex_unlock(&places_lock);
    return block;
}

static void removed(const void *block)
{
    pthread_mutex_lock(&places_lock);
    for (size_t i = place_of(block), tries = 0; block && places[i] && tries < PLACES; i = (i + 1) % PLACES, tries++)
        if (places[i] == block) {
            places[i] = taken_out;
            live--;
            break;
        }
    pthread_mutex_unlock(&places_lock);
}

long host_live_blocks(void)
{
    return live;
}

static bool no_memory(const char *name)
{
    if (!meets(&memory, name))
        return false;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return no_memory("malloc") ? NULL : added(__real_malloc(size));
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory("calloc") ? NULL : added(__real_calloc(count, size));
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
    if (no_memory("realloc"))
        return NULL;
    removed(block);
    void *moved = __real_realloc(block, size);
    added(moved ? moved : block);
    return moved;
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return no_memory("strdup") ? NULL : added(__real_strdup(text));
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    removed(block);
    __real_free(block);
}

/* Files */

static const struct {
    const char *name;
    int codes[8];
} rows[] = {
    {"open64", {EACCES, EMFILE, ENOENT, ENOSPC, EROFS}},
    {"mkostemp64", {EACCES, EMFILE, ENOSPC, EROFS, EDQUOT}},
    {"write", {ENOSPC, EIO, EDQUOT, EINTR, FILE_SHORT, FILE_END}},
    {"read", {EIO, EINTR, FILE_SHORT, FILE_END}},
    {"fsync", {EIO, ENOSPC, EDQUOT}},
    {"close", {EIO, ENOSPC, EDQUOT}},
    {"rename", {EACCES, ENOSPC, EXDEV, EIO}},
    {"fstat64", {EIO}},
    {"stat64", {EACCES, ENOENT, EIO}},
    {"fstatat64", {EACCES, ENOENT}},
    {"fchmod", {EPERM, EROFS}},
    {"flock", {ENOLCK, EINTR}},
    {"mkdir", {EACCES, ENOSPC, EROFS}},
    {"opendir", {EACCES, EMFILE}},
    {"readdir64", {EIO}},
    {"unlink", {EACCES, EROFS}},
    {"unlinkat", {EACCES, EROFS}},
    {"utimensat", {EACCES}},
    {"realpath", {ENOENT, ELOOP, ENOMEM}},
};

static const int *codes_of(const char *name)
{
    static const int others[] = {EIO, 0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].codes;
    return others;
}

int host_file_codes(const char *name)
{
    const int *codes = codes_of(name);
    int count = 0;
    while (codes[count])
        count++;
    return count;
}

/* 0: the call is made. */
static int file_fault(const char *name)
{
    if (!meets(&files, name))
        return 0;
    const int code = files.code >= 0 ? files.code : codes_of(name)[(-files.code - 1) % host_file_codes(name)];
    if (code == FILE_KILL)
        kill(getpid(), SIGKILL);
    if (code == EINTR && files.calls != files.nth)
        return 0; /* for ever it would be waited for */
    errno = code < FILE_SHORT ? code : 0;
    return code;
}

#define FILE_CALL(type, failed, name, params, args)                                                                    \
    type __real_##name params;                                                                                         \
    type __wrap_##name params;                                                                                         \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        return file_fault(#name) ? (failed) : __real_##name args;                                                      \
    }

#define TRANSFER(name, pointer)                                                                                        \
    ssize_t __real_##name(int file, pointer data, size_t size);                                                        \
    ssize_t __wrap_##name(int file, pointer data, size_t size);                                                        \
    ssize_t __wrap_##name(int file, pointer data, size_t size)                                                         \
    {                                                                                                                  \
        const int code = file_fault(#name);                                                                            \
        if (code == FILE_SHORT)                                                                                        \
            return __real_##name(file, data, (size + 1) / 2);                                                          \
        if (code == FILE_END)                                                                                          \
            return 0;                                                                                                  \
        return code ? -1 : __real_##name(file, data, size);                                                            \
    }

TRANSFER(read, void *)
TRANSFER(write, const void *)

/* What read() is in hardened builds, where the room is known. */
ssize_t __wrap___read_chk(int file, void *data, size_t size, size_t room);
ssize_t __wrap___read_chk(int file, void *data, size_t size, size_t room)
{
    return size <= room ? __wrap_read(file, data, size) : (abort(), -1);
}

FILE_CALL(int, -1, fsync, (int file), (file))
FILE_CALL(int, -1, rename, (const char *from, const char *to), (from, to))
FILE_CALL(int, -1, mkostemp64, (char *name, int flags), (name, flags))
FILE_CALL(int, -1, fstat64, (int file, struct stat *status), (file, status))
FILE_CALL(int, -1, stat64, (const char *path, struct stat *status), (path, status))
FILE_CALL(int, -1, fstatat64, (int folder, const char *path, struct stat *status, int flags),
          (folder, path, status, flags))
FILE_CALL(int, -1, fchmod, (int file, mode_t mode), (file, mode))
FILE_CALL(int, -1, flock, (int file, int what), (file, what))
FILE_CALL(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
FILE_CALL(DIR *, NULL, opendir, (const char *path), (path))
FILE_CALL(struct dirent *, NULL, readdir64, (DIR * folder), (folder))
FILE_CALL(int, -1, unlink, (const char *path), (path))
FILE_CALL(int, -1, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
FILE_CALL(int, -1, utimensat, (int folder, const char *path, const struct timespec times[2], int flags),
          (folder, path, times, flags))
FILE_CALL(char *, NULL, realpath, (const char *path, char *resolved), (path, resolved))

/* It fails late: what was opened is closed. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file)
{
    const int code = file_fault("close"), done = __real_close(file);
    if (code)
        errno = code;
    return code ? -1 : done;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return file_fault("open64") ? -1 : __real_open64(path, flags, mode);
}
