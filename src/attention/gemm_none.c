/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/gemm.h"

/* Of a build without CLBlast: no call comes behind cla_gemm_load. */

static clattn_status unavailable(struct cla_error *error)
{
    return cla_fail(error, CLATTN_UNAVAILABLE,
                    "standard attention takes its matrix products from CLBlast, and this library was built without it "
                    "(-Dclblast=enabled has it)");
}

clattn_status cla_gemm_load(struct cla_error *error)
{
    return unavailable(error);
}

void cla_gemm_lock(void)
{
}

void cla_gemm_unlock(void)
{
}

clattn_status cla_gemm(cl_command_queue queue, float alpha, const struct cla_batch *a, const struct cla_batch *b,
                       bool transposed, const struct cla_batch *c, int64_t count, struct cla_error *error)
{
    (void)queue, (void)alpha, (void)a, (void)b, (void)transposed, (void)c, (void)count;
    return unavailable(error);
}
