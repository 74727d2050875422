/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/tuning.h"
#include "device/os.h"
#include "device/report.h"
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 8192 };

static clattn_status answer(const struct cla_error *error)
{
    return error->status ? cla_report(NULL, error) : CLATTN_SUCCESS;
}

static clattn_status invalid(const char *what)
{
    struct cla_error error;
    cla_fail(&error, CLATTN_INVALID_ARGUMENT, "%s", what);
    return cla_report(NULL, &error);
}

clattn_status clattn_tuning_default_path(char *path, size_t size)
{
    struct cla_error error = {0};
    if (!path)
        return invalid("path is NULL: it must point to `size` bytes");
    if (!cla_os_tuning_path(path, size))
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "size is %zu: the default tuning file's name does not fit", size);
    return answer(&error);
}

clattn_status clattn_tuning_create(clattn_tuning **tuning)
{
    struct cla_error error = {0};
    if (!tuning)
        return invalid("tuning is NULL: it must point to the handle to be set");
    clattn_tuning *made = calloc(1, sizeof *made);
    if (made)
        *tuning = made;
    else
        cla_fail(&error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_tuning");
    return answer(&error);
}

/* The path that a call means: its own, or the default. */
static clattn_status choose_path(const char *given, char *room, const char **path)
{
    *path = given ? given : room;
    return given ? CLATTN_SUCCESS : clattn_tuning_default_path(room, PATH_BYTES);
}

/* What is found by default must be the user's own. */
static int own_unless_named(void)
{
    return cla_os_names_tuning_file() ? 0 : CLA_TUNING_OWN;
}

clattn_status clattn_tuning_load(clattn_tuning **tuning, const char *path)
{
    char room[PATH_BYTES];
    const char *name;
    clattn_tuning *made = NULL;
    clattn_status status = clattn_tuning_create(tuning ? &made : NULL);
    if (!status)
        status = choose_path(path, room, &name);
    if (!status && (path || name[0])) {
        struct cla_error error = {0};
        status = cla_tuning_read_file(name, path ? 0 : CLA_TUNING_OPTIONAL | own_unless_named(), &made->db, &error);
        answer(&error);
    }
    if (status)
        clattn_tuning_destroy(&made);
    else
        *tuning = made;
    return status;
}

clattn_status clattn_tuning_parse(clattn_tuning **tuning, const char *name, const char *text, size_t size)
{
    struct cla_error error = {0};
    clattn_tuning *made = NULL;
    if (!name || !text)
        return invalid(name ? "text is NULL: it must point to `size` bytes" : "name is NULL: it must be a string");
    const clattn_status status = clattn_tuning_create(tuning ? &made : NULL);
    if (status)
        return status;
    if (cla_tuning_parse(name, text, size, &made->db, &error))
        clattn_tuning_destroy(&made);
    else
        *tuning = made;
    return answer(&error);
}

void clattn_tuning_destroy(clattn_tuning **tuning)
{
    if (!tuning || !*tuning)
        return;
    cla_tuning_free(&(*tuning)->db);
    free(*tuning);
    *tuning = NULL;
}

int clattn_tuning_count(const clattn_tuning *tuning)
{
    return tuning ? tuning->db.count : 0;
}

clattn_status clattn_tuning_get(const clattn_tuning *tuning, int index, struct clattn_tuning_record *record)
{
    struct cla_error error = {0};
    if (!tuning || !record)
        return invalid(tuning ? "record is NULL: it must point to a struct clattn_tuning_record"
                              : "tuning is NULL: it must be a clattn_tuning");
    if (index < 0 || index >= tuning->db.count)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "index is %d: there are %d records, counted from 0", index,
                 tuning->db.count);
    else
        *record = tuning->db.records[index];
    return answer(&error);
}

clattn_status clattn_tuning_add(clattn_tuning *tuning, const struct clattn_tuning_record *record)
{
    struct cla_error error = {0};
    if (!tuning || !record)
        return invalid(tuning ? "record is NULL: it must point to a struct clattn_tuning_record"
                              : "tuning is NULL: it must be a clattn_tuning");
    cla_tuning_add(&tuning->db, record, &error);
    return answer(&error);
}

clattn_status clattn_tuning_merge(clattn_tuning *tuning, const clattn_tuning *other)
{
    struct cla_error error = {0};
    if (!tuning || !other)
        return invalid(tuning ? "other is NULL: it must be a clattn_tuning"
                              : "tuning is NULL: it must be a clattn_tuning");
    if (tuning != other)
        cla_tuning_merge(&tuning->db, &other->db, &error);
    return answer(&error);
}

clattn_status clattn_tuning_text(const clattn_tuning *tuning, char *text, size_t size, size_t *needed)
{
    struct cla_error error = {0};
    struct cla_text made = {0};
    if (!tuning || (!text && size))
        return invalid(tuning ? "text is NULL: it must point to `size` bytes, or size must be 0"
                              : "tuning is NULL: it must be a clattn_tuning");
    cla_tuning_format(&tuning->db, &made);
    if (made.failed)
        cla_fail(&error, CL_OUT_OF_HOST_MEMORY, "no host memory for the text of tuning records");
    else if (text && made.length >= size)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "size is %zu: the text takes %zu bytes", size, made.length + 1);
    else if (text)
        memcpy(text, made.data, made.length + 1);
    if (needed && !made.failed)
        *needed = made.length + 1;
    cla_text_free(&made);
    return answer(&error);
}

clattn_status clattn_tuning_save(const clattn_tuning *tuning, const char *path)
{
    char room[PATH_BYTES];
    const char *name;
    struct cla_error error = {0};
    if (!tuning)
        return invalid("tuning is NULL: it must be a clattn_tuning");
    const clattn_status status = choose_path(path, room, &name);
    if (status)
        return status;
    if (!name[0])
        return invalid("path is empty, or there is no default tuning file: name one");
    cla_tuning_update_file(name, path ? 0 : own_unless_named(), &tuning->db, &error);
    return answer(&error);
}
