/* SPDX-License-Identifier: BSD-2-Clause */
#include "score/entry.h"

const struct cla_feature_tensor *score_row(const struct score_entry *entry)
{
    const struct cla_feature *of;
    return cla_feature_tensor((int)entry->which, &of);
}

const char *score_option(const struct score_entry *entry)
{
    return score_row(entry)->option.name;
}

int score_wrong_shape(const struct score_entry *entry, const char *right)
{
    char shape[128];
    npy_shape_text(entry->header, shape, sizeof shape);
    return fail(entry->failure, STATUS_FILE, "%s: --%s has shape %s, but must have %s", entry->path,
                score_option(entry), shape, right);
}

int score_wrong_type(const struct score_entry *entry, const char *right)
{
    return fail(entry->failure, STATUS_FILE, "%s: --%s has element type '%s', but must have %s", entry->path,
                score_option(entry), npy_type_name(entry->header->type), right);
}

int64_t score_length_at(const struct npy_header *header, int from_last)
{
    return from_last < header->dimensions ? header->shape[header->dimensions - 1 - from_last] : 1;
}
