/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The tuning file's text, as <clattn/tuning.h> shows it. */
#include "plan/tuning_db.h"
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };
static const char format_name[] = "clattn tuning";

enum kind { TEXT, INTEGER, LENGTH, NUMBER, BOOLEAN, WORD };

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

static bool set_word(const struct member *member, const char *text, int *value)
{
    for (int i = 0; text && member->words[i]; i++)
        if (strcmp(member->words[i], text) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool set_text(const struct member *member, const json_t *value, char *text)
{
    if (!json_is_string(value) || json_string_length(value) >= member->size)
        return false;
    memcpy(text, json_string_value(value), json_string_length(value) + 1);
    return true;
}

/* False where the value is not of the member's type or does not fit; its range is cla_tuning_check()'s. */
static bool set_member(const struct member *member, const json_t *value, struct clattn_tuning_record *record)
{
    void *field = (char *)record + member->offset;
    const json_int_t integer = json_integer_value(value);
    switch (member->kind) {
    case TEXT:
        return set_text(member, value, field);
    case INTEGER:
        *(int *)field = integer >= INT32_MIN && integer <= INT32_MAX ? (int)integer : -1;
        return json_is_integer(value);
    case LENGTH:
        *(int64_t *)field = integer;
        return json_is_integer(value);
    case NUMBER:
        *(double *)field = json_number_value(value);
        return json_is_number(value);
    case BOOLEAN:
        *(bool *)field = json_is_true(value);
        return json_is_boolean(value);
    case WORD:
        return set_word(member, json_string_value(value), field);
    }
    return false;
}

/* Where a text that is known to be JSON has the record of this number: the line of its brace. Strings are skipped. */
static int line_of_record(const char *text, size_t size, size_t index)
{
    int line = 1, depth = 0;
    size_t records = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            line++;
        if (text[i] == '"')
            while (++i < size && text[i] != '"')
                i += text[i] == '\\';
        if (i < size && (text[i] == '{' || text[i] == '[') && depth++ == 2 && records++ == index)
            break;
        if (i < size && (text[i] == '}' || text[i] == ']'))
            depth--;
    }
    return line;
}

/* What is wrong with a record; "" for nothing. */
static void read_record(const json_t *object, struct clattn_tuning_record *record, char *problem, size_t size)
{
    const char *key;
    json_t *value;
    problem[0] = '\0';
    *record = (struct clattn_tuning_record){0};
    if (!json_is_object(object)) {
        snprintf(problem, size, "a record must be an object");
        return;
    }
    for (int i = 0; i < MEMBERS; i++) {
        const json_t *member = json_object_get(object, members[i].name);
        if (!member || !set_member(&members[i], member, record)) {
            snprintf(problem, size, "\"%s\" is %s", members[i].name, member ? "not such as it must be" : "missing");
            return;
        }
    }
    json_object_foreach((json_t *)object, key, value)
    {
        int known = 0;
        while (known < MEMBERS && strcmp(members[known].name, key) != 0)
            known++;
        if (known == MEMBERS)
            snprintf(problem, size, "\"%.40s\" is no member of a record", key);
    }
}

static clattn_status read_records(const char *name, const char *text, size_t size, const json_t *list,
                                  struct cla_tuning_db *db, struct cla_error *error)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct clattn_tuning_record record;
        struct cla_error cause = {.status = CLATTN_SUCCESS};
        char problem[160];
        read_record(json_array_get(list, i), &record, problem, sizeof problem);
        if (!problem[0] && cla_tuning_add(db, &record, &cause) == CL_OUT_OF_HOST_MEMORY) {
            *error = cause;
            return cause.status;
        }
        if (problem[0] || cause.status)
            return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:%d: %s", name, line_of_record(text, size, i),
                            problem[0] ? problem : cause.text);
    }
    return CLATTN_SUCCESS;
}

static clattn_status read_root(const char *name, const char *text, size_t size, const json_t *root,
                               struct cla_tuning_db *db, struct cla_error *error)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version"), *records = json_object_get(root, "records");
    if (!format || strcmp(format, format_name) != 0)
        return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:1: not a tuning file: it has no \"format\": \"%s\"", name,
                        format_name);
    if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:1: its \"version\" is not %d, the one that this library reads",
                        name, VERSION);
    if (!json_is_array(records) || json_object_size(root) != 3)
        return cla_fail(error, CLATTN_FILE_DAMAGED,
                        "%s:1: it must have \"format\", \"version\" and \"records\", an array, and nothing else", name);
    return read_records(name, text, size, records, db, error);
}

clattn_status cla_tuning_parse(const char *name, const char *text, size_t size, struct cla_tuning_db *db,
                               struct cla_error *error)
{
    json_error_t place;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &place);
    if (!root && json_error_code(&place) == json_error_out_of_memory)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the records of %s", name);
    if (!root)
        return cla_fail(error, CLATTN_FILE_DAMAGED, "%s:%d: %s", name, place.line > 0 ? place.line : 1, place.text);
    const clattn_status status = read_root(name, text, size, root, db, error);
    json_decref(root);
    if (status)
        cla_tuning_free(db);
    return status;
}

static json_t *member_value(const struct member *member, const struct clattn_tuning_record *record)
{
    const void *field = (const char *)record + member->offset;
    switch (member->kind) {
    case TEXT:
        return json_string(field);
    case INTEGER:
        return json_integer(*(const int *)field);
    case LENGTH:
        return json_integer(*(const int64_t *)field);
    case NUMBER:
        return json_real(*(const double *)field);
    case BOOLEAN:
        return json_boolean(*(const bool *)field);
    case WORD:
        return json_string(member->words[*(const int *)field]);
    }
    return NULL;
}

/* Terminated and malloc'ed. json_dumps() would do that, but of jansson 2.14 it leaves out a name, and says nothing,
 * where memory is short. */
static char *text_of(const json_t *object)
{
    const size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6), length = json_dumpb(object, NULL, 0, flags);
    char *text = length ? malloc(length + 1) : NULL;
    if (!text)
        return NULL;
    if (json_dumpb(object, text, length, flags) != length) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

static char *record_line(const struct clattn_tuning_record *record)
{
    json_t *object = json_object();
    for (int i = 0; object && i < MEMBERS; i++)
        if (json_object_set_new(object, members[i].name, member_value(&members[i], record))) {
            json_decref(object);
            object = NULL;
        }
    char *line = object ? text_of(object) : NULL;
    json_decref(object);
    return line;
}

void cla_tuning_format(const struct cla_tuning_db *db, struct cla_text *text)
{
    cla_text_printf(text, "{\"format\": \"%s\", \"version\": %d, \"records\": [", format_name, VERSION);
    for (int i = 0; i < db->count; i++) {
        char *line = record_line(&db->records[i]);
        if (!line)
            text->failed = true;
        else
            cla_text_printf(text, "%s\n %s", i ? "," : "", line);
        free(line);
    }
    cla_text_printf(text, "\n]}\n");
}
