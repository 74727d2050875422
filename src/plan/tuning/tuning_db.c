/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/tuning/tuning_db.h"
#include "plan/reserved.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t length_classes[] = {16, 64, 256, 1024, 4096};
enum { CLASSES = sizeof length_classes / sizeof *length_classes, MOST_SIZE = 65536, MOST_RECORDS = 1 << 20 };

void cla_tuning_free(struct cla_tuning_db *db)
{
    free(db->records);
    cla_tuning_index_free(&db->index);
    *db = (struct cla_tuning_db){0};
}

int64_t cla_tuning_length_class(int64_t length)
{
    for (int i = 0; i < CLASSES && length > 0; i++)
        if (length <= length_classes[i])
            return length_classes[i];
    return 0;
}

static bool is_class(int64_t length)
{
    return length == 0 || cla_tuning_length_class(length) == length;
}

/* Plain ASCII, so that the file is what any editor shows. */
static bool is_text(const char *text, size_t size, bool may_be_empty)
{
    const char *end = memchr(text, '\0', size);
    for (const char *at = text; end && at < end; at++)
        if (*at < ' ' || *at > '~')
            return false;
    return end && (may_be_empty || end > text);
}

static bool is_hash(const char *text, size_t size)
{
    return is_text(text, size, false) &&
           (strcmp(text, "*") == 0 || (strspn(text, "0123456789abcdef") == 32 && !text[32]));
}

static clattn_status check_texts(const struct clattn_tuning_record *record, struct cla_error *error)
{
    const struct {
        const char *name, *text;
        size_t size;
        bool may_be_empty;
    } texts[] = {{"device", record->device, sizeof record->device, false},
                 {"driver", record->driver, sizeof record->driver, false},
                 {"skeleton", record->skeleton, sizeof record->skeleton, false},
                 {"knobs", record->knobs, sizeof record->knobs, true}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!is_text(texts[i].text, texts[i].size, texts[i].may_be_empty))
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "record.%s is empty or holds other characters than printable ASCII ones", texts[i].name);
    if (!is_hash(record->kernels, sizeof record->kernels))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "record.kernels is \"%.39s\": it is 32 hexadecimal digits, or \"*\"", record->kernels);
    return CLATTN_SUCCESS;
}

static clattn_status check_numbers(const struct clattn_tuning_record *record, struct cla_error *error)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } numbers[] = {{"pass", (int64_t)record->pass, CLATTN_FORWARD, CLATTN_BACKWARD_ACCUMULATE},
                   {"dtype", (int64_t)record->dtype, CLATTN_FP32, CLATTN_BF16},
                   {"d", record->d, 1, CLATTN_MAX_LATENT_D},
                   {"d_v", record->d_v, 1, CLATTN_MAX_D},
                   {"b_r", record->b_r, 1, MOST_SIZE},
                   {"b_c", record->b_c, 1, MOST_SIZE},
                   {"work_group_size", record->work_group_size, 1, MOST_SIZE},
                   {"state", (int64_t)record->state, CLATTN_TUNING_OK, CLATTN_TUNING_TIMEOUT},
                   {"group", record->group, 0, MOST_SIZE},
                   {"runs", record->runs, 0, 1000000}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < numbers[i].least || numbers[i].value > numbers[i].most)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "record.%s is %lld: it is from %lld to %lld",
                            numbers[i].name, (long long)numbers[i].value, (long long)numbers[i].least,
                            (long long)numbers[i].most);
    return CLATTN_SUCCESS;
}

clattn_status cla_tuning_check(const struct clattn_tuning_record *record, struct cla_error *error)
{
    clattn_status status = cla_check_reserved(&cla_struct_tuning_record, "record", record, error);
    if (!status)
        status = check_texts(record, error);
    if (!status)
        status = check_numbers(record, error);
    if (status)
        return status;
    if (!is_class(record->n_q_up_to) || !is_class(record->n_kv_up_to))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "record.%s is %lld: it is 16, 64, 256, 1024, 4096, or 0 for longer ones",
                        is_class(record->n_q_up_to) ? "n_kv_up_to" : "n_q_up_to",
                        (long long)(is_class(record->n_q_up_to) ? record->n_kv_up_to : record->n_q_up_to));
    const bool ok = record->state == CLATTN_TUNING_OK;
    if (!isfinite(record->ms) || (ok ? record->ms <= 0 : record->ms != 0) || (!ok && record->best))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "record.ms is %g%s: it is above 0 for the state ok, and 0 for the others, which cannot be best",
                        record->ms, record->best ? ", best" : "");
    return CLATTN_SUCCESS;
}

static bool grow(struct cla_tuning_db *db)
{
    if (db->count < db->capacity)
        return true;
    const int capacity = db->capacity ? 2 * db->capacity : 64;
    struct clattn_tuning_record *records =
        capacity <= MOST_RECORDS ? realloc(db->records, (size_t)capacity * sizeof *records) : NULL;
    if (!records)
        return false;
    db->records = records;
    db->capacity = capacity;
    return true;
}

static clattn_status short_of_memory(const struct cla_tuning_db *db, struct cla_error *error)
{
    return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for another of %d tuning records", db->count);
}

clattn_status cla_tuning_add(struct cla_tuning_db *db, const struct clattn_tuning_record *record,
                             struct cla_error *error)
{
    clattn_status status = cla_tuning_check(record, error);
    if (status)
        return status;
    if (!cla_tuning_index_reserve(&db->index, db->records, db->count, db->count + 1))
        return short_of_memory(db, error);
    int *const place = cla_tuning_index_candidate(&db->index, db->records, record);
    if (!*place && !grow(db))
        return short_of_memory(db, error);
    if (!*place)
        *place = ++db->count;
    if (record->best) {
        int *const best = cla_tuning_index_best(&db->index, db->records, record);
        if (*best)
            db->records[*best - 1].best = false;
        *best = *place;
    }
    db->records[*place - 1] = *record;
    return CLATTN_SUCCESS;
}

clattn_status cla_tuning_merge(struct cla_tuning_db *db, const struct cla_tuning_db *other, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < other->count && !status; i++)
        status = cla_tuning_add(db, &other->records[i], error);
    return status;
}

/* How well a record's driver and kernels are those at hand: 0 not, 1 by "*", 2 exactly. */
static int fit(const char *record, const char *present)
{
    return present && strcmp(record, present) == 0 ? 2 : strcmp(record, "*") == 0 ? 1 : 0;
}

const struct clattn_tuning_record *cla_tuning_find(const struct clattn_tuning_record *records, int count,
                                                   const struct clattn_tuning_record *key, cla_kernels_function kernels)
{
    const struct clattn_tuning_record *found = NULL;
    int found_rank = 0;
    for (int i = 0; i < count; i++) {
        const struct clattn_tuning_record *record = &records[i];
        char hex[40];
        const bool own_group = record->group == key->group;
        if (record->state != CLATTN_TUNING_OK || !cla_tuning_same_class(record, key) || (record->group && !own_group))
            continue;
        const int driver = fit(record->driver, key->driver);
        const char *present = driver ? kernels(record->skeleton, hex) : NULL;
        const int text = present ? fit(record->kernels, present) : 0;
        if (!driver || !text)
            continue;
        const int rank = 16 * own_group + 2 * (driver + text) + record->best;
        if (!found || rank > found_rank || (rank == found_rank && record->ms < found->ms)) {
            found = record;
            found_rank = rank;
        }
    }
    return found;
}
