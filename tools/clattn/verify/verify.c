/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"
#include "commands.h"
#include "flow.h"
#include "json_out.h"
#include "progress.h"
#include "random.h"
#include "system/system.h"
#include "verify/check.h"
#include "verify/draw.h"
#include "verify/list.h"
#include "verify/soak_start.h"
#include "verify/worker.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

struct values {
    bool quick, full, unordered, packed, quiet, json;
    int64_t seed, only, b_r, b_c, work_group_size, case_seed;
    struct option_device device;
    const char *skeleton, *knobs, *part;
    struct soak_values soak;
};

static const struct option_spec options[] = {
    FLAG("quick", quick, "a selection that takes seconds (the default)"),
    FLAG("full", full,
         "every head dimension, type, mask, score modification, length and layout, and random\n"
         "combinations of them: minutes"),
    INTEGER("seed", seed, 0, INT64_MAX, "of the random inputs and combinations (default: the time)"),
    INTEGER("only", only, 0, INT32_MAX, "check the case of this number alone, as a failure's last line says"),
    TEXT("part", "K/N", part, "the Kth of N parts that share no kernel: for processes that divide the cases"),
    DEVICE("which to certify (default: the first GPU, else the first device)"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD | OPTION_BACKWARD,
             "this kernel alone (default: every one that suits the device), one of"),
    TEXT("knobs", "NAME=N...", knobs,
         "with these constants of its own, such as \"tma=1 stale_max=1\"; needs --skeleton"),
    INTEGER("b-r", b_r, 1, 65536, "with blocks of so many rows; needs --skeleton"),
    INTEGER("b-c", b_c, 1, 65536, "with blocks of so many keys; needs --skeleton"),
    INTEGER("work-group-size", work_group_size, 1, 65536, "with so many work-items in a work-group; needs --skeleton"),
    FLAG("unordered", unordered, "let backward passes add up dQ in any order"),
    FLAG("packed", packed, "let query heads that share a head of K and V go together"),
    INTEGER("soak", soak.seconds, 1, 10000000,
            "random cases for so many seconds, each in a process that may hang or crash"),
    TEXT("soak-file", "FILE", soak.file, "that keeps the soak's cases, a line each: another run goes on behind them"),
    WORDS_OF("require", "NAME,...", soak.require, verify_trait_words,
             "of a soak those cases alone that have all of these:"),
    WORDS_OF("without", "NAME,...", soak.without, verify_trait_words,
             "and none of these; with --case-seed: leave them out of the case"),
    INTEGER("cases", soak.cases, 1, INT32_MAX, "end a soak after so many cases, if its time is not over before"),
    INTEGER("per-program", soak.per_program, 1, VERIFY_PER_PROGRAM, "cases of each program of a soak (default: 4)"),
    INTEGER("jobs", soak.jobs, 1, SOAK_MOST_JOBS, "processes of a soak at once (default: as many as CPUs, up to 16)"),
    INTEGER("running", soak.running, 1, SOAK_MOST_JOBS,
            "so many of the processes run a case at once, while others \ncompile (default: all)"),
    INTEGER(
        "deadline", soak.deadline, 1, 86400,
        "seconds that a case of a soak may run (default: 30, on a CPU 300); \ncompiling may take four times as long"),
    INTEGER("case-seed", case_seed, 0, INT64_MAX, "this one case of a soak, in this process"),
    FLAG("quiet", quiet, "no progress bar and no warnings"),
    FLAG("json", json, "print the outcome as JSON"),
    END_OF_OPTIONS,
};

const struct command_spec verify_command = {
    .name = "verify",
    .summary = "Certify a device: every kernel against a float64 reference, and the laws of attention",
    .synopsis = "clattn verify [--quick | --full] [--seed N] [--part K/N] [--device P:D] [--skeleton NAME]\n"
                "              [--knobs NAME=N...] [--b-r N] [--b-c N] [--unordered] [--packed] [--json]\n"
                "clattn verify --soak SECONDS [--soak-file FILE] [--seed N] [--device P:D] [--skeleton NAME]\n"
                "              [--unordered] [--require NAME,...] [--without NAME,...] [--cases N] [--jobs N]\n"
                "              [--running N] [--per-program N] [--deadline N] [--json]\n"
                "clattn verify --case-seed N [--skeleton NAME] [--unordered] [--without NAME,...]",
    .details =
        "An output passes if it is at most twice as far from the float64 reference as the plain formula computed\n"
        "in the input's type, plus a floor for rounding; gradients at most three times. Score modifications come\n"
        "alone, in pairs, and in random combinations of three to all. Buffers lie between guards, outputs hold NaN\n"
        "before, inputs are compared afterwards. A soak has nothing but random combinations, and goes on over hangs\n"
        "and crashes.",
    .options = options,
};

/* Which cases are asked for: one, or those of a part of the kernels. */
struct selection {
    int only;        /* -1: all of the part */
    int part, parts; /* part from 0 on */
};

struct tally {
    const struct values *values;
    const struct session *session;
    int passed, failed, skipped;
    double share; /* the largest error over what was allowed, */
    int largest;  /* and the case that had it; -1: there was none */
    char largest_name[512];
    char first_skipped[1600]; /* its number, its name and why; empty: there is none */
    json_t *failures;         /* NULL without --json */
    struct progress progress;
};

/* The case's own stream, so that it is the same alone and among others. */
static uint64_t case_seed(const struct values *values, int index)
{
    if (values->case_seed >= 0)
        return (uint64_t)values->case_seed;
    struct random random = {.state = (uint64_t)values->seed + ((uint64_t)index << 32)};
    return random_next(&random);
}

/* Which case: of a list, whose options come first, by its number, or of a soak by its seed. */
static void case_options(const struct values *values, int index, char list[64], char which[320])
{
    char without[256];
    soak_words(&values->soak.without, without, sizeof without);
    if (values->case_seed >= 0) {
        list[0] = '\0';
        snprintf(which, 320, "--case-seed %" PRId64 "%s%s", values->case_seed, without[0] ? " --without " : "",
                 without);
    } else {
        snprintf(list, 64, " --%s --seed %" PRId64, values->full ? "full" : "quick", values->seed);
        snprintf(which, 320, "--only %d", index);
    }
}

static void reproducer(const struct tally *tally, int index, char *text, size_t size)
{
    const struct values *values = tally->values;
    const char *skeleton = values->skeleton, *knobs = values->knobs;
    char rows[32] = "", keys[32] = "", items[48] = "", list[64], which[320];
    case_options(values, index, list, which);
    if (values->b_r)
        snprintf(rows, sizeof rows, " --b-r %" PRId64, values->b_r);
    if (values->b_c)
        snprintf(keys, sizeof keys, " --b-c %" PRId64, values->b_c);
    if (values->work_group_size)
        snprintf(items, sizeof items, " --work-group-size %" PRId64, values->work_group_size);
    snprintf(text, size, "clattn verify%s --device %d:%d%s%s%s%s%s%s%s%s%s%s %s", list, tally->session->platform,
             tally->session->device, skeleton ? " --skeleton " : "", skeleton ? skeleton : "",
             knobs ? " --knobs '" : "", knobs ? knobs : "", knobs ? "'" : "", rows, keys, items,
             values->unordered ? " --unordered" : "", values->packed ? " --packed" : "", which);
}

static void report_failure(struct tally *tally, int index, const char *name, const struct verify_result *result)
{
    char command[768];
    reproducer(tally, index, command, sizeof command);
    tally->failed++;
    if (tally->failures) {
        json_array_append_new(tally->failures,
                              json_pack("{s:i, s:o, s:o, s:o}", "case", index, "name", json_text(name), "reason",
                                        json_text(result->text), "reproduce", json_text(command)));
    } else {
        flow(stdout, "FAILED case %d: %s\n  %s\n", index, name, result->text);
        printf("  reproduce: %s\n", command); /* (in one line, to be copied) */
    }
}

static void check(struct tally *tally, const struct verify_case *listed, int index)
{
    char name[512];
    struct verify_case item = *listed;
    item.knobs = tally->values->knobs;
    item.b_r = (int)tally->values->b_r;
    item.b_c = (int)tally->values->b_c;
    item.work_group_size = (int)tally->values->work_group_size;
    item.packed = item.packed || tally->values->packed;
    item.unordered = item.unordered || (tally->values->unordered && item.kind != VERIFY_BIT_EQUAL);
    verify_case_name(&item, name, sizeof name);
    progress_step(&tally->progress, name);
    const struct verify_result result = verify_check(tally->session, &item, case_seed(tally->values, index));
    if (result.share > tally->share) {
        tally->share = result.share;
        tally->largest = index;
        memcpy(tally->largest_name, name, sizeof name);
    }
    if (result.outcome == VERIFY_PASS) {
        tally->passed++;
    } else if (result.outcome == VERIFY_SKIP) {
        if (!tally->skipped++)
            snprintf(tally->first_skipped, sizeof tally->first_skipped, "case %d: %s: %s", index, name, result.text);
    } else {
        progress_clear(&tally->progress);
        report_failure(tally, index, name, &result);
    }
}

static int print_outcome(struct tally *tally, double seconds, struct failure *failure)
{
    char device[256];
    session_title(tally->session, device, sizeof device);
    const int count = tally->passed + tally->failed + tally->skipped;
    if (tally->failures)
        return json_print(json_pack("{s:o, s:o, s:s, s:I, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "device",
                                    json_text(device), "driver",
                                    json_text(tally->session->capabilities->driver_version), "selection",
                                    tally->values->case_seed >= 0 ? "case"
                                    : tally->values->full         ? "full"
                                                                  : "quick",
                                    "seed", (json_int_t)tally->values->seed, "cases", count, "passed", tally->passed,
                                    "failed", tally->failed, "skipped", tally->skipped, "first_skipped",
                                    tally->skipped ? json_text(tally->first_skipped) : json_null(),
                                    "largest_error_share", json_measure(tally->share), "largest_error_case",
                                    tally->largest < 0 ? json_null() : json_integer(tally->largest), "seconds",
                                    json_measure(seconds), "failures", tally->failures),
                          NULL, failure);
    flow(stdout, "%s: %d of %d cases passed",
         tally->failed   ? "FAILED"
         : tally->passed ? "certified"
                         : "nothing certified",
         tally->passed, count);
    if (tally->skipped)
        flow(stdout, ", %d skipped (the kernel does not fit the device%s)", tally->skipped,
             tally->values->b_r || tally->values->b_c ? ", or these sizes the case" : "");
    flow(stdout, "; largest error %.0f %% of what is allowed", 100.0 * tally->share);
    if (tally->largest >= 0)
        flow(stdout, " (case %d: %s)", tally->largest, tally->largest_name);
    flow(stdout, "; %.1f s\n", seconds);
    if (tally->skipped)
        flow(stdout, "skipped first: %s\n", tally->first_skipped);
    flow(stdout, "device %s, driver %s, seed %" PRId64 "\n", device, tally->session->capabilities->driver_version,
         tally->values->seed);
    return STATUS_OK;
}

static int select_cases(const struct values *values, int count, struct selection *selection, struct failure *failure)
{
    int end = 0;
    *selection = (struct selection){.only = (int)values->only, .parts = 1};
    if (values->only >= count)
        return fail(failure, STATUS_USAGE, "--only %" PRId64 ": the cases are numbered 0 to %d", values->only,
                    count - 1);
    if (!values->part)
        return STATUS_OK;
    if (values->only >= 0)
        return fail(failure, STATUS_USAGE, "--only and --part: one of them");
    if (sscanf(values->part, "%9d/%9d%n", &selection->part, &selection->parts, &end) != 2 || values->part[end] ||
        selection->part < 1 || selection->part > selection->parts)
        return fail(failure, STATUS_USAGE, "--part '%s': it is K/N, with K from 1 to N, such as 2/8", values->part);
    selection->part--;
    return STATUS_OK;
}

static bool is_selected(const struct selection *selection, const struct verify_list *list, int index)
{
    return selection->only >= 0 ? index == selection->only
                                : list->items[index].kernel % selection->parts == selection->part;
}

static int count_selected(const struct selection *selection, const struct verify_list *list)
{
    int count = 0;
    for (int i = 0; i < list->count; i++)
        count += is_selected(selection, list, i);
    return count;
}

static int check_all(const struct values *values, const struct session *session, const struct verify_list *list,
                     struct failure *failure)
{
    if (list->failed)
        return fail(failure, STATUS_DEVICE, "no memory for the list of cases");
    if (!list->count)
        return fail(failure, STATUS_DEVICE, "--skeleton %s: it serves nothing on this device", values->skeleton);
    struct selection selection;
    int status = select_cases(values, list->count, &selection, failure);
    if (status)
        return status;
    const int count = count_selected(&selection, list);
    if (!count)
        return fail(failure, STATUS_USAGE, "--part %s: there are not so many kernels", values->part);
    struct tally tally = {
        .values = values, .session = session, .largest = -1, .failures = values->json ? json_array() : NULL};
    const double start = system_clock();
    progress_start(&tally.progress, count, values->quiet);
    for (int i = 0; i < list->count; i++)
        if (is_selected(&selection, list, i))
            check(&tally, &list->items[i], i);
    progress_clear(&tally.progress);
    status = print_outcome(&tally, system_clock() - start, failure);
    return status ? status : tally.failed ? STATUS_MISMATCH : STATUS_OK;
}

/* One case of a soak, and nothing else. */
static int check_one(const struct values *values, const struct session *session, struct failure *failure)
{
    struct verify_case item;
    verify_draw((uint64_t)values->case_seed, values->skeleton, &item);
    verify_leave_out(&item, soak_bits(&values->soak.without));
    const struct verify_list list = {.capabilities = session->capabilities, .items = &item, .count = 1};
    return check_all(values, session, &list, failure);
}

static int check_list(const struct values *values, const struct session *session, struct failure *failure)
{
    struct verify_list list;
    verify_list_create(&list, values->full, session->capabilities, values->skeleton, (uint64_t)values->seed);
    const int status = check_all(values, session, &list, failure);
    verify_list_destroy(&list);
    return status;
}

static int check_values(const struct values *values, struct failure *failure)
{
    const bool listed = values->quick || values->full || values->only >= 0 || values->part;
    const bool one = values->case_seed >= 0;
    const struct soak_values *soak = &values->soak;
    if (values->quick && values->full)
        return fail(failure, STATUS_USAGE, "--quick and --full: one of them");
    if ((listed || soak->seconds) && one)
        return fail(failure, STATUS_USAGE, "--case-seed is one case of a soak: it goes with no other selection");
    if (soak->seconds && (listed || values->knobs || values->b_r || values->b_c || values->work_group_size))
        return fail(failure, STATUS_USAGE,
                    "--soak takes random cases, planned: no other selection, --knobs or sizes go with it");
    if (!soak->seconds && (soak->file || soak->require.count || soak->cases || soak->per_program || soak->jobs ||
                           soak->running || soak->deadline || (soak->without.count && !one)))
        return fail(
            failure, STATUS_USAGE,
            "--soak-file, --require, --without, --cases, --per-program, --jobs, --running and --deadline go with "
            "--soak");
    return check_forced(values->skeleton, values->knobs, values->b_r, values->b_c, values->work_group_size, failure);
}

static int verify(struct values *values, struct session *session, struct failure *failure)
{
    const struct soak_request request = {.skeleton = values->skeleton,
                                         .seed = values->seed,
                                         .unordered = values->unordered,
                                         .quiet = values->quiet,
                                         .json = values->json};
    int status = check_any_skeleton(session->capabilities, values->skeleton, failure);
    if (status)
        return status;
    if (values->soak.seconds)
        return soak_start(&values->soak, &request, session, failure);
    if (values->seed < 0)
        values->seed = (int64_t)time(NULL);
    return values->case_seed >= 0 ? check_one(values, session, failure) : check_list(values, session, failure);
}

int verify_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.seed = -1, .only = -1, .case_seed = -1};
    if (argc == 2 && !strcmp(argv[1], "--worker")) /* started by this program: see verify/worker.h */
        return verify_worker_main();
    int status = options_parse(&verify_command, argc, argv, &values, failure);
    if (!status)
        status = check_values(&values, failure);
    if (status)
        return status;
    struct session session;
    status = session_open(&session, &values.device, values.quiet, failure);
    if (status)
        return status;
    status = verify(&values, &session, failure);
    session_close(&session);
    return status;
}
