/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_OPTIONS_H
#define CLATTN_TOOL_RUN_OPTIONS_H

#include "options/options.h"

/* What `clattn run` was asked for. */

enum run_output {
    RUN_O,
    RUN_LSE,
    RUN_M,
    RUN_L,
    RUN_D_Q, /* from here on gradients */
    RUN_D_K,
    RUN_D_V,
    RUN_D_BIAS,
    RUN_D_SINKS,
    RUN_OUTPUTS
};

/* The files of score features that the command knows by name, in the order of their table (plan/features/feature.h),
 * which has more; numbers; and settings. */
enum score_file {
    SCORE_ALIBI,
    SCORE_BIAS,
    SCORE_MASK,
    SCORE_BLOCK_MASK,
    SCORE_BLOCK_INDPTR,
    SCORE_BLOCK_INDICES,
    SCORE_KEY_LENGTHS,
    SCORE_CU_SEQLENS_Q,
    SCORE_CU_SEQLENS_KV,
    SCORE_SINKS,
    SCORE_DATA,
    SCORE_KV_PAGES,
    SCORE_KV_PAGE_INDPTR,
    SCORE_K_SCALES,
    SCORE_K_ZEROS,
    SCORE_V_SCALES,
    SCORE_V_ZEROS,
    SCORE_GRAD_LSE,
    SCORE_ROW_SHIFTS,
    SCORE_QUERY_LENGTHS,
    SCORE_TREE_MASK,
    SCORE_BIAS_SLOPES,
    SCORE_FILES = CLA_SCORE_TENSORS
};
enum score_number { SCORE_SOFTCAP = 2, SCORE_DROPOUT = 6, SCORE_TREE_KEYS = 11 };
enum score_setting { SCORE_BLOCK_SIZE = 2 };

/* The modifications of scores: files of their values, or the values. NULL and 0 where one was not given. */
struct score_options {
    struct option_features features;
    const char *score_mod, *score_mod_grad, *mask_mod; /* OpenCL C */
};

struct values {
    const char *inputs[4]; /* Q, K, V, dO: enum ARRAYS_Q ... */
    const char *outputs[RUN_OUTPUTS];
    int dtype, k_format, v_format, o_type, causal, layout; /* o_type: enum clattn_operand_type; -1: not said */
    double scale;
    struct score_options score;
    int64_t kv_chunk;   /* 0: all keys at once */
    int64_t memory;     /* bytes; 0: what the device has */
    int64_t splits;     /* 0: planned */
    int64_t split_keys; /* 0: not given */
    struct option_device device;
    struct option_devices devices; /* that share the sequence */
    struct option_list shares;     /* how much each has of it, in proportion; none: by speed */
    int passing;                   /* between ranks: enum clattn_ring_passing */
    const char *skeleton, *backward_skeleton;
    const char *cache; /* a file of keys, to which K and V are appended */
    const char *batch; /* a file of such options, a line a run */
    bool quiet, json, unordered;
};

enum { RUN_BHND, RUN_BNHD };

/* The option that names an output, without its dashes: "out", "lse", "dq". */
const char *run_output_option(enum run_output output);

bool run_wants_gradients(const struct values *values);

/* The checks of values that one option alone cannot have. */
int run_options_check(const struct command_spec *command, const struct values *values, struct failure *failure);

/* Fills *values; then everything about them has been checked that can be without opening a file, but where they name a
 * --batch: then its lines have the rest. `batch`: the file of the batch that this is a line of, as it names it; else
 * NULL. */
int run_options_parse(int argc, char **argv, const char *batch, struct values *values, struct failure *failure);

#endif
