/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A soak whose processes are played by this program: they give wrong answers, hang, crash and talk nonsense at cases
 * that are known, and the soak must find each of them, write it down, and go on; and again behind a run that was cut
 * short. */
#define _GNU_SOURCE
#include "child.h"
#include "system/system.h"
#include "verify/draw.h"
#include "verify/soak.h"

#include "support/unit.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the other end */

/* What befalls the second case of each program, by the last digit of its number; the first is as it should be. */
enum { FINE, WRONG, HANGS, HANGS_IN_BUILD, CRASHES, CRASHES_IN_BUILD, FAILS, REFUSES, RAVES, ORPHANS, FATES };

static const enum soak_outcome outcomes[FATES] = {
    [WRONG] = SOAK_WRONG,   [HANGS] = SOAK_HANG,      [HANGS_IN_BUILD] = SOAK_HANG, [CRASHES] = SOAK_CRASH,
    [FAILS] = SOAK_ERROR,   [REFUSES] = SOAK_REFUSED, [RAVES] = SOAK_CRASH,         [CRASHES_IN_BUILD] = SOAK_CRASH,
    [ORPHANS] = SOAK_CRASH, [FINE] = SOAK_OK};

static int fate_of(uint64_t seed)
{
    return seed % VERIFY_PER_PROGRAM == 1 ? (int)(seed / VERIFY_PER_PROGRAM % FATES) : FINE;
}

static void say(json_t *answer)
{
    json_dumpf(answer, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(answer);
}

static void befall(int fate)
{
    if (fate == HANGS)
        pause();
    if (fate == HANGS_IN_BUILD)
        for (volatile int i = 0;; i = !i) {
        }
    if (fate == CRASHES)
        raise(SIGABRT); /* which sanitizers leave alone */
    if (fate == CRASHES_IN_BUILD)
        exit(3);
    if (fate == RAVES)
        puts("{\"outcome\": ");
    if (fate == ORPHANS) {
        if (!fork())
            pause(); /* a compiler that the driver started, which holds the pipe open */
        raise(SIGKILL);
    }
    fflush(stdout);
}

/* The only request that may follow a case that is built. */
static void hear_run(void)
{
    char *line = NULL;
    size_t capacity = 0;
    json_t *request = getline(&line, &capacity, stdin) > 0 ? json_loads(line, 0, NULL) : NULL;
    const char *operation = json_string_value(json_object_get(request, "op"));
    if (!operation || strcmp(operation, "run") != 0)
        exit(9);
    json_decref(request);
    free(line);
}

static void play_case(const json_t *request)
{
    const char *skeleton = NULL;
    json_int_t seed = 0;
    int unordered = 0;
    char key[40], text[64];
    if (json_unpack((json_t *)request, "{s:I, s:s, s:b}", "seed", &seed, "skeleton", &skeleton, "unordered",
                    &unordered))
        exit(9);
    const int fate = fate_of((uint64_t)seed);
    if (fate == HANGS_IN_BUILD || fate == CRASHES_IN_BUILD)
        befall(fate);
    snprintf(key, sizeof key, "%.16s %d %d", skeleton, unordered, (int)(seed / VERIFY_PER_PROGRAM % 1000));
    snprintf(text, sizeof text, "fate %d", fate);
    if (fate != REFUSES) {
        say(json_pack("{s:b}", "built", true));
        hear_run();
    }
    befall(fate);
    if (fate != RAVES)
        say(json_pack("{s:s, s:s, s:f, s:s}", "outcome", soak_outcome_name(outcomes[fate]), "text", text, "share",
                      fate == WRONG ? 1.5 : 0.25, "program", key));
}

static int play_worker(void)
{
    const char *opening = getenv("TEST_OPENING"); /* how it goes */
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        const char *operation = json_string_value(json_object_get(request, "op"));
        if (!operation)
            exit(9);
        if (!strcmp(operation, "case"))
            play_case(request);
        else if (opening && !strcmp(opening, "dies"))
            raise(SIGKILL);
        else if (opening)
            say(json_pack("{s:s}", "error", opening));
        else
            say(json_pack("{s:b}", "opened", json_integer_value(json_object_get(request, "device")) == 2));
        json_decref(request);
    }
    free(line);
    return 0;
}

/* --- this end */

static volatile sig_atomic_t stop;
static char path[] = "/tmp/clattn-test-soak-XXXXXX";

static void kernels(const void *user, const char *skeleton, char hex[40])
{
    snprintf(hex, 40, "%s of %.30s", (const char *)user, skeleton);
}

static struct soak begin(void)
{
    return (struct soak){.device = {.given = true, .platform = 1, .device = 2},
                         .identity = {"D (P)", "1.0", "0.1.0", kernels, "kernels"},
                         .skeletons = {"forward_cpu"},
                         .skeleton_count = 1,
                         .seed = 7,
                         .seconds = 60,
                         .cases = 2 * FATES,
                         .jobs = 1,
                         .per_program = 2,
                         .deadline = 1,
                         .file = path,
                         .quiet = true,
                         .json = true,
                         .stop = &stop};
}

/* Runs it, and reads its report. NULL: it printed none. */
static json_t *run(struct soak *soak, int expected, struct failure *failure)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    assert_true(before >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    failure->text[0] = '\0';
    const int status = soak_run(soak, failure);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    if (status != expected)
        fail_msg("status %d, not %d: %s", status, expected, failure->text);
    rewind(file);
    json_t *report = json_loadf(file, 0, NULL);
    fclose(file);
    return report;
}

static int number(const json_t *report, const char *name)
{
    return (int)json_integer_value(json_object_get(json_object_get(report, "all"), name));
}

static void read_log(struct soak_log *log, const struct soak *soak)
{
    struct failure failure = {.text = ""};
    int64_t seed = -1;
    if (soak_log_open(log, path, &soak->identity, &seed, &failure))
        fail_msg("%s", failure.text);
    assert_int_equal(seed, 7);
    assert_int_equal(log->earlier, log->count);
}

/* Every case is there once, with what befell it; with one process at a time none is left out. */
static void check_log(const struct soak *soak, int cases)
{
    struct soak_log log;
    read_log(&log, soak);
    assert_int_equal(log.count, cases);
    for (int i = 0; i < log.count; i++) {
        const struct soak_record *record = &log.records[i];
        const uint64_t first = (uint64_t)7 * 10000000 * VERIFY_PER_PROGRAM;
        const uint64_t expected = first + (uint64_t)(i / 2 * VERIFY_PER_PROGRAM + i % 2);
        assert_true(record->seed >= expected && (!i || record->seed > log.records[i - 1].seed));
        assert_true(soak->jobs > 1 || record->seed == expected);
        assert_int_equal(record->outcome, outcomes[fate_of(record->seed)]);
        assert_true(verify_count_features(record->traits) >= 3);
        assert_int_equal(!record->text, record->outcome == SOAK_OK);
        if (record->outcome == SOAK_HANG)
            assert_non_null(strstr(record->text, "it was still being "));
    }
    soak_log_close(&log);
}

static const char *reason_of(const json_t *report, const char *outcome, const char *part)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(report, "failures"), i, row)
    {
        const char *reason = json_string_value(json_object_get(row, "reason"));
        if (!strcmp(json_string_value(json_object_get(row, "outcome")), outcome) && strstr(reason, part))
            return json_string_value(json_object_get(row, "reproduce"));
    }
    fail_msg("no %s with '%s'", outcome, part);
    return NULL;
}

static void every_fault_is_found_and_named(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    json_t *report = run(&soak, STATUS_MISMATCH, &failure);
    assert_int_equal(number(report, "ok"), FATES + 1);
    assert_int_equal(number(report, "wrong"), 1);
    assert_int_equal(number(report, "hang"), 2);
    assert_int_equal(number(report, "crash"), 4);
    assert_int_equal(number(report, "error"), 1);
    assert_int_equal(number(report, "refused"), 1);
    assert_int_equal(number(report, "cases"), 2 * FATES - 1);
    assert_int_equal(number(report, "programs"), FATES);
    assert_string_equal(reason_of(report, "wrong", "fate 1"),
                        "clattn verify --device 1:2 --skeleton forward_cpu --case-seed 700000011");
    reason_of(report, "hang", "being run");
    reason_of(report, "hang", "being built");
    reason_of(report, "crash", "signal 6");
    reason_of(report, "crash", "exit status 3, building it");
    reason_of(report, "crash", "nonsense");
    reason_of(report, "crash", "signal 9");
    reason_of(report, "error", "fate 6");
    json_decref(report);
    check_log(&soak, 2 * FATES);
}

/* As a process that is killed leaves it: the last line is not whole, and one of a program's cases is missing. */
static void another_run_goes_on_where_one_was_cut(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    soak.cases = 6;
    soak.seed = -1;
    json_t *report = run(&soak, STATUS_MISMATCH, &failure);
    assert_int_equal(json_integer_value(json_object_get(report, "new")), 6);
    assert_int_equal(soak.seed, 7);
    json_decref(report);
    check_log(&soak, 2 * FATES + 6);

    FILE *file = fopen(path, "r+");
    char *line = NULL;
    size_t capacity = 0;
    long end = 0, last = 0;
    while (getline(&line, &capacity, file) > 0) {
        last = end;
        end = ftell(file);
    }
    free(line);
    assert_int_equal(ftruncate(fileno(file), last + 20), 0);
    fclose(file);
    soak.cases = 1;
    json_decref(run(&soak, STATUS_MISMATCH, &failure));
    check_log(&soak, 2 * FATES + 6);
}

static void a_parent_that_is_killed_loses_a_line_at_most(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    soak.jobs = 3;
    fflush(stdout);
    const pid_t pid = fork();
    if (!pid) {
        soak.cases = 0;
        _exit(soak_run(&soak, &failure));
    }
    usleep(1000 * 1000);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct soak_log log;
    read_log(&log, &soak);
    const int before = log.count;
    soak_log_close(&log);
    assert_true(before > 2 * FATES + 6);
    soak.cases = 10; /* those that were under way are done again, and none of the others */
    json_t *report = run(&soak, STATUS_MISMATCH, &failure);
    assert_int_equal(json_integer_value(json_object_get(report, "new")), 10);
    json_decref(report);
    check_log(&soak, before + 10);
}

static void refuses_files_of_other_runs(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    soak.identity.driver = "1.1";
    assert_null(run(&soak, STATUS_FILE, &failure));
    assert_non_null(strstr(failure.text, "driver 1.0"));
    soak = begin();
    soak.identity.user = "other kernels";
    assert_null(run(&soak, STATUS_FILE, &failure));
    assert_non_null(strstr(failure.text, "had other kernels of forward_cpu"));
    soak = begin();
    const int other = open(path, O_RDONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_null(run(&soak, STATUS_FILE, &failure));
    assert_non_null(strstr(failure.text, "another soak is writing it"));
    close(other);
    static const char *const texts[] = {"{\"a\":1}\n", "nonsense", "nonsense\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");
        fputs(texts[i], file);
        fclose(file);
        assert_null(run(&soak, STATUS_FILE, &failure));
        char text[64] = "";
        file = fopen(path, "r"); /* is left as it was */
        assert_true(fread(text, 1, sizeof text - 1, file) == strlen(texts[i]) && !strcmp(text, texts[i]));
        fclose(file);
    }
    soak.file = "/nowhere/at/all";
    assert_null(run(&soak, STATUS_FILE, &failure));
}

static void time_signals_and_wishes_end_it(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    soak.file = NULL;
    soak.cases = 0;
    soak.seconds = 0.3;
    double start = system_clock();
    json_decref(run(&soak, STATUS_MISMATCH, &failure));
    assert_true(system_clock() - start < 20);
    stop = 1;
    soak.seconds = 600;
    start = system_clock();
    json_decref(run(&soak, STATUS_USAGE, &failure)); /* nothing was done */
    assert_true(system_clock() - start < 20);
    stop = 0;
    soak.require = VERIFY_ORDERED; /* of a forward pass */
    json_decref(run(&soak, STATUS_USAGE, &failure));
    assert_non_null(strstr(failure.text, "--require"));
}

static void wishes_are_granted(void **state)
{
    (void)state;
    struct soak soak = begin();
    struct failure failure;
    soak.file = NULL;
    soak.jobs = 4;
    soak.skeletons[0] = "backward_hopper";
    soak.skeletons[1] = "forward_hopper";
    soak.skeleton_count = 2;
    soak.cases = 12;
    soak.require = CLATTN_WINDOW | CLATTN_BLOCK_MASK | VERIFY_ORDERED;
    soak.without = CLATTN_VARLEN;
    json_t *report = run(&soak, STATUS_MISMATCH, &failure);
    const int cases = number(report, "cases");
    assert_int_equal(number(report, "in_order_with_block_mask_and_window"), cases);
    assert_true(cases >= 10 && json_array_size(json_object_get(report, "skeletons")) == 1);
    json_decref(report);
    soak.require = VERIFY_UNORDERED;
    soak.without = 0;
    soak.unordered = true;
    report = run(&soak, STATUS_MISMATCH, &failure);
    assert_int_equal(number(report, "in_order_with_block_mask_and_window"), 0);
    /* Which of the faults the last cases meet depends on which worker is the first. */
    const json_t *failures = json_object_get(report, "failures");
    assert_true(json_array_size(failures) > 0);
    for (size_t i = 0; i < json_array_size(failures); i++)
        assert_non_null(strstr(json_string_value(json_object_get(json_array_get(failures, i), "reproduce")),
                               " --unordered --case-seed "));
    json_decref(report);
}

static void a_device_that_does_not_open_is_no_cases_fault(void **state)
{
    (void)state;
    static const char *const openings[] = {"no such device", "dies"};
    struct soak soak = begin();
    struct failure failure;
    soak.file = NULL;
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        setenv("TEST_OPENING", openings[i], 1);
        json_t *report = run(&soak, STATUS_DEVICE, &failure);
        assert_non_null(strstr(failure.text, i ? "signal 9" : "no such device"));
        assert_int_equal(number(report, "cases"), 0);
        json_decref(report);
    }
    unsetenv("TEST_OPENING");
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "verify") && !strcmp(argv[2], "--worker"))
        return play_worker();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a worker leaves behind is ours */
    const int file = mkstemp(path);
    if (file < 0 || close(file))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_found_and_named),
        cmocka_unit_test(another_run_goes_on_where_one_was_cut),
        cmocka_unit_test(a_parent_that_is_killed_loses_a_line_at_most),
        cmocka_unit_test(refuses_files_of_other_runs),
        cmocka_unit_test(time_signals_and_wishes_end_it),
        cmocka_unit_test(wishes_are_granted),
        cmocka_unit_test(a_device_that_does_not_open_is_no_cases_fault),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
