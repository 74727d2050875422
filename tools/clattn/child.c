/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* pipe2, execvp, strsignal */
#include "child.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANNOT_RUN = 127, MOST_BYTES = 64 << 20, MOST_CHILDREN = 64, STOP_MILLISECONDS = 50 };

static char death[96];

const char *child_death(void)
{
    return death;
}

bool child_limit_memory(uint64_t bytes)
{
    unsigned long long pages = 0;
    FILE *status = fopen("/proc/self/statm", "r"); /* size resident shared text lib data dt, in pages */
    const bool read = status && fscanf(status, "%*u %*u %*u %*u %*u %llu", &pages) == 1;
    if (status)
        fclose(status);
    const uint64_t most = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes;
    const struct rlimit limit = {most, most};
    return read && setrlimit(RLIMIT_DATA, &limit) == 0;
}

double child_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Between fork() and exec(): only what a signal handler may call. */
static void become(const struct child_spec *spec, int in, int out, pid_t parent)
{
    const struct rlimit no_core = {0, 0};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(CANNOT_RUN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    const int nowhere = spec->quiet ? open("/dev/null", O_WRONLY) : -1;
    if (nowhere >= 0 || spec->errors)
        dup2(spec->errors ? spec->errors : nowhere, STDERR_FILENO);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execvp(spec->argv[0], spec->argv);
    _exit(CANNOT_RUN);
}

bool child_start(const struct child_spec *spec, struct child *child)
{
    int to[2], from[2];
    *child = (struct child){.to = -1, .from = -1};
    if (pipe2(to, O_CLOEXEC))
        return false;
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (!pid)
        become(spec, to[0], from[1], parent);
    const int reason = errno;
    close(to[0]);
    close(from[1]);
    if (pid < 0) {
        close(to[1]);
        close(from[0]);
        errno = reason;
        return false;
    }
    setpgid(pid, pid); /* also here, so that it is done before anybody ends the group */
    *child = (struct child){.pid = pid, .to = to[1], .from = from[0]};
    return true;
}

static void describe(int status)
{
    if (WIFSIGNALED(status))
        snprintf(death, sizeof death, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == CANNOT_RUN)
        snprintf(death, sizeof death, "exit status %d: it cannot be run", CANNOT_RUN);
    else
        snprintf(death, sizeof death, "exit status %d", WEXITSTATUS(status));
}

/* Gives everything back; the exit status. With `at_once`, or if what it started still runs, the whole group is ended.
 */
static int finish(struct child *child, bool at_once)
{
    int status = 0;
    close(child->to);
    close(child->from);
    if (at_once)
        kill(-child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-child->pid, SIGKILL);
    describe(status);
    free(child->text);
    *child = (struct child){.to = -1, .from = -1};
    return status;
}

void child_end(struct child *child)
{
    if (child->pid)
        finish(child, true);
}

void child_leave(struct child *child)
{
    if (!child->pid)
        return;
    kill(-child->pid, SIGKILL);
    close(child->to);
    close(child->from);
    free(child->text);
    *child = (struct child){.to = -1, .from = -1};
}

static bool send(const struct child *child, const char *text, size_t size)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    while (size) {
        const ssize_t written = write(child->to, text, size);
        if (written < 0 && errno != EINTR)
            break;
        if (written > 0) {
            text += written;
            size -= (size_t)written;
        }
    }
    sigaction(SIGPIPE, &before, NULL);
    return !size;
}

static bool reserve(struct child *child)
{
    if (child->length + 4096 < child->capacity)
        return true;
    const size_t capacity = child->capacity ? 2 * child->capacity : 16384;
    char *text = capacity <= MOST_BYTES ? realloc(child->text, capacity) : NULL;
    if (!text)
        return false;
    child->text = text;
    child->capacity = capacity;
    return true;
}

/* Waits for more of the child's text. CHILD_DIED also at the end of it. */
static enum child_result receive(struct child *child, double until, const volatile sig_atomic_t *stop)
{
    for (;;) {
        struct pollfd ready = {.fd = child->from, .events = POLLIN};
        const double left = until - child_clock();
        if (stop && *stop)
            return CHILD_STOPPED;
        if (left <= 0)
            return CHILD_TIMEOUT;
        const double step = left * 1e3 < STOP_MILLISECONDS ? left * 1e3 + 1 : STOP_MILLISECONDS;
        if (poll(&ready, 1, (int)step) <= 0)
            continue;
        if (!reserve(child))
            return CHILD_DIED;
        const ssize_t count = read(child->from, child->text + child->length, child->capacity - child->length - 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return CHILD_DIED;
        child->length += (size_t)count;
        child->text[child->length] = '\0';
        return CHILD_OK;
    }
}

enum child_result child_ask(struct child *child, const char *request, double deadline_seconds,
                            const volatile sig_atomic_t *stop, char **answer)
{
    const double until = child_clock() + deadline_seconds;
    enum child_result result = CHILD_OK;
    child->length = child->taken = 0;
    if (request && (!send(child, request, strlen(request)) || !send(child, "\n", 1)))
        result = CHILD_DIED;
    char *end = NULL;
    while (result == CHILD_OK && !end) {
        const size_t before = child->length;
        result = receive(child, until, stop);
        if (result == CHILD_OK)
            end = memchr(child->text + before, '\n', child->length - before);
    }
    if (result != CHILD_OK) {
        finish(child, result != CHILD_DIED || child->capacity >= MOST_BYTES);
        return result;
    }
    *end = '\0';
    *answer = child->text;
    return CHILD_OK;
}

bool child_tell(struct child *child, const char *request)
{
    if (send(child, request, strlen(request)) && send(child, "\n", 1))
        return true;
    finish(child, true);
    return false;
}

void child_wait(struct child *const *children, int count, double seconds)
{
    struct pollfd ready[MOST_CHILDREN];
    nfds_t open = 0;
    for (int i = 0; i < count && open < MOST_CHILDREN; i++)
        if (children[i]->pid)
            ready[open++] = (struct pollfd){.fd = children[i]->from, .events = POLLIN};
    poll(ready, open, (int)(seconds * 1e3));
}

/* Drops the line that was taken last, and finds the next one. */
static char *take_line(struct child *child)
{
    child->length -= child->taken;
    if (child->taken)
        memmove(child->text, child->text + child->taken, child->length);
    char *end = child->length ? memchr(child->text, '\n', child->length) : NULL;
    child->taken = end ? (size_t)(end - child->text) + 1 : 0;
    if (end)
        *end = '\0';
    return end ? child->text : NULL;
}

enum child_result child_next(struct child *child, char **line)
{
    while (!(*line = take_line(child))) {
        struct pollfd ready = {.fd = child->from, .events = POLLIN};
        if (poll(&ready, 1, 0) <= 0)
            return CHILD_OK;
        ssize_t count = -1;
        if (reserve(child))
            count = read(child->from, child->text + child->length, child->capacity - child->length - 1);
        else
            errno = ENOMEM;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            finish(child, count < 0);
            return CHILD_DIED;
        }
        child->length += (size_t)count;
    }
    return CHILD_OK;
}

bool child_has_ended(const struct child *child)
{
    siginfo_t how = {.si_pid = 0};
    return !waitid(P_PID, (id_t)child->pid, &how, WEXITED | WNOHANG | WNOWAIT) && how.si_pid == child->pid;
}

int child_hear(struct child *child)
{
    int lines = 0;
    char text[4096];
    struct pollfd ready = {.fd = child->from, .events = POLLIN};
    while (poll(&ready, 1, 0) > 0) {
        const ssize_t count = read(child->from, text, sizeof text);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            finish(child, true);
            return -1;
        }
        for (ssize_t i = 0; i < count; i++)
            lines += text[i] == '\n';
    }
    return lines;
}

/* Whether a child that ended so, as waitpid() has it, has said what it was asked for. */
static bool ended_well(int status, int *exit_status)
{
    if (exit_status)
        *exit_status = WEXITSTATUS(status);
    return exit_status ? WIFEXITED(status) && WEXITSTATUS(status) != CANNOT_RUN : !status;
}

enum child_result child_read_all(struct child *child, double deadline_seconds, const volatile sig_atomic_t *stop,
                                 char **text, size_t *size, int *exit_status)
{
    const double until = child_clock() + deadline_seconds;
    enum child_result result = reserve(child) ? CHILD_OK : CHILD_DIED;
    child->length = 0;
    if (result == CHILD_OK)
        child->text[0] = '\0';
    while (result == CHILD_OK)
        result = receive(child, until, stop);
    *text = child->text;
    *size = child->length;
    const bool too_much = child->capacity >= MOST_BYTES;
    child->text = NULL;
    const int status = finish(child, result != CHILD_DIED || too_much);
    if (result == CHILD_DIED && !too_much && ended_well(status, exit_status))
        return CHILD_OK;
    free(*text);
    *text = NULL;
    return result;
}
