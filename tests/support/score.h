/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SCORE_H
#define TEST_SCORE_H

#include "random.h"
#include "reference/reference.h"
#include "support/guard.h"

/* The values of a case's features (problem.features says which there are). */
struct score_case {
    int64_t window_left, window_right;
    float softcap, dropout_p;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    double density;                               /* the share of ones in mask and block mask */
    bool one_batch;                               /* alibi, bias, mask and block mask are broadcast over the batch */
    bool one_head;                                /* ... over the heads */
    bool csr;                                     /* the block mask comes as compressed rows */
    const int32_t *sequence_rows, *sequence_keys; /* lengths of the sequences; NULL: by chance */
};

/* Values under which each feature does something: a window of 40 and 8, half of the blocks, a quarter dropped, ... */
struct score_case score_typical(void);

/* Everything the features need, generated; NULL where the feature is not there. */
struct score_arrays {
    float *alibi, *bias, *sinks, *data;
    uint8_t *mask, *block_mask;
    int32_t *key_lengths, *cu_q, *cu_kv;
    int32_t *block_offsets, *block_columns;
    int64_t block_count;
    uint64_t rng_state[2]; /* with problem.rng_state; dropout_offset by value is then SCORE_LATER */
    int64_t batch, heads;
    int64_t total_q, total_kv;
    int64_t row_sizes[4], pair_sizes[4], block_sizes[4],
        offset_sizes[4]; /* of alibi; bias and mask; blocks; their CSR */
    struct clattn_layout row_at, pair_at, block_at, offset_at;
};

enum { SCORE_MOST_DATA = 64, SCORE_LATER = 3 };

/* The same from the same seed. False where memory is short. */
bool score_arrays_make(const struct clattn_problem *problem, const struct clattn_shape *shape,
                       const struct score_case *score, uint64_t seed, struct score_arrays *arrays);
void score_arrays_free(struct score_arrays *arrays);

/* Makes the CSR anew from a block mask that was changed. */
void score_compress(struct score_arrays *arrays);

/* Completes a reference problem. */
struct reference_score score_reference(const struct clattn_problem *problem, const struct score_case *score,
                                       const struct score_arrays *arrays);

/* The user's functions that the tests use, as OpenCL C text; score_reference() has their twins. */
extern const char score_mod_text[], score_mod_grad_text[], mask_mod_text[];

/* On the device, guarded. */
enum {
    SCORE_ALIBI,
    SCORE_BIAS,
    SCORE_MASK,
    SCORE_BLOCKS,
    SCORE_OFFSETS,
    SCORE_COLUMNS,
    SCORE_LENGTHS,
    SCORE_CU_Q,
    SCORE_CU_KV,
    SCORE_SINKS,
    SCORE_DATA,
    SCORE_RNG_STATE,
    SCORE_BUFFERS
};
struct score_stage {
    struct guarded memory[SCORE_BUFFERS];
};

bool score_stage_make(const struct test_device *device, const struct clattn_problem *problem,
                      const struct score_arrays *arrays, struct score_stage *stage);

/* Whether everything came back as it was. */
bool score_stage_intact(const struct test_device *device, struct score_stage *stage);
void score_stage_free(struct score_stage *stage);

struct clattn_score_args score_args(const struct clattn_problem *problem, const struct score_case *score,
                                    const struct score_arrays *arrays, const struct score_stage *stage);

/* The same for the host level. *bias becomes the bias in the problem's type, to be freed; NULL where there is none. */
struct clattn_host_score_args score_host_args(const struct clattn_problem *problem, const struct score_case *score,
                                              const struct score_arrays *arrays, void **bias);

/* "window 40,8 softcap 4 ..." of what is there; answers its length. */
int score_describe(const struct clattn_problem *problem, const struct score_case *score, char *text, size_t size);

#endif
