/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/parts.h"
#include "plan/checked.h"

/* The rows (keys) of the b-th element within all of them, and how many of these there are. */
struct span {
    int64_t begin, count;
};

static struct span rows_of(const struct cla_meeting *meeting, int64_t b)
{
    const struct clattn_host_score_args *score = meeting->score;
    struct span span = {0, meeting->n_q};
    if (meeting->features & CLATTN_VARLEN)
        span = (struct span){score->cu_seqlens_q[b], score->cu_seqlens_q[b + 1] - score->cu_seqlens_q[b]};
    if (meeting->features & CLATTN_QUERY_LENGTHS)
        span.count = cla_smaller(span.count, score->query_lengths[b]);
    return span;
}

static struct span keys_of(const struct cla_meeting *meeting, int64_t b)
{
    const struct clattn_host_score_args *score = meeting->score;
    struct span span = {0, meeting->n_kv};
    if (meeting->features & CLATTN_VARLEN)
        span = (struct span){score->cu_seqlens_kv[b], score->cu_seqlens_kv[b + 1] - score->cu_seqlens_kv[b]};
    if (meeting->features & CLATTN_KEY_LENGTHS)
        span.count = cla_smaller(span.count, score->key_lengths[b]);
    return span;
}

/* What of a span lies in a run, counted from the span's begin. */
static struct span within(struct span span, int64_t first, int64_t count)
{
    const int64_t begin = cla_larger(span.begin, first), end = cla_smaller(span.begin + span.count, first + count);
    return (struct span){begin - span.begin, cla_larger(0, end - begin)};
}

static int64_t shift_of(const struct cla_meeting *meeting, int64_t b)
{
    if (meeting->features & CLATTN_ROW_SHIFTS)
        return meeting->score->row_shifts[b];
    if (meeting->corner == CLATTN_CAUSAL_TOP_LEFT)
        return 0;
    return keys_of(meeting, b).count - rows_of(meeting, b).count;
}

int64_t cla_rows_begin_of(const struct cla_meeting *meeting, int64_t b)
{
    return rows_of(meeting, b).begin;
}

struct cla_rows_met cla_rows_met(const struct cla_meeting *meeting, int64_t b, int64_t first, int64_t count)
{
    const struct span rows = within(rows_of(meeting, b), first, count);
    return (struct cla_rows_met){rows.begin, rows.count, shift_of(meeting, b)};
}

static bool meet_in(const struct cla_meeting *meeting, int64_t b, int64_t row, int64_t rows, int64_t key, int64_t keys)
{
    const struct cla_rows_met met = cla_rows_met(meeting, b, row, rows);
    const struct span seen = within(keys_of(meeting, b), key, keys);
    const int64_t left = meeting->score->window_left, right = meeting->score->window_right;
    const int64_t first = met.first + met.shift, last = first + met.count - 1;
    if (!met.count || !seen.count)
        return false;
    if (meeting->causal && seen.begin > last)
        return false;
    if (!(meeting->features & CLATTN_WINDOW))
        return true;
    return (left < 0 || seen.begin + seen.count - 1 >= first - left) && (right < 0 || seen.begin - right <= last);
}

bool cla_runs_meet(const struct cla_meeting *meeting, int64_t row, int64_t rows, int64_t key, int64_t keys)
{
    for (int64_t b = 0; b < meeting->batch; b++)
        if (meet_in(meeting, b, row, rows, key, keys))
            return true;
    return false;
}

bool cla_part_meets(const struct cla_meeting *meeting, const struct clattn_ring_part *rows, int64_t key, int64_t keys)
{
    for (int i = 0; i < CLA_RUNS; i++)
        if (cla_runs_meet(meeting, rows->first[i], rows->count[i], key, keys))
            return true;
    return false;
}

int64_t cla_part_count(const struct clattn_ring_part *part)
{
    return part->count[0] + part->count[1];
}

int64_t cla_part_at(const struct clattn_ring_part *part, int run)
{
    return run ? part->count[0] : 0;
}

clattn_status cla_part_check(const char *name, const struct clattn_ring_part *part, int64_t total,
                             struct cla_error *error)
{
    for (int i = 0; i < CLA_RUNS; i++)
        if (part->first[i] < 0 || part->count[i] < 0 || part->first[i] > total ||
            part->count[i] > total - part->first[i])
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "%s.first[%d] is %lld and %s.count[%d] %lld: a run is one of all %lld", name, i,
                            (long long)part->first[i], name, i, (long long)part->count[i], (long long)total);
    return CLATTN_SUCCESS;
}

/* The number of runs that hold the position; the end of the last of them. */
static int holders(const struct clattn_ring_part *parts, size_t apart, int count, int64_t position, int64_t *end)
{
    int found = 0;
    for (int i = 0; i < CLA_RUNS * count; i++) {
        const struct clattn_ring_part *part = (const void *)((const char *)parts + (size_t)(i / CLA_RUNS) * apart);
        const int64_t first = part->first[i % CLA_RUNS], length = part->count[i % CLA_RUNS];
        if (position < first || position >= first + length)
            continue;
        found++;
        *end = first + length;
    }
    return found;
}

clattn_status cla_parts_check(const char *name, const struct clattn_ring_part *parts, size_t apart, int count,
                              int64_t total, struct cla_error *error)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += cla_part_count((const void *)((const char *)parts + (size_t)i * apart));
    for (int64_t position = 0, end = 0; position < total; position = end) {
        const int found = holders(parts, apart, count, position, &end);
        if (found != 1)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "%s: number %lld is in %d parts of all ranks: it is in one",
                            name, (long long)position, found);
    }
    /* a run that begins within another */
    if (sum != total)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "%s: the parts of all ranks have %lld in all: there are %lld",
                        name, (long long)sum, (long long)total);
    return CLATTN_SUCCESS;
}
