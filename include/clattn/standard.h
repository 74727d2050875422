/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STANDARD_H
#define CLATTN_STANDARD_H

#include <clattn/attention.h>

CLATTN_BEGIN_DECLS

/* Standard attention: the three steps that FlashAttention fuses, one after the other, with the n_q x n_kv matrix in
 * device memory. Both matrix products are CLBlast's (SGEMM); P overwrites S. It is the baseline that clattn is measured
 * against, and a check that shares no kernel with it. 16-bit tensors, and layouts that a GEMM cannot take, are first
 * copied to fp32.
 *
 * It has the forward pass alone, without score modifications: problem.features is 0. CLBlast takes a cl_mem alone, so
 * addresses of SVM and USM are CLATTN_INVALID_ARGUMENT here. The results are those of
 * clattn_forward_enqueue up to rounding, where V is finite: a key that a row does not see has P = 0,
 * and 0 times the infinity or NaN of its value is NaN here.
 *
 * The workspace grows with n_q * n_kv: it holds that matrix for as many heads as follow each other at constant strides
 * (all of them, where the tensors are dense and heads are not grouped), up to what CLBlast can address, which counts in
 * 32 bits. CLBlast allocates copies of its own beside it while a call runs. */

/* CLBlast is not linked: the first call of either function that gets as far loads it (on Linux libclblast.so.1, from
 * where the system keeps libraries), and it stays. Where it is not there, or the library was built without it
 * (-Dclblast=disabled), the call answers CLATTN_UNAVAILABLE, once its arguments are found right, and
 * clattn_error_message says which it is. Everything else in clattn works without it. */

/* The exact workspace in bytes. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_INVALID_TYPE,
 * CLATTN_TOO_LARGE, CLATTN_UNAVAILABLE. */
CLATTN_API clattn_status clattn_standard_workspace_bytes(const clattn_context *context,
                                                         const struct clattn_problem *problem,
                                                         const struct clattn_forward_args *args, size_t *bytes);

/* As clattn_forward_enqueue, with the workspace of that size in args. The first call for a type compiles: CLBlast keeps
 * its kernels, and the context its own. It may block meanwhile.
 *
 * CLBlast lets go of its kernels as soon as they are enqueued. OpenCL allows that, but NVIDIA's driver (580.159)
 * crashes when such a kernel's command was held back: by a user event, which is to be completed before the call there,
 * or by other commands on an out-of-order queue, which is CLATTN_INVALID_ARGUMENT there.
 *
 * Threads: any. Calls take turns, through the whole process, since CLBlast 1.5 is not safe otherwise. */
CLATTN_API clattn_status clattn_standard_enqueue(clattn_context *context, const struct clattn_problem *problem,
                                                 cl_command_queue queue, const struct clattn_forward_args *args,
                                                 cl_uint wait_count, const cl_event *wait_list, cl_event *event);

CLATTN_END_DECLS

#endif
