/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TUNING_INDEX_H
#define CLA_TUNING_INDEX_H

#include <clattn/tuning.h>
#include <stdbool.h>
#include <stdint.h>

/* Where among many tuning records the one of a candidate is, and the one that is marked best of those of its key
 * (device, driver and class of problems): two tables with open addresses. Zero-initialised it is empty. */
struct cla_tuning_index {
    int *candidates, *best; /* the record's number, counted from 1; 0: free */
    uint32_t places;        /* of each, a power of 2 */
};

void cla_tuning_index_free(struct cla_tuning_index *index);

/* Makes room for `count` records of which `records` has the first `present`; false where memory is short, and then
 * nothing has changed. */
bool cla_tuning_index_reserve(struct cla_tuning_index *index, const struct clattn_tuning_record *records, int present,
                              int count);

/* The place in a table for a record like `wanted`: it holds the number of one that is there, or 0 and is to get one. */
int *cla_tuning_index_candidate(const struct cla_tuning_index *index, const struct clattn_tuning_record *records,
                                const struct clattn_tuning_record *wanted);
int *cla_tuning_index_best(const struct cla_tuning_index *index, const struct clattn_tuning_record *records,
                           const struct clattn_tuning_record *wanted);

/* Whether two records are of the same class of problems on the same device; of the same key; of the same candidate. */
bool cla_tuning_same_class(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b);
bool cla_tuning_same_key(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b);
bool cla_tuning_same_candidate(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b);

#endif
