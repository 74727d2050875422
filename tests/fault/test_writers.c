/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The writers of the cache and of tuning files: each call on files fails in each way, and the process is killed before
 * each. A reader afterwards finds the old file or the new one, whole. What is left behind of a writer that lives is
 * nothing: no second name, no descriptor.
 *
 * A writer that is wrong on purpose, which writes in place, shows that this is seen. */
#define _GNU_SOURCE /* mkdtemp, fork */
#include "device/binary_cache.h"
#include "fault/host_calls.h"
#include "support/unit.h"
#include <clattn/tuning.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CALLS = 200, OLD = 1, NEW = 2, BYTES = 3000 };

static char directory[] = "/tmp/clattn-test-writers-XXXXXX", path[64];

/* How a kind of file is written and read. Numbers tell contents apart. */
struct writer {
    const char *name;
    bool (*write)(int content);
    int (*read)(void); /* the content; 0: none that is whole */
};

static bool write_cache(int content)
{
    char payload[BYTES];
    memset(payload, content, sizeof payload);
    return cla_binary_cache_store(directory, "identity", payload, sizeof payload);
}

static int read_cache(void)
{
    void *payload = NULL;
    size_t size = 0;
    if (!cla_binary_cache_load(directory, "identity", &payload, &size))
        return 0;
    const char *bytes = payload;
    int content = size == BYTES ? bytes[0] : 0;
    for (size_t i = 0; i < size; i++)
        content = bytes[i] == content ? content : 0;
    free(payload);
    return content;
}

static bool write_tuning(int content)
{
    struct clattn_tuning_record record = {.device = "P / D",
                                          .driver = "1",
                                          .kernels = "*",
                                          .d = 64,
                                          .d_v = 64,
                                          .skeleton = "forward_cpu",
                                          .b_r = 4,
                                          .b_c = 64,
                                          .work_group_size = 1,
                                          .ms = content};
    clattn_tuning *tuning = NULL;
    const bool done =
        !clattn_tuning_create(&tuning) && !clattn_tuning_add(tuning, &record) && !clattn_tuning_save(tuning, path);
    clattn_tuning_destroy(&tuning);
    return done;
}

static int read_tuning(void)
{
    struct clattn_tuning_record record;
    clattn_tuning *tuning = NULL;
    int content = 0;
    if (!clattn_tuning_load(&tuning, path) && clattn_tuning_count(tuning) == 1 &&
        !clattn_tuning_get(tuning, 0, &record))
        content = (int)record.ms;
    clattn_tuning_destroy(&tuning);
    return content;
}

/* Wrong: the old file is gone before the new one is whole. */
static bool write_in_place(int content)
{
    char payload[BYTES];
    memset(payload, content, sizeof payload);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    const bool done = write(file, payload, BYTES / 2) == BYTES / 2 && write(file, payload, BYTES / 2) == BYTES / 2;
    return close(file) == 0 && done;
}

static int read_in_place(void)
{
    char payload[BYTES + 1];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? -1 : read(file, payload, sizeof payload);
    if (file >= 0)
        close(file);
    return size == BYTES && payload[0] == payload[BYTES - 1] ? payload[0] : 0;
}

static const struct writer cache = {"cache", write_cache, read_cache},
                           tuning_file = {"tuning file", write_tuning, read_tuning},
                           in_place = {"in place", write_in_place, read_in_place};

static int entries(const char *folder)
{
    DIR *list = opendir(folder);
    int count = 0;
    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

static void clear(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", directory);
    assert_int_equal(system(command), 0);
}

/* The number of faults in which it found something wrong. */
static int complain(const struct writer *writer, long nth, int code, const char *what)
{
    if (writer != &in_place)
        print_error("%s, call %ld (%s), failure %d: %s\n", writer->name, nth, host_files.victim(), code, what);
    return 1;
}

static int judge(const struct writer *writer, long nth, int code, bool done)
{
    const int content = writer->read();
    if (content != OLD && content != NEW)
        return complain(writer, nth, code, "neither the old file nor the new one is there");
    return done && content != NEW ? complain(writer, nth, code, "says that it is written, and it is not") : 0;
}

/* Each failure of each call on files. */
static int fail_each(const struct writer *writer, bool sticky, long *faults)
{
    int wrong = 0, codes = 1;
    for (long nth = 1; nth < MOST_CALLS; nth++)
        for (int code = 1; code <= codes; code++) {
            clear();
            assert_true(writer->write(OLD));
            const int names = entries(directory), open_files = entries("/proc/self/fd");
            host_files.arm(nth, sticky, -code);
            const bool done = writer->write(NEW);
            host_files.pause();
            if (!host_files.injected())
                return wrong;
            codes = host_file_codes(host_files.victim());
            ++*faults;
            wrong += judge(writer, nth, code, done);
            if (entries("/proc/self/fd") != open_files)
                wrong += complain(writer, nth, code, "leaves a descriptor open");
            /* Where unlink() is what fails, a second name has to stay. */
            if (entries(directory) != names && !sticky && strncmp(host_files.victim(), "unlink", 6) != 0)
                wrong += complain(writer, nth, code, "leaves a file behind");
            if (!writer->write(NEW) || writer->read() != NEW)
                wrong += complain(writer, nth, code, "afterwards nothing can be written");
        }
    return wrong + 1;
}

/* kill -9 before each call. */
static int kill_each(const struct writer *writer, long *faults)
{
    int wrong = 0, status = 0;
    for (long nth = 1; nth < MOST_CALLS; nth++) {
        clear();
        assert_true(writer->write(OLD));
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            host_files.arm(nth, false, FILE_KILL);
            _exit(writer->write(NEW) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status))
            return wrong + WEXITSTATUS(status);
        ++*faults;
        wrong += judge(writer, nth, FILE_KILL, false);
        if (!writer->write(NEW) || writer->read() != NEW)
            wrong += complain(writer, nth, FILE_KILL, "afterwards nothing can be written");
    }
    return wrong + 1;
}

static int try_all(const struct writer *writer)
{
    long failed = 0, killed = 0;
    int wrong = fail_each(writer, false, &failed);
    wrong += fail_each(writer, true, &failed);
    wrong += kill_each(writer, &killed);
    print_message("%s: %ld failures, %ld kills, %d wrong\n", writer->name, failed, killed, wrong);
    assert_true(failed > 5 && killed > 3);
    return wrong;
}

static void the_cache_is_whole(void **state)
{
    (void)state;
    assert_int_equal(try_all(&cache), 0);
}

static void the_tuning_file_is_whole(void **state)
{
    (void)state;
    assert_int_equal(try_all(&tuning_file), 0);
}

static void a_file_written_in_place_is_not(void **state)
{
    (void)state;
    assert_true(try_all(&in_place) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_cache_is_whole), cmocka_unit_test(the_tuning_file_is_whole),
                                       cmocka_unit_test(a_file_written_in_place_is_not)};
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/tuning.json", directory);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    clear();
    rmdir(directory);
    return failures;
}
