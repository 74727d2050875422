/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_LIST_H
#define CLATTN_TOOL_VERIFY_LIST_H

#include "verify/case.h"

struct verify_list {
    const struct clattn_capabilities *capabilities; /* not owned */
    struct verify_case *items;
    int count, capacity;
    uint64_t seed; /* of the combinations that are sampled */
    bool failed;   /* for want of memory */
};

/* Every case, in an order that never changes, so that a case's number, with the seed, reproduces it. `skeleton` NULL:
 * every skeleton that applies to the device; else that one. */
void verify_list_create(struct verify_list *list, bool full, const struct clattn_capabilities *capabilities,
                        const char *skeleton, uint64_t seed);
void verify_list_destroy(struct verify_list *list);

#endif
