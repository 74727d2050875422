/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/options.h"
#include "commands.h"
#include "options/names.h"
#include <clattn/problem.h>
#include <string.h>

static const struct option_word layouts[] = {{"bhnd", RUN_BHND}, {"bnhd", RUN_BNHD}, {NULL, 0}};
static const struct option_word o_types[] = {{"dtype", CLATTN_AS_DTYPE},
                                             {"fp32", CLATTN_AS_FP32},
                                             {"fp16", CLATTN_AS_FP16},
                                             {"bf16", CLATTN_AS_BF16},
                                             {NULL, 0}};

static const struct option_spec options[] = {
    TEXT("q", "FILE", inputs[0], "queries, a .npy array [batch, heads, n, d], [heads, n, d] or [n, d]"),
    TEXT("k", "FILE", inputs[1], "keys; fewer heads than Q mean grouped queries"),
    TEXT("v", "FILE", inputs[2], "values; their d may differ from that of Q and K"),
    TEXT("out", "FILE", outputs[RUN_O],
         "where O goes, as .npy, in the layout of Q; any output may be -, the standard output"),
    TEXT("lse", "FILE", outputs[RUN_LSE], "where the log-sum-exp of each row goes, fp32 [batch, heads, n]"),
    TEXT("m", "FILE", outputs[RUN_M], "where each row's maximum goes, likewise"),
    TEXT("l", "FILE", outputs[RUN_L], "where each row's sum of exponentials goes, likewise"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "what Q must hold; bf16 is stored as uint16 and must be said"),
    WORD("k-format", "TYPE", k_format, option_formats,
         "what K must hold, which may be another (default: what it holds), or bytes of\n"
         "fp8 and of ggml's blocks, as uint8"),
    WORD("v-format", "TYPE", v_format, option_formats, "what V must hold, likewise"),
    WORD("o-type", "TYPE", o_type, o_types,
         "what O will hold (default: dtype, which is as Q); with fp32 gradients are\n"
         "exact where a row sees few keys"),
    WORD("layout", "ORDER", layout, layouts, "bhnd (default) or bnhd: [batch, n, heads, d]"),
    CAUSAL("rows see no later keys: bottom-right (default), top-left or off"),
    NUMBER("scale", "X", scale, "factor of the scores (default: 1 / sqrt(d))"),
    FEATURES(score.features),
    TEXT("score-mod", "FILE", score.score_mod,
         "OpenCL C text that defines float score_mod(float score, int b, int h,\n"
         "int i, int j, __global const float *data)"),
    TEXT("score-mod-grad", "FILE", score.score_mod_grad, "its derivative, score_mod_grad; needed for gradients"),
    TEXT("mask-mod", "FILE", score.mask_mod, "bool mask_mod(int b, int h, int i, int j, __global const float *data)"),
    TEXT(
        "cache", "FILE", cache,
        "K and V are new keys, as many as Q has rows: they go behind those of FILE, which\nkeeps them; one that is not "
        "there yet has none"),
    INTEGER("kv-chunk", kv_chunk, 1, INT32_MAX,
            "bring K and V to the device N keys at a time, and take dK and dV from\n"
            "it: they may be larger than its memory (there: as many as fit)"),
    INTEGER("memory", memory, 1, INT64_MAX,
            "take at most so many bytes of device memory: keys come in pieces that fit,\n"
            "or the message says how many bytes would do"),
    INTEGER("splits", splits, 1, CLATTN_MAX_SPLITS,
            "split the keys of the forward pass between work-groups, into so many parts;\n"
            "1: not at all (default: by the shape and the device)"),
    INTEGER("split-keys", split_keys, 1, INT32_MAX,
            "split them at each multiple of N keys, whatever the shape: the same bits of a\n"
            "sequence in any batch"),
    TEXT("grad-out", "FILE", inputs[3], "dO, the gradient by O, of O's shape: then any of the following"),
    TEXT("dq", "FILE", outputs[RUN_D_Q], "where the gradient by Q goes"),
    TEXT("dk", "FILE", outputs[RUN_D_K], "by K"),
    TEXT("dv", "FILE", outputs[RUN_D_V], "by V"),
    TEXT("dbias", "FILE", outputs[RUN_D_BIAS], "by the bias, of its shape"),
    TEXT("dsink", "FILE", outputs[RUN_D_SINKS], "by the sinks"),
    DEVICE("where to run (default: the first GPU, else the first device)"),
    {.name = "devices",
     .argument = "P:D,...",
     .kind = OPTION_DEVICES,
     OPTION_FIELD(devices),
     .help = "devices that share the sequence: each computes some of the rows, as fast as it\n"
             "was measured to be"},
    INTEGERS("shares", shares, 0, 1 << 20,
             "how much of it each of --devices has, in proportion, such as 3,1: then the same\n"
             "bits each time"),
    WORD("passing", "WHAT", passing, option_passing,
         "what goes between them: kv, q (rows, and back what came of them) or auto\n"
         "(default), which is fewer bytes"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD, "take this kernel, one of"),
    SKELETON("backward-skeleton", backward_skeleton, OPTION_BACKWARD, "the same for gradients, one of"),
    TEXT("batch", "FILE", batch,
         "runs, the options of one a line, in this process; - is stdin. What stands before counts\nfor all"),
    FLAG("unordered", unordered, "let gradients add up dQ in any order: faster on some devices, not the same bits"),
    FLAG("quiet", quiet, "no summary, no progress bar and no warnings"),
    FLAG("json", json, "print the summary as JSON to stdout"),
    END_OF_OPTIONS,
};

static const struct option_need needs[] = {{"score-mod-grad", "score-mod FILE"},
                                           {"dbias", "bias FILE"},
                                           {"dsink", "sink FILE"},
                                           {"unordered", "grad-out FILE"},
                                           {"backward-skeleton", "grad-out FILE"},
                                           {"shares", "devices P:D,..."},
                                           {"passing", "devices P:D,..."},
                                           {NULL, NULL}};

const struct command_spec run_command = {
    .name = "run",
    .summary = "Compute attention, and its gradients, on .npy arrays",
    .synopsis = "clattn run --q Q.npy --k K.npy --v V.npy --out O.npy [--lse LSE.npy] [--m M.npy] [--l L.npy]\n"
                "           [--dtype TYPE] [--k-format TYPE] [--v-format TYPE] [--o-type TYPE] [--layout ORDER]\n"
                "           [--causal[=CORNER]] [--scale X]\n"
                "           [--device P:D | --devices P:D,... [--shares N,...] [--passing WHAT]]\n"
                "           [--window L,R] [--softcap X]\n"
                "           [--alibi FILE] [--bias FILE] [--mask FILE] [--sink FILE]\n"
                "           [--dropout P --seed N] [--block-mask FILE --block-size BQ,BKV] [--key-lengths FILE]\n"
                "           [--block-indptr FILE --block-indices FILE --block-size BQ,BKV]\n"
                "           [--cu-seqlens-q FILE --cu-seqlens-kv FILE] [--score-mod FILE] [--mask-mod FILE]\n"
                "           [--cache FILE] [--kv-chunk N] [--splits N] [--grad-out dO.npy --dq dQ.npy --dk dK.npy --dv "
                "dV.npy]\n"
                "clattn run [OPTIONS] --batch FILE",
    .details = "The outputs appear together when all have been computed and written, or not at all. A summary of one\n"
               "line goes to stderr.",
    .options = options,
    .needs = needs,
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
        if (values->json && values->outputs[i] && !strcmp(values->outputs[i], "-"))
            return fail(failure, STATUS_USAGE, "--json and --%s -: one of them to the standard output",
                        output_options[i]);
    for (int i = 0; i < RUN_OUTPUTS; i++)
        for (int j = 0; j < i; j++)
            if (values->outputs[i] && values->outputs[j] && !strcmp(values->outputs[i], values->outputs[j]) &&
                strncmp(values->outputs[i], "/dev/", 5) != 0)
                return fail(failure, STATUS_USAGE, "'%s' is named for two outputs: each needs its own file",
                            values->outputs[i]);
    return STATUS_OK;
}

/* Options that say the same thing, or what cannot be done together. */
static int check_pairs(const struct values *values, struct failure *failure)
{
    const char *const *files = values->score.features.files;
    if (files[SCORE_BLOCK_MASK] && files[SCORE_BLOCK_INDPTR])
        return fail(failure, STATUS_USAGE, "--block-mask and --block-indptr say the same thing: give one of them");
    if (values->split_keys && (values->kv_chunk || values->splits))
        return fail(failure, STATUS_USAGE, "--split-keys and --%s: give one of them",
                    values->kv_chunk ? "kv-chunk" : "splits");
    if (values->splits > 1 && values->kv_chunk)
        return fail(failure, STATUS_USAGE, "--splits and --kv-chunk: keys that come in pieces are not split");
    return STATUS_OK;
}

/* With --devices. */
static int check_devices(const struct values *values, struct failure *failure)
{
    const struct {
        const char *option;
        bool given;
    } others[] = {{"device", values->device.given},
                  {"cache", values->cache},
                  {"kv-chunk", values->kv_chunk},
                  {"memory", values->memory},
                  {"splits", values->splits},
                  {"split-keys", values->split_keys},
                  {"json", values->json}};
    if (!values->devices.count)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return fail(failure, STATUS_USAGE, "--devices and --%s: devices that share a sequence do not take it",
                        others[i].option);
    if (values->shares.count && values->shares.count != values->devices.count)
        return fail(failure, STATUS_USAGE, "--shares has %d numbers and --devices %d: one for each device",
                    values->shares.count, values->devices.count);
    int64_t all = 0;
    for (int i = 0; i < values->shares.count; i++)
        all += values->shares.values[i];
    if (values->shares.count && !all)
        return fail(failure, STATUS_USAGE, "--shares are all 0: one device at least has something");
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

/* Files whose shape is that of all keys, or which say where keys lie: a cache does. */
static int check_cache_files(const struct values *values, struct failure *failure)
{
    static const enum score_file apt[] = {SCORE_ALIBI, SCORE_SINKS, SCORE_DATA};
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++)
        if (values->score.features.files[i] && i != (int)apt[0] && i != (int)apt[1] && i != (int)apt[2])
            return fail(failure, STATUS_USAGE, "--cache and --%s: with a cache it is not taken", row->option.name);
    return STATUS_OK;
}

/* With --cache. */
static int check_cache(const struct values *values, struct failure *failure)
{
    const struct {
        const char *option;
        bool given;
    } others[] = {{"m", values->outputs[RUN_M]},
                  {"l", values->outputs[RUN_L]},
                  {"grad-out", run_wants_gradients(values)},
                  {"k-format", values->k_format >= 0},
                  {"v-format", values->v_format >= 0},
                  {"kv-chunk", values->kv_chunk},
                  {"memory", values->memory},
                  {"dropout", values->score.features.numbers[SCORE_DROPOUT].given}};
    if (!values->cache)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return fail(failure, STATUS_USAGE, "--cache and --%s: with a cache it is not taken", others[i].option);
    if (values->causal == CLATTN_CAUSAL_TOP_LEFT)
        return fail(failure, STATUS_USAGE,
                    "--cache and --causal=top-left: the last row meets the last key: bottom-right or off");
    return check_cache_files(values, failure);
}

/* Formats whose scales lie apart do not go without; other types have none. */
static int check_scales(const struct values *values, struct failure *failure)
{
    const char *const *files = values->score.features.files;
    const struct {
        const char *name;
        int format;
        bool scales, zeros;
    } operands[] = {{"k", values->k_format, files[SCORE_K_SCALES], files[SCORE_K_ZEROS]},
                    {"v", values->v_format, files[SCORE_V_SCALES], files[SCORE_V_ZEROS]}};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        const char *const name = operands[i].name;
        const int type = operands[i].format + 1;
        const bool scaled = type >= CLATTN_AS_INT8 && type <= CLATTN_AS_FP8_E5M2;
        if (scaled && !operands[i].scales)
            return fail(failure, STATUS_USAGE, "--%s-format %s needs --%s-scales FILE: what elements are multiples of",
                        name, format_name(operands[i].format), name);
        if (operands[i].scales && !scaled)
            return fail(failure, STATUS_USAGE,
                        "--%s-scales needs --%s-format int8, int4, fp8_e4m3 or fp8_e5m2: others have no scales apart",
                        name, name);
        if (operands[i].zeros && type != CLATTN_AS_INT8 && type != CLATTN_AS_INT4)
            return fail(failure, STATUS_USAGE, "--%s-zeros needs --%s-format int8 or int4", name, name);
    }
    return STATUS_OK;
}

static int check_dropout(double dropout, struct failure *failure)
{
    if (dropout > 0.0 && dropout * 8192 < 1)
        return fail(failure, STATUS_USAGE,
                    "--dropout '%g': shares are rounded to multiples of 1/4096, and this one to 0: the smallest is "
                    "1/4096 (0.000244); 0 drops nothing",
                    dropout);
    return STATUS_OK;
}

int run_options_check(const struct command_spec *command, const struct values *values, struct failure *failure)
{
    int status = check_names(values, failure);
    if (!status)
        status = check_dropout(values->score.features.numbers[SCORE_DROPOUT].real, failure);
    if (!status)
        status = options_check_needs(command, values, failure);
    if (!status)
        status = check_scales(values, failure);
    if (!status)
        status = check_pairs(values, failure);
    if (!status)
        status = check_cache(values, failure);
    if (!status)
        status = check_devices(values, failure);
    return status ? status : check_gradients(values, failure);
}

int run_options_parse(int argc, char **argv, const char *batch, struct values *values, struct failure *failure)
{
    *values = (struct values){.dtype = -1, .k_format = -1, .v_format = -1};
    const int status = options_parse(&run_command, argc, argv, values, failure);
    if (!status && values->batch != batch)
        return !batch ? STATUS_OK
                      : fail(failure, STATUS_USAGE, "--batch %s: a line of a batch cannot name another", values->batch);
    return status ? status : run_options_check(&run_command, values, failure);
}
