/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/scenario.h"
#include "fault/cache_scene.h"
#include "fault/passes.h"
#include "fault/records_scene.h"
#include "support/compare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, O, TENSORS, D = 16, ROWS = 12, WORKSPACE_BYTES = 1 << 16 };

/* Causal and grouped, with softmax vectors at the host level: as many calls as an operation can have. */
static const struct forward_case forward = {.problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                            .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 6, .n_kv = 9},
                                            .seed = 51};

void scene_poison(struct scene *scene)
{
    memset(scene->output, 0xff, scene->outputs * sizeof(float));
}

/* Steps */

/* A call that fails must not have set its handle: turned into a status that nobody expects. */
static clattn_status unless_set(clattn_status status, const void *handle)
{
    return status && handle ? 1 : status;
}

clattn_status scene_make_context(struct scene *scene)
{
    const struct clattn_context_params params = {
        .context = scene->device->context, .device = scene->device->device, .cache_directory = scene->cache_directory};
    return unless_set(clattn_context_create(&scene->context, &params), scene->context);
}

static clattn_status make_plan(struct scene *scene)
{
    return unless_set(clattn_plan_create(&scene->plan, scene->context, &forward.problem), scene->plan);
}

static struct clattn_forward_args device_args(const struct scene *scene)
{
    struct clattn_forward_args args = {.shape = forward.shape};
    struct clattn_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.m, &args.l};
    for (int i = 0; i < TENSORS; i++)
        tensors[i]->buffer = scene->buffers[i];
    /* lse, m and l lie behind the elements of o. */
    for (int i = 0; i < 3; i++) {
        const int64_t offset = (int64_t)scene->count[O] + i * ROWS;
        *tensors[TENSORS + i] =
            (struct clattn_tensor){scene->buffers[O], {.offset = offset, .batch = ROWS, .head = 6, .row = 1}};
    }
    return args;
}

static clattn_status enqueue(struct scene *scene)
{
    const struct clattn_forward_args args = device_args(scene);
    const clattn_status status =
        clattn_forward_enqueue(scene->plan, scene->device->queue, &args, 0, NULL, &scene->event);
    scene->done = !status;
    return status;
}

static clattn_status make_host(struct scene *scene)
{
    const struct clattn_host_params params = {.context = scene->context};
    return unless_set(clattn_host_create(&scene->host, &params), scene->host);
}

static clattn_status run_host_on(struct scene *scene, const struct clattn_problem *problem)
{
    scene_poison(scene);
    const struct clattn_host_forward_args args = {.shape = forward.shape,
                                                  .q = scene->arrays.q,
                                                  .k = scene->arrays.k,
                                                  .v = scene->arrays.v,
                                                  .o = scene->output,
                                                  .lse = scene->output + scene->count[O],
                                                  .m = scene->output + scene->count[O] + ROWS,
                                                  .l = scene->output + scene->count[O] + 2 * ROWS};
    const clattn_status status = clattn_host_forward(scene->host, problem, &args);
    scene->done = !status;
    return status;
}

static clattn_status run_host(struct scene *scene)
{
    return run_host_on(scene, &forward.problem);
}

static clattn_status run_host_splits(struct scene *scene)
{
    struct clattn_problem problem = forward.problem;
    problem.splits = 3;
    return run_host_on(scene, &problem);
}

static clattn_status run_standard(struct scene *scene)
{
    struct clattn_forward_args args = device_args(scene);
    args.workspace = scene->workspace;
    args.workspace_bytes = WORKSPACE_BYTES;
    const clattn_status status =
        clattn_standard_enqueue(scene->context, &forward.problem, scene->device->queue, &args, 0, NULL, &scene->event);
    scene->done = !status;
    return status;
}

static const struct step device_steps[] = {{"clattn_context_create", scene_make_context},
                                           {"clattn_plan_create", make_plan},
                                           {"clattn_forward_enqueue", enqueue},
                                           {0}};
static const struct step host_steps[] = {{"clattn_context_create", scene_make_context},
                                         {"clattn_host_create", make_host},
                                         {"clattn_host_forward", run_host},
                                         {"clattn_host_forward again", run_host},
                                         {0}};
static const struct step split_steps[] = {{"clattn_context_create", scene_make_context},
                                          {"clattn_host_create", make_host},
                                          {"clattn_host_forward", run_host_splits},
                                          {"clattn_host_forward again", run_host_splits},
                                          {0}};
static const struct step standard_steps[] = {
    {"clattn_context_create", scene_make_context}, {"clattn_standard_enqueue", run_standard}, {0}};

static const struct scenario scenarios[] = {{.name = "device level", .steps = device_steps, .whole = true},
                                            {.name = "host level", .steps = host_steps},
                                            {.name = "keys split", .steps = split_steps, .warm_only = true},
                                            {.name = "standard attention", .steps = standard_steps, .clblast = true},
                                            {.name = "records",
                                             .steps = records_steps,
                                             .warm_only = true,
                                             .files = true,
                                             .open = records_open,
                                             .close = records_close,
                                             .right = records_right}};

const struct scenario *scenario_at(int number)
{
    const struct {
        const struct scenario *first;
        int count;
    } lists[] = {{scenarios, sizeof scenarios / sizeof scenarios[0]},
                 {pass_scenarios, pass_scenario_count},
                 {cache_scenarios, cache_scenario_count}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (number < lists[i].count)
            return &lists[i].first[number];
        number -= lists[i].count;
    }
    return NULL;
}

const struct scenario *scenario_named(const char *name)
{
    for (int i = 0; scenario_at(i); i++)
        if (strcmp(scenario_at(i)->name, name) == 0)
            return scenario_at(i);
    abort();
}

/* The scene */

static bool is_poison(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            return false;
    return true;
}

static bool fill_buffers(struct scene *scene)
{
    float *const contents[TENSORS] = {scene->arrays.q, scene->arrays.k, scene->arrays.v, scene->output};
    for (int i = 0; i < TENSORS; i++) {
        const size_t count = i == O ? scene->outputs : scene->count[i];
        cl_int code = CL_SUCCESS;
        scene->buffers[i] = clCreateBuffer(scene->device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                           count * sizeof(float), contents[i], &code);
        if (!test_cl_succeeded(code, "clCreateBuffer"))
            return false;
    }
    scene->results = scene->buffers[O];
    return true;
}

static bool open_forward(struct scene *scene)
{
    const struct reference_problem problem = forward_reference(&forward);
    scene->count[Q] = reference_q_count(&problem);
    scene->count[K] = reference_k_count(&problem);
    scene->count[V] = reference_v_count(&problem);
    scene->count[O] = reference_o_count(&problem);
    scene->outputs = scene->count[O] + (size_t)3 * ROWS;
    scene->output = malloc(scene->outputs * sizeof(float));
    if (!scene->output || !forward_arrays_make(&forward, &scene->arrays))
        return false;
    scene_poison(scene);
    cl_int code = CL_SUCCESS;
    scene->workspace = clCreateBuffer(scene->device->context, CL_MEM_READ_WRITE, WORKSPACE_BYTES, NULL, &code);
    return test_cl_succeeded(code, "clCreateBuffer") && fill_buffers(scene);
}

bool scene_open(struct scene *scene, struct test_device *device, const char *cache_directory,
                const struct scenario *scenario)
{
    *scene = (struct scene){.device = device, .cache_directory = cache_directory, .scenario = scenario};
    return scenario->open ? scenario->open(scene) : open_forward(scene);
}

void scene_close(struct scene *scene)
{
    if (scene->scenario->close)
        scene->scenario->close(scene);
    clattn_plan_destroy(&scene->plan);
    clattn_host_destroy(&scene->host);
    clattn_context_destroy(&scene->context);
    for (int i = 0; i < TENSORS; i++)
        if (scene->buffers[i])
            clReleaseMemObject(scene->buffers[i]);
    if (scene->workspace)
        clReleaseMemObject(scene->workspace);
    if (scene->event)
        clReleaseEvent(scene->event);
    forward_arrays_free(&scene->arrays);
    free(scene->output);
    *scene = (struct scene){0};
}

bool scene_rewind(struct scene *scene)
{
    if (scene->event)
        clReleaseEvent(scene->event);
    scene->event = NULL;
    scene->done = false;
    if (!scene->results)
        return true;
    scene_poison(scene);
    return test_cl_succeeded(clEnqueueWriteBuffer(scene->device->queue, scene->results, CL_TRUE, 0,
                                                  scene->outputs * sizeof(float), scene->output, 0, NULL, NULL),
                             "clEnqueueWriteBuffer");
}

bool scene_consistent(const struct scene *scene)
{
    return !scene->done || scene->event || scene->host || scene->scenario->files;
}

/* A handle or an event that a failing call set would be found here, as would a byte of an output array; the second run
 * of the host level finds the first one's results there, which is as good. */
bool scene_untouched(const struct scene *scene)
{
    return scene->done || (!scene->event && is_poison(scene->output, scene->outputs));
}

static bool forward_right(struct scene *scene)
{
    struct forward_arrays *arrays = &scene->arrays;
    float *const outputs[] = {arrays->o, arrays->lse, arrays->m, arrays->l};
    if (!scene->host &&
        (!test_cl_succeeded(clWaitForEvents(1, &scene->event), "clWaitForEvents") ||
         !test_cl_succeeded(clEnqueueReadBuffer(scene->device->queue, scene->buffers[O], CL_TRUE, 0,
                                                scene->outputs * sizeof(float), scene->output, 0, NULL, NULL),
                            "clEnqueueReadBuffer")))
        return false;
    memcpy(outputs[0], scene->output, scene->count[O] * sizeof(float));
    for (int i = 0; i < 3; i++)
        memcpy(outputs[i + 1], scene->output + scene->count[O] + i * ROWS, ROWS * sizeof(float));
    return compare_outputs(&forward, arrays);
}

bool scene_right(struct scene *scene)
{
    return scene->scenario->right ? scene->scenario->right(scene) : forward_right(scene);
}
