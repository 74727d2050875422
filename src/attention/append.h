/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_APPEND_H
#define CLA_APPEND_H

#include "device/context.h"
#include "device/launch.h"
#include "plan/layout.h"
#include <clattn/append.h>

/* The tensors that go through a kernel: K, V and Q, from what is given to where it goes. */
enum { CLA_APPENDED = 3 };

/* That of cl/append.cl, to the byte. */
struct cla_append_params {
    struct cla_layout from, to, positions, cosines, sines;
    int32_t heads, n_q, n_kv, rope_rows;
};

_Static_assert(sizeof(struct cla_append_params) == 5 * 40 + 4 * 4, "the kernels expect this size");

struct clattn_appender {
    struct clattn_context *context;
    struct clattn_problem problem; /* resolved; its strings are NULL */
    unsigned features;             /* those of the problem that say where keys lie */
    enum clattn_dtype new_type;
    int rotary_d;
    int work_group_size;
    struct cla_kernel *kernels; /* CLA_APPENDED, which their locks change */
};

/* The public functions without the report. */
clattn_status cla_appender_make(struct clattn_appender **appender, struct clattn_context *context,
                                const struct clattn_append_params *params, struct cla_error *error);
clattn_status cla_append_dispatch(const struct clattn_appender *appender, const struct clattn_append_args *args,
                                  const struct cla_dispatch *to, struct cla_error *error);

#endif
