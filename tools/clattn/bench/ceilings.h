/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_CEILINGS_H
#define CLATTN_TOOL_BENCH_CEILINGS_H

#include "opencl_select.h"

/* What a device can do at most, measured on it. Machines change their clocks and have other work, so each is measured
 * anew beside each row, which is then judged by what it had beside it. */

/* What retires multiply-adds. */
enum bench_unit { UNIT_FMA, UNIT_DOT, UNIT_AMX, UNIT_MATRIX, UNIT_MATRIX_EMULATED, UNITS };

/* The one that a plan's products run on, and what it is called. */
enum bench_unit bench_unit_of(const struct clattn_plan_info *plan);
const char *bench_unit_name(enum bench_unit unit);

/* The peak of one unit, by cl/peak_fma.cl, cl/peak_dot.cl or cl/peak_matrix.cl. `dtype` is that of a matrix unit's
 * operands. */
struct bench_peak;

int bench_peak_create(const struct session *session, enum bench_unit unit, enum clattn_dtype dtype,
                      struct bench_peak **peak, struct failure *failure);
void bench_peak_destroy(struct bench_peak **peak);
double bench_peak_best(const struct bench_peak *peak); /* TFLOP/s, the best of when it was created */

/* TFLOP/s now, in launches of about `ms`, from 1 to 100: as long as what it is the peak for, since other work on the
 * machine meets long launches more than short ones. The best of up to 4 in some 20 ms. 0 where it fails. */
double bench_peak_sample(const struct bench_peak *peak, double ms);

/* How fast the device copies, by cl/peak_copy.cl. */
struct bench_copy;

int bench_copy_create(const struct session *session, struct bench_copy **copy, struct failure *failure);
void bench_copy_destroy(struct bench_copy **copy);

/* GB/s, bytes read and written together, of a copy that moves about so many bytes (2 MiB to 512 MiB) again and again:
 * what fits a cache is then copied within it, as a row that small is computed within it. 0 where it fails. */
double bench_copy_sample(const struct bench_copy *copy, double moved);

/* How fast the device reads, by cl/peak_read.cl: GB/s. */
struct bench_read;

int bench_read_create(const struct session *session, struct bench_read **read, struct failure *failure);
void bench_read_destroy(struct bench_read **read);

/* Of reading these two buffers, the second behind the first, as often as a row's calls do that are timed together, and
 * in turns with them: so launches cost both as much, and caches hold as much for both. 0 where it fails, or they are
 * too small. */
double bench_read_sample(const struct bench_read *read, const cl_mem buffers[2], int launches);

/* All of a device's. Peaks of matrix units are made when first asked for. */
struct bench_ceilings {
    const struct session *session;
    struct bench_peak *peaks[UNITS][3]; /* by unit and type */
    struct bench_copy *copy;
    struct bench_read *read;
};

int bench_ceilings_create(const struct session *session, struct bench_ceilings *ceilings, struct failure *failure);
void bench_ceilings_destroy(struct bench_ceilings *ceilings);

/* NULL, with a message, where that unit's cannot be measured. */
const struct bench_peak *bench_ceilings_peak(struct bench_ceilings *ceilings, enum bench_unit unit,
                                             enum clattn_dtype dtype, struct failure *failure);

#endif
