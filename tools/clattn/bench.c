/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include "commands.h"
#include "json_out.h"
#include "progress.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct values {
    int grid, causal;
    struct option_list n, d, dtype;
    int64_t batch, heads, kv_heads, n_q, n_kv, d_v, repetitions;
    struct option_device device;
    const char *skeleton, *json;
    bool no_standard, quiet;
    int pass;
    struct option_list features, window, block_size;
    double block_density; /* below 0: no block mask */
};

enum { NO_GRID, FLASH };
enum { CAUSAL_DEFAULT, CAUSAL_OFF, CAUSAL_ON, CAUSAL_BOTH };

enum { PASS_FORWARD = 1, PASS_BACKWARD, PASS_BOTH };

static const struct option_word bench_features[] = {{"softcap", CLATTN_SOFTCAP},
                                                    {"alibi", CLATTN_ALIBI},
                                                    {"bias", CLATTN_BIAS},
                                                    {"mask", CLATTN_MASK},
                                                    {"key-lengths", CLATTN_KEY_LENGTHS},
                                                    {"varlen", CLATTN_VARLEN},
                                                    {"sinks", CLATTN_SINKS},
                                                    {"dropout", CLATTN_DROPOUT},
                                                    {NULL, 0}};
static const struct option_word passes[] = {
    {"forward", PASS_FORWARD}, {"backward", PASS_BACKWARD}, {"both", PASS_BOTH}, {NULL, 0}};
static const struct option_word grids[] = {{"flash", FLASH}, {NULL, 0}};
static const struct option_word causals[] = {{"on", CAUSAL_ON}, {"off", CAUSAL_OFF}, {"both", CAUSAL_BOTH}, {NULL, 0}};

static const struct option_spec options[] = {
    WORD("grid", "NAME", grid, grids, "flash: FlashAttention's own shapes (the default where no length is given)"),
    INTEGERS("n", n, 1, 1 << 30, "length of Q, K and V; of a grid, these alone"),
    INTEGERS("d", d, 1, CLATTN_MAX_D, "head dimension of Q and K (default 64); of a grid, these alone"),
    WORDS("dtype", "TYPE,...", dtype, option_dtypes, "fp32 (default), fp16, bf16"),
    {.name = "causal",
     .argument = "WHEN",
     .kind = OPTION_WORD,
     OPTION_FIELD(causal),
     .words = causals,
     .optional = true,
     .implied = "on",
     .help = "on, off or both (default: off; of a grid, both)"},
    WORD("pass", "NAME", pass, passes, "forward (default), backward or both"),
    WORDS("feature", "NAME,...", features, bench_features,
          "with these score modifications: softcap, alibi, bias, mask,\n"
          "key-lengths, varlen, sinks, dropout"),
    {.name = "window",
     .argument = "L,R",
     .kind = OPTION_INTEGERS,
     OPTION_FIELD(window),
     .minimum = -1,
     .maximum = INT32_MAX,
     .help = "with a sliding window: keys to the left and to the right; -1: all"},
    SHARE("block-density", "X", block_density, "with a block mask that keeps this share of the blocks, at random"),
    {.name = "block-size",
     .argument = "BQ,BKV",
     .kind = OPTION_INTEGERS,
     OPTION_FIELD(block_size),
     .minimum = 16,
     .maximum = 65536,
     .help = "rows and keys of its blocks, multiples of 16 (default: 64,64)"},
    INTEGER("batch", batch, 1, 1 << 20, "default 1"),
    INTEGER("heads", heads, 1, 1 << 20, "default 8"),
    INTEGER("kv-heads", kv_heads, 1, 1 << 20, "default: heads"),
    INTEGER("n-q", n_q, 1, 1 << 30, "length of Q"),
    INTEGER("n-kv", n_kv, 1, 1 << 30, "length of K and V"),
    INTEGER("d-v", d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    DEVICE("which to measure (default: the first GPU, else the first device)"),
    TEXT("skeleton", "NAME", skeleton, "take this kernel: forward_simt, forward_cpu or forward_matrix"),
    FLAG("no-standard", no_standard, "leave standard attention out"),
    INTEGER("repetitions", repetitions, 1, 1000, "default: as many as fit in about a second, 3 to 15"),
    {.name = "json",
     .argument = "FILE",
     .kind = OPTION_STRING,
     OPTION_FIELD(json),
     .optional = true,
     .implied = "-",
     .help = "write the rows as JSON to FILE; to stdout, instead of the table, without one"},
    FLAG("quiet", quiet, "no progress bar and no warnings"),
    END_OF_OPTIONS,
};

const struct command_spec bench_command = {
    .name = "bench",
    .summary = "Measure speed and memory beside standard attention and the device's peak",
    .synopsis =
        "clattn bench [--grid flash] [--n N,...] [--d N,...] [--dtype TYPE,...] [--causal[=WHEN]] [--json[=FILE]]\n"
        "clattn bench --n N | --n-q N --n-kv N [--batch N] [--heads N] [--kv-heads N] [--d N] [--d-v N] ...\n"
        "             [--pass NAME] [--feature NAME,...] [--window L,R] [--block-density X [--block-size BQ,BKV]]",
    .details =
        "Times are the device's own, medians of warm runs; flash and standard attention (two CLBlast GEMMs with\n"
        "the scores in device memory) take turns. FLOPs are 2 * batch * heads * n_q * n_kv * (d + d_v), halved\n"
        "if causal, fewer with a window or a block mask, 2.5 times that for a backward pass. The peak is that of fp32 "
        "multiply-adds, measured before and after each turn; the larger counts.",
    .options = options,
};

/* The rows to measure. */
struct rows {
    struct bench_shape *items;
    int count;
};

static bool listed(const struct option_list *list, int64_t value)
{
    for (int i = 0; i < list->count; i++)
        if (list->values[i] == value)
            return true;
    return !list->count;
}

static bool add(struct rows *rows, const struct bench_shape *shape)
{
    struct bench_shape *items = realloc(rows->items, (size_t)(rows->count + 1) * sizeof *items);
    if (!items)
        return false;
    rows->items = items;
    rows->items[rows->count++] = *shape;
    return true;
}

/* What is the same for all rows. */
static void add_modifications(const struct values *values, struct bench_shape *shape)
{
    for (int i = 0; i < values->features.count; i++)
        shape->features |= (unsigned)values->features.values[i];
    if (values->window.count) {
        shape->features |= CLATTN_WINDOW;
        shape->window_left = values->window.values[0];
        shape->window_right = values->window.values[1];
    }
    if (values->block_density >= 0.0) {
        shape->features |= CLATTN_BLOCK_MASK;
        shape->block_density = values->block_density;
        shape->block_q = values->block_size.count ? (int)values->block_size.values[0] : 64;
        shape->block_kv = values->block_size.count ? (int)values->block_size.values[1] : 64;
    }
}

static bool add_passes(struct rows *rows, const struct values *values, struct bench_shape shape)
{
    const int pass = values->pass ? values->pass : PASS_FORWARD;
    bool enough = true;
    if (pass & PASS_FORWARD)
        enough = add(rows, &shape);
    shape.pass = CLATTN_BACKWARD;
    if (pass & PASS_BACKWARD)
        enough = enough && add(rows, &shape);
    return enough;
}

/* One shape in each type, mask and direction. */
static bool add_variants(struct rows *rows, const struct values *values, struct bench_shape shape, int causal)
{
    const struct option_list fp32 = {.count = 1, .values = {CLATTN_FP32}};
    const struct option_list *dtypes = values->dtype.count ? &values->dtype : &fp32;
    bool enough = true;
    add_modifications(values, &shape);
    for (int i = 0; i < dtypes->count; i++) {
        shape.dtype = (enum clattn_dtype)dtypes->values[i];
        for (int on = 0; on < 2; on++) {
            shape.causal = on;
            if (causal & (on ? CAUSAL_ON : CAUSAL_OFF))
                enough = enough && add_passes(rows, values, shape);
        }
    }
    return enough;
}

/* On a GPU 16384 tokens and a hidden size of 2048, as in FlashAttention's papers; a CPU gets one batch of 8 heads. */
static bool add_grid(struct rows *rows, const struct values *values, bool cpu)
{
    bool enough = true;
    for (int d = 64; d <= 128; d *= 2) {
        for (int64_t n = 512; n <= (cpu ? 8192 : 16384); n *= 2) {
            if (!listed(&values->d, d) || !listed(&values->n, n))
                continue;
            const int64_t batch = cpu ? 1 : 16384 / n, heads = cpu ? 8 : 2048 / d;
            const struct bench_shape shape = {
                .sizes = {.batch = batch, .heads = heads, .kv_heads = heads, .n_q = n, .n_kv = n}, .d = d, .d_v = d};
            enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_BOTH);
        }
    }
    return enough;
}

static bool add_shapes(struct rows *rows, const struct values *values)
{
    const struct option_list d64 = {.count = 1, .values = {64}}, unsaid = {.count = 1};
    const struct option_list *d = values->d.count ? &values->d : &d64, *n = values->n.count ? &values->n : &unsaid;
    bool enough = true;
    for (int i = 0; i < d->count; i++) {
        for (int j = 0; j < n->count; j++) {
            const int64_t heads = values->heads ? values->heads : 8;
            const struct bench_shape shape = {.sizes = {.batch = values->batch ? values->batch : 1,
                                                        .heads = heads,
                                                        .kv_heads = values->kv_heads ? values->kv_heads : heads,
                                                        .n_q = values->n_q ? values->n_q : n->values[j],
                                                        .n_kv = values->n_kv ? values->n_kv : n->values[j]},
                                              .d = (int)d->values[i],
                                              .d_v = (int)(values->d_v ? values->d_v : d->values[i])};
            enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_OFF);
        }
    }
    return enough;
}

static bool single(const struct values *values)
{
    return !values->grid && (values->n.count || values->n_q || values->n_kv);
}

static int check_modifications(const struct values *values, struct failure *failure)
{
    if (values->pass == PASS_BOTH && values->skeleton)
        return fail(failure, STATUS_USAGE, "--skeleton names a kernel of one pass: --pass forward or --pass backward");
    if (values->window.count && values->window.count != 2)
        return fail(failure, STATUS_USAGE, "--window: two numbers are needed, L,R, such as 128,0");
    if (values->block_size.count && values->block_density < 0.0)
        return fail(failure, STATUS_USAGE, "--block-size needs --block-density X");
    if (values->block_size.count && values->block_size.count != 2)
        return fail(failure, STATUS_USAGE, "--block-size: two numbers are needed, BQ,BKV, such as 64,64");
    for (int i = 0; i < values->block_size.count; i++)
        if (values->block_size.values[i] % 16)
            return fail(failure, STATUS_USAGE, "--block-size '%" PRId64 "': must be a multiple of 16",
                        values->block_size.values[i]);
    return STATUS_OK;
}

static int check_values(const struct values *values, struct failure *failure)
{
    const bool shaped =
        values->batch || values->heads || values->kv_heads || values->n_q || values->n_kv || values->d_v;
    if (!single(values))
        return shaped ? fail(failure, STATUS_USAGE,
                             values->grid ? "--grid has its own shapes: of these, --n, --d, --dtype and --causal select"
                                          : "a shape needs a length: --n, or --n-q and --n-kv")
                      : STATUS_OK;
    if (!values->n.count && (!values->n_q || !values->n_kv))
        return fail(failure, STATUS_USAGE, "--n-q and --n-kv: both, or --n");
    const int64_t heads = values->heads ? values->heads : 8;
    if (values->kv_heads && heads % values->kv_heads)
        return fail(failure, STATUS_USAGE, "--kv-heads %" PRId64 ": must divide the %" PRId64 " heads of Q",
                    values->kv_heads, heads);
    return STATUS_OK;
}

static void row_title(const struct bench_shape *shape, char *text, size_t size)
{
    snprintf(text, size, "%s, batch %" PRId64 ", heads %" PRId64 ", n %" PRId64 " x %" PRId64 ", d %d%s",
             clattn_dtype_name(shape->dtype), shape->sizes.batch, shape->sizes.heads, shape->sizes.n_q,
             shape->sizes.n_kv, shape->d, shape->causal ? ", causal" : "");
    if (shape->pass == CLATTN_BACKWARD && strlen(text) < size)
        snprintf(text + strlen(text), size - strlen(text), ", backward");
}

/* A row that fails is told of on stderr and left out; the others are still worth having. */
static int measure_rows(const struct values *values, const struct session *session, const struct bench_peak *peak,
                        const struct rows *rows, json_t *json, struct failure *failure)
{
    const struct bench_options bench_options = {
        .skeleton = values->skeleton, .standard = !values->no_standard, .repetitions = (int)values->repetitions};
    const bool table = !values->json || strcmp(values->json, "-") != 0;
    struct progress progress;
    int worst = STATUS_OK;
    if (table)
        bench_print_head(session, bench_peak_best(peak), &rows->items[0]);
    progress_start(&progress, rows->count, values->quiet);
    for (int i = 0; i < rows->count; i++) {
        struct bench_row row;
        char title[160];
        row_title(&rows->items[i], title, sizeof title);
        fflush(stdout);
        progress_step(&progress, title);
        const int status = bench_measure(session, &rows->items[i], &bench_options, peak, &row, failure);
        progress_clear(&progress);
        if (status) {
            fprintf(stderr, "clattn bench: %s: %s\n", title, failure->text);
            failure->text[0] = '\0'; /* said already */
            worst = status;
            continue;
        }
        if (table)
            bench_print_row(&row);
        if (json)
            json_array_append_new(json, bench_json_row(session, &row));
    }
    return worst;
}

static int bench_device(const struct values *values, const struct session *session, struct failure *failure)
{
    struct rows rows = {.count = 0};
    const bool enough = single(values) ? add_shapes(&rows, values)
                                       : add_grid(&rows, values, session->capabilities->type == CLATTN_DEVICE_CPU);
    if (!enough || !rows.count) {
        free(rows.items);
        return enough ? fail(failure, STATUS_USAGE,
                             "nothing to measure: the grid has d 64 and 128, n 512 to %d in powers of 2",
                             session->capabilities->type == CLATTN_DEVICE_CPU ? 8192 : 16384)
                      : fail(failure, STATUS_DEVICE, "no memory for the list of rows");
    }
    json_t *json = values->json ? json_array() : NULL;
    struct bench_peak *peak = NULL;
    int status = bench_peak_create(session, &peak, failure);
    if (!status)
        status = measure_rows(values, session, peak, &rows, json, failure);
    bench_peak_destroy(&peak);
    free(rows.items);
    if (!json)
        return status;
    if (status && !json_array_size(json)) {
        json_decref(json);
        return status;
    }
    const int printing = json_print(json, values->json, failure);
    return status ? status : printing;
}

int bench_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.grid = NO_GRID, .block_density = -1.0};
    int status = options_parse(&bench_command, argc, argv, &values, failure);
    if (!status)
        status = check_values(&values, failure);
    if (!status)
        status = check_modifications(&values, failure);
    if (status)
        return status;
    struct session session;
    status = session_open(&session, &values.device, values.quiet, failure);
    if (status)
        return status;
    status = values.pass == PASS_BACKWARD
                 ? check_backward_skeleton(session.capabilities, "skeleton", values.skeleton, failure)
                 : check_skeleton(session.capabilities, values.skeleton, failure);
    if (!status)
        status = bench_device(&values, &session, failure);
    session_close(&session);
    return status;
}
