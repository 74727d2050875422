/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/ceilings.h"

int bench_ceilings_create(const struct session *session, struct bench_ceilings *ceilings, struct failure *failure)
{
    *ceilings = (struct bench_ceilings){.session = session};
    int status = bench_copy_create(session, &ceilings->copy, failure);
    if (!status)
        status = bench_read_create(session, &ceilings->read, failure);
    if (!status && !bench_ceilings_peak(ceilings, UNIT_FMA, CLATTN_FP32, failure))
        status = STATUS_DEVICE;
    if (status)
        bench_ceilings_destroy(ceilings);
    return status;
}

void bench_ceilings_destroy(struct bench_ceilings *ceilings)
{
    for (int unit = 0; unit < UNITS; unit++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
            bench_peak_destroy(&ceilings->peaks[unit][dtype]);
    bench_copy_destroy(&ceilings->copy);
    bench_read_destroy(&ceilings->read);
}

const struct bench_peak *bench_ceilings_peak(struct bench_ceilings *ceilings, enum bench_unit unit,
                                             enum clattn_dtype dtype, struct failure *failure)
{
    struct bench_peak **peak = &ceilings->peaks[unit][unit == UNIT_FMA ? CLATTN_FP32 : dtype];
    if (!*peak && bench_peak_create(ceilings->session, unit, dtype, peak, failure))
        return NULL;
    return *peak;
}
