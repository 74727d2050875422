/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_SOAK_START_H
#define CLATTN_TOOL_VERIFY_SOAK_START_H

#include "opencl_select.h"
#include "verify/soak.h"

/* What the options of a soak say; 0 and NULL: not given. */
struct soak_values {
    int64_t seconds, cases, per_program, jobs, running, deadline;
    const char *file;
    struct option_list require, without; /* words of verify_trait_words */
};

/* What a soak shares with the other selections. */
struct soak_request {
    const char *skeleton; /* NULL: all that suit the device */
    int64_t seed;         /* negative: not given */
    bool unordered, quiet, json;
};

/* Soaks the device of a session, which is closed first: the work is done in processes that open the device for
 * themselves. Ctrl-C ends it with a report. */
int soak_start(const struct soak_values *values, const struct soak_request *request, struct session *session,
               struct failure *failure);

/* The words of a list as bits, and as "a,b". */
unsigned soak_bits(const struct option_list *words);
void soak_words(const struct option_list *words, char *text, size_t size);

#endif
