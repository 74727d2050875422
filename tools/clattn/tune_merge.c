/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune.h"
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

int tune_merge(const struct values *values, struct failure *failure)
{
    clattn_tuning *all = NULL;
    clattn_status code = clattn_tuning_create(&all);
    for (int i = 0; i < values->merge.count && !code; i++) {
        clattn_tuning *one = NULL;
        code = clattn_tuning_load(&one, values->merge.paths[i]);
        if (!code)
            code = clattn_tuning_merge(all, one);
        clattn_tuning_destroy(&one);
    }
    if (!code && values->db)
        code = clattn_tuning_save(all, values->db);
    const int status = code ? fail_file(failure, code) : values->db ? STATUS_OK : print(all, failure);
    clattn_tuning_destroy(&all);
    return status;
}
