/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"
#include "commands.h"
#include "compile_watch.h"
#include "files/option_lines.h"
#include "flow.h"
#include "json_out.h"
#include "opencl_select.h"
#include "options/names.h"
#include "system/system.h"
#include <inttypes.h>
#include <string.h>

struct values {
    const char *problems, *skeleton;
    struct option_device device;
    struct option_list pass, dtype, d, causal, features;
    struct option_number block_size;
    int k_type, v_type, o_type, packing;
    int64_t d_v, n_q, n_kv, heads, kv_heads, page_keys, splits;
    bool unordered, quiet, json;
};

static const struct option_word passes[] = {{"forward", CLATTN_FORWARD},
                                            {"backward", CLATTN_BACKWARD},
                                            {"accumulate", CLATTN_ACCUMULATE},
                                            {"backward-accumulate", CLATTN_BACKWARD_ACCUMULATE},
                                            {NULL, 0}};
static const struct option_word types[] = {{"dtype", CLATTN_AS_DTYPE},
                                           {"fp32", CLATTN_AS_FP32},
                                           {"fp16", CLATTN_AS_FP16},
                                           {"bf16", CLATTN_AS_BF16},
                                           {NULL, 0}};

static const struct option_spec options[] = {
    TEXT("problems", "FILE", problems,
         "problems, the options of one a line, as below; - is stdin. What stands before counts\nfor all"),
    WORDS("pass", "NAME,...", pass, passes, "forward (default), backward, accumulate, backward-accumulate"),
    WORDS("dtype", "TYPE,...", dtype, option_dtypes, "fp32 (default), fp16, bf16"),
    WORD("k-format", "TYPE", k_type, types, "what K holds (default: dtype)"),
    WORD("v-format", "TYPE", v_type, types, "what V holds, likewise"),
    WORD("o-type", "TYPE", o_type, types, "what O will hold, likewise"),
    INTEGERS("d", d, 1, CLATTN_MAX_LATENT_D, "head dimensions of Q and K (default 64)"),
    INTEGER("d-v", d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    WORDS("causal", "CORNER,...", causal, option_causal, "off (default), bottom-right, top-left"),
    WORDS_OF("feature", "NAME,...", features, option_feature_words, "with these score modifications, all together:"),
    PAIR("block-size", "BQ,BKV", block_size, 16, 65536, 16, "64,64",
         "of a block mask: rows and keys of its blocks, multiples of 16 (default: 64,64)"),
    INTEGER("page-keys", page_keys, 1, INT32_MAX, "of pages: the keys of one (default: 16)"),
    INTEGER("n-q", n_q, 1, INT64_MAX, "rows that calls will have; 1: the kernel of decoding steps"),
    INTEGER("n-kv", n_kv, 1, INT64_MAX, "keys that calls will have"),
    INTEGER("heads", heads, 1, INT64_MAX, "heads of Q, those of all batch elements together"),
    INTEGER("kv-heads", kv_heads, 1, INT64_MAX, "heads of K and V likewise (default: as many as of Q)"),
    WORD("packing", "WHEN", packing, option_packings, "as of 'clattn plan': planned (default), never, always"),
    INTEGER("splits", splits, 1, CLATTN_MAX_SPLITS, "as of 'clattn plan'"),
    FLAG("unordered", unordered, "gradients that may add up dQ in any order"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD | OPTION_BACKWARD, "take this kernel, one of"),
    DEVICE("compile for this device (default: the first GPU, else the first device)"),
    FLAG("quiet", quiet, "no lines of text, no progress and no warnings"),
    FLAG("json", json, "print an array of what was compiled as JSON"),
    END_OF_OPTIONS,
};

const struct command_spec compile_command = {
    .name = "compile",
    .summary = "Compile kernels ahead, and keep them, so that programs start warm",
    .synopsis =
        "clattn compile [--pass NAME,...] [--dtype TYPE,...] [--d N,...] [--causal CORNER,...] [--feature NAME,...]\n"
        "               [--n-q N] [--n-kv N] [--heads N] [--kv-heads N] [--device P:D] [--json]\n"
        "clattn compile [OPTIONS] --problems FILE",
    .details = "Compiled programs go to the cache ($CLATTN_CACHE_DIR, or clattn where the system keeps caches), from\n"
               "which any program of this user that makes the same plan takes them. At the end each is taken from\n"
               "there once more: exit status 3 where one had to be compiled again, as the cache does not keep it.\n"
               "PoCL compiles each kernel anew at its very first launch, a second or two, and keeps that itself.",
    .options = options,
};

struct job {
    struct session *session;
    json_t *rows;  /* NULL: text */
    bool checking; /* the second time, when all must come from the cache */
    bool quiet;
    int count;
};

static void report(const struct job *job, const struct clattn_problem *problem, const struct clattn_plan_info *info,
                   bool compiled, double ms)
{
    char features[160];
    features_text(problem->features, features, sizeof features);
    if (job->rows)
        json_array_append_new(
            job->rows, json_pack("{s:s, s:s, s:i, s:i, s:s, s:o, s:s, s:b, s:o, s:s}", "pass", pass_name(problem->pass),
                                 "dtype", clattn_dtype_name(problem->dtype), "d", problem->d, "d_v",
                                 problem->d_v ? problem->d_v : problem->d, "causal", causal_name(problem->causal),
                                 "features", json_features_of(problem->features), "path", info->skeleton, "compiled",
                                 compiled, "ms", json_measure(ms), "program", info->program_key));
    else if (!job->quiet)
        flow(stdout, "%-8s %-4s d %-4d causal %-12s %-24s %s in %.0f ms%s%s\n", pass_name(problem->pass),
             clattn_dtype_name(problem->dtype), problem->d, causal_name(problem->causal), info->skeleton,
             compiled ? "compiled" : "was kept, loaded", ms, features[0] ? "; with " : "", features);
    fflush(stdout);
}

static int compile_one(struct job *job, const struct clattn_problem *problem, struct failure *failure)
{
    struct compile_watch *watch = job->session->watch;
    const int before = compile_watch_count(watch);
    const double start = system_clock();
    struct clattn_plan_info info;
    clattn_plan *plan = NULL;
    clattn_status code = clattn_plan_create(&plan, job->session->clattn, problem);
    if (!code)
        code = clattn_plan_get_info(plan, &info);
    clattn_plan_destroy(&plan);
    if (code)
        return fail_library(failure, pass_name(problem->pass), code);
    const bool compiled = compile_watch_count(watch) > before;
    job->count++;
    if (!job->checking)
        report(job, problem, &info, compiled, (system_clock() - start) * 1e3);
    else if (compiled)
        return fail(failure, STATUS_FILE, "%s: was compiled, but the cache does not keep it ('clattn help compile')",
                    info.skeleton);
    return STATUS_OK;
}

static struct clattn_problem problem_of(const struct values *values)
{
    struct clattn_problem problem = {.d_v = (int)values->d_v,
                                     .k_type = (enum clattn_operand_type)values->k_type,
                                     .v_type = (enum clattn_operand_type)values->v_type,
                                     .o_type = (enum clattn_operand_type)values->o_type,
                                     .expected_n_q = values->n_q,
                                     .expected_n_kv = values->n_kv,
                                     .expected_heads = values->heads,
                                     .expected_kv_heads = values->kv_heads,
                                     .packing = values->packing,
                                     .splits = (int)values->splits,
                                     .unordered = values->unordered,
                                     .skeleton = values->skeleton};
    for (int i = 0; i < values->features.count; i++)
        problem.features |= (unsigned)values->features.values[i];
    if (problem.features & CLATTN_BLOCK_MASK) {
        problem.block_q = values->block_size.given ? (int)values->block_size.whole[0] : 64;
        problem.block_kv = values->block_size.given ? (int)values->block_size.whole[1] : 64;
    }
    if (problem.features & CLATTN_PAGES)
        problem.page_keys = values->page_keys ? values->page_keys : 16;
    return problem;
}

/* A list that was not given has one value, its default. */
static int length_of(const struct option_list *list)
{
    return list->count ? list->count : 1;
}

static int value_at(const struct option_list *list, int index, int otherwise)
{
    return list->count ? (int)list->values[index] : otherwise;
}

/* Every combination of what was listed. */
static int compile_all(struct job *job, const struct values *values, struct failure *failure)
{
    struct clattn_problem problem = problem_of(values);
    const struct option_list *const lists[] = {&values->pass, &values->dtype, &values->d, &values->causal};
    int total = 1, status = STATUS_OK;
    for (int i = 0; i < 4; i++)
        total *= length_of(lists[i]);
    for (int n = 0; n < total && !status; n++) {
        int at[4];
        for (int i = 3, rest = n; i >= 0; rest /= length_of(lists[i--]))
            at[i] = rest % length_of(lists[i]);
        problem.pass = (enum clattn_pass)value_at(lists[0], at[0], CLATTN_FORWARD);
        problem.dtype = (enum clattn_dtype)value_at(lists[1], at[1], CLATTN_FP32);
        problem.d = value_at(lists[2], at[2], 64);
        problem.causal = (enum clattn_causal)value_at(lists[3], at[3], CLATTN_FULL);
        status = compile_one(job, &problem, failure);
    }
    return status;
}

static int check_values(const struct values *values, struct failure *failure)
{
    unsigned features = 0;
    for (int i = 0; i < values->features.count; i++)
        features |= (unsigned)values->features.values[i];
    if (values->block_size.given && !(features & CLATTN_BLOCK_MASK))
        return fail(failure, STATUS_USAGE, "--block-size needs --feature block-mask");
    if (values->page_keys && !(features & CLATTN_PAGES))
        return fail(failure, STATUS_USAGE, "--page-keys needs --feature pages");
    return STATUS_OK;
}

static int parse_line(const struct values *all, const struct option_line *line, struct values *values,
                      struct failure *failure)
{
    *values = (struct values){.d_v = 0};
    int status = options_parse(&compile_command, line->argc, line->argv, values, failure);
    if (!status && (values->problems != all->problems || values->device.given != all->device.given))
        status = fail(failure, STATUS_USAGE, "--problems and --device are not for a line of the file");
    return status ? status : check_values(values, failure);
}

/* The lines of the file, or the problems of the command line alone. Without a job lines are only looked at. */
static int compile_lines(struct job *job, const struct values *all, const struct option_lines *lines,
                         struct failure *failure)
{
    int status = STATUS_OK;
    if (!all->problems)
        return job ? compile_all(job, all, failure) : STATUS_OK;
    for (int i = 0; i < lines->count && !status; i++) {
        struct values values;
        struct failure reason = {.command = NULL};
        status = parse_line(all, &lines->items[i], &values, &reason);
        if (!status && job)
            status = compile_all(job, &values, &reason);
        if (status)
            fail(failure, status, "%s: line %d: %.3900s", all->problems, lines->items[i].number, reason.text);
    }
    return status;
}

/* In a context of its own, which has no program yet. */
static int compile_in(bool checking, const struct values *values, const struct option_lines *lines, json_t *rows,
                      struct failure *failure)
{
    struct session session;
    int status = session_open(&session, &values->device, values->quiet, failure);
    struct job job = {.session = &session, .rows = rows, .checking = checking, .quiet = values->quiet};
    if (status)
        return status;
    status = compile_lines(&job, values, lines, failure);
    session_close(&session);
    if (!status && checking && !rows && !values->quiet)
        flow(stdout, "%d program%s kept\n", job.count, job.count == 1 ? " is" : "s are");
    return status;
}

int compile_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.d_v = 0};
    struct option_lines lines = {.count = 0};
    int status = options_parse(&compile_command, argc, argv, &values, failure);
    if (!status)
        status = check_values(&values, failure);
    if (!status && values.problems)
        status = option_lines_read(values.problems, argc, argv, &lines, failure);
    if (!status)
        status = compile_lines(NULL, &values, &lines, failure); /* all of them before hours of compiling */
    if (status) {
        option_lines_free(&lines);
        return status;
    }
    json_t *rows = values.json ? json_array() : NULL;
    status = compile_in(false, &values, &lines, rows, failure);
    if (!status)
        status = compile_in(true, &values, &lines, rows, failure);
    option_lines_free(&lines);
    if (!status && rows)
        return json_print(rows, NULL, failure);
    json_decref(rows);
    return status;
}
