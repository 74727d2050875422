/* SPDX-License-Identifier: BSD-2-Clause */
#include "arrays.h"
#include "commands.h"
#include "json_out.h"
#include "names.h"
#include "opencl_select.h"
#include "reference.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct values {
    const char *inputs[3];  /* Q, K, V */
    const char *outputs[4]; /* O, LSE, m, l */
    int dtype, causal, layout;
    double scale;
    struct option_device device;
    const char *skeleton;
    bool quiet, json;
};

enum { BHND, BNHD };

static const struct option_word layouts[] = {{"bhnd", BHND}, {"bnhd", BNHD}, {NULL, 0}};

static const struct option_spec options[] = {
    TEXT("q", "FILE", inputs[0], "queries, a .npy array [batch, heads, n, d], [heads, n, d] or [n, d]"),
    TEXT("k", "FILE", inputs[1], "keys; fewer heads than Q mean grouped queries"),
    TEXT("v", "FILE", inputs[2], "values; their d may differ from that of Q and K"),
    TEXT("out", "FILE", outputs[0], "where O goes, as .npy, in the type and layout of Q"),
    TEXT("lse", "FILE", outputs[1], "where the log-sum-exp of each row goes, fp32 [batch, heads, n]"),
    TEXT("m", "FILE", outputs[2], "where each row's maximum goes, likewise"),
    TEXT("l", "FILE", outputs[3], "where each row's sum of exponentials goes, likewise"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "what the arrays must hold; bf16 is stored as uint16 and must be said"),
    WORD("layout", "ORDER", layout, layouts, "bhnd (default) or bnhd: [batch, n, heads, d]"),
    CAUSAL("bottom-right (default), top-left or off"),
    NUMBER("scale", "X", scale, "factor of the scores (default: 1 / sqrt(d))"),
    DEVICE("where to run (default: the first GPU, else the first device)"),
    TEXT("skeleton", "NAME", skeleton, "take this kernel: forward_simt, forward_cpu or forward_matrix"),
    FLAG("quiet", quiet, "no summary and no warnings"),
    FLAG("json", json, "print the summary as JSON to stdout"),
    END_OF_OPTIONS,
};

const struct command_spec run_command = {
    .name = "run",
    .summary = "Compute attention on .npy arrays",
    .synopsis = "clattn run --q Q.npy --k K.npy --v V.npy --out O.npy [--lse LSE.npy] [--m M.npy] [--l L.npy]\n"
                "           [--dtype TYPE] [--layout ORDER] [--causal[=CORNER]] [--scale X] [--device P:D]",
    .details = "The outputs appear together when all have been computed and written, or not at all. A summary of one\n"
               "line goes to stderr.",
    .options = options,
};

/* A run from its files to its files. */
struct run {
    const struct values *values;
    struct npy_file inputs[3];
    struct arrays arrays;
    struct output_file outputs[4];
    void *results[4];
    struct session session;
    struct clattn_plan_info plan;
    struct clattn_host_info info;
};

static int check_names(const struct values *values, struct failure *failure)
{
    static const char *const required[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        if (!values->inputs[i])
            return fail(failure, STATUS_USAGE,
                        "--%s FILE is needed: --q, --k and --v name the inputs, --out the output", required[i]);
    if (!values->outputs[0])
        return fail(failure, STATUS_USAGE, "--out FILE is needed: where O goes");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            if (values->outputs[i] && values->outputs[j] && !strcmp(values->outputs[i], values->outputs[j]) &&
                strncmp(values->outputs[i], "/dev/", 5) != 0)
                return fail(failure, STATUS_USAGE, "'%s' is named for two outputs: each needs its own file",
                            values->outputs[i]);
    return STATUS_OK;
}

static int open_inputs(struct run *run, struct failure *failure)
{
    struct arrays_request request = {.bnhd = run->values->layout == BNHD, .dtype = run->values->dtype};
    for (int i = 0; i < 3; i++) {
        const int status = npy_open(run->values->inputs[i], &run->inputs[i], failure);
        if (status)
            return status;
        request.names[i] = run->values->inputs[i];
        request.headers[i] = &run->inputs[i].header;
    }
    return arrays_match(&request, &run->arrays, failure);
}

static const struct npy_header *output_header(const struct run *run, int index)
{
    return index ? &run->arrays.row_header : &run->arrays.o_header;
}

/* Before the work, so that a directory that is missing costs no time. */
static int create_outputs(struct run *run, struct failure *failure)
{
    for (int i = 0; i < 4; i++) {
        if (!run->values->outputs[i])
            continue;
        const size_t bytes = npy_data_bytes(output_header(run, i));
        const int status = output_create(run->values->outputs[i], &run->outputs[i], failure);
        if (status)
            return status;
        run->results[i] = malloc(bytes ? bytes : 1);
        if (!run->results[i])
            return fail(failure, STATUS_DEVICE, "no memory for %zu bytes of output", bytes);
    }
    return STATUS_OK;
}

static int compute(struct run *run, struct failure *failure)
{
    const struct arrays *arrays = &run->arrays;
    const struct clattn_problem problem = {.dtype = arrays->dtype,
                                           .d = arrays->d,
                                           .d_v = arrays->d_v,
                                           .causal = (enum clattn_causal)run->values->causal,
                                           .scale = (float)run->values->scale,
                                           .expected_n_q = arrays->shape.n_q,
                                           .expected_n_kv = arrays->shape.n_kv,
                                           .skeleton = run->values->skeleton};
    const struct clattn_host_forward_args args = {.shape = arrays->shape,
                                                  .q = run->inputs[0].data,
                                                  .k = run->inputs[1].data,
                                                  .v = run->inputs[2].data,
                                                  .o = run->results[0],
                                                  .q_layout = arrays->q,
                                                  .k_layout = arrays->k,
                                                  .v_layout = arrays->v,
                                                  .o_layout = arrays->o,
                                                  .lse = run->results[1],
                                                  .m = run->results[2],
                                                  .l = run->results[3]};
    const struct clattn_host_params params = {.context = run->session.clattn, .queue = run->session.queue};
    clattn_host *host = NULL;
    clattn_status code = clattn_host_create(&host, &params);
    if (!code)
        code = clattn_host_forward(host, &problem, &args);
    if (!code)
        code = clattn_host_last(host, &run->plan, &run->info);
    clattn_host_destroy(&host);
    return code ? fail_library(failure, "attention", code) : STATUS_OK;
}

static int write_outputs(struct run *run, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; !status && i < 4; i++)
        if (run->values->outputs[i])
            status = npy_write(&run->outputs[i], output_header(run, i), run->results[i], failure);
    for (int i = 0; !status && i < 4; i++)
        if (run->values->outputs[i])
            status = output_commit(&run->outputs[i], failure);
    return status;
}

static double gigaflops(const struct run *run)
{
    const struct arrays *arrays = &run->arrays;
    const double pairs =
        reference_visible_pairs((enum clattn_causal)run->values->causal, arrays->shape.n_q, arrays->shape.n_kv);
    const double flops = 2.0 * (double)(arrays->shape.batch * arrays->shape.heads) * pairs * (arrays->d + arrays->d_v);
    return run->info.compute_ms > 0.0 ? flops / run->info.compute_ms / 1e6 : 0.0;
}

static int print_json(const struct run *run, struct failure *failure)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256];
    session_title(&run->session, device, sizeof device);
    json_t *summary = json_pack(
        "{s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:I}", "device",
        json_text(device), "driver", json_text(run->session.capabilities->driver_version), "path", run->plan.skeleton,
        "dtype", clattn_dtype_name(run->arrays.dtype), "batch", (json_int_t)s->batch, "heads", (json_int_t)s->heads,
        "kv_heads", (json_int_t)s->kv_heads, "n_q", (json_int_t)s->n_q, "n_kv", (json_int_t)s->n_kv, "d", run->arrays.d,
        "d_v", run->arrays.d_v, "causal", causal_name((enum clattn_causal)run->values->causal), "compute_ms",
        json_measure(run->info.compute_ms), "copy_in_ms", json_measure(run->info.copy_in_ms), "copy_out_ms",
        json_measure(run->info.copy_out_ms), "gflops", json_measure(gigaflops(run)), "device_bytes",
        (json_int_t)run->info.device_bytes);
    return json_print(summary, NULL, failure);
}

static void print_summary(const struct run *run)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256], memory[32];
    session_title(&run->session, device, sizeof device);
    bytes_text(run->info.device_bytes, memory, sizeof memory);
    fprintf(stderr,
            "%s batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", n %" PRId64 " x %" PRId64
            ", d %d/%d, causal %s: %s on %s, %.3f ms, %.1f GFLOP/s, %s of device memory\n",
            clattn_dtype_name(run->arrays.dtype), s->batch, s->heads, s->kv_heads, s->n_q, s->n_kv, run->arrays.d,
            run->arrays.d_v, causal_name((enum clattn_causal)run->values->causal), run->plan.skeleton, device,
            run->info.compute_ms, gigaflops(run), memory);
}

static int run_all(struct run *run, struct failure *failure)
{
    int status = open_inputs(run, failure);
    if (!status)
        status = create_outputs(run, failure);
    if (!status)
        status = session_open(&run->session, &run->values->device, run->values->quiet, failure);
    if (!status)
        status = check_skeleton(run->session.capabilities, run->values->skeleton, failure);
    if (!status)
        status = compute(run, failure);
    if (!status)
        status = write_outputs(run, failure);
    if (!status && !run->values->quiet)
        print_summary(run);
    if (!status && run->values->json)
        status = print_json(run, failure);
    return status;
}

int run_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.dtype = -1};
    int status = options_parse(&run_command, argc, argv, &values, failure);
    if (!status)
        status = check_names(&values, failure);
    if (status)
        return status;
    struct run run = {.values = &values};
    status = run_all(&run, failure);
    session_close(&run.session);
    for (int i = 0; i < 4; i++) {
        output_discard(&run.outputs[i]);
        free(run.results[i]);
    }
    for (int i = 0; i < 3; i++)
        npy_close(&run.inputs[i]);
    return status;
}
