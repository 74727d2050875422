/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef GGML_NODES_H
#define GGML_NODES_H

#include <ggml.h>
#include <stdbool.h>

/* A node of GGML_OP_FLASH_ATTN_EXT. What is 0 of the sizes is taken as: d 64, d_v d, heads 4, kv_heads 2, batch 1. */
struct one {
    enum ggml_type k_type, v_type;
    int d, d_v, heads, kv_heads, n_q, n_kv, batch;
    int mask_rows, mask_heads, mask_batch; /* 0: no mask */
    float max_bias, softcap;
    bool sinks;
    bool cache;      /* k and v are rows of a longer cache, heads beside each other */
    bool v_in_k;     /* v is the first columns of k */
    bool v_one_head; /* v has one head, k kv_heads */
    bool refused;    /* clattn does not compute it */
    bool host_only;  /* nor, where this is set, on the device */
};

struct one node_complete(const struct one *one);

/* Makes it, with numbers that follow from `seed`. */
struct ggml_tensor *node_make(struct ggml_context *arena, const struct one *one, unsigned seed);

/* Prints what it is, without an end of line. */
void node_describe(const struct one *one);

#endif
