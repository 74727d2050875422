/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/pass_scene.h"
#include "support/compare.h"
#include <stdlib.h>
#include <string.h>

const struct forward_case pass_case = {.problem = {.d = 16,
                                                   .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                                   .features = CLATTN_WINDOW | CLATTN_ALIBI | CLATTN_BIAS |
                                                               CLATTN_BLOCK_MASK | CLATTN_SINKS | CLATTN_DROPOUT,
                                                   .block_q = 16,
                                                   .block_kv = 16},
                                       .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 18, .n_kv = 33},
                                       .score = {.window_left = 25,
                                                 .window_right = 3,
                                                 .dropout_p = 0.25f,
                                                 .dropout_seed = 5,
                                                 .dropout_offset = 1,
                                                 .density = 0.7,
                                                 .csr = true},
                                       .seed = 52};

static cl_mem buffer_of(const struct scene *scene, size_t bytes, const void *from)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(scene->device->context, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                   (void *)(uintptr_t)from, &code);
    return test_cl_succeeded(code, "clCreateBuffer") ? buffer : NULL;
}

static bool fill_buffers(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    const struct forward_arrays *in = &pass->arrays.forward;
    const struct reference_problem problem = forward_reference_of(&pass_case, in);
    const float *const values[INPUTS] = {in->q, in->k, in->v, in->o, pass->arrays.d_o, in->lse};
    const size_t counts[INPUTS] = {reference_q_count(&problem), reference_k_count(&problem),
                                   reference_v_count(&problem), reference_o_count(&problem),
                                   reference_o_count(&problem), reference_row_count(&problem)};
    bool made = true;
    for (int i = 0; i < INPUTS; i++)
        made = (pass->inputs[i] = buffer_of(scene, counts[i] * sizeof(float), values[i])) && made;
    for (int i = 0; i < 2; i++)
        made = (pass->states[i] = buffer_of(scene, BYTES, NULL)) && made;
    made = (pass->workspace = buffer_of(scene, BYTES, NULL)) && made;
    made = (pass->output = buffer_of(scene, scene->outputs * sizeof(float), scene->output)) && made;
    scene->results = pass->output;
    return made && score_stage_make(scene->device, &pass_case.problem, &in->score, &pass->score);
}

size_t pass_place_gradients(const struct pass_scene *pass, size_t offsets[GRADIENTS])
{
    const struct gradients gradients = backward_gradients(&pass_case, &pass->arrays);
    size_t at = 0;
    for (int i = 0; i < GRADIENTS; i++) {
        offsets[i] = at;
        at += gradients.counts[i];
    }
    return at;
}

size_t pass_place_results(const struct pass_scene *pass, size_t offsets[OUTS])
{
    const struct reference_problem problem = forward_reference_of(&pass_case, &pass->arrays.forward);
    const size_t rows = reference_row_count(&problem);
    offsets[OUT_O] = 0;
    for (int i = OUT_LSE; i <= OUT_L; i++)
        offsets[i] = reference_o_count(&problem) + (size_t)(i - OUT_LSE) * rows;
    return offsets[OUT_L] + rows;
}

static bool open_pass(struct scene *scene, bool backward)
{
    size_t offsets[GRADIENTS];
    struct pass_scene *pass = scene->pass = calloc(1, sizeof *scene->pass);
    if (!pass || !backward_arrays_make(&pass_case, &pass->arrays))
        return false;
    const struct clattn_host_score_args args =
        score_host_args(&pass_case.problem, &pass_case.score, &pass->arrays.forward.score, &pass->bias);
    scene->outputs = backward ? pass_place_gradients(pass, offsets) : pass_place_results(pass, offsets);
    scene->output = malloc(scene->outputs * sizeof(float));
    if (!scene->output || !args.bias)
        return false;
    scene_poison(scene);
    return fill_buffers(scene);
}

bool pass_open_backward(struct scene *scene)
{
    return open_pass(scene, true);
}

bool pass_open_state(struct scene *scene)
{
    return open_pass(scene, false);
}

static void release(cl_mem buffer)
{
    if (buffer)
        clReleaseMemObject(buffer);
}

void pass_close(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    if (!pass)
        return;
    for (int i = 0; i < INPUTS; i++)
        release(pass->inputs[i]);
    release(pass->states[0]);
    release(pass->states[1]);
    release(pass->workspace);
    release(pass->output);
    score_stage_free(&pass->score);
    backward_arrays_free(&pass->arrays);
    free(pass->bias);
    free(pass);
}

static bool fetch(struct scene *scene)
{
    return scene->host ||
           (test_cl_succeeded(clWaitForEvents(1, &scene->event), "clWaitForEvents") &&
            test_cl_succeeded(clEnqueueReadBuffer(scene->device->queue, scene->pass->output, CL_TRUE, 0,
                                                  scene->outputs * sizeof(float), scene->output, 0, NULL, NULL),
                              "clEnqueueReadBuffer"));
}

bool pass_gradients_right(struct scene *scene)
{
    const struct gradients to = backward_gradients(&pass_case, &scene->pass->arrays);
    size_t at[GRADIENTS];
    pass_place_gradients(scene->pass, at);
    if (!fetch(scene))
        return false;
    for (int i = 0; i < GRADIENTS; i++)
        memcpy(to.values[i], scene->output + at[i], to.counts[i] * sizeof(float));
    return backward_judge(&pass_case, BACKWARD_ALL, &scene->pass->arrays);
}

bool pass_results_right(struct scene *scene)
{
    struct forward_arrays *arrays = &scene->pass->arrays.forward;
    float *const to[OUTS] = {arrays->o, arrays->lse, arrays->m, arrays->l};
    size_t at[OUTS];
    const size_t end = pass_place_results(scene->pass, at);
    if (!fetch(scene))
        return false;
    for (int i = 0; i < OUTS; i++)
        memcpy(to[i], scene->output + at[i], ((i + 1 < OUTS ? at[i + 1] : end) - at[i]) * sizeof(float));
    return compare_outputs(&pass_case, arrays);
}
