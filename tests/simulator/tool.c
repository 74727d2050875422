/* SPDX-License-Identifier: BSD-2-Clause */
#include "tool.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_OPTIONS = 64, PATH = 512 };

static const char *setting(const char *name, const char *usual)
{
    const char *value = getenv(name);
    return value && *value ? value : usual;
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    *bytes = 0;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    if (size >= 0 && (data = malloc((size_t)size + 1))) {
        *bytes = fread(data, 1, (size_t)size, file);
        data[*bytes] = '\0';
    }
    fclose(file);
    return data;
}

static bool write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    const bool ok = fwrite(data, 1, bytes, file) == bytes;
    return fclose(file) == 0 && ok;
}

/* Runs a program whose outputs go to a file; its exit status, or -1. */
static int run(const char *const *arguments, const char *output)
{
    const pid_t child = fork();
    if (child == 0) {
        const int to = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(to, STDOUT_FILENO);
        dup2(to, STDERR_FILENO);
        execvp(arguments[0], (char *const *)arguments);
        _exit(127);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* A folder of its own for the files of one call. */
struct folder {
    char path[PATH / 2];
};

static bool make_folder(struct folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "%s/simulated-XXXXXX", setting("TMPDIR", "/tmp"));
    return mkdtemp(folder->path) != NULL;
}

static void in_folder(const struct folder *folder, const char *name, char path[PATH])
{
    snprintf(path, PATH, "%s/%s", folder->path, name);
}

static void remove_folder(const struct folder *folder)
{
    static const char *const names[] = {"kernel.cl", "kernel.co", "log", "listing"};
    char path[PATH];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        in_folder(folder, names[n], path);
        unlink(path);
    }
    rmdir(folder->path);
}

/* Where the object of a text and its options is kept; "" where nothing is. */
static void kept_path(const struct chip *chip, const char *text, const char *options, char path[PATH])
{
    const char *folder = getenv("SIMULATED_CACHE"), *const parts[] = {chip->name, options, text};
    uint64_t hash[2] = {UINT64_C(14695981039346656037), 42};
    path[0] = '\0';
    if (!folder || !*folder)
        return;
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
        for (const char *at = parts[n]; *at; at++) {
            hash[0] = (hash[0] ^ (uint8_t)*at) * UINT64_C(1099511628211);
            hash[1] = (hash[1] + (uint8_t)*at) * UINT64_C(6364136223846793005) + n;
        }
    snprintf(path, PATH, "%s/%016" PRIx64 "%016" PRIx64 ".co", folder, hash[0], hash[1]);
}

static void keep(const char *path, const void *data, size_t bytes)
{
    char part[PATH + 16];
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    if (*path && (!write_file(part, data, bytes) || rename(part, path)))
        unlink(part);
}

/* The caller's options cut at blanks, behind the compiler's own. */
static int add_options(char *options, const char **arguments, int count)
{
    char *rest = NULL;
    for (char *word = strtok_r(options, " ", &rest); word && count < MOST_OPTIONS - 1;
         word = strtok_r(NULL, " ", &rest))
        if (strncmp(word, "-cl-opt-disable", 15) != 0)
            arguments[count++] = word;
    return count;
}

static bool compile_in(const struct folder *folder, const struct chip *chip, const char *text, const char *options,
                       uint8_t **object, size_t *bytes, char **log)
{
    char source[PATH], code[PATH], said[PATH], chip_option[32];
    size_t log_bytes;
    char *own = strdup(options);
    in_folder(folder, "kernel.cl", source);
    in_folder(folder, "kernel.co", code);
    in_folder(folder, "log", said);
    snprintf(chip_option, sizeof chip_option, "-mcpu=%s", chip->name);
    const char *arguments[MOST_OPTIONS] = {setting("SIMULATED_CLANG", "clang-19"),
                                           "-x",
                                           "cl",
                                           "-O3",
                                           "-target",
                                           "amdgcn-amd-amdhsa",
                                           chip_option,
                                           "-nogpulib",
                                           "-w",
                                           "-Xclang",
                                           "-mlink-builtin-bitcode",
                                           "-Xclang",
                                           setting("SIMULATED_LIBCLC", "/usr/lib/clc/amdgcn--amdhsa.bc"),
                                           "-o",
                                           code,
                                           source};
    add_options(own, arguments, 16);
    const bool ok = write_file(source, text, strlen(text)) && run(arguments, said) == 0;
    *log = read_file(said, &log_bytes);
    *object = ok ? (uint8_t *)read_file(code, bytes) : NULL;
    free(own);
    return *object != NULL;
}

bool tool_compile(const struct chip *chip, const char *text, const char *options, uint8_t **object, size_t *bytes,
                  char **log)
{
    char kept[PATH];
    struct folder folder;
    *log = NULL;
    kept_path(chip, text, options, kept);
    *object = *kept ? (uint8_t *)read_file(kept, bytes) : NULL;
    if (*object)
        return true;
    if (!make_folder(&folder))
        return false;
    const bool ok = compile_in(&folder, chip, text, options, object, bytes, log);
    if (ok)
        keep(kept, *object, *bytes);
    remove_folder(&folder);
    return ok;
}

char *tool_disassemble(const uint8_t *object, size_t bytes, const char *kernel)
{
    struct folder folder;
    char code[PATH], listing[PATH], symbol[PATH], *text = NULL;
    size_t size;
    if (!make_folder(&folder))
        return NULL;
    in_folder(&folder, "kernel.co", code);
    in_folder(&folder, "listing", listing);
    snprintf(symbol, sizeof symbol, "--disassemble-symbols=%s", kernel);
    const char *const arguments[] = {
        setting("SIMULATED_OBJDUMP", "llvm-objdump-19"), "-d", "--no-show-raw-insn", symbol, code, NULL};
    if (write_file(code, object, bytes) && run(arguments, listing) == 0)
        text = read_file(listing, &size);
    remove_folder(&folder);
    return text;
}
