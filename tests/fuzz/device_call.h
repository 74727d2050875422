/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FUZZ_DEVICE_CALL_H
#define TEST_FUZZ_DEVICE_CALL_H

#include "fuzz/device_memory.h"
#include <clattn/clattn.h>

/* A random call of a plan of any pass: sizes, strides, broadcasts, chunks, index arrays that hold anything; now and
 * then an argument that is wrong. */
struct call {
    const clattn_plan *plan;
    const struct clattn_problem *problem;
    cl_command_queue queue;
    struct dice *dice;
    struct memories *memories;

    struct clattn_shape sizes;           /* what the tensors are made for */
    struct clattn_shape shape;           /* what the call says: now and then another */
    int64_t batch, kv_heads, rows, keys; /* of the tensors: packed, they are one of all rows */
    int64_t first_key, key_count;
    int64_t total_keys; /* before a chunk was chosen */
    int64_t pool_pages;
    struct clattn_kv_scales scales;
    int spoil_rate; /* one argument in so many is spoilt */
    int spoilt;     /* how many were */
};

/* Makes the arguments and the call, and waits for nothing. The library's answer. */
clattn_status call_run(struct call *call);

/* One line on the call's sizes. */
void call_describe(const struct call *call, char *text, size_t size);

/* Values of the problem's features (device_score.c). */
struct clattn_score_args call_score(struct call *call);

/* For both files. */
#define CALL_SPOIL(call, value) call_spoil((call), &(value))
void call_spoil(struct call *call, int64_t *value);

struct call_tensor {
    const char *name;
    int64_t sizes[4];
    int unit; /* bytes of an element */
    enum memory_role role;
    bool vector; /* no columns, and column stride 0 */
    bool dense;  /* columns follow each other */
    int block;   /* elements of a block, of which sizes[3] and `unit` are; 0: 1 */
};
struct clattn_tensor call_tensor(struct call *call, const struct call_tensor *what);

/* What the problem stores in a type of its own (device_operands.c). */
struct clattn_tensor call_rows(struct call *call, const char *name, int64_t columns, int64_t type,
                               enum memory_role role);
struct clattn_tensor call_keys(struct call *call, const char *name, int64_t columns, int64_t type,
                               enum memory_role role);
struct clattn_tensor call_vector(struct call *call, const char *name, enum memory_role role);
void call_pages(struct call *call, struct clattn_score_args *score);
const struct clattn_kv_scales *call_scales(struct call *call); /* NULL: there are none */
int64_t call_d_v(const struct call *call);

struct clattn_tensor call_list(struct call *call, const char *name, int64_t count, enum memory_role role);

#endif
