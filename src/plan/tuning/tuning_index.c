/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/tuning/tuning_index.h"
#include "plan/hash.h"
#include <stdlib.h>
#include <string.h>

bool cla_tuning_same_class(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b)
{
    return strcmp(a->device, b->device) == 0 && a->pass == b->pass && a->dtype == b->dtype && a->d == b->d &&
           a->d_v == b->d_v && a->causal == b->causal && a->n_q_up_to == b->n_q_up_to && a->n_kv_up_to == b->n_kv_up_to;
}

bool cla_tuning_same_key(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b)
{
    return cla_tuning_same_class(a, b) && a->group == b->group && strcmp(a->driver, b->driver) == 0;
}

bool cla_tuning_same_candidate(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b)
{
    return cla_tuning_same_key(a, b) && strcmp(a->kernels, b->kernels) == 0 && strcmp(a->skeleton, b->skeleton) == 0 &&
           a->b_r == b->b_r && a->b_c == b->b_c && a->work_group_size == b->work_group_size &&
           strcmp(a->knobs, b->knobs) == 0;
}

static uint64_t text_hash(const char *text)
{
    return cla_hash_bytes(text, strlen(text)).low;
}

static uint64_t key_hash(const struct clattn_tuning_record *record)
{
    const uint64_t parts[] = {text_hash(record->device), text_hash(record->driver),   (uint64_t)record->pass,
                              (uint64_t)record->dtype,   (uint64_t)record->d,         (uint64_t)record->d_v,
                              (uint64_t)record->causal,  (uint64_t)record->n_q_up_to, (uint64_t)record->n_kv_up_to,
                              (uint64_t)record->group};
    return cla_hash_bytes(parts, sizeof parts).low;
}

static uint64_t candidate_hash(const struct clattn_tuning_record *record)
{
    const uint64_t parts[] = {key_hash(record),        text_hash(record->kernels), text_hash(record->skeleton),
                              (uint64_t)record->b_r,   (uint64_t)record->b_c,      (uint64_t)record->work_group_size,
                              text_hash(record->knobs)};
    return cla_hash_bytes(parts, sizeof parts).low;
}

int *cla_tuning_index_candidate(const struct cla_tuning_index *index, const struct clattn_tuning_record *records,
                                const struct clattn_tuning_record *wanted)
{
    uint32_t at = (uint32_t)candidate_hash(wanted) & (index->places - 1);
    while (index->candidates[at] && !cla_tuning_same_candidate(&records[index->candidates[at] - 1], wanted))
        at = (at + 1) & (index->places - 1);
    return &index->candidates[at];
}

int *cla_tuning_index_best(const struct cla_tuning_index *index, const struct clattn_tuning_record *records,
                           const struct clattn_tuning_record *wanted)
{
    uint32_t at = (uint32_t)key_hash(wanted) & (index->places - 1);
    while (index->best[at] && !cla_tuning_same_key(&records[index->best[at] - 1], wanted))
        at = (at + 1) & (index->places - 1);
    return &index->best[at];
}

static void fill(const struct cla_tuning_index *index, const struct clattn_tuning_record *records, int count)
{
    for (int i = 0; i < count; i++) {
        *cla_tuning_index_candidate(index, records, &records[i]) = i + 1;
        if (records[i].best)
            *cla_tuning_index_best(index, records, &records[i]) = i + 1;
    }
}

bool cla_tuning_index_reserve(struct cla_tuning_index *index, const struct clattn_tuning_record *records, int present,
                              int count)
{
    struct cla_tuning_index made = {.places = index->places ? index->places : 64};
    while ((uint32_t)count > made.places / 2) /* half of the places stay free */
        made.places *= 2;
    if (made.places == index->places)
        return true;
    made.candidates = calloc(made.places, sizeof *made.candidates);
    made.best = calloc(made.places, sizeof *made.best);
    if (!made.candidates || !made.best) {
        cla_tuning_index_free(&made);
        return false;
    }
    fill(&made, records, present);
    cla_tuning_index_free(index);
    *index = made;
    return true;
}

void cla_tuning_index_free(struct cla_tuning_index *index)
{
    free(index->candidates);
    free(index->best);
    *index = (struct cla_tuning_index){0};
}
