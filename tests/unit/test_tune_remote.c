/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The process that measures, played by this program: it hangs, crashes, gives wrong numbers, fills memory and talks
 * nonsense, and the asking end must outlive it. And clinfo: missing, broken, slow to match. */
#define _GNU_SOURCE
#include "child.h"
#include "clinfo/fields.h"
#include "clinfo/run.h"
#include "support/unit.h"
#include "system/system.h"
#include "tune/ahead.h"
#include "tune/wire.h"
#include "tune/worker.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The address sanitizer ends programs in its own way. */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif
enum { MEMORY = 256 << 20 };

/* --- the other end */

static void say(json_t *answer)
{
    json_dumpf(answer, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(answer);
}

/* Takes memory until there is no more; what a driver does then is to fail or to crash. */
static void fill_memory(void)
{
    for (size_t bytes = 0; bytes < (size_t)16 << 30; bytes += 1 << 20) {
        char *block = malloc(1 << 20);
        if (!block)
            abort();
        memset(block, 1, 1 << 20);
    }
}

static void befall(const char *how)
{
    if (!strcmp(how, "hang"))
        pause();
    else if (!strcmp(how, "spin"))
        for (volatile int i = 0;; i = !i) {
        }
    else if (!strcmp(how, "crash"))
        raise(SIGSEGV);
    else if (!strcmp(how, "exit"))
        exit(3);
    else if (!strcmp(how, "fill"))
        fill_memory();
    else if (!strcmp(how, "nonsense"))
        puts("{\"state\": ");
    else if (!strcmp(how, "endless"))
        for (;;)
            fputs("words without end, and no line feed that would make an answer of them, ", stdout);
    else if (!strcmp(how, "orphan") && !fork())
        pause(); /* a compiler that the driver started, which holds the pipe open */
}

static void measure(const json_t *request)
{
    struct tune_problem problem;
    struct tune_candidate candidate, base;
    struct tune_request asked;
    struct tune_measured measured = {.state = CLATTN_TUNING_OK};
    if (!wire_read_measure(request, &problem, &candidate, &base, &asked))
        exit(9);
    befall(candidate.skeleton);
    if (!strcmp(candidate.skeleton, "wrong")) {
        measured.state = CLATTN_TUNING_WRONG;
        strcpy(measured.text, "o: error 1 where 0.001 is allowed");
    } else if (!strcmp(candidate.skeleton, "broken")) {
        measured.state = CLATTN_TUNING_INFEASIBLE;
        measured.broken = true;
    } else if (!strcmp(candidate.skeleton, "no buffers")) {
        say(wire_error("Q: a buffer of 1 byte: CL_OUT_OF_RESOURCES"));
        return;
    } else {
        for (; measured.runs < asked.runs; measured.runs++) {
            measured.ms[measured.runs] = candidate.b_r + asked.limit;
            measured.base_ms[measured.runs] = asked.paired ? base.b_r : -1;
        }
        snprintf(measured.text, sizeof measured.text, "%s %d %d %d", candidate.knobs, problem.d, (int)problem.causal,
                 (int)asked.first);
    }
    say(wire_measured(&measured));
}

/* A file is left where a program would be. */
static void build(const json_t *request)
{
    struct tune_problem problem;
    struct tune_candidate candidate, base;
    struct tune_request asked;
    if (!wire_read_measure(request, &problem, &candidate, &base, &asked) || problem.d != 64)
        exit(9);
    befall(candidate.skeleton);
    FILE *file = fopen(candidate.knobs, "w");
    if (!file || fclose(file))
        exit(9);
    say(json_pack("{s:b}", "built", true));
}

static int play_worker(void)
{
    char *line = NULL;
    size_t capacity = 0;
    struct clattn_capabilities capabilities = {.platform_name = "P", .device_name = "D", .local_memory_bytes = 4711};
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        const char *operation = json_string_value(json_object_get(request, "op"));
        if (!operation)
            exit(9);
        if (!strcmp(operation, "open") &&
            !system_limit_memory((uint64_t)json_integer_value(json_object_get(request, "memory"))))
            say(wire_error("no limit"));
        else if (!strcmp(operation, "open"))
            say(json_pack("{s:i, s:i, s:o}", "platform", 1, "device", 2, "capabilities",
                          wire_capabilities(&capabilities)));
        else if (!strcmp(operation, "devices"))
            say(json_pack("{s:[{s:i, s:i, s:o}]}", "devices", "platform", 1, "device", 2, "capabilities",
                          wire_capabilities(&capabilities)));
        else if (!strcmp(operation, "build"))
            build(request);
        else
            measure(request);
        json_decref(request);
    }
    free(line);
    return 0;
}

/* --- this end */

/* Whether the system keeps a process to its address space; an emulator such as qemu-user takes the limit and lets it go
 * on. Not asked by system_limit_memory(), which is tested. */
static bool memory_is_limited(void)
{
    const struct rlimit limit = {MEMORY, MEMORY};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(setrlimit(RLIMIT_AS, &limit) == 0 && !malloc((size_t)2 * MEMORY) ? 0 : 1);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

/* Whether a worker that fills its memory comes to an end that is known here. */
static bool may_fill(void)
{
    if (SANITIZED)
        return false;
    const bool limited = memory_is_limited();
    if (!limited)
        print_message("memory is not limited here: without what fills it\n");
    return limited;
}

/* Whether what a worker leaves behind becomes a child of this process. qemu-user does not pass that on. */
static bool adopts;

static volatile sig_atomic_t stop;
static const struct tune_problem problem = {
    .d = 64, .d_v = 64, .causal = true, .batch = 1, .heads = 2, .n_q = 9, .n_kv = 8};

static struct tune_answer ask(struct tune_remote *remote, const char *how, double seconds, double deadline, char *text)
{
    struct tune_candidate candidate = {.b_r = 32, .b_c = 16, .work_group_size = 1, .knobs = "a=1"};
    const struct tune_candidate base = {.skeleton = "base", .b_r = 11};
    struct tune_answer answer;
    struct failure failure = {.text = ""};
    char room[160];
    snprintf(candidate.skeleton, sizeof candidate.skeleton, "%s", how);
    const struct tune_request request = {
        .first = true, .runs = 3, .paired = !strcmp(how, "paired"), .limit = 0.5, .seconds = seconds};
    if (tune_remote_measure(remote, &problem, &candidate, &base, &request, deadline, &answer, text ? text : room,
                            sizeof room, &failure))
        fail_msg("%s", failure.text);
    return answer;
}

static void a_good_worker_is_heard(void **state)
{
    (void)state;
    struct tune_remote remote = {.memory_bytes = MEMORY, .stop = &stop};
    struct clattn_capabilities capabilities;
    struct clinfo_devices devices;
    struct failure failure;
    char text[160];
    assert_int_equal(tune_remote_devices(&remote, &devices, &failure), STATUS_OK);
    assert_int_equal(devices.count, 1);
    assert_int_equal(devices.items[0].capabilities.local_memory_bytes, 4711);
    clinfo_free(&devices);
    assert_int_equal(tune_remote_open(&remote, &capabilities, &failure), STATUS_OK);
    assert_string_equal(capabilities.device_name, "D");
    assert_true(remote.device.platform == 1 && remote.device.device == 2);
    const intptr_t first = remote.child.process.id;
    struct tune_answer answer = ask(&remote, "good", 10, 10, text);
    assert_true(answer.state == CLATTN_TUNING_OK && answer.runs == 3 && answer.ms[2] == 32.5 && !answer.given_up);
    assert_string_equal(text, "a=1 64 1 1");
    assert_true(answer.base_ms[2] == -1);
    answer = ask(&remote, "paired", 10, 10, text);
    assert_true(answer.ms[2] == 32.5 && answer.base_ms[2] == 11);
    answer = ask(&remote, "wrong", 10, 10, text);
    assert_int_equal(answer.state, CLATTN_TUNING_WRONG);
    assert_non_null(strstr(text, "is allowed"));
    assert_int_equal(remote.child.process.id, first);
    answer = ask(&remote, "broken", 10, 10, text); /* its context may be lost: the next has a new process */
    assert_int_equal(answer.state, CLATTN_TUNING_INFEASIBLE);
    assert_int_equal(ask(&remote, "good", 10, 10, NULL).runs, 3);
    assert_int_not_equal(remote.child.process.id, first);
    tune_remote_close(&remote);
    tune_remote_close(&remote);
}

static void a_bad_worker_is_outlived(void **state)
{
    (void)state;
    static const struct {
        const char *how;
        enum clattn_tuning_state state;
        const char *text;
    } cases[] = {{"hang", CLATTN_TUNING_TIMEOUT, "took more than"}, {"spin", CLATTN_TUNING_TIMEOUT, "took more than"},
                 {"crash", CLATTN_TUNING_INFEASIBLE, "signal 11"},  {"exit", CLATTN_TUNING_INFEASIBLE, "exit status 3"},
                 {"fill", CLATTN_TUNING_INFEASIBLE, "signal 6"},    {"nonsense", CLATTN_TUNING_INFEASIBLE, ""},
                 {"endless", CLATTN_TUNING_INFEASIBLE, ""}};
    struct tune_remote remote = {.memory_bytes = MEMORY, .stop = &stop};
    const bool fills = may_fill();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        const bool endless = !strcmp(cases[i].how, "endless");
        if (!fills && !strcmp(cases[i].how, "fill"))
            continue;
        const double seconds = cases[i].state == CLATTN_TUNING_TIMEOUT ? 0.3 : 20, start = system_clock();
        const struct tune_answer answer = ask(&remote, cases[i].how, seconds, seconds, text);
        if (answer.given_up || answer.state != cases[i].state || (!SANITIZED && !strstr(text, cases[i].text)))
            fail_msg("%s: state %d, %s", cases[i].how, (int)answer.state, text);
        assert_int_equal(remote.child.process.id, 0);
        assert_true(endless || system_clock() - start < seconds + 5);
        assert_int_equal(ask(&remote, "good", 10, 10, NULL).runs, 3);
    }
    /* What the worker started goes with it. */
    assert_int_equal(ask(&remote, "orphan", 10, 10, NULL).runs, 3);
    const pid_t group = (pid_t)remote.child.process.id;
    tune_remote_close(&remote);
    if (!adopts) { /* the system's first process has it */
        const double start = system_clock();
        while (kill(-group, 0) == 0 && system_clock() - start < 5)
            usleep(5000);
        assert_true(kill(-group, 0) && errno == ESRCH);
        return;
    }
    int ended;
    assert_true(waitpid(-group, &ended, 0) > 0); /* it has come to us: see main() */
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
}

static void what_no_candidate_can_help_is_a_failure(void **state)
{
    (void)state;
    struct tune_remote remote = {.memory_bytes = MEMORY, .stop = &stop};
    struct tune_candidate candidate = {.skeleton = "no buffers"};
    const struct tune_request request = {.runs = 1, .seconds = 10};
    struct tune_answer answer;
    struct failure failure = {.text = ""};
    char text[64];
    assert_int_equal(
        tune_remote_measure(&remote, &problem, &candidate, NULL, &request, 10, &answer, text, sizeof text, &failure),
        STATUS_DEVICE);
    assert_non_null(strstr(failure.text, "CL_OUT_OF_RESOURCES"));
    tune_remote_close(&remote);
}

static void raise_stop(int number)
{
    (void)number;
    stop = 1;
}

static void time_and_the_user_end_it_without_blame(void **state)
{
    (void)state;
    struct tune_remote remote = {.memory_bytes = MEMORY, .stop = &stop};
    assert_true(ask(&remote, "hang", 0.2, 10, NULL).given_up); /* the budget's end, not its deadline */
    assert_int_equal(ask(&remote, "good", 10, 10, NULL).runs, 3);
    signal(SIGALRM, raise_stop);
    alarm(1);
    const double start = system_clock();
    assert_true(ask(&remote, "hang", 30, 30, NULL).given_up);
    assert_true(system_clock() - start < 5);
    stop = 0;
    tune_remote_close(&remote);
}

/* --- programs ahead of time */

static char built[] = "/tmp/clattn-test-built-XXXXXX";

static bool ask_ahead(struct tune_ahead *ahead, const char *how)
{
    const struct tune_remote remote = {.memory_bytes = MEMORY};
    struct tune_candidate candidate = {.b_r = 32, .b_c = 16, .work_group_size = 1};
    snprintf(candidate.skeleton, sizeof candidate.skeleton, "%s", how);
    snprintf(candidate.knobs, sizeof candidate.knobs, "%s", built);
    return tune_ahead_build(ahead, &remote, &problem, &candidate);
}

/* As soon as one has nothing to do, and within so many seconds. */
static bool ask_ahead_within(struct tune_ahead *ahead, const char *how, double seconds)
{
    for (const double start = system_clock(); system_clock() - start < seconds; usleep(5000))
        if (ask_ahead(ahead, how))
            return true;
    return false;
}

static bool is_built_within(double seconds)
{
    for (const double start = system_clock(); system_clock() - start < seconds; usleep(5000))
        if (!unlink(built))
            return true;
    return false;
}

static void programs_are_made_ahead_by_processes_that_may_die(void **state)
{
    (void)state;
    static struct tune_ahead ahead = {.count = 2, .deadline = 60}, none;
    const int file = mkstemp(built);
    const bool fills = may_fill();
    assert_true(file >= 0 && !close(file) && !unlink(built));
    assert_false(ask_ahead(&none, "good"));
    assert_true(ask_ahead(&ahead, "hang"));
    assert_true(ask_ahead(&ahead, "good"));
    assert_true(is_built_within(20));
    const intptr_t good = ahead.builders[1].child.process.id;
    assert_true(ask_ahead_within(&ahead, "hang", 20)); /* the good one, which is the only one with nothing to do */
    assert_true(good && ahead.builders[1].child.process.id == good);
    assert_false(ask_ahead(&ahead, "good"));
    ahead.deadline = 0; /* both have taken too long now, and are replaced */
    assert_true(ask_ahead_within(&ahead, "good", 20));
    assert_true(is_built_within(20));
    ahead.deadline = 60;
    static const char *const ends[] = {"crash", "exit", "fill", "nonsense", "crash", "crash"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (fills || strcmp(ends[i], "fill") != 0)
            assert_true(ask_ahead_within(&ahead, ends[i], 20));
    ahead.deadline = 0;
    assert_true(ask_ahead_within(&ahead, "good", 20));
    assert_true(is_built_within(20));
    tune_ahead_close(&ahead);
    tune_ahead_close(&ahead);
    assert_int_equal(ahead.builders[0].child.process.id, 0);
    assert_int_equal(tune_ahead_default(true), 0);
}

/* --- clinfo */

static char directory[] = "/tmp/clattn-test-clinfo-XXXXXX";

static const char *script(const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/clinfo", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static void clinfo_is_run_or_its_want_reported(void **state)
{
    (void)state;
    static const char good[] =
        "echo 'a driver talks'; echo '{\"platforms\": [{\"CL_PLATFORM_NAME\": \"P\"}], \"devices\": "
        "[{\"online\": [{\"CL_DEVICE_NAME\": \"D\"}]}]}'";
    static const char raw[] =
        "[ $1 = --raw ] || exit 1\necho '  CL_PLATFORM_NAME  P'; echo '[P/*] CL_PLATFORM_NAME P'; "
        "echo '[P/0] CL_DEVICE_NAME  D'";
    struct clinfo_devices devices;
    struct failure failure = {.text = ""};
    assert_non_null(mkdtemp(directory));
    assert_int_equal(clinfo_run(script(good), &devices, &failure), STATUS_OK);
    assert_string_equal(devices.items[0].capabilities.device_name, "D");
    clinfo_free(&devices);
    assert_int_equal(clinfo_run(script(raw), &devices, &failure), STATUS_OK);
    assert_string_equal(devices.items[0].capabilities.platform_name, "P");
    clinfo_free(&devices);
    assert_int_equal(clinfo_run("/nowhere/clinfo", &devices, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "cannot be run"));
    assert_int_equal(clinfo_run(script("kill -SEGV $$"), &devices, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "signal 11"));
    assert_int_equal(clinfo_run(script("echo '{\"platforms\": ['"), &devices, &failure), STATUS_FILE);
    assert_int_equal(clinfo_run(script("echo '{}'; exit 0"), &devices, &failure), STATUS_FILE);
    assert_int_equal(clinfo_run(script("exit 0"), &devices, &failure), STATUS_FILE);
    assert_null(devices.items);
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
}

static void add(struct clinfo_devices *devices, const char *platform, const char *name, const char *driver,
                uint32_t vendor)
{
    struct clinfo_device *device = clinfo_append(devices, 0, devices->count);
    assert_non_null(device);
    strcpy(device->capabilities.platform_name, platform);
    strcpy(device->capabilities.device_name, name);
    strcpy(device->capabilities.driver_version, driver);
    device->capabilities.vendor_id = vendor;
}

static void devices_are_matched_by_what_they_are(void **state)
{
    (void)state;
    struct clinfo_devices here = {.items = NULL}, dump = {.items = NULL}, none = {.items = NULL};
    char text[128];
    add(&here, "P", "cpu", "1", 1);
    add(&here, "N", "gpu", "580", 0x10de);
    add(&here, "N", "gpu", "580", 0x10de);
    add(&dump, "N", "gpu", "580", 0x10de); /* platforms in another order */
    add(&dump, "N", "gpu", "580", 0);
    add(&dump, "P", "cpu", "2", 1); /* of another driver */
    add(&dump, "Q", "gpu", "580", 0x10de);
    assert_int_equal(clinfo_match(&here, &dump, 0), 1);
    assert_int_equal(clinfo_match(&here, &dump, 1), 2); /* the second of two that are alike */
    assert_int_equal(clinfo_match(&here, &dump, 2), -1);
    assert_int_equal(clinfo_match(&here, &dump, 3), -1);
    assert_int_equal(clinfo_match(&dump, &here, 2), 1);
    assert_int_equal(clinfo_match(&none, &here, 0), -1);
    clinfo_differences(&here.items[0].capabilities, &dump.items[0].capabilities, text, sizeof text);
    assert_string_equal(text, "");
    dump.items[0].capabilities.local_memory_bytes = 1;
    dump.items[0].capabilities.compute_units = 3;
    clinfo_differences(&here.items[0].capabilities, &dump.items[0].capabilities, text, sizeof text);
    assert_string_equal(text, "local memory, compute units");
    clinfo_free(&here);
    clinfo_free(&dump);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "tune") && !strcmp(argv[2], "--worker"))
        return play_worker();
    adopts = !prctl(PR_SET_CHILD_SUBREAPER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_worker_is_heard),
        cmocka_unit_test(a_bad_worker_is_outlived),
        cmocka_unit_test(what_no_candidate_can_help_is_a_failure),
        cmocka_unit_test(time_and_the_user_end_it_without_blame),
        cmocka_unit_test(programs_are_made_ahead_by_processes_that_may_die),
        cmocka_unit_test(clinfo_is_run_or_its_want_reported),
        cmocka_unit_test(devices_are_matched_by_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
