/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"
#include "commands.h"
#include "files/output_file.h"
#include "flow.h"
#include "json_out.h"
#include "progress.h"
#include "report/report.h"
#include "system/files.h"
#include "system/system.h"
#include <clattn/version.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_FORMAT = 1 };

/* A driver loads, contexts are made, local memory is probed. */
#define DEVICES_SECONDS 120.0

/* A step is given no less, as long as there is as much. */
#define SHORT_SECONDS 10.0

struct values {
    struct option_device device;
    int64_t seconds;
    const char *out;
    bool quiet;
};

static const struct option_spec options[] = {
    DEVICE("which to report on (default: the first GPU, else the first device)"),
    INTEGER("seconds", seconds, 10, 86400, "for all of it (default 900)"),
    TEXT("out", "FILE", out, "the report (default: clattn-report.json); -: the standard output"),
    FLAG("quiet", quiet, "no progress bar and no summary"),
    END_OF_OPTIONS,
};

const struct command_spec report_command = {
    .name = "report",
    .summary = "Pack what a device is, whether it computes rightly and how fast, into one file to send",
    .synopsis = "clattn report [--device P:D] [--seconds N] [--out FILE]",
    .details =
        "Runs 'clattn devices', 'plan', 'verify', 'bench' and 'tune', each in a process of its own that may hang\n"
        "or crash, within the given time. The file is JSON: what each step printed, how it ended, and the names\n"
        "of the device, its driver and the kind of system. Names of the user, the host and folders are taken\n"
        "out. A step that fails is part of the report and no failure of it. Ctrl-C ends the step that runs\n"
        "and writes what there is.",
    .options = options,
};

static const struct report_step devices_step = {"devices", 1, "devices --json", NULL, NULL};

/* The most telling first: where time is short, the last ones go without. */
static const struct report_step steps[] = {
    {"plan fp16", 1, "plan --json --d 128 --dtype fp16 --n 4096", NULL, NULL},
    {"plan fp32 backward", 1, "plan --json --d 64 --pass backward --n 4096", NULL, NULL},
    {"verify", 30, "verify --quick --json --quiet", NULL, NULL},
    {"bench fp16 forward", 8, "bench --n 4096 --d 64,128 --dtype fp16 --causal=both --json --quiet", NULL, NULL},
    {"bench fp32 forward", 8, "bench --n 2048 --d 64,128 --causal=both --json --quiet", NULL, NULL},
    {"bench bf16 forward", 6, "bench --n 4096 --d 64,128 --dtype bf16 --json --quiet", NULL, NULL},
    {"bench fp16 backward", 8, "bench --n 4096 --d 64,128 --dtype fp16 --pass backward --json --quiet", NULL, NULL},
    {"bench fp32 backward", 8, "bench --n 2048 --d 64,128 --pass backward --json --quiet", NULL, NULL},
    {"bench decode", 6,
     "bench --n-q 1 --n-kv 8192 --heads 32 --kv-heads 8 --d 128 --dtype fp16 --no-standard --json --quiet", NULL, NULL},
    {"tune", 30, "tune --dtype fp16,fp32 --d 64,128 --n 1024,4096 --json --quiet", "--budget", "--db"},
};

enum { STEPS = sizeof steps / sizeof *steps };

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = number;
    signal(number, SIG_DFL); /* the second time ends at once */
}

/* The row of `clattn devices` that is reported on: the one asked for, else the first GPU, else the first device. */
static const json_t *choose(const json_t *devices, const struct option_device *wanted)
{
    char number[32];
    const json_t *chosen = NULL;
    snprintf(number, sizeof number, "%d:%d", wanted->platform, wanted->device);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *row = json_array_get(devices, i);
        const char *type = json_string_value(json_object_get(row, "type"));
        const bool gpu = type && !strcmp(type, "GPU");
        const char *had = chosen ? json_string_value(json_object_get(chosen, "type")) : NULL;
        if (wanted->given ? !strcmp(json_string_value(json_object_get(row, "device")), number)
                          : !chosen || (gpu && had && strcmp(had, "GPU")))
            chosen = row;
    }
    return chosen;
}

static int find_device(const struct values *values, const json_t *listing, const json_t **device,
                       struct failure *failure)
{
    const char *errors = json_string_value(json_object_get(listing, "errors"));
    if (strcmp(report_outcome(listing), "done"))
        return fail(failure, STATUS_DEVICE, "'clattn devices' %s: %.1000s", report_outcome(listing),
                    errors ? errors : "it said nothing");
    *device = choose(json_object_get(listing, "printed"), &values->device);
    if (!*device)
        return fail(failure, STATUS_USAGE, "--device %d:%d: there is none of that number; 'clattn devices' lists them",
                    values->device.platform, values->device.device);
    return STATUS_OK;
}

/* The seconds that a step may take: its part of what is left, as the steps behind it want theirs, or what a short one
 * needs, if there is as much. */
static double share_of(int step, double left)
{
    double weights = 0;
    for (int i = step; i < STEPS; i++)
        weights += steps[i].weight;
    const double share = left * steps[step].weight / weights;
    return share > SHORT_SECONDS ? share : left < SHORT_SECONDS ? left : SHORT_SECONDS;
}

static json_t *run_steps(const struct values *values, const char *device, const char *folder, double end)
{
    struct progress progress;
    json_t *rows = json_array();
    progress_start(&progress, STEPS, values->quiet);
    for (int i = 0; i < STEPS; i++) {
        const struct report_room room = {
            .seconds = share_of(i, end - system_clock()), .device = device, .folder = folder, .stop = &interrupted};
        progress_step(&progress, steps[i].name);
        json_array_append_new(rows, report_run(&steps[i], &room));
    }
    progress_clear(&progress);
    return rows;
}

static json_t *document(const json_t *device, json_t *rows)
{
    struct system_kind system;
    system_kind(&system);
    return json_pack("{s:s, s:i, s:s, s:{s:s, s:s, s:s}, s:O, s:o}", "format", "clattn report", "version", FILE_FORMAT,
                     "clattn", clattn_version(), "system", "name", system.name, "release", system.release, "machine",
                     system.machine, "device", device, "steps", rows);
}

static void print_summary(const json_t *rows, const char *path)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        printf("%-22s %-10s %6.1f s\n", json_string_value(json_object_get(row, "name")), report_outcome(row),
               json_number_value(json_object_get(row, "seconds")));
    }
    flow(stdout, "%s: please look through it, and attach it to an issue of the project\n", path);
}

static int write_report(const struct values *values, const json_t *device, json_t *rows, struct output_file *output,
                        struct failure *failure)
{
    json_t *whole = document(device, rows), *clean = report_without_names(whole);
    json_decref(whole);
    if (!strcmp(values->out, "-"))
        return json_print(clean, NULL, failure);
    char *text = clean ? json_dumps(clean, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    int status = text ? STATUS_OK : fail(failure, STATUS_DEVICE, "no memory for the report");
    if (!status)
        status = output_write(output, text, strlen(text), failure);
    if (!status)
        status = output_finish(output, failure);
    if (!status)
        status = output_commit(output, failure);
    if (!status && !values->quiet)
        print_summary(json_object_get(clean, "steps"), values->out);
    json_decref(clean);
    free(text);
    return status;
}

static int make_report(const struct values *values, struct output_file *output, struct failure *failure)
{
    const double end = system_clock() + (double)values->seconds;
    const json_t *device = NULL;
    const double first = (double)values->seconds < DEVICES_SECONDS ? (double)values->seconds : DEVICES_SECONDS;
    json_t *listing = report_run(&devices_step, &(struct report_room){.seconds = first, .stop = &interrupted});
    char folder[4096];
    int status = find_device(values, listing, &device, failure);
    if (!status)
        status = files_make_folder("clattn-report", folder, sizeof folder)
                     ? STATUS_OK
                     : fail(failure, STATUS_FILE, "%s: cannot be made: %s", folder, strerror(errno));
    if (!status) {
        json_t *rows = run_steps(values, json_string_value(json_object_get(device, "device")), folder, end);
        files_remove_folder(folder);
        status = write_report(values, device, rows, output, failure);
    }
    json_decref(listing);
    return status;
}

int report_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.seconds = 900, .out = "clattn-report.json"};
    struct output_file output = {.path = NULL};
    int status = options_parse(&report_command, argc, argv, &values, failure);
    if (!status && strcmp(values.out, "-"))
        status = output_create(values.out, &output, failure);
    if (status)
        return status;
    signal(SIGINT, interrupt);
    status = make_report(&values, &output, failure);
    output_discard(&output);
    return status;
}
