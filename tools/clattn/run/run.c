/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "files/file_uses.h"
#include "run/job.h"
#include <stdlib.h>
#include <string.h>

static int open_inputs(struct run *run, struct failure *failure)
{
    const struct values *values = run->values;
    struct arrays_request request = {.bnhd = values->layout == RUN_BNHD,
                                     .packed = values->score.features.files[SCORE_CU_SEQLENS_Q],
                                     .pages = values->score.features.files[SCORE_KV_PAGES],
                                     .dtype = values->dtype,
                                     .k_format = values->k_format,
                                     .v_format = values->v_format};
    for (int i = 0; i < ARRAYS_MOST && values->inputs[i]; i++) {
        const int status = npy_open(values->inputs[i], &run->inputs[i], failure);
        if (status)
            return status;
        request.names[i] = values->inputs[i];
        request.headers[i] = &run->inputs[i].header;
    }
    int status = arrays_match(&request, &run->arrays, failure);
    if (!status)
        status = score_files_open(&values->score, &run->arrays, &run->score, failure);
    if (!status && values->outputs[RUN_D_BIAS] && score_bias_repeats_pairs(&run->score))
        status =
            fail(failure, STATUS_FILE,
                 "%s: --dbias needs a bias with a row for each query and a column for each key, but one serves several",
                 values->score.features.files[SCORE_BIAS]);
    return status;
}

/* No output is another's file, or an input's. */
static int check_files(const struct values *values, struct failure *failure)
{
    const struct score_options *score = &values->score;
    const struct file_use inputs[] = {
        {"q", values->inputs[0], false},        {"k", values->inputs[1], false},
        {"v", values->inputs[2], false},        {"grad-out", values->inputs[3], false},
        {"score-mod", score->score_mod, false}, {"score-mod-grad", score->score_mod_grad, false},
        {"mask-mod", score->mask_mod, false}};
    enum { INPUTS = sizeof inputs / sizeof *inputs };
    struct file_use uses[INPUTS + SCORE_FILES + RUN_OUTPUTS];
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    size_t count = INPUTS;
    memcpy(uses, inputs, sizeof inputs);
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++)
        uses[count++] = (struct file_use){row->option, score->features.files[i], false};
    for (int i = 0; i < RUN_OUTPUTS; i++)
        uses[count++] = (struct file_use){run_output_option((enum run_output)i), values->outputs[i], true};
    return file_uses_check(uses, count, failure);
}

/* Whether the inputs are still what was computed with. */
static int check_inputs(const struct run *run, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; i < ARRAYS_MOST && !status; i++)
        status = npy_check(run->values->inputs[i], &run->inputs[i], failure);
    return status ? status : score_files_check(&run->values->score, &run->score, failure);
}

static void describe_outputs(struct run *run)
{
    const struct npy_header sinks = {.type = NPY_FLOAT32, .dimensions = 1, .shape = {run->arrays.shape.heads}};
    run->headers[RUN_O] = run->arrays.o_header;
    if (run->values->o_type != CLATTN_AS_DTYPE) /* npy_type has the order of the types */
        run->headers[RUN_O].type = (enum npy_type)(run->values->o_type - CLATTN_AS_FP32);
    for (int i = RUN_LSE; i <= RUN_L; i++)
        run->headers[i] = run->arrays.row_header;
    for (int i = ARRAYS_Q; i <= ARRAYS_V; i++)
        run->headers[RUN_D_Q + i] = run->inputs[i].header;
    run->headers[RUN_D_BIAS] = run->score.files[SCORE_BIAS].header;
    run->headers[RUN_D_BIAS].type = run->inputs[ARRAYS_Q].header.type;
    run->headers[RUN_D_SINKS] = sinks;
}

/* Before the work, so that a directory that is missing costs no time. */
static int create_outputs(struct run *run, struct failure *failure)
{
    describe_outputs(run);
    for (int i = 0; i < RUN_OUTPUTS; i++) {
        const bool file = run->values->outputs[i],
                   needed = (i == RUN_M || i == RUN_L) && run_wants_gradients(run->values);
        if (!file && !needed)
            continue;
        const size_t bytes = npy_data_bytes(&run->headers[i]);
        const int status = file ? output_create(run->values->outputs[i], &run->outputs[i], failure) : STATUS_OK;
        if (status)
            return status;
        run->results[i] = calloc(bytes ? bytes : 1, 1);
        if (!run->results[i])
            return fail(failure, STATUS_DEVICE, "no memory for %zu bytes of output", bytes);
    }
    return STATUS_OK;
}

static int write_outputs(struct run *run, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; !status && i < RUN_OUTPUTS; i++)
        if (run->values->outputs[i])
            status = npy_write(&run->outputs[i], &run->headers[i], run->results[i], failure);
    for (int i = 0; !status && i < RUN_OUTPUTS; i++)
        if (run->values->outputs[i])
            status = output_commit(&run->outputs[i], failure);
    return status;
}

static int run_all(struct run *run, struct failure *failure)
{
    int status = check_files(run->values, failure);
    if (!status)
        status = open_inputs(run, failure);
    if (!status)
        status = create_outputs(run, failure);
    if (!status)
        status = session_open(&run->session, &run->values->device, run->values->quiet, failure);
    if (!status)
        status = check_skeleton(run->session.capabilities, run->values->skeleton, failure);
    if (!status)
        status = check_backward_skeleton(run->session.capabilities, "backward-skeleton", run->values->backward_skeleton,
                                         failure);
    if (!status) {
        status = run_compute(run, failure);
        /* which, where one was not, is the reason of whatever has failed */
        const int changed = check_inputs(run, failure);
        status = changed ? changed : status;
    }
    if (!status)
        status = write_outputs(run, failure);
    if (!status && !run->values->quiet)
        run_print_summary(run);
    if (!status && run->values->json)
        status = run_print_json(run, failure);
    return status;
}

int run_main(int argc, char **argv, struct failure *failure)
{
    struct values values;
    int status = run_options_parse(argc, argv, &values, failure);
    if (status)
        return status;
    struct run run = {.values = &values};
    status = run_all(&run, failure);
    session_close(&run.session);
    for (int i = 0; i < RUN_OUTPUTS; i++) {
        output_discard(&run.outputs[i]);
        free(run.results[i]);
    }
    for (int i = 0; i < ARRAYS_MOST; i++)
        npy_close(&run.inputs[i]);
    score_files_close(&run.score);
    return status;
}
