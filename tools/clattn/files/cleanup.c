/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "files/cleanup.h"
#include "system/system.h"
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 16, PATH_BYTES = 4096 };

/* Names stay where they are, so that a handler in another thread never reads what was freed. */
static char paths[SLOTS][PATH_BYTES];
static volatile sig_atomic_t used[SLOTS];

static void remove_all(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (used[i])
            unlink(paths[i]);
}

static void install(void)
{
    static bool installed;
    if (!installed)
        system_before_end(remove_all);
    installed = true;
}

int cleanup_register(const char *path)
{
    const size_t length = strlen(path);
    install();
    for (int i = 0; i < SLOTS && length < PATH_BYTES; i++) {
        if (used[i])
            continue;
        memcpy(paths[i], path, length + 1);
        used[i] = 1;
        return i;
    }
    return CLEANUP_NONE;
}

void cleanup_forget(int slot)
{
    if (slot >= 0)
        used[slot] = 0;
}
