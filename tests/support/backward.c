/* SPDX-License-Identifier: BSD-2-Clause */
#include "random.h"
#include "support/backward_parts.h"
#include <stdio.h>
#include <stdlib.h>

const char *const backward_names[GRADIENTS] = {"d_q", "d_k", "d_v", "d_bias", "d_sinks"};

struct gradients backward_gradients(const struct forward_case *forward, const struct backward_arrays *arrays)
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
    const struct gradients gradients = backward_gradients(forward, arrays);
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
    double *o = calloc(outputs + 1, sizeof *o), *vectors = calloc(3 * rows + 1, sizeof *vectors);
    double *const lse = vectors, *const m = vectors + rows, *const l = m + rows;
    const bool made = o && vectors && reference_attention(&problem, in->q, in->k, in->v, o, lse, m, l);
    const enum clattn_dtype o_type = reference_type(&problem, REFERENCE_O);
    for (size_t i = 0; i < outputs && made; i++)
        in->o[i] = reference_round(o_type, (float)o[i]);
    for (size_t i = 0; i < rows && made; i++) {
        in->lse[i] = (float)lse[i];
        in->m[i] = (float)m[i];
        in->l[i] = (float)l[i];
    }
    free(o);
    free(vectors);
    return made;
}

/* The run. With a kv_chunk and PATH_DEVICE the keys come in chunks: dQ and d_bias are then sums in fp32. */

static bool in_chunks(const struct forward_case *forward)
{
    return forward->kv_chunk && forward->path == PATH_DEVICE;
}

enum tensor { Q, K, V, O, D_O, LSE, M, L, FIRST_GRADIENT };

struct run {
    struct stage stage;
    struct score_stage score;
    int at[GRADIENTS]; /* numbers of the gradients in the stage; -1: not wanted */
    float *zeros;      /* what sums begin with */
    bool lse_alone;
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
        struct guard_view view = views[i];
        const bool sum = in_chunks(forward) && (i == D_Q || i == D_BIAS);
        if (sum)
            view.dtype = CLATTN_FP32;
        run->at[i] = -1;
        if (wanted & 1u << i && (i < D_BIAS || gradients->counts[i]))
            run->at[i] =
                stage_add(&run->stage, backward_names[i], &view, sum ? run->zeros : NULL, gradients->values[i]);
    }
}

static void lay_out(const struct forward_case *forward, unsigned wanted, struct backward_arrays *arrays,
                    struct run *run)
{
    struct forward_arrays *in = &arrays->forward;
    static const char *const inputs[] = {"q", "k", "v", "o", "d_o", "lse", "m", "l"};
    const struct clattn_layout *const layouts[] = {&forward->q, &forward->k,    &forward->v,    &forward->o,
                                                   &forward->o, &forward->rows, &forward->rows, &forward->rows};
    const enum forward_tensor kinds[] = {FORWARD_Q,   FORWARD_K,    FORWARD_V,    FORWARD_O,
                                         FORWARD_D_O, FORWARD_ROWS, FORWARD_ROWS, FORWARD_ROWS};
    const float *const values[] = {in->q, in->k, in->v, in->o, arrays->d_o, in->lse, in->m, in->l};
    const struct gradients gradients = backward_gradients(forward, arrays);
    const size_t most =
        gradients.counts[D_Q] > gradients.counts[D_BIAS] ? gradients.counts[D_Q] : gradients.counts[D_BIAS];
    *run = (struct run){.zeros = calloc(most + 1, sizeof(float)), .lse_alone = arrays->lse_alone};
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

static bool enqueue_once(const struct test_device *device, const clattn_plan *plan,
                         const struct clattn_backward_args *args)
{
    cl_event event = NULL;
    return test_succeeded(clattn_backward_enqueue(plan, device->queue, args, 0, NULL, &event),
                          "clattn_backward_enqueue") &&
           stage_wait(event);
}

/* The tensor's keys from `first` on; strides 0 are dense. */
static struct clattn_tensor keys_from(struct clattn_tensor tensor, const struct forward_case *forward, int64_t keys,
                                      int d, int64_t first)
{
    struct clattn_layout *layout = &tensor.layout;
    if (!layout->batch && !layout->head && !layout->row && !layout->column) {
        const int64_t offset = layout->offset;
        *layout = clattn_layout_bhnd(forward->shape.kv_heads ? forward->shape.kv_heads : forward->shape.heads, keys, d);
        layout->offset = offset;
    }
    layout->offset += first * layout->row;
    return tensor;
}

static bool enqueue_chunks(const struct test_device *device, const clattn_plan *plan,
                           const struct forward_case *forward, const struct forward_arrays *in,
                           const struct clattn_backward_args *whole)
{
    const bool packed = forward->problem.features & CLATTN_VARLEN;
    const int64_t keys = packed ? in->score.total_kv : forward->shape.n_kv;
    const int d = forward->problem.d, d_v = forward->problem.d_v ? forward->problem.d_v : d;
    int64_t first = 0;
    bool ran = true;
    do { /* once where there are no keys */
        struct clattn_backward_args args = *whole;
        args.first_key = first;
        args.key_count = keys - first < forward->kv_chunk ? keys - first : forward->kv_chunk;
        args.k = keys_from(args.k, forward, keys, d, first);
        args.v = keys_from(args.v, forward, keys, d_v, first);
        args.d_k = args.d_k.buffer ? keys_from(args.d_k, forward, keys, d, first) : args.d_k;
        args.d_v = args.d_v.buffer ? keys_from(args.d_v, forward, keys, d_v, first) : args.d_v;
        ran = enqueue_once(device, plan, &args);
        first += forward->kv_chunk;
    } while (ran && first < keys);
    return ran;
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
                                        .d_q = gradient_at(run, D_Q),
                                        .d_k = gradient_at(run, D_K),
                                        .d_v = gradient_at(run, D_V),
                                        .d_bias = gradient_at(run, D_BIAS),
                                        .d_sinks = gradient_at(run, D_SINKS)};
    if (run->lse_alone) {
        args.lse = stage_at(stage, LSE);
    } else {
        args.m = stage_at(stage, M);
        args.l = stage_at(stage, L);
    }
    args.score = score_args(&forward->problem, &forward->score, &in->score, &run->score);
    const bool ran =
        test_succeeded(clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes),
                       "clattn_plan_workspace_bytes") &&
        stage_workspace(device, args.workspace_bytes, &args.workspace) &&
        (in_chunks(forward) ? enqueue_chunks(device, plan, forward, in, &args) : enqueue_once(device, plan, &args));
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return ran;
}

static bool run_planned(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                        const struct forward_arrays *in, const struct run *run)
{
    struct clattn_problem problem = forward->problem;
    clattn_plan *own = NULL;
    problem.pass = in_chunks(forward) ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD;
    if (!plan && !test_succeeded(clattn_plan_create(&own, device->clattn, &problem), "clattn_plan_create"))
        return false;
    const bool ran = enqueue(device, plan ? plan : own, forward, in, run);
    clattn_plan_destroy(&own);
    return ran;
}

static void *array_of(const struct run *run, int which)
{
    return run->at[which] < 0 ? NULL : stage_array(&run->stage, run->at[which]);
}

static const float *vector_of(const struct stage *stage, int which)
{
    return (const float *)stage_array(stage, which) + GUARD_BYTES / sizeof(float);
}

static bool run_host(const struct test_device *device, const struct forward_case *forward,
                     const struct forward_arrays *in, const struct run *run)
{
    const struct stage *stage = &run->stage;
    struct clattn_problem problem = forward->problem;
    void *bias = NULL;
    float *sinks = array_of(run, D_SINKS);
    problem.pass = CLATTN_BACKWARD;
    const struct clattn_host_params params = {.context = device->clattn};
    const struct clattn_host_backward_args args = {.shape = forward->shape,
                                                   .q = stage_array(stage, Q),
                                                   .k = stage_array(stage, K),
                                                   .v = stage_array(stage, V),
                                                   .o = stage_array(stage, O),
                                                   .d_o = stage_array(stage, D_O),
                                                   .lse = run->lse_alone ? vector_of(stage, LSE) : NULL,
                                                   .m = run->lse_alone ? NULL : vector_of(stage, M),
                                                   .l = run->lse_alone ? NULL : vector_of(stage, L),
                                                   .d_q = array_of(run, D_Q),
                                                   .d_k = array_of(run, D_K),
                                                   .d_v = array_of(run, D_V),
                                                   .d_bias = array_of(run, D_BIAS),
                                                   .d_sinks = sinks ? sinks + GUARD_BYTES / sizeof(float) : NULL,
                                                   .q_layout = stage_at(stage, Q).layout,
                                                   .k_layout = stage_at(stage, K).layout,
                                                   .v_layout = stage_at(stage, V).layout,
                                                   .o_layout = stage_at(stage, O).layout,
                                                   .d_o_layout = stage_at(stage, D_O).layout,
                                                   .d_q_layout = gradient_at(run, D_Q).layout,
                                                   .d_k_layout = gradient_at(run, D_K).layout,
                                                   .d_v_layout = gradient_at(run, D_V).layout,
                                                   .d_bias_layout = gradient_at(run, D_BIAS).layout,
                                                   .score =
                                                       score_host_args(&problem, &forward->score, &in->score, &bias),
                                                   .kv_chunk = forward->kv_chunk};
    clattn_host *host = NULL;
    const bool ran = test_succeeded(clattn_host_create(&host, &params), "clattn_host_create") &&
                     test_succeeded(clattn_host_backward(host, &problem, &args), "clattn_host_backward");
    clattn_host_destroy(&host);
    free(bias);
    return ran;
}

static bool run_device(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                       const struct forward_arrays *in, struct run *run)
{
    return stage_upload(&run->stage, device) && score_stage_make(device, &forward->problem, &in->score, &run->score) &&
           run_planned(device, plan, forward, in, run) && score_stage_intact(device, &run->score);
}

bool backward_repeats(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                      unsigned wanted, struct backward_arrays *arrays, int runs)
{
    struct run run;
    const struct forward_arrays *in = &arrays->forward;
    lay_out(forward, wanted, arrays, &run);
    bool same = run.zeros && stage_make(&run.stage) &&
                (forward->path == PATH_HOST ? run_host(device, forward, in, &run)
                                            : run_device(device, plan, forward, in, &run)) &&
                stage_collect(&run.stage, device);
    for (int i = 1; i < runs && same; i++)
        same = stage_poison(&run.stage, device) && run_planned(device, plan, forward, in, &run) &&
               stage_same(&run.stage, device);
    stage_free(&run.stage);
    score_stage_free(&run.score);
    free(run.zeros);
    return same;
}

bool backward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                  unsigned wanted, struct backward_arrays *arrays)
{
    return backward_repeats(device, plan, forward, wanted, arrays, 1);
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
