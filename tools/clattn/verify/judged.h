/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_JUDGED_H
#define CLATTN_TOOL_VERIFY_JUDGED_H

#include "verify/case.h"

/* An output of the library beside what the reference makes of it, for all that is done with each of a pass's. */
struct judged {
    const char *name;
    float *answer; /* NULL: there is none, and the rest is passed over */
    size_t count, columns;
    bool is_gradient, has_naive; /* which rule it has (verify_close); whether the plain formula computes it, too */
    double *expected;            /* made by judged_create() */
    float *naive;                /* NULL where there is none */
    double floor;
};

/* Room for what the reference answers; false: no memory. judged_free() also then. */
bool judged_create(struct judged *all, int count);
void judged_free(struct judged *all, int count);

/* Whether each keeps its rule, up to the first that does not. */
bool judged_close(const struct judged *all, int count, struct verify_result *result);

#endif
