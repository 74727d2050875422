/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/tune.h"
#include <stdio.h>
#include <stdlib.h>

/* What the library says of a file. */
static int fail_file(struct failure *failure, clattn_status code)
{
    const bool file = code == CLATTN_FILE_FAILED || code == CLATTN_FILE_DAMAGED;
    return fail(failure, file ? STATUS_FILE : STATUS_DEVICE, "%s", clattn_error_message());
}

static int print(const clattn_tuning *tuning, struct failure *failure)
{
    size_t size = 0;
    clattn_status code = clattn_tuning_text(tuning, NULL, 0, &size);
    char *text = code ? NULL : malloc(size);
    if (text && !(code = clattn_tuning_text(tuning, text, size, NULL)))
        fputs(text, stdout);
    free(text);
    return text && !code ? STATUS_OK : fail(failure, STATUS_DEVICE, "no memory for the merged records");
}

/* Adds a file's records to `all`. */
static clattn_status add_file(const char *path, bool best, clattn_tuning *all)
{
    clattn_tuning *one = NULL;
    clattn_status code = clattn_tuning_load(&one, path);
    for (int i = 0; i < clattn_tuning_count(one) && !code; i++) {
        struct clattn_tuning_record record;
        code = clattn_tuning_get(one, i, &record);
        if (!code && (record.best || !best))
            code = clattn_tuning_add(all, &record);
    }
    clattn_tuning_destroy(&one);
    return code;
}

/* A later file may have taken the mark from a record of an earlier one. */
static clattn_status drop_others(clattn_tuning **all)
{
    clattn_tuning *kept = NULL;
    clattn_status code = clattn_tuning_create(&kept);
    for (int i = 0; i < clattn_tuning_count(*all) && !code; i++) {
        struct clattn_tuning_record record;
        code = clattn_tuning_get(*all, i, &record);
        if (!code && record.best)
            code = clattn_tuning_add(kept, &record);
    }
    clattn_tuning_destroy(code ? &kept : all);
    if (!code)
        *all = kept;
    return code;
}

int tune_merge(const struct values *values, struct failure *failure)
{
    clattn_tuning *all = NULL;
    clattn_status code = clattn_tuning_create(&all);
    for (int i = 0; i < values->merge.count && !code; i++)
        code = add_file(values->merge.paths[i], values->best, all);
    if (!code && values->best)
        code = drop_others(&all);
    if (!code && values->db)
        code = clattn_tuning_save(all, values->db);
    const int status = code ? fail_file(failure, code) : values->db ? STATUS_OK : print(all, failure);
    clattn_tuning_destroy(&all);
    return status;
}
