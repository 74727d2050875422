/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Everything that enqueues nothing: what a device is, plans and candidates, traffic, tuning records in memory and in a
 * file. */
#include "fault/records_scene.h"
#include <stdio.h>
#include <stdlib.h>

enum { CANDIDATES = 3 };

static const struct clattn_problem problem = {.d = 32, .dtype = CLATTN_FP16};

static void path_of(const struct scene *scene, char path[256])
{
    snprintf(path, 256, "%s/made/tuning.json", scene->cache_directory);
}

static clattn_status query(struct scene *scene)
{
    static struct clattn_capabilities capabilities;
    clattn_status status = clattn_query_device(scene->device->device, &capabilities);
    clattn_capabilities_apply_known(&capabilities);
    return status;
}

static clattn_status make_plan(struct scene *scene)
{
    static struct clattn_plan_info info;
    struct clattn_traffic traffic;
    const struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 64, .n_kv = 64}};
    clattn_status status = clattn_plan_preview(clattn_context_capabilities(scene->context), &problem, &info);
    if (!status)
        status = clattn_plan_traffic(&problem, &info, &params, &traffic);
    if (status || scene->plan)
        return status;
    status = clattn_plan_create(&scene->plan, scene->context, &problem);
    return status ? status : clattn_plan_get_info(scene->plan, &info);
}

/* A set of the device's candidates, each with a time. */
static clattn_status fill(const struct scene *scene, clattn_tuning *tuning)
{
    static struct clattn_plan_info infos[CANDIDATES];
    const struct clattn_capabilities *capabilities = clattn_context_capabilities(scene->context);
    struct clattn_tuning_record record;
    int count = 0;
    clattn_status status = clattn_tuning_candidates(capabilities, &problem, infos, CANDIDATES, &count);
    for (int i = 0; i < count && !status; i++) {
        status = clattn_tuning_describe(capabilities, &problem, &infos[i], &record);
        record.ms = i + 1;
        record.runs = 1;
        if (!status)
            status = clattn_tuning_add(tuning, &record);
    }
    return status;
}

static clattn_status as_text(const clattn_tuning *tuning, clattn_tuning **again)
{
    size_t needed = 0;
    clattn_status status = clattn_tuning_text(tuning, NULL, 0, &needed);
    char *text = malloc(needed);
    if (!status && !text)
        status = CL_OUT_OF_HOST_MEMORY;
    if (!status)
        status = clattn_tuning_text(tuning, text, needed, NULL);
    if (!status)
        status = clattn_tuning_parse(again, "text", text, needed - 1);
    free(text);
    return status;
}

static clattn_status keep_records(struct scene *scene)
{
    clattn_tuning *tuning = NULL, *again = NULL;
    clattn_status status = clattn_tuning_create(&tuning);
    if (!status)
        status = fill(scene, tuning);
    if (!status)
        status = as_text(tuning, &again);
    if (!status)
        status = clattn_tuning_merge(again, tuning);
    clattn_tuning_destroy(&again);
    clattn_tuning_destroy(&tuning);
    return status;
}

static clattn_status save(struct scene *scene)
{
    char path[256];
    clattn_tuning *tuning = NULL;
    path_of(scene, path);
    clattn_status status = clattn_tuning_create(&tuning);
    if (!status)
        status = fill(scene, tuning);
    if (!status)
        status = clattn_tuning_save(tuning, path);
    clattn_tuning_destroy(&tuning);
    return status;
}

/* The file, and a plan by its records. */
static clattn_status load(struct scene *scene)
{
    static struct clattn_plan_info info;
    char path[256];
    clattn_tuning *tuning = NULL;
    path_of(scene, path);
    clattn_status status = clattn_tuning_load(&tuning, path);
    if (!status)
        status = clattn_tuning_preview(tuning, clattn_context_capabilities(scene->context), &problem, &info);
    /* (Without memory for the hash of a kernel's text the model plans: info.source may say so.) */
    scene->done = !status && clattn_tuning_count(tuning) == CANDIDATES;
    clattn_tuning_destroy(&tuning);
    return status;
}

const struct step records_steps[] = {{"clattn_query_device", query},
                                     {"clattn_context_create", scene_make_context},
                                     {"clattn_plan_create", make_plan},
                                     {"clattn_tuning_candidates, _parse, _merge", keep_records},
                                     {"clattn_tuning_save", save},
                                     {"clattn_tuning_load", load},
                                     {0}};

bool records_open(struct scene *scene)
{
    scene->output = malloc(sizeof *scene->output);
    return scene->output;
}

void records_close(struct scene *scene)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s/made'", scene->cache_directory);
    if (system(command))
        perror(command);
}

bool records_right(struct scene *scene)
{
    return scene->done;
}
