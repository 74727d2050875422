/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_GEMM_H
#define CLA_GEMM_H

#include "plan/error.h"
#include <clattn/opencl.h>
#include <stdbool.h>
#include <stdint.h>

/* Matrix products for the standard attention. gemm_clblast.c has CLBlast's, which it loads when they are first asked
 * for: loading CLBlast takes ten times what loading the rest of the library does, and few programs want it. A build
 * without CLBlast has gemm_none.c in its place. */

/* A product's operand for a run of heads. All numbers count floats. */
struct cla_batch {
    cl_mem buffer;
    size_t offset, stride, ld, rows, columns;
};

/* CLATTN_UNAVAILABLE where there are no products to be had. A later call tries again. */
clattn_status cla_gemm_load(struct cla_error *error);

/* Calls of cla_gemm stand between these two, whatever their context. */
void cla_gemm_lock(void);
void cla_gemm_unlock(void);

/* C = alpha * A * op(B) for `count` heads, all row-major; op transposes where `transposed`. After cla_gemm_load. */
clattn_status cla_gemm(cl_command_queue queue, float alpha, const struct cla_batch *a, const struct cla_batch *b,
                       bool transposed, const struct cla_batch *c, int64_t count, struct cla_error *error);

#endif
