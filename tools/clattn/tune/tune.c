/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/tune.h"
#include "clinfo/run.h"
#include "commands.h"
#include "json_out.h"
#include "system/system.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_word passes[] = {{"forward", 1}, {"backward", 2}, {"both", 3}, {NULL, 0}};
static const struct option_word causals[] = {{"off", 1}, {"on", 2}, {"both", 3}, {NULL, 0}};

static const struct option_spec options[] = {
    DEVICE("which to tune (default: the first GPU, else the first device)"),
    TEXT("clinfo", "FILE", clinfo,
         "take the facts from this dump of 'clinfo --json' or '--raw' instead of running clinfo;\n"
         "for its devices that are not here, candidates are ranked by the model and nothing runs"),
    INTEGER("budget", budget, 1, 1 << 24, "seconds for all of it (default 600)"),
    TEXT("db", "FILE", db, "the tuning file to add to (default: the one that plans are looked up in)"),
    FLAG("resume", resume, "do not measure again what the file has"),
    FILES("merge", "FILE...", merge,
          "measure nothing: merge these files, the later over the earlier, into --db FILE, or\n"
          "print the result"),
    FLAG("best", best, "with --merge: keep the records that plans take, and no others"),
    WORD("pass", "NAME", pass, passes, "forward (default), backward or both"),
    WORDS("dtype", "TYPE,...", dtype, option_dtypes, "fp32 (default), fp16, bf16"),
    INTEGERS("d", d, 1, CLATTN_MAX_LATENT_D, "head dimensions of Q and K (default 64,128)"),
    INTEGER("d-v", d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    INTEGERS("n", n, 1, 1 << 30,
             "lengths; each stands for its class: up to 16, 64, 256, 1024, 4096, longer\n"
             "(default 1024,4096, and 8192 on a CPU or 16384)"),
    INTEGER("n-q", n_q, 1, 1 << 30, "length of Q where it is another, as in decoding"),
    CAUSALS(causals, "on, off or both (default)"),
    INTEGER("batch", batch, 1, 1 << 20, "default: 1 on a CPU, else 16384 / n"),
    INTEGER("heads", heads, 1, 1 << 20, "default: enough to fill a CPU, else 2048 / d"),
    INTEGER("kv-heads", kv_heads, 1, 1 << 20,
            "heads of K and V, of which heads is a multiple: records are of such groups alone then\n"
            "(default: as many as of Q, for records of any group)"),
    INTEGER("deadline", deadline, 1, 86400, "seconds that one measurement may take (default 60)"),
    INTEGER("memory", memory, 64, 1 << 30,
            "MiB that the measuring process may take beyond what it has at its start (default: half\n"
            "of the machine's, at most 8192)"),
    INTEGER("builders", builders, 0, TUNE_MOST_BUILDERS,
            "processes that compile ahead (default: half of the processors, at most 8; none where the\n"
            "device is the CPU)"),
    FLAG("json", json, "print an array of results as JSON"),
    FLAG("quiet", quiet, "no progress bar and no warnings"),
    END_OF_OPTIONS,
};

const struct command_spec tune_command = {
    .name = "tune",
    .summary = "Find the fastest kernels and block sizes for a device, and keep them",
    .synopsis = "clattn tune [--device P:D] [--clinfo FILE] [--budget SECONDS] [--db FILE] [--resume] [--pass NAME]\n"
                "            [--dtype TYPE,...] [--d N,...] [--n N,...] [--causal[=WHEN]] ...\n"
                "clattn tune --merge FILE... [--best] [--db FILE]",
    .details =
        "For each class of problems, candidates come from the facts that clinfo tells and from the model. Each is\n"
        "verified against a float64 reference and timed, in a process of its own, and the better ones meet again in\n"
        "turns. What wins must have beaten the planner's choice by more than noise. Results are added to the file\n"
        "after each class; Ctrl-C keeps what was found.",
    .options = options,
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = number;
    signal(number, SIG_DFL); /* the second time ends at once */
}

static void warn(const struct values *values, const char *format, const char *first, const char *second)
{
    if (values->quiet)
        return;
    fputs("clattn tune: ", stderr);
    fprintf(stderr, format, first, second);
    putc('\n', stderr);
}

/* What clinfo says of the devices: of a dump, or of this machine. Without it, none. */
static int read_clinfo(const struct values *values, struct clinfo_devices *dumped, struct failure *failure)
{
    struct failure reason = {.command = NULL};
    if (values->clinfo)
        return clinfo_read(values->clinfo, dumped, failure);
    if (clinfo_run("clinfo", dumped, &reason))
        warn(values, "%s: the library's own query is used%s", reason.text, "");
    return STATUS_OK;
}

/* The place of a device among those here; -1: there is none of that number. */
static int find_number(const struct clinfo_devices *here, const struct option_device *wanted)
{
    for (int i = 0; i < here->count; i++)
        if (here->items[i].platform == wanted->platform && here->items[i].device == wanted->device)
            return i;
    return -1;
}

/* Which of the devices here is tuned: --device, else the first GPU, else the first; of a dump given with --clinfo only
 * such as are in it. -1: none. */
static int choose_device(const struct values *values, const struct clinfo_devices *here,
                         const struct clinfo_devices *dumped)
{
    if (values->device.given)
        return find_number(here, &values->device);
    int chosen = -1;
    for (int i = 0; i < here->count; i++) {
        if (values->clinfo && clinfo_match(dumped, here, i) < 0)
            continue;
        const bool gpu = here->items[i].capabilities.type == CLATTN_DEVICE_GPU;
        if (chosen < 0 || (gpu && here->items[chosen].capabilities.type != CLATTN_DEVICE_GPU))
            chosen = i;
    }
    return chosen;
}

/* clinfo's word for the device, with what only probes tell; its own query where clinfo has none. */
static void merge_facts(const struct values *values, const struct clinfo_devices *here, int index,
                        const struct clinfo_devices *dumped, struct tune_job *job)
{
    const int match = clinfo_match(dumped, here, index);
    char differences[256];
    job->facts = job->present;
    if (match < 0) {
        if (dumped->count)
            warn(values, "clinfo does not list %s: the library's own query is used%s", job->present.device_name, "");
        return;
    }
    job->facts = dumped->items[match].capabilities;
    job->facts.static_local_memory_bytes = job->present.static_local_memory_bytes;
    job->facts.half_loads = job->present.half_loads;
    job->facts.nv_wgmma = job->present.nv_wgmma;
    clinfo_differences(&job->facts, &job->present, differences, sizeof differences);
    if (differences[0])
        warn(values, "clinfo and the device's own answer differ in %s%s: clinfo's count", differences, "");
}

static int fail_file(clattn_status code, struct failure *failure)
{
    const bool file = code == CLATTN_FILE_FAILED || code == CLATTN_FILE_DAMAGED;
    return fail(failure, file ? STATUS_FILE : STATUS_DEVICE, "%s", clattn_error_message());
}

static int save(const struct tune_job *job, const struct tune_outcome *outcome, struct failure *failure)
{
    clattn_tuning *records = NULL;
    clattn_status code = clattn_tuning_create(&records);
    int status = code ? fail_library(failure, "tuning records", code) : tune_records(job, outcome, records, failure);
    if (!status && clattn_tuning_count(records) && (code = clattn_tuning_save(records, job->values->db)))
        status = fail_file(code, failure);
    clattn_tuning_destroy(&records);
    return status;
}

/* A device on which the planner's own choice gives wrong numbers. */
static bool is_wrong(const struct tune_outcome *outcome)
{
    return outcome->search.items[0].tried && outcome->search.items[0].state == CLATTN_TUNING_WRONG;
}

static int tune_classes(struct tune_job *job, const struct tune_list *list, json_t *rows, struct failure *failure)
{
    struct tune_outcome *outcome = malloc(sizeof *outcome);
    int status = outcome ? STATUS_OK : fail(failure, STATUS_DEVICE, "no memory for a search");
    bool wrong = false;
    for (int i = 0; i < list->count && !status && !interrupted; i++) {
        char position[32];
        const double left = job->budget - (system_clock() - job->start);
        if (left <= 0) {
            progress_clear(&job->progress);
            warn(job->values, "the time is over: %s%s (--resume goes on)", "some problems were not looked at", "");
            break;
        }
        snprintf(position, sizeof position, "%d/%d", i + 1, list->count);
        status = tune_class(job, &list->items[i], left * tune_list_share(list, i), position, outcome, failure);
        progress_clear(&job->progress);
        struct failure saving = {.command = NULL};
        const int saved = save(job, outcome, &saving);
        if (saved && !status) {
            *failure = saving;
            status = saved;
        }
        if (rows)
            json_array_append_new(rows, tune_json(outcome));
        else if (!status)
            tune_print(outcome);
        wrong = wrong || is_wrong(outcome);
    }
    free(outcome);
    return !status && wrong ? STATUS_MISMATCH : status;
}

/* Nobody wants to hear at the end that the file cannot be used: nothing is added to it before anything is measured.
 * Then there is a file, and what it says was best is where the search begins. */
static int try_file(struct tune_job *job, struct failure *failure)
{
    clattn_tuning *nothing = NULL, *known = NULL;
    struct clattn_tuning_record here;
    const struct clattn_problem any = {.d = 64};
    struct clattn_plan_info info;
    clattn_status code = clattn_tuning_create(&nothing);
    if (!code)
        code = clattn_tuning_save(nothing, job->values->db);
    if (!code)
        code = clattn_tuning_load(&known, job->values->db);
    clattn_tuning_destroy(&nothing);
    if (code)
        return fail_file(code, failure);
    if (!clattn_plan_preview(&job->present, &any, &info) && !clattn_tuning_describe(&job->present, &any, &info, &here))
        tune_prior_recall(&job->prior, known, here.device);
    if (job->values->resume)
        job->known = known;
    else
        clattn_tuning_destroy(&known);
    return STATUS_OK;
}

static void prepare_ahead(struct tune_job *job)
{
    const bool cpu = job->present.type == CLATTN_DEVICE_CPU;
    struct tune_ahead *ahead = &job->ahead;
    ahead->count = job->values->builders >= 0 ? (int)job->values->builders : tune_ahead_default(cpu);
    ahead->deadline = (double)job->values->deadline;
    if (ahead->count > 0 && !tune_ahead_is_possible()) {
        ahead->count = 0;
        warn(job->values, "nothing is compiled ahead%s%s", ": the cache of compiled programs is switched off", "");
    }
}

static int tune_here(struct tune_job *job, const struct clinfo_devices *here, int index,
                     const struct clinfo_devices *dumped, json_t *rows, struct failure *failure)
{
    struct tune_list list = {.count = 0};
    job->remote.device = (struct option_device){true, here->items[index].platform, here->items[index].device};
    int status = tune_remote_open(&job->remote, &job->present, failure);
    if (!status)
        status = try_file(job, failure);
    if (status)
        return status;
    merge_facts(job->values, here, index, dumped, job);
    if (!tune_list_create(&list, job->values, &job->facts))
        return fail(failure, STATUS_DEVICE, "no memory for a list of problems");
    if (!rows) {
        char title[256];
        snprintf(title, sizeof title, "%d:%d %s (%s)", job->remote.device.platform, job->remote.device.device,
                 job->present.device_name, job->present.platform_name);
        tune_print_head(title);
    }
    prepare_ahead(job);
    progress_start(&job->progress, 1, job->values->quiet);
    status = tune_classes(job, &list, rows, failure);
    tune_list_destroy(&list);
    clattn_tuning_destroy(&job->known);
    return status;
}

/* The devices of a dump that are not here. */
static int rank_absent(const struct values *values, const struct clinfo_devices *here, struct clinfo_devices *dumped,
                       json_t *rows, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; i < dumped->count && !status; i++)
        if (clinfo_match(here, dumped, i) < 0)
            status = tune_rank(values, &dumped->items[i], rows, failure);
    return status;
}

static int no_device(const struct values *values, const struct clinfo_devices *here, struct failure *failure)
{
    if (values->device.given)
        return fail(failure, STATUS_USAGE, "--device %d:%d: there is none of that number ('clattn devices' lists %d)",
                    values->device.platform, values->device.device, here->count);
    return fail(failure, STATUS_DEVICE, "no OpenCL device is here ('clattn devices' says more)");
}

/* Unless it is said, half of what the machine has, at most 8 GiB. */
static uint64_t memory_bytes(const struct values *values)
{
    const uint64_t most = UINT64_C(8) << 30, all = system_memory(), half = all ? all / 2 : most;
    return values->memory ? (uint64_t)values->memory << 20 : half < most ? half : most;
}

static int tune(const struct values *values, json_t *rows, struct failure *failure)
{
    struct clinfo_devices dumped = {.items = NULL}, here = {.items = NULL};
    struct tune_job job = {.values = values,
                           .remote = {.memory_bytes = memory_bytes(values), .stop = &interrupted},
                           .start = system_clock(),
                           .budget = (double)values->budget};
    struct failure none = {.command = NULL};
    int status = read_clinfo(values, &dumped, failure);
    if (!status && tune_remote_devices(&job.remote, &here, &none)) {
        if (values->clinfo && !values->device.given)
            warn(values, "%s: the dump's devices are planned for only%s", none.text, "");
        else
            status = fail(failure, STATUS_DEVICE, "%s", none.text);
    }
    const int index = status ? -1 : choose_device(values, &here, &dumped);
    if (!status && values->clinfo)
        status = rank_absent(values, &here, &dumped, rows, failure);
    if (!status && index >= 0)
        status = tune_here(&job, &here, index, &dumped, rows, failure);
    else if (!status && (!values->clinfo || values->device.given))
        status = no_device(values, &here, failure);
    tune_ahead_close(&job.ahead);
    tune_remote_close(&job.remote);
    clinfo_free(&dumped);
    clinfo_free(&here);
    return status;
}

static int check_values(const struct values *values, struct failure *failure)
{
    if (values->merge.count &&
        (values->device.given || values->clinfo || values->resume || values->json || values->n.count))
        return fail(failure, STATUS_USAGE, "--merge measures nothing: it goes with --best and --db alone");
    if (values->best && !values->merge.count)
        return fail(failure, STATUS_USAGE, "--best goes with --merge FILE...");
    if (values->kv_heads && (!values->heads || values->heads % values->kv_heads))
        return fail(failure, STATUS_USAGE, "--kv-heads %lld needs --heads, a multiple of it%s",
                    (long long)values->kv_heads, values->heads ? ", and it is none" : "");
    return STATUS_OK;
}

/* Results are saved: what remains is to end as one that was interrupted does. */
static void end_interrupted(void)
{
    fflush(stdout);
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}

int tune_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.budget = 600, .deadline = 60, .builders = -1};
    if (argc == 2 && !strcmp(argv[1], "--worker")) /* started by this program: see tune/worker.h */
        return tune_worker_main();
    int status = options_parse(&tune_command, argc, argv, &values, failure);
    if (!status)
        status = check_values(&values, failure);
    if (status)
        return status;
    if (values.merge.count)
        return tune_merge(&values, failure);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    json_t *rows = values.json ? json_array() : NULL;
    status = tune(&values, rows, failure);
    if (rows && (!status || json_array_size(rows))) {
        struct failure printing = {.command = NULL};
        const int printed = json_print(rows, NULL, &printing);
        if (printed && (!status || status == STATUS_MISMATCH)) {
            *failure = printing;
            status = printed;
        }
    } else {
        json_decref(rows);
    }
    if (interrupted)
        end_interrupted();
    return status;
}
