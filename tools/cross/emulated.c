/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loaded before programs that run under qemu-user (LD_PRELOAD by QEMU_SET_ENV): what they start, such as themselves,
 * runs under it, too, as binfmt_misc would have it. CLATTN_EMULATOR is the emulator, CLATTN_EMULATOR_ROOT its -L. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS = 128, EM_PLACE = 18, EM_AARCH64 = 183 };

static int is_ours(const char *path)
{
    unsigned char head[EM_PLACE + 1] = {0};
    FILE *const file = strchr(path, '/') ? fopen(path, "rb") : NULL;
    const size_t got = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    return got == sizeof head && !memcmp(head, "\177ELF", 4) && head[EM_PLACE] == EM_AARCH64;
}

/* The emulator's command line; NULL where the program is none of ours, or has too many arguments. */
static char **emulated(const char *path, char *const argv[], char *made[ARGUMENTS])
{
    char *const emulator = getenv("CLATTN_EMULATOR"), *const root = getenv("CLATTN_EMULATOR_ROOT");
    int count = 0;
    if (!emulator || !root || !is_ours(path))
        return NULL;
    made[count++] = emulator;
    made[count++] = "-L";
    made[count++] = root;
    made[count++] = (char *)path;
    for (int i = 1; argv[0] && argv[i]; i++) {
        if (count + 1 == ARGUMENTS)
            return NULL;
        made[count++] = argv[i];
    }
    made[count] = NULL;
    return made;
}

/* Without what the emulator itself, a program of this machine, cannot load; QEMU_SET_ENV has it for its guest. */
static char **without_preload(char *const environment[])
{
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **const made = calloc(count + 1, sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        if (strncmp(environment[i], "LD_", 3))
            made[kept++] = environment[i];
    return made;
}

int execvp(const char *file, char *const argv[])
{
    char *line[ARGUMENTS], **const command = emulated(file, argv, line), **const clean = without_preload(environ);
    return command && clean ? execve(command[0], command, clean) : execvpe(file, argv, environ);
}

int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const environment[])
{
    char *line[ARGUMENTS], **const command = emulated(file, argv, line), **const clean = without_preload(environment);
    const int error = command && clean ? posix_spawn(child, command[0], actions, attributes, command, clean)
                                       : posix_spawn(child, file, actions, attributes, argv, environment);
    free(clean);
    return error;
}
