/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/backward.h"
#include "random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D_Q, D_K, D_V, D_BIAS, D_SINKS, GRADIENTS };
static const char *const names[GRADIENTS] = {"d_q", "d_k", "d_v", "d_bias", "d_sinks"};

/* The gradients of a case, in order, and how many elements each has; 0: the case has none such. */
struct gradients {
    float *values[GRADIENTS];
    size_t counts[GRADIENTS];
};

static struct gradients list(const struct forward_case *forward, const struct backward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    const bool sinks = (forward->problem.features & CLATTN_SINKS) != 0;
    return (struct gradients){.values = {arrays->d_q, arrays->d_k, arrays->d_v, arrays->d_bias, arrays->d_sinks},
                              .counts = {reference_q_count(&problem), reference_k_count(&problem),
                                         reference_v_count(&problem), reference_d_bias_count(&problem),
                                         sinks ? (size_t)forward->shape.heads : 0}};
}

static void make_d_o(const struct forward_case *forward, struct backward_arrays *arrays, size_t count)
{
    struct random random = {.state = forward->seed ^ UINT64_C(0xd0)};
    random_normal(&random, 1.0, arrays->d_o, count);
    for (size_t i = 0; i < count; i++)
        arrays->d_o[i] = reference_round(forward->problem.dtype, arrays->d_o[i]);
}

bool backward_arrays_make(const struct forward_case *forward, struct backward_arrays *arrays)
{
    *arrays = (struct backward_arrays){0};
    if (!forward_arrays_make(forward, &arrays->forward))
        return false;
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    const size_t outputs = reference_o_count(&problem);
    const struct gradients gradients = list(forward, arrays);
    float **const all[] = {&arrays->d_q, &arrays->d_k, &arrays->d_v, &arrays->d_bias, &arrays->d_sinks};
    bool made = (arrays->d_o = calloc(outputs + 1, sizeof(float))) != NULL;
    for (int i = 0; i < GRADIENTS; i++)
        made = (*all[i] = calloc(gradients.counts[i] + 1, sizeof(float))) && made;
    if (made)
        make_d_o(forward, arrays, outputs);
    made = made && backward_arrays_refresh(forward, arrays);
    if (!made)
        backward_arrays_free(arrays);
    return made;
}

void backward_arrays_free(struct backward_arrays *arrays)
{
    forward_arrays_free(&arrays->forward);
    float *const all[] = {arrays->d_o, arrays->d_q, arrays->d_k, arrays->d_v, arrays->d_bias, arrays->d_sinks};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    *arrays = (struct backward_arrays){0};
}

bool backward_arrays_refresh(const struct forward_case *forward, struct backward_arrays *arrays)
{
    struct forward_arrays *in = &arrays->forward;
    const struct reference_problem problem = forward_reference_of(forward, in);
    const size_t outputs = reference_o_count(&problem), rows = reference_row_count(&problem);
    double *o = calloc(outputs + 1, sizeof *o), *lse = calloc(rows + 1, sizeof *lse);
    const bool made = o && lse && reference_attention(&problem, in->q, in->k, in->v, o, lse, NULL, NULL);
    for (size_t i = 0; i < outputs && made; i++)
        in->o[i] = reference_round(problem.dtype, (float)o[i]);
    for (size_t i = 0; i < rows && made; i++)
        in->lse[i] = (float)lse[i];
    free(o);
    free(lse);
    return made;
}

/* The run */

enum tensor { Q, K, V, O, D_O, LSE, FIRST_GRADIENT };

struct run {
    struct stage stage;
    struct score_stage score;
    int at[GRADIENTS]; /* numbers of the gradients in the stage; -1: not wanted */
};

static void add_gradients(const struct forward_case *forward, const struct gradients *gradients, unsigned wanted,
                          const struct score_arrays *score, struct run *run)
{
    const struct guard_view bias = {
        .dtype = forward->problem.dtype,
        .layout = score->pair_at,
        .sizes = {score->pair_sizes[0], score->pair_sizes[1], score->pair_sizes[2], score->pair_sizes[3]}};
    const struct guard_view sinks = {.dtype = CLATTN_FP32, .sizes = {1, 1, 1, forward->shape.heads}};
    const struct guard_view views[GRADIENTS] = {run->stage.tensors[Q].view, run->stage.tensors[K].view,
                                                run->stage.tensors[V].view, bias, sinks};
    for (int i = 0; i < GRADIENTS; i++) {
        run->at[i] = -1;
        if (wanted & 1u << i && (i < D_BIAS || gradients->counts[i]))
            run->at[i] = stage_add(&run->stage, names[i], &views[i], NULL, gradients->values[i]);
    }
}

static void lay_out(const struct forward_case *forward, unsigned wanted, struct backward_arrays *arrays,
                    struct run *run)
{
    struct forward_arrays *in = &arrays->forward;
    static const char *const inputs[] = {"q", "k", "v", "o", "d_o", "lse"};
    const struct clattn_layout *const layouts[] = {&forward->q, &forward->k, &forward->v,
                                                   &forward->o, &forward->o, &forward->rows};
    const enum forward_tensor kinds[] = {FORWARD_Q, FORWARD_K, FORWARD_V, FORWARD_O, FORWARD_O, FORWARD_ROWS};
    const float *const values[] = {in->q, in->k, in->v, in->o, arrays->d_o, in->lse};
    const struct gradients gradients = list(forward, arrays);
    *run = (struct run){0};
    for (int i = Q; i < FIRST_GRADIENT; i++) {
        const struct guard_view view = forward_view(forward, in, kinds[i], layouts[i]);
        stage_add(&run->stage, inputs[i], &view, values[i], NULL);
    }
    add_gradients(forward, &gradients, wanted, &in->score, run);
}

static struct clattn_tensor gradient_at(const struct run *run, int which)
{
    return run->at[which] < 0 ? (struct clattn_tensor){0} : stage_at(&run->stage, run->at[which]);
}

static bool enqueue(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                    const struct forward_arrays *in, const struct run *run)
{
    const struct stage *stage = &run->stage;
    struct clattn_backward_args args = {.shape = forward->shape,
                                        .q = stage_at(stage, Q),
                                        .k = stage_at(stage, K),
                                        .v = stage_at(stage, V),
                                        .o = stage_at(stage, O),
                                        .d_o = stage_at(stage, D_O),
                                        .lse = stage_at(stage, LSE),
                                        .d_q = gradient_at(run, D_Q),
                                        .d_k = gradient_at(run, D_K),
                                        .d_v = gradient_at(run, D_V),
                                        .d_bias = gradient_at(run, D_BIAS),
                                        .d_sinks = gradient_at(run, D_SINKS)};
    cl_event event = NULL;
    args.score = score_args(&forward->problem, &forward->score, &in->score, &run->score);
    const bool ran = test_succeeded(clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes),
                                    "clattn_plan_workspace_bytes") &&
                     stage_workspace(device, args.workspace_bytes, &args.workspace) &&
                     test_succeeded(clattn_backward_enqueue(plan, device->queue, &args, 0, NULL, &event),
                                    "clattn_backward_enqueue") &&
                     stage_wait(event);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return ran;
}

static bool run_planned(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                        const struct forward_arrays *in, const struct run *run)
{
    struct clattn_problem problem = forward->problem;
    clattn_plan *own = NULL;
    problem.pass = CLATTN_BACKWARD;
    if (!plan && !test_succeeded(clattn_plan_create(&own, device->clattn, &problem), "clattn_plan_create"))
        return false;
    const bool ran = enqueue(device, plan ? plan : own, forward, in, run);
    clattn_plan_destroy(&own);
    return ran;
}

bool backward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                  unsigned wanted, struct backward_arrays *arrays)
{
    struct run run;
    lay_out(forward, wanted, arrays, &run);
    const bool ran = stage_make(&run.stage) && stage_upload(&run.stage, device) &&
                     score_stage_make(device, &forward->problem, &arrays->forward.score, &run.score) &&
                     run_planned(device, plan, forward, &arrays->forward, &run) &&
                     score_stage_intact(device, &run.score) && stage_collect(&run.stage, device);
    stage_free(&run.stage);
    score_stage_free(&run.score);
    return ran;
}

/* The verdict */

static bool judge_one(const char *name, const float *out, const double *exact, const float *naive, size_t count,
                      double floor)
{
    const struct reference_verdict verdict = reference_judge_gradient(out, exact, naive, count, floor);
    if (!verdict.pass)
        fprintf(stderr, "%s[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g\n", name, verdict.at,
                (double)out[verdict.at], exact[verdict.at], verdict.error, verdict.allowed);
    return verdict.pass;
}

bool backward_judge(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *arrays)
{
    const struct forward_arrays *in = &arrays->forward;
    const struct reference_problem problem = forward_reference_of(forward, in);
    const struct gradients out = list(forward, arrays);
    double *exact[GRADIENTS];
    float *naive[GRADIENTS];
    struct reference_gradient_floor floor;
    bool right = true;
    for (int i = 0; i < GRADIENTS; i++) {
        exact[i] = calloc(out.counts[i] + 1, sizeof(double));
        naive[i] = calloc(out.counts[i] + 1, sizeof(float));
        right = right && exact[i] && naive[i];
    }
    const struct reference_gradients gradients = {exact[D_Q], exact[D_K], exact[D_V], exact[D_BIAS], exact[D_SINKS]};
    const struct reference_naive_gradients naive_ones = {naive[D_Q], naive[D_K], naive[D_V], naive[D_BIAS],
                                                         naive[D_SINKS]};
    right = right && reference_backward(&problem, in->q, in->k, in->v, arrays->d_o, &gradients, &floor) &&
            reference_naive_backward(&problem, in->q, in->k, in->v, arrays->d_o, &naive_ones);
    for (int i = 0; i < GRADIENTS && right; i++) {
        const double floors[GRADIENTS] = {floor.d_q, floor.d_k, floor.d_v, floor.d_bias, floor.d_sinks};
        if (wanted & 1u << i && out.counts[i])
            right = judge_one(names[i], out.values[i], exact[i], naive[i], out.counts[i], floors[i]);
    }
    for (int i = 0; i < GRADIENTS; i++) {
        free(exact[i]);
        free(naive[i]);
    }
    return right;
}

bool backward_same(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *a,
                   const struct backward_arrays *b)
{
    const struct gradients one = list(forward, a), other = list(forward, b);
    bool same = true;
    for (int i = 0; i < GRADIENTS; i++)
        if (wanted & 1u << i && one.counts[i] &&
            memcmp(one.values[i], other.values[i], one.counts[i] * sizeof(float)) != 0) {
            fprintf(stderr, "%s differs between two runs\n", names[i]);
            same = false;
        }
    return same;
}

bool backward_check(const struct test_device *device, const struct forward_case *forward, unsigned wanted)
{
    struct backward_arrays arrays;
    char text[512];
    if (!backward_arrays_make(forward, &arrays))
        return false;
    const bool right = backward_run(device, NULL, forward, wanted, &arrays) && backward_judge(forward, wanted, &arrays);
    backward_arrays_free(&arrays);
    if (!right) {
        forward_describe(forward, text, sizeof text);
        fprintf(stderr, "failed: backward, %s\n", text);
    }
    return right;
}
