/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_VALUES_H
#define CLATTN_TOOL_BENCH_VALUES_H

#include "options/options.h"

/* What `clattn bench` was asked for. */

enum { GRID_FLASH, GRID_MEMORY, GRID_DECODE, GRIDS };
enum { CAUSAL_DEFAULT, CAUSAL_OFF, CAUSAL_ON, CAUSAL_BOTH };
enum { PASS_FORWARD = 1, PASS_BACKWARD, PASS_BOTH };

struct values {
    int causal, pass, packing, k_format, v_format; /* formats: -1: as dtype */
    int64_t page_keys;
    struct option_list grids, n, d, dtype;
    int64_t batch, heads, kv_heads, n_q, n_kv, d_v, repetitions, calls, again, splits, split_keys, b_r, b_c,
        work_group_size;
    struct option_device device;
    const char *skeleton, *knobs, *json, *csv;
    const char *from, *compare, *plot;
    const char *score_mod, *score_mod_grad, *mask_mod;
    struct option_list features;
    struct option_number window, block_size;
    double block_density; /* below 0: no block mask */
    bool no_standard, unordered, quiet, keep_plot_script;
};

#endif
