/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/rows.h"
#include <string.h>

double bench_row_number(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    return json_is_number(value) ? json_number_value(value) : 0.0;
}

const char *bench_row_text(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text ? text : "";
}

/* What every row has had since there are rows. */
static const char *missing(const json_t *row)
{
    static const char *const texts[] = {"device", "pass", "dtype", "path"};
    static const char *const numbers[] = {"batch", "heads", "n_q", "n_kv", "d"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!json_is_string(json_object_get(row, texts[i])))
            return texts[i];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!json_is_integer(json_object_get(row, numbers[i])))
            return numbers[i];
    return json_is_boolean(json_object_get(row, "causal")) ? NULL : "causal";
}

static int check_rows(const char *path, const json_t *rows, struct failure *failure)
{
    if (!json_is_array(rows) || !json_array_size(rows))
        return fail(failure, STATUS_FILE, "%s: is not an array of rows, as 'clattn bench --json' writes it", path);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *name = missing(json_array_get(rows, i));
        if (name)
            return fail(failure, STATUS_FILE, "%s: row %zu has no \"%s\": it is not what 'clattn bench --json' writes",
                        path, i, name);
    }
    return STATUS_OK;
}

json_t *bench_rows_read(const char *path, int *status, struct failure *failure)
{
    json_error_t error;
    json_t *rows = strcmp(path, "-") ? json_load_file(path, JSON_REJECT_DUPLICATES, &error)
                                     : json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    if (!rows && error.line > 0)
        *status = fail(failure, STATUS_FILE, "%s: line %d: %s", path, error.line, error.text);
    else if (!rows)
        *status = fail(failure, STATUS_FILE, "%s: %s", path, error.text);
    else
        *status = check_rows(path, rows, failure);
    if (*status) {
        json_decref(rows);
        rows = NULL;
    }
    return rows;
}
