/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/worker.h"
#include "answers.h"
#include "json_out.h"
#include "system/system.h"
#include "verify/check.h"
#include "verify/draw.h"
#include "verify/soak_log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    FILE *answers;
    struct session session;
    bool opened, lost; /* lost: nobody listens any more */
    /* The case that was built last, if it is still to be run. */
    struct verify_case item;
    uint64_t seed;
    char key[40], skeleton[32]; /* the case points to the latter */
    bool built;
};

static void say(struct worker *worker, json_t *answer)
{
    const bool sent = answer && !json_dumpf(answer, worker->answers, JSON_COMPACT) &&
                      putc('\n', worker->answers) != EOF && !fflush(worker->answers);
    json_decref(answer);
    worker->lost = worker->lost || !sent;
}

static void open_device(struct worker *worker, const json_t *request)
{
    struct option_device wanted = {.given = true};
    struct failure failure = {.text = "a request to open a device without its number"};
    if (!json_unpack((json_t *)request, "{s:i, s:i}", "platform", &wanted.platform, "device", &wanted.device))
        worker->opened = worker->opened || !session_open(&worker->session, &wanted, true, &failure);
    say(worker,
        worker->opened ? json_pack("{s:b}", "opened", true) : json_pack("{s:o}", "error", json_text(failure.text)));
}

/* Compiles what the case needs: the context keeps it, so that what follows is the case's own time. */
static enum soak_outcome build(const struct session *session, const struct verify_case *item, char key[40],
                               struct verify_result *result)
{
    struct clattn_plan_info info;
    clattn_plan *plan = NULL;
    key[0] = '\0';
    clattn_status code = verify_plan(session, item, verify_pass(item), &plan);
    const bool refused = code == CLATTN_NOTHING_FITS;
    if (!code && !(code = clattn_plan_get_info(plan, &info)))
        snprintf(key, 40, "%s", info.program_key);
    clattn_plan_destroy(&plan);
    if (!code && verify_is_backward(item)) {
        code = verify_plan(session, item, CLATTN_FORWARD, &plan);
        clattn_plan_destroy(&plan);
    }
    if (code)
        verify_error(result, "%s: %.900s", clattn_status_name(code), clattn_error_message());
    return !code ? SOAK_OK : refused ? SOAK_REFUSED : SOAK_ERROR;
}

static void tell(struct worker *worker, enum soak_outcome outcome, const struct verify_result *result)
{
    say(worker, json_pack("{s:s, s:o, s:o, s:s}", "outcome", soak_outcome_name(outcome), "text",
                          json_text(result->text), "share", json_measure(result->share), "program", worker->key));
}

static void build_case(struct worker *worker, const json_t *request)
{
    struct verify_result result = {.outcome = VERIFY_PASS};
    const char *skeleton = NULL;
    json_int_t seed = 0;
    int unordered = 0;
    worker->built = false;
    if (!worker->opened || json_unpack((json_t *)request, "{s:I, s:s, s:b}", "seed", &seed, "skeleton", &skeleton,
                                       "unordered", &unordered)) {
        say(worker, json_pack("{s:s}", "error", "a request for a case that cannot be read"));
        return;
    }
    worker->seed = (uint64_t)seed;
    snprintf(worker->skeleton, sizeof worker->skeleton, "%s", skeleton);
    verify_draw(worker->seed, worker->skeleton, &worker->item);
    worker->item.unordered = unordered;
    const enum soak_outcome outcome = build(&worker->session, &worker->item, worker->key, &result);
    worker->built = outcome == SOAK_OK;
    if (worker->built)
        say(worker, json_pack("{s:b}", "built", true));
    else
        tell(worker, outcome, &result);
}

static void run_case(struct worker *worker)
{
    if (!worker->built) {
        say(worker, json_pack("{s:s}", "error", "a request to run what is not built"));
        return;
    }
    worker->built = false;
    const struct verify_result result = verify_check(&worker->session, &worker->item, worker->seed);
    tell(worker,
         result.outcome == VERIFY_PASS   ? SOAK_OK
         : result.outcome == VERIFY_FAIL ? SOAK_WRONG
         : result.outcome == VERIFY_SKIP ? SOAK_REFUSED
                                         : SOAK_ERROR,
         &result);
}

/* Thousands of programs that nobody will ask for again are not for clattn's cache on disk, unless one is named. */
int verify_worker_main(void)
{
    struct worker worker = {.answers = answers_open()};
    char *line = NULL;
    size_t capacity = 0;
    if (!getenv("CLATTN_CACHE_DIR"))
        system_set_variable("CLATTN_CACHE_DIR", "");
    while (worker.answers && !worker.lost && answers_hear(&line, &capacity)) {
        json_t *request = json_loads(line, 0, NULL);
        const char *operation = json_string_value(json_object_get(request, "op"));
        if (operation && !strcmp(operation, "open"))
            open_device(&worker, request);
        else if (operation && !strcmp(operation, "case"))
            build_case(&worker, request);
        else if (operation && !strcmp(operation, "run"))
            run_case(&worker);
        else
            say(&worker, json_pack("{s:s}", "error", "an unknown request"));
        json_decref(request);
    }
    free(line);
    session_close(&worker.session);
    return STATUS_OK;
}
