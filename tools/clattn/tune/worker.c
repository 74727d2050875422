/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/worker.h"
#include "answers.h"
#include "system/system.h"
#include "tune/wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct session session;
    struct tune_bench *bench;
    bool opened;
};

static json_t *list_devices(void)
{
    struct opencl_platforms platforms;
    struct failure failure = {.text = ""};
    if (opencl_list(&platforms, &failure))
        return wire_error(failure.text);
    json_t *list = json_array();
    for (int p = 0; p < platforms.count; p++)
        for (int d = 0; d < platforms.items[p].device_count; d++) {
            struct clattn_capabilities capabilities;
            if (!clattn_query_device(platforms.items[p].devices[d], &capabilities))
                json_array_append_new(list, json_pack("{s:i, s:i, s:o}", "platform", p, "device", d, "capabilities",
                                                      wire_capabilities(&capabilities)));
        }
    opencl_list_free(&platforms);
    return json_pack("{s:o}", "devices", list);
}

static json_t *open_device(struct worker *worker, const json_t *request)
{
    struct option_device wanted = {.given = true};
    struct failure failure = {.text = ""};
    json_int_t memory = 0;
    int given = 0;
    if (json_unpack((json_t *)request, "{s:b, s:i, s:i, s:I}", "given", &given, "platform", &wanted.platform, "device",
                    &wanted.device, "memory", &memory))
        return wire_error("a request to open a device without its number");
    wanted.given = given;
    if (!worker->opened && session_open(&worker->session, &wanted, true, &failure))
        return wire_error(failure.text);
    if (!worker->opened && !system_limit_memory((uint64_t)memory))
        return wire_error("the memory of the process that works with OpenCL cannot be limited (setrlimit)");
    worker->opened = true;
    if (!worker->bench && !(worker->bench = tune_bench_create(&worker->session)))
        return wire_error("no memory");
    return json_pack("{s:i, s:i, s:o}", "platform", worker->session.platform, "device", worker->session.device,
                     "capabilities", wire_capabilities(worker->session.capabilities));
}

static json_t *measure(struct worker *worker, const json_t *request)
{
    struct tune_problem problem;
    struct tune_candidate candidate, base;
    struct tune_request asked;
    struct tune_measured measured;
    struct failure failure = {.text = ""};
    if (!worker->bench || !wire_read_measure(request, &problem, &candidate, &base, &asked))
        return wire_error("a request to measure that cannot be read");
    if (tune_bench_measure(worker->bench, &problem, &candidate, &base, &asked, &measured, &failure))
        return wire_error(failure.text);
    return wire_measured(&measured);
}

static json_t *build(const struct worker *worker, const json_t *request)
{
    struct tune_problem problem;
    struct tune_candidate candidate, base;
    struct tune_request asked;
    if (!worker->opened || !wire_read_measure(request, &problem, &candidate, &base, &asked))
        return wire_error("a request to build that cannot be read");
    return json_pack("{s:b}", "built", tune_bench_build(&worker->session, &problem, &candidate));
}

static json_t *serve(struct worker *worker, const char *line)
{
    json_t *request = json_loads(line, 0, NULL);
    const char *operation = json_string_value(json_object_get(request, "op"));
    json_t *answer;
    if (operation && !strcmp(operation, "devices"))
        answer = list_devices();
    else if (operation && !strcmp(operation, "open"))
        answer = open_device(worker, request);
    else if (operation && !strcmp(operation, "measure"))
        answer = measure(worker, request);
    else if (operation && !strcmp(operation, "build"))
        answer = build(worker, request);
    else
        answer = wire_error("an unknown request");
    json_decref(request);
    return answer;
}

int tune_worker_main(void)
{
    struct worker worker = {.opened = false};
    FILE *const answers = answers_open();
    char *line = NULL;
    size_t capacity = 0;
    while (answers && answers_hear(&line, &capacity)) {
        json_t *answer = serve(&worker, line);
        const bool sent =
            answer && !json_dumpf(answer, answers, JSON_COMPACT) && putc('\n', answers) != EOF && !fflush(answers);
        json_decref(answer);
        if (!sent)
            break;
    }
    free(line);
    tune_bench_destroy(worker.bench);
    session_close(&worker.session);
    return STATUS_OK;
}
