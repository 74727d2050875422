/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The tuning file's text, as <clattn/tuning.h> shows it. */
#include "plan/json.h"
#include "plan/tuning/tuning_db.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1 };
static const char format_name[] = "clattn tuning";

/* OPTIONAL: a length that is left out where it is 0. */
enum kind { TEXT, INTEGER, LENGTH, OPTIONAL, NUMBER, BOOLEAN, WORD };

static const char *const passes[] = {"forward", "backward", "accumulate", "backward-accumulate", NULL};
static const char *const dtypes[] = {"fp32", "fp16", "bf16", NULL};
static const char *const states[] = {"ok", "wrong", "infeasible", "timeout", NULL};

#define AT(member) offsetof(struct clattn_tuning_record, member), sizeof((struct clattn_tuning_record *)0)->member

/* The members of a record, in the file's order. Enumerations have an int's size. */
static const struct member {
    const char *name;
    enum kind kind;
    size_t offset, size;
    const char *const *words;
} members[] = {{"device", TEXT, AT(device), NULL},
               {"driver", TEXT, AT(driver), NULL},
               {"kernels", TEXT, AT(kernels), NULL},
               {"pass", WORD, AT(pass), passes},
               {"dtype", WORD, AT(dtype), dtypes},
               {"d", INTEGER, AT(d), NULL},
               {"d_v", INTEGER, AT(d_v), NULL},
               {"causal", BOOLEAN, AT(causal), NULL},
               {"n_q_up_to", LENGTH, AT(n_q_up_to), NULL},
               {"n_kv_up_to", LENGTH, AT(n_kv_up_to), NULL},
               {"group", OPTIONAL, AT(group), NULL},
               {"skeleton", TEXT, AT(skeleton), NULL},
               {"b_r", INTEGER, AT(b_r), NULL},
               {"b_c", INTEGER, AT(b_c), NULL},
               {"work_group_size", INTEGER, AT(work_group_size), NULL},
               {"knobs", TEXT, AT(knobs), NULL},
               {"state", WORD, AT(state), states},
               {"ms", NUMBER, AT(ms), NULL},
               {"runs", INTEGER, AT(runs), NULL},
               {"best", BOOLEAN, AT(best), NULL}};
enum { MEMBERS = sizeof members / sizeof *members };

_Static_assert(sizeof(enum clattn_pass) == sizeof(int) && sizeof(enum clattn_tuning_state) == sizeof(int),
               "words are stored as int");

static bool read_word(struct cla_json *json, const struct member *member, int *value)
{
    char text[32];
    if (!cla_json_text(json, text, sizeof text))
        return false;
    for (int i = 0; member->words[i]; i++)
        if (strcmp(member->words[i], text) == 0) {
            *value = i;
            return true;
        }
    return false;
}

/* One that an int does not hold is none that a record may have. */
static bool read_int(struct cla_json *json, int *value)
{
    int64_t integer;
    if (!cla_json_integer(json, &integer))
        return false;
    *value = integer >= INT32_MIN && integer <= INT32_MAX ? (int)integer : -1;
    return true;
}

/* False where the value is not of the member's type or does not fit; its range is cla_tuning_check()'s. */
static bool read_value(struct cla_json *json, const struct member *member, struct clattn_tuning_record *record)
{
    void *field = (char *)record + member->offset;
    switch (member->kind) {
    case TEXT:
        return cla_json_text(json, field, member->size);
    case INTEGER:
        return read_int(json, field);
    case LENGTH:
    case OPTIONAL:
        return cla_json_integer(json, field);
    case NUMBER:
        return cla_json_number(json, field);
    case BOOLEAN:
        return cla_json_boolean(json, field);
    case WORD:
        return read_word(json, member, field);
    }
    return false;
}

/* What is read, and the words for what is wrong with it. */
struct reader {
    struct cla_json json;
    const char *name; /* of the file */
    char problem[160];
};

static bool refuse(struct reader *reader, const char *what, const char *why)
{
    snprintf(reader->problem, sizeof reader->problem, "\"%.40s\" %s", what, why);
    return false;
}

/* A member's name, with its colon. */
static bool read_name(struct reader *reader, char *name, size_t size)
{
    if (cla_json_text(&reader->json, name, size) && cla_json_mark(&reader->json, ':'))
        return true;
    snprintf(reader->problem, sizeof reader->problem, "a member's name and ':' must come here");
    return false;
}

/* One member; `seen` has a bit for each that was there before. */
static bool read_member(struct reader *reader, struct clattn_tuning_record *record, uint32_t *seen)
{
    char name[64];
    int i = 0;
    if (!read_name(reader, name, sizeof name))
        return false;
    while (i < MEMBERS && strcmp(members[i].name, name) != 0)
        i++;
    if (i == MEMBERS)
        return refuse(reader, name, "is no member of a record");
    if (*seen & UINT32_C(1) << i)
        return refuse(reader, name, "is there twice: a duplicate");
    *seen |= UINT32_C(1) << i;
    return read_value(&reader->json, &members[i], record) || refuse(reader, name, "is not such as it must be");
}

static bool read_record(struct reader *reader, struct clattn_tuning_record *record)
{
    uint32_t seen = 0;
    *record = (struct clattn_tuning_record){0};
    if (!cla_json_mark(&reader->json, '{')) {
        snprintf(reader->problem, sizeof reader->problem, "a record must be an object");
        return false;
    }
    for (bool first = true; cla_json_more(&reader->json, first, '}'); first = false)
        if (!read_member(reader, record, &seen))
            return false;
    for (int i = 0; i < MEMBERS && !reader->json.wrong; i++)
        if (members[i].kind != OPTIONAL && !(seen & UINT32_C(1) << i))
            return refuse(reader, members[i].name, "is missing");
    return !reader->json.wrong;
}

static clattn_status damaged(const struct reader *reader, const char *why, struct cla_error *error)
{
    return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:%d: %s", reader->name, reader->json.line + 1,
                    reader->json.wrong ? reader->json.wrong : why);
}

static clattn_status read_records(struct reader *reader, struct cla_tuning_db *db, struct cla_error *error)
{
    for (bool first = true; cla_json_more(&reader->json, first, ']'); first = false) {
        struct clattn_tuning_record record;
        struct cla_error cause = {.status = CLATTN_SUCCESS};
        if (!read_record(reader, &record))
            return damaged(reader, reader->problem, error);
        if (cla_tuning_add(db, &record, &cause) == CL_OUT_OF_HOST_MEMORY) {
            *error = cause;
            return cause.status;
        }
        if (cause.status)
            return damaged(reader, cause.text, error);
    }
    return reader->json.wrong ? damaged(reader, reader->json.wrong, error) : CLATTN_SUCCESS;
}

/* A member of the whole, which has to be of this name. */
static bool begins(struct reader *reader, bool first, const char *wanted)
{
    char name[16];
    return cla_json_more(&reader->json, first, '}') && cla_json_text(&reader->json, name, sizeof name) &&
           strcmp(name, wanted) == 0 && cla_json_mark(&reader->json, ':');
}

/* The members before the records, in their order. */
static clattn_status read_head(struct reader *reader, struct cla_error *error)
{
    char format[32];
    int version = 0;
    if (!cla_json_mark(&reader->json, '{') || !begins(reader, true, "format") ||
        !cla_json_text(&reader->json, format, sizeof format) || strcmp(format, format_name) != 0)
        return cla_fail(error, CLATTN_FILE_DAMAGED,
                        "%s:%d: not a tuning file: it does not begin with {\"format\": \"%s\"", reader->name,
                        reader->json.line + 1, format_name);
    if (!begins(reader, false, "version") || !read_int(&reader->json, &version) || version != VERSION)
        return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:%d: its \"version\" is not %d, the one that this library reads",
                        reader->name, reader->json.line + 1, VERSION);
    if (!begins(reader, false, "records") || !cla_json_mark(&reader->json, '['))
        return cla_fail(error, CLATTN_FILE_DAMAGED,
                        "%s:%d: behind \"version\" it must have \"records\", an array, and nothing else", reader->name,
                        reader->json.line + 1);
    return CLATTN_SUCCESS;
}

static clattn_status read_tail(struct reader *reader, struct cla_error *error)
{
    if (!cla_json_more(&reader->json, false, '}') && cla_json_end(&reader->json))
        return CLATTN_SUCCESS;
    return damaged(reader, "nothing may follow the records", error);
}

clattn_status cla_tuning_parse(const char *name, const char *text, size_t size, struct cla_tuning_db *db,
                               struct cla_error *error)
{
    struct reader reader = {.json = {.at = text, .end = text + size}, .name = name};
    clattn_status status = read_head(&reader, error);
    if (!status)
        status = read_records(&reader, db, error);
    if (!status)
        status = read_tail(&reader, error);
    if (status)
        cla_tuning_free(db);
    return status;
}

static bool is_left_out(const struct member *member, const struct clattn_tuning_record *record)
{
    return member->kind == OPTIONAL && *(const int64_t *)((const char *)record + member->offset) == 0;
}

static void put_value(struct cla_text *text, const struct member *member, const struct clattn_tuning_record *record)
{
    const void *field = (const char *)record + member->offset;
    switch (member->kind) {
    case TEXT:
        cla_json_put_text(text, field);
        break;
    case INTEGER:
        cla_text_printf(text, "%d", *(const int *)field);
        break;
    case LENGTH:
    case OPTIONAL:
        cla_text_printf(text, "%lld", (long long)*(const int64_t *)field);
        break;
    case NUMBER:
        cla_json_put_number(text, *(const double *)field);
        break;
    case BOOLEAN:
        cla_text_printf(text, "%s", *(const bool *)field ? "true" : "false");
        break;
    case WORD:
        cla_json_put_text(text, member->words[*(const int *)field]);
        break;
    }
}

void cla_tuning_format(const struct cla_tuning_db *db, struct cla_text *text)
{
    cla_text_printf(text, "{\"format\": \"%s\", \"version\": %d, \"records\": [", format_name, VERSION);
    for (int r = 0; r < db->count; r++) {
        for (int i = 0; i < MEMBERS; i++) {
            if (is_left_out(&members[i], &db->records[r]))
                continue;
            cla_text_printf(text, "%s\"%s\": ", i ? ", " : r ? ",\n {" : "\n {", members[i].name);
            put_value(text, &members[i], &db->records[r]);
        }
        cla_text_add(text, "}", 1);
    }
    cla_text_printf(text, "\n]}\n");
}
