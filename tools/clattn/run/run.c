/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "files/file_uses.h"
#include "files/option_lines.h"
#include "run/cache.h"
#include "run/devices.h"
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
    if (!status && values->outputs[RUN_D_BIAS] && score_bias_repeats_keys(&run->score))
        status =
            fail(failure, STATUS_FILE, "%s: --dbias needs a bias with a column for each key, but one serves several",
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
        {"mask-mod", score->mask_mod, false},   {"cache", values->cache, true}};
    enum { INPUTS = sizeof inputs / sizeof *inputs };
    struct file_use uses[INPUTS + SCORE_FILES + RUN_OUTPUTS];
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    size_t count = INPUTS;
    memcpy(uses, inputs, sizeof inputs);
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++)
        uses[count++] = (struct file_use){row->option.name, score->features.files[i], false};
    for (int i = 0; i < RUN_OUTPUTS; i++)
        uses[count++] = (struct file_use){run_output_option((enum run_output)i), values->outputs[i], true};
    return file_uses_check(uses, count, failure);
}

/* Whether the inputs are still what was computed with. */
int run_check_inputs(const struct run *run, struct failure *failure)
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
        const bool named = run->values->outputs[i], file = named && !run->without_files,
                   needed = (i == RUN_M || i == RUN_L) && run_wants_gradients(run->values);
        if (!named && !needed)
            continue;
        const size_t bytes = npy_data_bytes(&run->headers[i]);
        const int status = file ? output_create(run->values->outputs[i], &run->outputs[i], failure) : STATUS_OK;
        if (status)
            return status;
        run->results[i] = calloc(bytes ? bytes : 1, 1);
        if (!run->results[i])
            return fail(failure, STATUS_DEVICE, "no memory for %zu bytes of output", bytes);
    }
    return run->values->cache ? run_cache_create(run, failure) : STATUS_OK;
}

int run_write_outputs(struct run *run, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; !status && i < RUN_OUTPUTS; i++)
        if (run->values->outputs[i])
            status = npy_write(&run->outputs[i], &run->headers[i], run->results[i], failure);
    for (int i = 0; !status && i < RUN_OUTPUTS; i++)
        if (run->values->outputs[i])
            status = output_commit(&run->outputs[i], failure);
    if (!status && run->values->cache)
        status = output_commit(&run->cache, failure);
    return status;
}

/* The device of a batch is that of its first run. */
static int open_session(struct run *run, struct failure *failure)
{
    struct session *session = &run->shared->session;
    const struct option_device *wanted = &run->values->device;
    if (!session->clattn)
        return session_open(session, wanted, run->values->quiet, failure);
    if (wanted->given && (wanted->platform != session->platform || wanted->device != session->device))
        return fail(failure, STATUS_USAGE, "--device %d:%d: the batch runs on %d:%d", wanted->platform, wanted->device,
                    session->platform, session->device);
    return STATUS_OK;
}

int run_open(struct run *run, struct failure *failure)
{
    int status = check_files(run->values, failure);
    if (!status)
        status = open_inputs(run, failure);
    return status ? status : create_outputs(run, failure);
}

/* On several devices. */
static int run_shared_out(struct run *run, struct failure *failure)
{
    int status = run_devices_compute(run, failure);
    const int changed = run_check_inputs(run, failure);
    status = changed ? changed : status;
    return status ? status : run_write_outputs(run, failure);
}

static int run_all(struct run *run, struct failure *failure)
{
    int status = run_open(run, failure);
    if (!status && run->values->devices.count)
        return run_shared_out(run, failure);
    if (!status)
        status = open_session(run, failure);
    if (!status)
        status = check_skeleton(run->shared->session.capabilities, run->values->skeleton, failure);
    if (!status)
        status = check_backward_skeleton(run->shared->session.capabilities, "backward-skeleton",
                                         run->values->backward_skeleton, failure);
    if (!status) {
        status = run->values->cache ? run_cache_compute(run, failure) : run_compute(run, failure);
        /* which, where one was not, is the reason of whatever has failed */
        const int changed = run_check_inputs(run, failure);
        status = changed ? changed : status;
    }
    if (!status)
        status = run_write_outputs(run, failure);
    if (!status && !run->values->quiet)
        (run->values->cache ? run_cache_print_summary : run_print_summary)(run);
    if (!status && run->values->json)
        status = (run->values->cache ? run_cache_print_json : run_print_json)(run, failure);
    return status;
}

void run_close(struct run *run)
{
    for (int i = 0; i < RUN_OUTPUTS; i++) {
        output_discard(&run->outputs[i]);
        free(run->results[i]);
    }
    output_discard(&run->cache);
    for (int i = 0; i < ARRAYS_MOST; i++)
        npy_close(&run->inputs[i]);
    score_files_close(&run->score);
}

static int run_one(const struct values *values, struct run_shared *shared, struct failure *failure)
{
    struct run run = {.values = values, .shared = shared};
    const int status = run_all(&run, failure);
    run_close(&run);
    return status;
}

/* A run that fails is told of on stderr; the others are still worth having. The first one's status is the command's. */
static int run_lines(const struct values *all, const struct option_lines *lines, struct run_shared *shared,
                     struct failure *failure)
{
    int first = STATUS_OK;
    for (int i = 0; i < lines->count; i++) {
        const struct option_line *line = &lines->items[i];
        struct values values;
        int status = run_options_parse(line->argc, line->argv, all->batch, &values, failure);
        if (!status)
            status = run_one(&values, shared, failure);
        if (status == STATUS_HELP || !status)
            continue;
        fprintf(stderr, "clattn run: %s: line %d: %s\n", all->batch, line->number, failure->text);
        failure->text[0] = '\0'; /* said already */
        first = first ? first : status;
    }
    return first;
}

int run_main(int argc, char **argv, struct failure *failure)
{
    struct values values;
    struct run_shared shared = {.host = NULL};
    struct option_lines lines = {.count = 0};
    int status = run_options_parse(argc, argv, NULL, &values, failure);
    if (status)
        return status;
    if (values.batch)
        status = option_lines_read(values.batch, argc, argv, &lines, failure);
    if (!status)
        status = values.batch ? run_lines(&values, &lines, &shared, failure) : run_one(&values, &shared, failure);
    clattn_host_destroy(&shared.host);
    session_close(&shared.session);
    option_lines_free(&lines);
    return status;
}
