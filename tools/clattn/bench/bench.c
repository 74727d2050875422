/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "bench/grid.h"
#include "bench/rows.h"
#include "commands.h"
#include "files/file_uses.h"
#include "files/output_file.h"
#include "files/text_file.h"
#include "json_out.h"
#include "progress.h"
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* All but those that have options of their own, and those of gradients alone. */
static const struct option_word *feature_words(void)
{
    const unsigned own = CLATTN_WINDOW | CLATTN_BLOCK_MASK | CLATTN_PAGES;
    return option_words_of_features(cla_features_of_pass(cla_features_known() & ~own, false));
}

static const struct option_word passes[] = {
    {"forward", PASS_FORWARD}, {"backward", PASS_BACKWARD}, {"both", PASS_BOTH}, {NULL, 0}};
static const struct option_word grids[] = {
    {"flash", GRID_FLASH}, {"memory", GRID_MEMORY}, {"decode", GRID_DECODE}, {NULL, 0}};
static const struct option_word causals[] = {{"on", CAUSAL_ON}, {"off", CAUSAL_OFF}, {"both", CAUSAL_BOTH}, {NULL, 0}};

static const struct option_spec options[] = {
    WORDS("grid", "NAME,...", grids, grids,
          "flash: FlashAttention's own shapes (the default where no length is given);\n"
          "memory: n from 128 to 65536; decode: few rows against many keys, and K and V\n"
          "quantised and in pages; ring, alone: what ranks of MPI share, clattn-ring(1)"),
    INTEGERS("n", n, 1, 1 << 30, "length of Q, K and V; of a grid, these alone"),
    INTEGERS("d", d, 1, CLATTN_MAX_LATENT_D, "head dimension of Q and K (default 64); of a grid, these alone"),
    WORDS("dtype", "TYPE,...", dtype, option_dtypes, "fp32 (default), fp16, bf16"),
    CAUSALS(causals, "on, off or both (default: off; of a grid, both)"),
    WORD("pass", "NAME", pass, passes, "forward (default), backward or both"),
    WORDS_OF("feature", "NAME,...", features, feature_words, "with these score modifications:"),
    PAIR("window", "L,R", window, -1, INT32_MAX, 0, "128,0",
         "with a sliding window: keys to the left and to the right; -1: all"),
    SHARE("block-density", "X", block_density, "with a block mask that keeps this share of the blocks, at random"),
    PAIR("block-size", "BQ,BKV", block_size, 16, 65536, 16, "64,64",
         "rows and keys of its blocks, multiples of 16 (default: 64,64)"),
    TEXT("score-mod", "FILE", score_mod, "with this OpenCL C text, as of 'clattn run', without data"),
    TEXT("score-mod-grad", "FILE", score_mod_grad, "its derivative; needed for gradients"),
    TEXT("mask-mod", "FILE", mask_mod, "with this OpenCL C text, which hides pairs; the FLOPs are those of all"),
    INTEGER("batch", batch, 1, 1 << 20, "default 1"),
    INTEGER("heads", heads, 1, 1 << 20, "default 8"),
    INTEGER("kv-heads", kv_heads, 1, 1 << 20, "default: heads"),
    INTEGER("n-q", n_q, 1, 1 << 30, "length of Q"),
    INTEGER("n-kv", n_kv, 1, 1 << 30, "length of K and V"),
    INTEGER("d-v", d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    WORD("k-format", "TYPE", k_format, option_formats + CLATTN_BF16 + 1,
         "K quantised: int8, int4, fp8_e4m3, fp8_e5m2, q8_0, q4_0"),
    WORD("v-format", "TYPE", v_format, option_formats + CLATTN_BF16 + 1, "V quantised, likewise"),
    INTEGER("page-keys", page_keys, 1, 1 << 30, "K and V in pages of so many keys, in random order"),
    DEVICE("which to measure (default: the first GPU, else the first device)"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD | OPTION_BACKWARD, "take this kernel, one of"),
    TEXT("knobs", "NAME=N...", knobs,
         "with these constants of its own, such as \"tma=1 stale_max=1\"; needs --skeleton"),
    INTEGER("b-r", b_r, 1, 65536, "with blocks of so many rows; needs --skeleton"),
    INTEGER("b-c", b_c, 1, 65536, "with blocks of so many keys; needs --skeleton"),
    INTEGER("work-group-size", work_group_size, 1, 65536, "with so many work-items in a work-group; needs --skeleton"),
    INTEGER("splits", splits, 1, CLATTN_MAX_SPLITS,
            "split the keys of a forward pass into so many parts; 1: not at all (default:\n"
            "planned, by the shape and the device)"),
    INTEGER("split-keys", split_keys, 1, INT32_MAX,
            "split them at each multiple of N keys, whatever the shape: the same bits of a\n"
            "sequence in any batch"),
    WORD("packing", "WHEN", packing, option_packings,
         "whether query heads that share a head of K and V go together: planned (default),\n"
         "never, always"),
    FLAG("unordered", unordered, "let a backward pass add up dQ in any order, not always in the same"),
    FLAG("no-standard", no_standard, "leave standard attention out"),
    INTEGER("repetitions", repetitions, 1, 1000, "default: as many as fit in about a second, 3 to 15"),
    INTEGER("again", again, 0, 100, "measure a row that other work disturbed at most so many times more (default: 2)"),
    INTEGER("calls", calls, 1, 1000,
            "time so many calls together, all enqueued before the first begins, and divide\n(default: each by itself, "
            "by its own events)"),
    {.name = "json",
     .argument = "FILE",
     .kind = OPTION_STRING,
     OPTION_FIELD(json),
     .optional = true,
     .implied = "-",
     .help = "write the rows as JSON to FILE; to stdout, instead of the table, without one"},
    {.name = "csv",
     .argument = "FILE",
     .kind = OPTION_STRING,
     OPTION_FIELD(csv),
     .optional = true,
     .implied = "-",
     .help = "the same as comma-separated values"},
    TEXT("compare", "FILE", compare,
         "set the rows beside those of FILE, which --json wrote (- is stdin); exit status 5 if\nany is slower beyond "
         "noise, 6 if none is in both"),
    TEXT("plot", "FILE", plot,
         "draw FILE-speed, FILE-memory and FILE-roofline, .svg, .png or .pdf as FILE ends;\nneeds gnuplot"),
    FLAG("keep-plot-script", keep_plot_script, "keep gnuplot's scripts, with their data, beside the pictures"),
    TEXT("from", "FILE", from, "measure nothing: take the rows of FILE, which --json wrote; - is stdin"),
    FLAG("quiet", quiet, "no progress bar and no warnings"),
    END_OF_OPTIONS,
};

const struct command_spec bench_command = {
    .name = "bench",
    .summary = "Measure speed and memory beside standard attention and the device's peak",
    .synopsis =
        "clattn bench [--grid NAME,...] [--n N,...] [--d N,...] [--dtype TYPE,...] [--causal[=WHEN]] [--pass NAME]\n"
        "             [--json[=FILE]] [--csv[=FILE]] [--compare OLD.json] [--plot FILE.svg]\n"
        "clattn bench --n N | --n-q N --n-kv N [--batch N] [--heads N] [--kv-heads N] [--d N] [--d-v N] ...\n"
        "             [--k-format TYPE] [--v-format TYPE] [--page-keys N]\n"
        "             [--pass NAME] [--feature NAME,...] [--window L,R] [--block-density X [--block-size BQ,BKV]]\n"
        "             [--score-mod FILE [--score-mod-grad FILE]] [--mask-mod FILE]\n"
        "clattn bench --from FILE.json [--csv[=FILE]] [--compare OLD.json] [--plot FILE.svg]",
    .details =
        "Times are the device's own, medians of warm runs; flash and standard attention (two CLBlast GEMMs with\n"
        "the scores in device memory) take turns. FLOPs are 2 * batch * heads * n_q * n_kv * (d + d_v), halved\n"
        "if causal, fewer with a window or a block mask, 2.5 times that for a backward pass. The peak is that of fp32\n"
        "multiply-adds, or of matrix units where these do the products, measured before and after each turn; the\n"
        "larger counts. A row's limit is the lower of it and of what inputs and outputs allow at the speed of a copy.\n"
        "With --compare, exit status 5 says that a row is slower beyond noise, 6 that no row is in both files.",
    .options = options,
};

static void row_title(const struct bench_shape *shape, char *text, size_t size)
{
    snprintf(text, size, "%s, batch %" PRId64 ", heads %" PRId64 ", n %" PRId64 " x %" PRId64 ", d %d%s",
             clattn_dtype_name(shape->dtype), shape->sizes.batch, shape->sizes.heads, shape->sizes.n_q,
             shape->sizes.n_kv, shape->d, shape->causal ? ", causal" : "");
    if (shape->pass == CLATTN_BACKWARD && strlen(text) < size)
        snprintf(text + strlen(text), size - strlen(text), ", backward");
}

static volatile sig_atomic_t interrupted;

/* The first interrupt ends the measuring after the present row; the next one ends the process. */
static void interrupt(int number)
{
    interrupted = number;
    signal(number, SIG_DFL);
}

/* Measures one; a row that fails is told of on stderr and left out, since the others are still worth having. */
static int measure_row(const struct session *session, const struct bench_shape *shape, const struct bench_options *how,
                       struct bench_ceilings *ceilings, struct progress *progress, bool table, json_t *json,
                       struct failure *failure)
{
    struct bench_row row;
    char title[160];
    row_title(shape, title, sizeof title);
    fflush(stdout);
    progress_step(progress, title);
    const int status = bench_measure(session, shape, how, ceilings, &row, failure);
    progress_clear(progress);
    if (status) {
        fprintf(stderr, "clattn bench: %s: %s\n", title, failure->text);
        failure->text[0] = '\0'; /* said already */
        return status;
    }
    if (table)
        bench_print_row(&row);
    json_array_append_new(json, bench_json_row(session, &row));
    return STATUS_OK;
}

static bool is_dash(const char *path)
{
    return path && !strcmp(path, "-");
}

static int measure_rows(const struct values *values, const struct session *session, const struct bench_rows *rows,
                        json_t *json, struct failure *failure)
{
    const struct bench_options how = {.skeleton = values->skeleton,
                                      .knobs = values->knobs,
                                      .b_r = (int)values->b_r,
                                      .b_c = (int)values->b_c,
                                      .work_group_size = (int)values->work_group_size,
                                      .packing = values->packing,
                                      .splits = (int)values->splits,
                                      .split_keys = values->split_keys,
                                      .standard = !values->no_standard,
                                      .unordered = values->unordered,
                                      .repetitions = (int)values->repetitions,
                                      .calls = (int)values->calls,
                                      .again = (int)values->again};
    const bool table = !is_dash(values->json) && !is_dash(values->csv);
    struct bench_ceilings ceilings;
    struct progress progress;
    int worst = bench_ceilings_create(session, &ceilings, failure);
    if (worst)
        return worst;
    if (table)
        bench_print_head(session, bench_peak_best(bench_ceilings_peak(&ceilings, UNIT_FMA, CLATTN_FP32, failure)),
                         bench_copy_sample(ceilings.copy, 1e12), &rows->items[0]);
    progress_start(&progress, rows->count, values->quiet);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    for (int i = 0; i < rows->count && !interrupted; i++) {
        const int status = measure_row(session, &rows->items[i], &how, &ceilings, &progress, table, json, failure);
        worst = status ? status : worst;
    }
    bench_ceilings_destroy(&ceilings);
    return worst;
}

static int bench_device(const struct values *values, const struct bench_texts *texts, const struct session *session,
                        json_t *json, struct failure *failure)
{
    struct bench_rows rows;
    int status = values->pass == PASS_BACKWARD
                     ? check_backward_skeleton(session->capabilities, "skeleton", values->skeleton, failure)
                     : check_skeleton(session->capabilities, values->skeleton, failure);
    if (!status)
        status = bench_list_rows(values, session->capabilities->type == CLATTN_DEVICE_CPU, &rows, failure);
    if (status)
        return status;
    for (int i = 0; i < rows.count; i++)
        rows.items[i].texts = texts;
    status = measure_rows(values, session, &rows, json, failure);
    free(rows.items);
    return status;
}

static int read_texts(const struct values *values, struct bench_texts *texts, struct failure *failure)
{
    int status = text_file_read("score-mod", values->score_mod, &texts->score_mod, failure);
    if (!status)
        status = text_file_read("score-mod-grad", values->score_mod_grad, &texts->score_mod_grad, failure);
    return status ? status : text_file_read("mask-mod", values->mask_mod, &texts->mask_mod, failure);
}

/* Measures, and adds the rows to the array. */
static int measure(const struct values *values, json_t *json, struct failure *failure)
{
    struct session session;
    struct bench_texts texts = {.score_mod = NULL};
    int status = read_texts(values, &texts, failure);
    const bool is_open = !status && !(status = session_open(&session, &values->device, values->quiet, failure));
    if (is_open) {
        status = bench_device(values, &texts, &session, json, failure);
        session_close(&session);
    }
    free(texts.score_mod);
    free(texts.score_mod_grad);
    free(texts.mask_mod);
    return status;
}

/* What is done with rows, wherever they are from. Where several go wrong, the first is what the command answers. */
static int use_rows(const struct values *values, json_t *rows, json_t *old, struct failure *failure)
{
    struct bench_comparison comparison;
    int status = STATUS_OK;
    if (values->json)
        status = json_print(json_incref(rows), values->json, failure);
    if (!status && values->csv)
        status = bench_csv_print(rows, values->csv, failure);
    if (!status && values->plot)
        status = bench_plot(rows, values->plot, values->keep_plot_script, values->quiet, failure);
    if (!status && old)
        status = bench_compare(rows, old, values->compare,
                               is_dash(values->json) || is_dash(values->csv) ? stderr : stdout, &comparison, failure);
    return status;
}

/* No output is another's file, or one that is read. */
static int check_names(const struct values *values, struct failure *failure)
{
    const struct file_use uses[] = {{"from", values->from, false},
                                    {"compare", values->compare, false},
                                    {"score-mod", values->score_mod, false},
                                    {"score-mod-grad", values->score_mod_grad, false},
                                    {"mask-mod", values->mask_mod, false},
                                    {"json", values->json, true},
                                    {"csv", values->csv, true}};
    return file_uses_check(uses, sizeof uses / sizeof *uses, failure);
}

/* Nobody wants to hear after an hour that an output cannot be written. */
static int try_outputs(const struct values *values, struct failure *failure)
{
    const char *const paths[] = {values->json, values->csv};
    int status = STATUS_OK;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        if (paths[i] && !is_dash(paths[i]))
            status = output_try(paths[i], failure);
    return status || !values->plot ? status : bench_plot_check(values->plot, values->keep_plot_script, failure);
}

static int check_files(const struct values *values, struct failure *failure)
{
    if (is_dash(values->json) && is_dash(values->csv))
        return fail(failure, STATUS_USAGE, "--json and --csv: one of them to the standard output, the other to a FILE");
    if (is_dash(values->from) && is_dash(values->compare))
        return fail(failure, STATUS_USAGE,
                    "--from and --compare: one of them from the standard input, the other a FILE");
    if (values->keep_plot_script && !values->plot)
        return fail(failure, STATUS_USAGE, "--keep-plot-script needs --plot FILE");
    if (values->from && !values->json && !values->csv && !values->compare && !values->plot)
        return fail(failure, STATUS_USAGE, "--from %s: say what for: --json, --csv, --compare or --plot", values->from);
    if (values->from && (values->grids.count || bench_is_single(values) || values->device.given || values->score_mod ||
                         values->mask_mod))
        return fail(failure, STATUS_USAGE,
                    "--from %s: takes the rows as they were measured, on their device: no shapes, "
                    "grids, devices and texts go with it",
                    values->from);
    const int status = check_names(values, failure);
    return status ? status : try_outputs(values, failure);
}

int bench_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.block_density = -1.0, .k_format = -1, .v_format = -1, .again = 2};
    int status = options_parse(&bench_command, argc, argv, &values, failure);
    if (!status)
        status = bench_check_shapes(&values, failure);
    if (!status)
        status = check_files(&values, failure);
    json_t *old = NULL, *rows = NULL;
    if (!status && values.compare)
        old = bench_rows_read(values.compare, &status, failure);
    if (!status)
        rows = values.from ? bench_rows_read(values.from, &status, failure) : json_array();
    const int measuring = status || values.from ? STATUS_OK : measure(&values, rows, failure);
    if (!status && json_array_size(rows))
        status = use_rows(&values, rows, old, failure);
    if (interrupted) { /* what was measured is kept: what remains is to end as one that was interrupted does */
        fflush(stdout);
        signal(interrupted, SIG_DFL);
        raise(interrupted);
    }
    json_decref(rows);
    json_decref(old);
    return measuring ? measuring : status;
}
