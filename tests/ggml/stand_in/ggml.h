/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef STAND_IN_GGML_H
#define STAND_IN_GGML_H

/* A stand-in for ggml's header, where ggml is not: what the adapter and its test ask of it, and no more. Names and
 * meanings are ggml's (include/ggml.h there, at d99724f), the text is not. It computes nothing: what the adapter gives
 * is held to float64. The layout of struct ggml_tensor and the values of enumerators are the stand-in's own: nothing
 * that is built with it may meet a real ggml. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ggml_type {
    GGML_TYPE_F32,
    GGML_TYPE_F16,
    GGML_TYPE_BF16,
    GGML_TYPE_Q8_0,
    GGML_TYPE_Q4_0,
    GGML_TYPE_Q4_1,
    GGML_TYPE_COUNT,

    /* There, but not here. */
    GGML_TYPE_Q5_0,
    GGML_TYPE_Q5_1,
    GGML_TYPE_IQ4_NL,
    GGML_TYPE_Q4_K
};

enum ggml_op { GGML_OP_NONE, GGML_OP_VIEW, GGML_OP_PERMUTE, GGML_OP_FLASH_ATTN_EXT };

struct ggml_tensor {
    enum ggml_type type;
    enum ggml_op op;
    int64_t ne[4];                /* elements of each dimension, the innermost first */
    size_t nb[4];                 /* bytes from one to the next; of the first, of blocks */
    int32_t op_params[16];        /* of GGML_OP_FLASH_ATTN_EXT: floats scale, max_bias, logit_softcap */
    struct ggml_tensor *src[10];  /* of it: q, k, v, mask, sinks */
    struct ggml_tensor *view_src; /* what it is a view of, never a view itself; and the byte in it where it begins */
    size_t view_offs;
    void *data;
    void *extra; /* the back end's */
};

struct ggml_type_traits {
    void (*to_float)(const void *from, float *to, int64_t count); /* NULL: of f32, and where there is none */
};

struct ggml_init_params {
    size_t mem_size;
};

/* All tensors of an arena lie in its mem_size bytes; the program ends where these do not suffice, as ggml's does. */
struct ggml_context;
struct ggml_context *ggml_init(struct ggml_init_params params);
void ggml_free(struct ggml_context *arena);

struct ggml_tensor *ggml_new_tensor_1d(struct ggml_context *arena, enum ggml_type type, int64_t n0);
struct ggml_tensor *ggml_new_tensor_4d(struct ggml_context *arena, enum ggml_type type, int64_t n0, int64_t n1,
                                       int64_t n2, int64_t n3);
struct ggml_tensor *ggml_view_4d(struct ggml_context *arena, struct ggml_tensor *of, int64_t n0, int64_t n1, int64_t n2,
                                 int64_t n3, size_t nb1, size_t nb2, size_t nb3, size_t offset);
struct ggml_tensor *ggml_permute(struct ggml_context *arena, struct ggml_tensor *of, int to0, int to1, int to2,
                                 int to3);
struct ggml_tensor *ggml_flash_attn_ext(struct ggml_context *arena, struct ggml_tensor *q, struct ggml_tensor *k,
                                        struct ggml_tensor *v, struct ggml_tensor *mask, float scale, float max_bias,
                                        float logit_softcap);
void ggml_flash_attn_ext_add_sinks(struct ggml_tensor *node, struct ggml_tensor *sinks);

const char *ggml_type_name(enum ggml_type type);
size_t ggml_type_size(enum ggml_type type);  /* bytes of a block */
int64_t ggml_blck_size(enum ggml_type type); /* elements of one */
size_t ggml_row_size(enum ggml_type type, int64_t count);
size_t ggml_nbytes(const struct ggml_tensor *tensor); /* from the first to the last, of a view what lies between, too */
int64_t ggml_nrows(const struct ggml_tensor *tensor);
int64_t ggml_nelements(const struct ggml_tensor *tensor);
const struct ggml_type_traits *ggml_get_type_traits(enum ggml_type type);

/* Rows of floats become rows of a type. */
size_t ggml_quantize_chunk(enum ggml_type type, const float *from, void *to, int64_t start, int64_t rows, int64_t count,
                           const float *weights);
typedef uint16_t ggml_fp16_t;
ggml_fp16_t ggml_fp32_to_fp16(float value);

#endif
