/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "files/path.h"
#include "flow.h"
#include "ring/bench.h"
#include "system/process.h"
#include "system/system.h"
#include <clattn/version.h>
#include <stdlib.h>
#include <string.h>

const struct command commands[] = {
    {&devices_command, devices_main},
    {&plan_command, plan_main},
    {&run_command, run_main},
    {&verify_command, verify_main},
    {&bench_command, bench_main},
    {&tune_command, tune_main},
    {&report_command, report_main},
    {&compile_command, compile_main},
    {&completion_command, completion_main},
    {NULL, NULL},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] - 1 };

static void print_help(FILE *stream)
{
    flow(stream,
         "Exact attention (FlashAttention) on any OpenCL device.\n\n"
         "Usage:\n  clattn SUBCOMMAND [OPTIONS]\n  clattn help SUBCOMMAND\n  clattn --version, -V\n\nSubcommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        flow(stream, "  %-10s %s\n", commands[i].spec->name, commands[i].spec->summary);
    flow(stream, "\nExit status: 0 success, 1 verification failed, 2 usage, 3 a file that cannot be read, is not\n"
                 "what it should be or cannot be written, 4 no device or an error from OpenCL or the library;\n"
                 "bench --compare: 5 a row is slower, 6 no row is in both files.\n"
                 "Where clattn-ring is installed, clattn ring shares a sequence out over ranks of MPI.\n"
                 "The manual is clattn(1); each subcommand has its own page, such as clattn-run(1).\n");
}

static int find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].spec->name, name))
            return i;
    return -1;
}

static int unknown_command(const char *name, struct failure *failure)
{
    const char *names[COMMAND_COUNT + 2] = {"help"};
    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i + 1] = commands[i].spec->name;
    const char *closest = closest_word(name, names);
    if (closest)
        return fail(failure, STATUS_USAGE, "unknown subcommand '%s': did you mean %s?", name, closest);
    return fail(failure, STATUS_USAGE, "unknown subcommand '%s': 'clattn --help' lists them", name);
}

/* A subcommand that is a program of its own, clattn-NAME beside this one, takes this process over. Returns where there
 * is none. */
static void become(char **argv)
{
    char path[4096];
    if (strspn(argv[1], "abcdefghijklmnopqrstuvwxyz") != strlen(argv[1]) ||
        snprintf(path, sizeof path, "%.*sclattn-%s", (int)(path_name(argv[0]) - argv[0]), argv[0], argv[1]) >=
            (int)sizeof path)
        return;
    process_become(path, argv + 1);
}

/* Where `bench --grid ring` is asked for. Rings of this process are measured here, others by the program that has MPI.
 */
static bool asks_for_rings(int argc, char **argv, int *at, int *words)
{
    for (*at = 2; *at < argc; ++*at) {
        *words = 1 + !strcmp(argv[*at], "--grid");
        const char *const name = *words == 2 ? (*at + 1 < argc ? argv[*at + 1] : "") : argv[*at] + strlen("--grid=");
        if ((*words == 2 || !strncmp(argv[*at], "--grid=", strlen("--grid="))) && !strcmp(name, "ring"))
            return true;
    }
    return false;
}

static bool names_devices(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--devices") || !strncmp(argv[i], "--devices=", strlen("--devices=")))
            return true;
    return false;
}

static int bench_rings(int argc, char **argv, int at, int words, struct failure *failure)
{
    char **const given = calloc((size_t)argc + 2, sizeof *given);
    int count = 0;
    if (!given)
        return fail(failure, STATUS_DEVICE, "no memory for %d arguments", argc);
    given[count++] = argv[0];
    given[count++] = (char[]){"ring"};
    given[count++] = (char[]){"bench"};
    for (int i = 2; i < argc; i++)
        if (i < at || i >= at + words)
            given[count++] = argv[i];
    struct ring_bench_values values;
    const bool here = names_devices(count, given);
    int status = here ? ring_bench_parse(count - 2, given + 2, &values, failure) : STATUS_OK;
    if (here && !status)
        status = ring_bench_devices(&values, failure);
    if (!here)
        become(given);
    free(given);
    if (here)
        return status == STATUS_HELP ? STATUS_OK : status;
    return fail(
        failure, STATUS_USAGE,
        "--grid ring: there is no clattn-ring beside clattn, which is built where MPI is; --devices needs none");
}

static int help(int argc, char **argv, struct failure *failure)
{
    if (argc < 3 || !strcmp(argv[2], "help")) {
        print_help(stdout);
        return STATUS_OK;
    }
    const int index = find_command(argv[2]);
    if (index < 0)
        return unknown_command(argv[2], failure);
    options_help(commands[index].spec, stdout);
    return STATUS_OK;
}

static int dispatch(int argc, char **argv, struct failure *failure)
{
    if (argc < 2) {
        print_help(stderr);
        return fail(failure, STATUS_USAGE, "a subcommand is needed");
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(argc, argv, failure);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("clattn %s\n", clattn_version());
        return STATUS_OK;
    }
    int at, words;
    if (!strcmp(argv[1], bench_command.name) && asks_for_rings(argc, argv, &at, &words))
        return bench_rings(argc, argv, at, words, failure);
    const int index = find_command(argv[1]);
    if (index < 0) {
        become(argv);
        return unknown_command(argv[1], failure);
    }
    const int status = commands[index].run(argc - 1, argv + 1, failure);
    return status == STATUS_HELP ? STATUS_OK : status;
}

/* What was printed must have arrived: a full disk behind stdout is a failure like any other. */
static int flush_output(int status, struct failure *failure)
{
    if ((fflush(stdout) || ferror(stdout)) && (status == STATUS_OK || status == STATUS_MISMATCH))
        return fail(failure, STATUS_FILE, "the standard output cannot be written");
    return status;
}

int main(int argc, char **argv)
{
    struct failure failure = {.text = ""};
    system_begin();
    const int status = flush_output(dispatch(argc, argv, &failure), &failure);
    if (status != STATUS_OK && failure.text[0]) {
        const bool named = argc > 1 && find_command(argv[1]) >= 0;
        fprintf(stderr, "clattn%s%s: %s\n", named ? " " : "", named ? argv[1] : "", failure.text);
    }
    return status;
}
