/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/options.h"
#include "commands.h"
#include <clattn/problem.h>
#include <inttypes.h>
#include <string.h>

static const struct option_word layouts[] = {{"bhnd", RUN_BHND}, {"bnhd", RUN_BNHD}, {NULL, 0}};
static const struct option_word o_types[] = {{"dtype", CLATTN_AS_DTYPE}, {"fp32", CLATTN_AS_FP32}, {NULL, 0}};

static const struct option_spec options[] = {
    TEXT("q", "FILE", inputs[0], "queries, a .npy array [batch, heads, n, d], [heads, n, d] or [n, d]"),
    TEXT("k", "FILE", inputs[1], "keys; fewer heads than Q mean grouped queries"),
    TEXT("v", "FILE", inputs[2], "values; their d may differ from that of Q and K"),
    TEXT("out", "FILE", outputs[RUN_O], "where O goes, as .npy, in the layout of Q"),
    TEXT("lse", "FILE", outputs[RUN_LSE], "where the log-sum-exp of each row goes, fp32 [batch, heads, n]"),
    TEXT("m", "FILE", outputs[RUN_M], "where each row's maximum goes, likewise"),
    TEXT("l", "FILE", outputs[RUN_L], "where each row's sum of exponentials goes, likewise"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "what the arrays must hold; bf16 is stored as uint16 and must be said"),
    WORD("o-type", "TYPE", o_type, o_types,
         "dtype (default): O is of the arrays' type; fp32: of fp32, so that gradients are\n"
         "exact where a row sees few keys"),
    WORD("layout", "ORDER", layout, layouts, "bhnd (default) or bnhd: [batch, n, heads, d]"),
    CAUSAL("rows see no later keys: bottom-right (default), top-left or off"),
    NUMBER("scale", "X", scale, "factor of the scores (default: 1 / sqrt(d))"),
    {.name = "window",
     .argument = "L,R",
     .kind = OPTION_INTEGERS,
     OPTION_FIELD(score.window),
     .minimum = -1,
     .maximum = INT32_MAX,
     .help = "rows see L keys to the left of their own place and R to the right; -1: all"},
    NUMBER("softcap", "X", score.softcap, "scores become X * tanh(score / X)"),
    TEXT("alibi", "FILE", score.alibi, "slopes [heads] or [batch, heads], fp32: scores lose slope * distance"),
    TEXT("bias", "FILE", score.bias,
         "added to the scores: [batch or 1, heads or 1, n_q, n_kv] or fewer\n"
         "dimensions, in the type of Q"),
    TEXT("mask", "FILE", score.mask, "likewise, of bool or uint8: 0 hides the pair"),
    TEXT("sink", "FILE", score.sinks, "a logit of each head, without a value: [heads], fp32"),
    SHARE("dropout", "P", score.dropout, "drop weights with probability P, scale the others up; needs --seed"),
    INTEGER("seed", score.seed, 0, INT64_MAX, "of dropout"),
    INTEGER("dropout-offset", score.dropout_offset, 0, UINT32_MAX, "of dropout's random numbers (default: 0)"),
    TEXT("block-mask", "FILE", score.block_mask,
         "[batch or 1, heads or 1, blocks of rows, blocks of keys] or fewer, of\n"
         "bool or uint8: blocks of 0 are skipped"),
    TEXT("block-indptr", "FILE", score.block_indptr,
         "the same as compressed rows (CSR): where each row of blocks begins in\n"
         "--block-indices, and the end at last; [blocks of rows + 1], with heads\n"
         "and batch before it or not; int32 or int64"),
    TEXT("block-indices", "FILE", score.block_indices, "the numbers of the blocks of keys that are kept"),
    {.name = "block-size",
     .argument = "BQ,BKV",
     .kind = OPTION_INTEGERS,
     OPTION_FIELD(score.block_size),
     .minimum = 16,
     .maximum = 65536,
     .help = "rows and keys of its blocks, multiples of 16"},
    TEXT("key-lengths", "FILE", score.key_lengths, "how many keys each batch element has: [batch], int32 or int64"),
    TEXT("cu-seqlens-q", "FILE", score.cu_seqlens_q,
         "sequences lie end to end in Q, [heads, total, d] or [total, d]: where\n"
         "each begins, and the total at last; int32 or int64"),
    TEXT("cu-seqlens-kv", "FILE", score.cu_seqlens_kv, "the same for K and V"),
    TEXT("score-mod", "FILE", score.score_mod,
         "OpenCL C text that defines float score_mod(float score, int b, int h,\n"
         "int i, int j, __global const float *data)"),
    TEXT("score-mod-grad", "FILE", score.score_mod_grad, "its derivative, score_mod_grad; needed for gradients"),
    TEXT("mask-mod", "FILE", score.mask_mod, "bool mask_mod(int b, int h, int i, int j, __global const float *data)"),
    TEXT("data", "FILE", score.data, "what these get as `data`, fp32"),
    INTEGER("kv-chunk", kv_chunk, 1, INT32_MAX,
            "bring K and V to the device N keys at a time, and take dK and dV from\n"
            "it: they may be larger than its memory (there: as many as fit)"),
    INTEGER("splits", splits, 1, CLATTN_MAX_SPLITS,
            "split the keys of the forward pass between work-groups, into so many parts;\n"
            "1: not at all (default: by the shape and the device)"),
    TEXT("grad-out", "FILE", inputs[3], "dO, the gradient by O, of O's shape: then any of the following"),
    TEXT("dq", "FILE", outputs[RUN_D_Q], "where the gradient by Q goes"),
    TEXT("dk", "FILE", outputs[RUN_D_K], "by K"),
    TEXT("dv", "FILE", outputs[RUN_D_V], "by V"),
    TEXT("dbias", "FILE", outputs[RUN_D_BIAS], "by the bias, of its shape"),
    TEXT("dsink", "FILE", outputs[RUN_D_SINKS], "by the sinks"),
    DEVICE("where to run (default: the first GPU, else the first device)"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD, "take this kernel, one of"),
    SKELETON("backward-skeleton", backward_skeleton, OPTION_BACKWARD, "the same for gradients, one of"),
    FLAG("quiet", quiet, "no summary, no progress bar and no warnings"),
    FLAG("json", json, "print the summary as JSON to stdout"),
    END_OF_OPTIONS,
};

const struct command_spec run_command = {
    .name = "run",
    .summary = "Compute attention, and its gradients, on .npy arrays",
    .synopsis = "clattn run --q Q.npy --k K.npy --v V.npy --out O.npy [--lse LSE.npy] [--m M.npy] [--l L.npy]\n"
                "           [--dtype TYPE] [--o-type TYPE] [--layout ORDER] [--causal[=CORNER]] [--scale X]\n"
                "           [--device P:D] [--window L,R] [--softcap X] [--alibi FILE] [--bias FILE]\n"
                "           [--mask FILE] [--sink FILE]\n"
                "           [--dropout P --seed N] [--block-mask FILE --block-size BQ,BKV] [--key-lengths FILE]\n"
                "           [--block-indptr FILE --block-indices FILE --block-size BQ,BKV]\n"
                "           [--cu-seqlens-q FILE --cu-seqlens-kv FILE] [--score-mod FILE] [--mask-mod FILE]\n"
                "           [--kv-chunk N] [--splits N] [--grad-out dO.npy --dq dQ.npy --dk dK.npy --dv dV.npy]",
    .details = "The outputs appear together when all have been computed and written, or not at all. A summary of one\n"
               "line goes to stderr.",
    .options = options,
};

/* The options whose fields `outputs` are, in the table above. */
static const char *const output_options[RUN_OUTPUTS] = {"out", "lse", "m", "l", "dq", "dk", "dv", "dbias", "dsink"};

const char *run_output_option(enum run_output output)
{
    return output_options[output];
}

bool run_wants_gradients(const struct values *values)
{
    return values->inputs[3] != NULL;
}

static int check_names(const struct values *values, struct failure *failure)
{
    static const char *const required[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        if (!values->inputs[i])
            return fail(failure, STATUS_USAGE,
                        "--%s FILE is needed: --q, --k and --v name the inputs, --out the output", required[i]);
    if (!values->outputs[RUN_O])
        return fail(failure, STATUS_USAGE, "--out FILE is needed: where O goes");
    for (int i = 0; i < RUN_OUTPUTS; i++)
        for (int j = 0; j < i; j++)
            if (values->outputs[i] && values->outputs[j] && !strcmp(values->outputs[i], values->outputs[j]) &&
                strncmp(values->outputs[i], "/dev/", 5) != 0)
                return fail(failure, STATUS_USAGE, "'%s' is named for two outputs: each needs its own file",
                            values->outputs[i]);
    return STATUS_OK;
}

/* An option that says something about another, or nothing. */
static int check_pairs(const struct values *values, struct failure *failure)
{
    const struct score_options *score = &values->score;
    const struct {
        const char *name;
        bool given;
        const char *needed;
        bool there;
    } pairs[] = {
        {"dropout P", score->dropout >= 0.0, "seed N, which makes the same weights drop again", score->seed >= 0},
        {"seed", score->seed >= 0, "dropout P", score->dropout >= 0.0},
        {"dropout-offset", score->dropout_offset >= 0, "dropout P", score->dropout >= 0.0},
        {"block-mask", score->block_mask, "block-size BQ,BKV", score->block_size.count},
        {"block-indptr", score->block_indptr, "block-indices FILE", score->block_indices},
        {"block-indices", score->block_indices, "block-indptr FILE", score->block_indptr},
        {"block-indptr", score->block_indptr, "block-size BQ,BKV", score->block_size.count},
        {"block-size", score->block_size.count, "block-mask FILE or --block-indptr FILE",
         score->block_mask || score->block_indptr},
        {"cu-seqlens-q", score->cu_seqlens_q, "cu-seqlens-kv FILE", score->cu_seqlens_kv},
        {"cu-seqlens-kv", score->cu_seqlens_kv, "cu-seqlens-q FILE", score->cu_seqlens_q},
        {"score-mod-grad", score->score_mod_grad, "score-mod FILE", score->score_mod},
        {"data", score->data, "score-mod FILE or --mask-mod FILE", score->score_mod || score->mask_mod},
        {"dbias", values->outputs[RUN_D_BIAS], "bias FILE", score->bias},
        {"dsink", values->outputs[RUN_D_SINKS], "sink FILE", score->sinks},
        {"backward-skeleton", values->backward_skeleton, "grad-out FILE", values->inputs[3]},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].given && !pairs[i].there)
            return fail(failure, STATUS_USAGE, "--%s needs --%s", pairs[i].name, pairs[i].needed);
    if (score->block_mask && score->block_indptr)
        return fail(failure, STATUS_USAGE, "--block-mask and --block-indptr say the same thing: give one of them");
    if (values->splits > 1 && values->kv_chunk)
        return fail(failure, STATUS_USAGE, "--splits and --kv-chunk: keys that come in pieces are not split");
    return STATUS_OK;
}

static int check_gradients(const struct values *values, struct failure *failure)
{
    const char *first = NULL;
    for (int i = RUN_D_Q; i < RUN_OUTPUTS && !first; i++)
        first = values->outputs[i] ? output_options[i] : NULL;
    if (first && !run_wants_gradients(values))
        return fail(failure, STATUS_USAGE, "--%s needs --grad-out FILE: the gradient of the loss by O", first);
    if (!first && run_wants_gradients(values))
        return fail(
            failure, STATUS_USAGE,
            "--grad-out needs somewhere for gradients to go: at least one of --dq, --dk, --dv, --dbias, --dsink");
    if (first && values->score.score_mod && !values->score.score_mod_grad)
        return fail(
            failure, STATUS_USAGE,
            "--grad-out with --score-mod needs --score-mod-grad FILE: the derivative of score_mod by the score");
    return STATUS_OK;
}

static int check_numbers(const struct score_options *score, struct failure *failure)
{
    if (score->window.count && score->window.count != 2)
        return fail(failure, STATUS_USAGE, "--window: %d number%s where two are needed: L,R, such as 128,0 or -1,16",
                    score->window.count, score->window.count == 1 ? "" : "s");
    if (score->softcap < 0.0)
        return fail(failure, STATUS_USAGE, "--softcap '%g': must be greater than 0, such as 30", score->softcap);
    if (score->dropout > 0.0 && score->dropout * 8192 < 1)
        return fail(failure, STATUS_USAGE,
                    "--dropout '%g': shares are rounded to multiples of 1/4096, and this one to 0: the smallest is "
                    "1/4096 (0.000244); 0 drops nothing",
                    score->dropout);
    if (score->block_size.count && score->block_size.count != 2)
        return fail(failure, STATUS_USAGE, "--block-size: %d number%s where two are needed: BQ,BKV, such as 64,64",
                    score->block_size.count, score->block_size.count == 1 ? "" : "s");
    for (int i = 0; i < score->block_size.count; i++)
        if (score->block_size.values[i] % 16)
            return fail(failure, STATUS_USAGE, "--block-size '%" PRId64 "': must be a multiple of 16",
                        score->block_size.values[i]);
    return STATUS_OK;
}

int run_options_parse(int argc, char **argv, struct values *values, struct failure *failure)
{
    *values = (struct values){.dtype = -1, .score = {.dropout = -1.0, .seed = -1, .dropout_offset = -1}};
    int status = options_parse(&run_command, argc, argv, values, failure);
    if (!status)
        status = check_names(values, failure);
    if (!status)
        status = check_numbers(&values->score, failure);
    if (!status)
        status = check_pairs(values, failure);
    return status ? status : check_gradients(values, failure);
}
