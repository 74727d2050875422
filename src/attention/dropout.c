/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/report.h"
#include "plan/checked.h"
#include "plan/philox.h"
#include "plan/problem.h"
#include <clattn/attention.h>

/* A run of row or key numbers. */
struct run {
    const char *first_name, *count_name;
    int64_t first, count;
};

static clattn_status check_run(const struct run *run, struct cla_error *error)
{
    int64_t end;
    if (run->first < 0)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is %lld: it is not negative", run->first_name,
                        (long long)run->first);
    if (run->count < 0)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is %lld: it is not negative", run->count_name,
                        (long long)run->count);
    if (!cla_add(run->first, run->count, &end) || end > CLA_MAX_LENGTH)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s %lld + %s %lld is more than the longest sequence has, %lld",
                        run->first_name, (long long)run->first, run->count_name, (long long)run->count,
                        (long long)CLA_MAX_LENGTH);
    return CLATTN_SUCCESS;
}

static clattn_status check(float p, int64_t heads, int64_t b, int64_t h, const struct run *rows, const struct run *keys,
                           const uint8_t *mask, struct cla_error *error)
{
    clattn_status status = cla_dropout_check("p", p, error);
    if (status)
        return status;
    if (heads < 1 || heads > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "heads is %lld: it is from 1 to %d", (long long)heads,
                        INT32_MAX);
    if (h < 0 || h >= heads)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "h is %lld: with %lld heads it is from 0 to %lld", (long long)h,
                        (long long)heads, (long long)(heads - 1));
    if (b < 0 || b > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "b is %lld: it is from 0 to %d", (long long)b, INT32_MAX);
    status = check_run(rows, error);
    if (!status)
        status = check_run(keys, error);
    if (!status && rows->count && keys->count && !mask)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "mask is NULL: it must point to %lld x %lld bytes",
                        (long long)rows->count, (long long)keys->count);
    return status;
}

clattn_status clattn_dropout_mask(float p, uint64_t seed, uint32_t offset, int64_t heads, int64_t b, int64_t h,
                                  int64_t first_row, int64_t row_count, int64_t first_key, int64_t key_count,
                                  uint8_t *mask)
{
    const struct run rows = {"first_row", "row_count", first_row, row_count};
    const struct run keys = {"first_key", "key_count", first_key, key_count};
    struct cla_error error;
    if (check(p, heads, b, h, &rows, &keys, mask, &error))
        return cla_report(NULL, &error);
    const uint32_t threshold = cla_dropout_threshold(p), head_number = (uint32_t)b * (uint32_t)heads + (uint32_t)h;
    for (int64_t r = 0; r < row_count; r++)
        cla_dropout_row(threshold, seed, offset, head_number, (uint32_t)(first_row + r), first_key, key_count,
                        mask + r * key_count);
    return CLATTN_SUCCESS;
}
