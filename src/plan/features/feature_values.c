/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/feature.h"
#include <string.h>

/* What has a value; NULL: nothing. */
static const void *home_of(enum cla_home home, const struct clattn_score_args *args)
{
    return home == CLA_IN_SCORE ? args : home == CLA_IN_MORE ? (const void *)args->more : args->kv_scales;
}

struct clattn_tensor cla_feature_given(const struct cla_feature_tensor *tensor, const struct clattn_score_args *args)
{
    const char *const of = home_of(tensor->home, args);
    struct clattn_tensor given = {0};
    if (!of)
        return given;
    if (!cla_feature_is_bare(tensor))
        return *(const struct clattn_tensor *)(of + tensor->given);
    given.buffer = *(const cl_mem *)(of + tensor->given);
    given.layout.offset = tensor->offset ? *(const int64_t *)(of + tensor->offset) : 0;
    given.memory = tensor->memory ? *(const enum clattn_memory *)(of + tensor->memory) : CLATTN_BUFFER;
    return given;
}

void cla_feature_give(const struct cla_feature_tensor *tensor, struct clattn_tensor given,
                      struct clattn_score_args *args)
{
    char *const of = (char *)home_of(tensor->home, args);
    if (!of)
        return;
    if (!cla_feature_is_bare(tensor)) {
        *(struct clattn_tensor *)(of + tensor->given) = given;
        return;
    }
    *(cl_mem *)(of + tensor->given) = given.buffer;
    if (tensor->memory)
        *(enum clattn_memory *)(of + tensor->memory) = (enum clattn_memory)given.memory;
    if (tensor->offset)
        *(int64_t *)(of + tensor->offset) = given.layout.offset;
}

const void *cla_feature_number_given(const struct cla_feature_number *row, const struct clattn_score_args *args)
{
    const char *const of = home_of(row->home, args);
    return of ? of + row->given : NULL;
}

void cla_feature_number_set(const struct cla_feature_number *row, int64_t whole, double real, void *number)
{
    switch (row->type) {
    case CLA_NUMBER_FLOAT:
        *(float *)number = (float)real;
        break;
    case CLA_NUMBER_INT64:
    case CLA_NUMBER_UINT64:
        *(int64_t *)number = whole;
        break;
    case CLA_NUMBER_UINT32:
        *(uint32_t *)number = (uint32_t)whole;
        break;
    case CLA_NUMBER_INT:
        *(int *)number = (int)whole;
        break;
    }
}

void cla_feature_give_number(const struct cla_feature_number *row, int64_t whole, double real,
                             struct clattn_score_args *args)
{
    char *const of = (char *)home_of(row->home, args);
    if (of)
        cla_feature_number_set(row, whole, real, of + row->given);
}

void cla_feature_give_numbers(const struct clattn_host_score_args *given, struct clattn_score_args *args)
{
    static const size_t bytes[] = {[CLA_NUMBER_FLOAT] = sizeof(float),
                                   [CLA_NUMBER_INT64] = sizeof(int64_t),
                                   [CLA_NUMBER_UINT64] = sizeof(uint64_t),
                                   [CLA_NUMBER_UINT32] = sizeof(uint32_t),
                                   [CLA_NUMBER_INT] = sizeof(int)};
    const struct cla_feature *of;
    const struct cla_feature_number *row;
    for (int i = 0; (row = cla_feature_number_after(i ? row : NULL, &of)); i++) {
        char *const to = (char *)home_of(row->home, args);
        if (to)
            memcpy(to + row->given, (const char *)given + row->array, bytes[row->type]);
    }
}

bool cla_feature_sizes(const struct cla_feature_tensor *row, const struct clattn_shape *shape, struct cla_sizes *sizes)
{
    const int64_t batch = shape->batch, heads = shape->heads, each = row->each ? row->each : 1;
    switch (row->extent) {
    case CLA_OF_PAIRS:
        *sizes = (struct cla_sizes){batch, heads, shape->n_q, shape->n_kv};
        return true;
    case CLA_OF_EACH_KEY:
        *sizes = (struct cla_sizes){batch, heads, shape->n_kv, 1};
        return true;
    case CLA_OF_HEADS:
        *sizes = (struct cla_sizes){batch, heads, each, 1};
        return true;
    case CLA_OF_HEAD:
        *sizes = (struct cla_sizes){1, heads, each, 1};
        return true;
    case CLA_OF_BATCH:
        *sizes = (struct cla_sizes){batch, 1, 1, 1};
        return true;
    case CLA_OF_SEQUENCES:
        *sizes = (struct cla_sizes){batch + 1, 1, 1, 1};
        return true;
    default:
        return false;
    }
}
