/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* gethostname, RLIMIT_DATA */
#define _XOPEN_SOURCE   700
#include "system/system.h"
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

const char system_opencl_hint[] =
    "the loader does not find it in /etc/OpenCL/vendors (OCL_ICD_VENDORS overrides the place). On Debian, 'apt-get "
    "install pocl-opencl-icd' runs OpenCL on any CPU";

void system_begin(void)
{
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale)
        uselocale(c_locale);
    signal(SIGXFSZ, SIG_IGN);
}

bool system_program(char *path, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    if ((size_t)length < size - 1)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

int system_processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > INT_MAX ? INT_MAX : (int)count;
}

uint64_t system_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

bool system_limit_memory(uint64_t bytes)
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

double system_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void system_set_variable(const char *name, const char *value)
{
    setenv(name, value, 1);
}

static void (*before_end)(void);

static void end(int number)
{
    before_end();
    signal(number, SIG_DFL);
    raise(number);
}

/* Where the signal would end the command: not where it is ignored (nohup), or has a handler that sees to it. */
void system_before_end(void (*function)(void))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    before_end = function;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = end}, before;
        sigfillset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    }
}

static void copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

void system_user(struct system_user *user)
{
    const struct passwd *entry = getpwuid(getuid());
    *user = (struct system_user){.name = ""};
    copy(user->name, sizeof user->name, entry ? entry->pw_name : getenv("USER"));
    copy(user->home, sizeof user->home, entry ? entry->pw_dir : NULL);
    if (!getcwd(user->folder, sizeof user->folder))
        user->folder[0] = '\0';
    gethostname(user->host, sizeof user->host - 1);
}

void system_kind(struct system_kind *kind)
{
    struct utsname system = {.sysname = ""};
    uname(&system);
    copy(kind->name, sizeof kind->name, system.sysname);
    copy(kind->release, sizeof kind->release, system.release);
    copy(kind->machine, sizeof kind->machine, system.machine);
}
