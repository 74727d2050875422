/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/gemm.h"
#include "device/os.h"
#include <clblast_c.h>
#include <pthread.h>
#include <string.h>

/* CLBlast's functions as its header has them. */
typedef CLBlastStatusCode sgemm(const CLBlastLayout, const CLBlastTranspose, const CLBlastTranspose, const size_t,
                                const size_t, const size_t, const float, const cl_mem, const size_t, const size_t,
                                const cl_mem, const size_t, const size_t, const float, cl_mem, const size_t,
                                const size_t, cl_command_queue *, cl_event *);
typedef CLBlastStatusCode sgemm_batched(const CLBlastLayout, const CLBlastTranspose, const CLBlastTranspose,
                                        const size_t, const size_t, const size_t, const float, const cl_mem,
                                        const size_t, const size_t, const size_t, const cl_mem, const size_t,
                                        const size_t, const size_t, const float, cl_mem, const size_t, const size_t,
                                        const size_t, const size_t, cl_command_queue *, cl_event *);
_Static_assert(_Generic(&CLBlastSgemm, sgemm * : 1, default : 0), "CLBlastSgemm is declared as here");
_Static_assert(_Generic(&CLBlastSgemmStridedBatched, sgemm_batched * : 1, default : 0),
               "CLBlastSgemmStridedBatched is declared as here");

/* What was loaded stays. CLBlast 1.5 keeps its programs in one table for the whole process, and fails where two threads
 * put the same one there: so calls take turns. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sgemm *call_sgemm;
static sgemm_batched *call_sgemm_batched;

static clattn_status load(struct cla_error *error)
{
    const char *reason = NULL;
    void *const library = cla_os_library(CLA_CLBLAST_FILE, &reason);
    if (!library)
        return cla_fail(error, CLATTN_UNAVAILABLE,
                        "standard attention takes its matrix products from CLBlast, which cannot be loaded: %s",
                        reason);
    void *const one = cla_os_library_symbol(library, "CLBlastSgemm");
    void *const batched = cla_os_library_symbol(library, "CLBlastSgemmStridedBatched");
    if (!one || !batched)
        return cla_fail(error, CLATTN_UNAVAILABLE, "standard attention: %s has no %s: it must be CLBlast 1.5 or later",
                        CLA_CLBLAST_FILE, one ? "CLBlastSgemmStridedBatched" : "CLBlastSgemm");
    memcpy(&call_sgemm, &one, sizeof one);
    memcpy(&call_sgemm_batched, &batched, sizeof batched);
    return CLATTN_SUCCESS;
}

clattn_status cla_gemm_load(struct cla_error *error)
{
    cla_gemm_lock();
    const clattn_status status = call_sgemm_batched ? CLATTN_SUCCESS : load(error);
    cla_gemm_unlock();
    return status;
}

void cla_gemm_lock(void)
{
    pthread_mutex_lock(&lock);
}

void cla_gemm_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* CLBlast 1.5's batched GEMM takes a matrix whose rows touch from offset 0 and with stride rows * columns, whatever it
 * was told, if its sizes are multiples of a tile. */
static bool batched_is_right(const struct cla_batch *batch)
{
    return batch->ld != batch->columns || (batch->offset == 0 && batch->stride == batch->rows * batch->columns);
}

static clattn_status check(CLBlastStatusCode code, const struct cla_batch *c, size_t inner, int64_t count,
                           struct cla_error *error)
{
    if (code == CLBlastSuccess)
        return CLATTN_SUCCESS;
    return cla_fail(error, (clattn_status)code, "CLBlast's SGEMM of %lld times %zu x %zu x %zu failed: %s (%d)",
                    (long long)count, c->rows, c->columns, inner, clattn_status_name((clattn_status)code), (int)code);
}

/* It is handed over as C^T = op(B)^T * A^T, column-major, since CLBlast then needs no transposed copy of C. */
clattn_status cla_gemm(cl_command_queue queue, float alpha, const struct cla_batch *a, const struct cla_batch *b,
                       bool transposed, const struct cla_batch *c, int64_t count, struct cla_error *error)
{
    const CLBlastTranspose op = transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    if (count > 1 && batched_is_right(a) && batched_is_right(b) && batched_is_right(c)) {
        const CLBlastStatusCode code =
            call_sgemm_batched(CLBlastLayoutColMajor, op, CLBlastTransposeNo, c->columns, c->rows, a->columns, alpha,
                               b->buffer, b->offset, b->ld, b->stride, a->buffer, a->offset, a->ld, a->stride, 0.0f,
                               c->buffer, c->offset, c->ld, c->stride, (size_t)count, &queue, NULL);
        return check(code, c, a->columns, count, error);
    }
    for (size_t i = 0; i < (size_t)count; i++) {
        const CLBlastStatusCode code =
            call_sgemm(CLBlastLayoutColMajor, op, CLBlastTransposeNo, c->columns, c->rows, a->columns, alpha, b->buffer,
                       b->offset + i * b->stride, b->ld, a->buffer, a->offset + i * a->stride, a->ld, 0.0f, c->buffer,
                       c->offset + i * c->stride, c->ld, &queue, NULL);
        const clattn_status status = check(code, c, a->columns, 1, error);
        if (status)
            return status;
    }
    return CLATTN_SUCCESS;
}
