/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_STAGE_H
#define CLATTN_TOOL_VERIFY_STAGE_H

#include "verify/guard.h"
#include "verify/pages.h"
#include <clattn/attention.h>

/* The tensors of one call of the library, each in a guarded buffer. */

enum stage_tensor {
    STAGE_Q,
    STAGE_K,
    STAGE_V,
    STAGE_O,
    STAGE_LSE,
    STAGE_M,
    STAGE_L,
    STAGE_D_O,
    STAGE_D_Q,
    STAGE_D_K,
    STAGE_D_V,
    STAGE_D_BIAS,
    STAGE_D_SINKS,
    STAGE_SCORE, /* those of the score features, in their table's order (plan/features/feature.h); by name: */
    STAGE_ALIBI = STAGE_SCORE,
    STAGE_BIAS,
    STAGE_MASK,
    STAGE_BLOCK_MASK,
    STAGE_BLOCK_OFFSETS,
    STAGE_BLOCK_COLUMNS,
    STAGE_KEY_LENGTHS,
    STAGE_CU_SEQLENS_Q,
    STAGE_CU_SEQLENS_KV,
    STAGE_SINKS,
    STAGE_DATA,
    STAGE_PAGES,
    STAGE_PAGE_OFFSETS,
    STAGE_K_SCALES, /* as enum verify_paged has them */
    STAGE_K_ZEROS,
    STAGE_V_SCALES,
    STAGE_V_ZEROS,
    STAGE_TENSORS = STAGE_SCORE + CLA_SCORE_TENSORS
};

struct stage {
    const struct reference_problem *problem; /* which may have other sizes than the case's */
    const struct verify_case *item;
    const struct verify_csr *csr;
    bool backward;  /* the pass's direction */
    int64_t offset; /* of the first element in each buffer */
    float *zeros;   /* what sums over chunks of keys begin with */
    struct guarded tensors[STAGE_TENSORS];
    struct clattn_layout score_at[CLA_SCORE_TENSORS]; /* of those of the score features, less the offset */
    struct verify_pages pages;                        /* where the case has them */
    const struct verify_stored *stored;
    struct clattn_kv_scales scales; /* which arguments point to, as to `more` */
    struct clattn_score_more more;
};

/* Describes the tensors of a pass that takes `data` (a forward pass and the streaming state: O, LSE, m and l are
 * outputs; backward: O, m and l are inputs, the gradients outputs) and uploads them. stage_close() also after a
 * failure.
 */
bool stage_open(const struct session *session, const struct verify_case *item, const struct reference_problem *problem,
                enum clattn_pass pass, struct verify_data *data, struct stage *stage, struct verify_result *result);

/* Takes the outputs and checks the guards and the inputs. */
bool stage_collect(const struct session *session, struct stage *stage, struct verify_result *result);
void stage_close(struct stage *stage);

/* As the library takes them; buffer NULL where there is none. */
struct clattn_tensor stage_tensor(const struct stage *stage, enum stage_tensor which);
struct clattn_score_args stage_score(struct stage *stage);

#endif
