/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* pipe2, execvp, strsignal */
#include "system/process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_RUN = 127, MOST_WAITED = 64 };

extern char **environ;

/* Between fork() and exec(): only what a signal handler may call. */
static void become(const struct process_spec *spec, int in, int out, pid_t parent)
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

bool process_start(const struct process_spec *spec, struct process *process)
{
    int to[2], from[2];
    *process = (struct process){.to = -1, .from = -1};
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
    *process = (struct process){.id = pid, .to = to[1], .from = from[0]};
    return true;
}

static struct process_end describe(int status)
{
    struct process_end end = {.exited = WIFEXITED(status) && WEXITSTATUS(status) != CANNOT_RUN,
                              .status = WEXITSTATUS(status)};
    if (WIFSIGNALED(status))
        snprintf(end.text, sizeof end.text, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(end.text, sizeof end.text, "exit status %d%s", end.status, end.exited ? "" : ": it cannot be run");
    return end;
}

struct process_end process_finish(struct process *process, bool at_once)
{
    const pid_t pid = (pid_t)process->id;
    int status = 0;
    close((int)process->to);
    close((int)process->from);
    if (at_once)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-pid, SIGKILL);
    *process = (struct process){.to = -1, .from = -1};
    return describe(status);
}

/* Its entry in the process table goes with this process. */
void process_leave(struct process *process)
{
    kill(-(pid_t)process->id, SIGKILL);
    close((int)process->to);
    close((int)process->from);
    *process = (struct process){.to = -1, .from = -1};
}

bool process_send(const struct process *process, const char *text, size_t size)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    while (size) {
        const ssize_t written = write((int)process->to, text, size);
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

void process_wait(const struct process *const *processes, int count, double seconds)
{
    struct pollfd ready[MOST_WAITED];
    nfds_t open = 0;
    for (int i = 0; i < count && open < MOST_WAITED; i++)
        if (processes[i]->id)
            ready[open++] = (struct pollfd){.fd = (int)processes[i]->from, .events = POLLIN};
    poll(ready, open, (int)(seconds * 1e3));
}

ptrdiff_t process_receive(const struct process *process, char *text, size_t size)
{
    for (;;) {
        struct pollfd ready = {.fd = (int)process->from, .events = POLLIN};
        if (poll(&ready, 1, 0) <= 0)
            return 0;
        const ssize_t count = read(ready.fd, text, size);
        if (count > 0)
            return count;
        if (count == 0 || errno != EINTR)
            return -1;
    }
}

bool process_has_ended(const struct process *process)
{
    siginfo_t how = {.si_pid = 0};
    const pid_t pid = (pid_t)process->id;
    return !waitid(P_PID, (id_t)pid, &how, WEXITED | WNOHANG | WNOWAIT) && how.si_pid == pid;
}

int process_run(char *const *argv, int input, int output, bool *well)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int state = 0, error = posix_spawn_file_actions_init(&actions);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!error)
        error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return error;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    *well = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    return 0;
}

void process_become(const char *program, char *const *argv)
{
    execvp(program, argv);
}
