/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"
#include "device/tuning.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20, LOCK_MILLISECONDS = 10000 };

clattn_status cla_tuning_read_file(const char *path, int how, struct cla_tuning_db *db, struct cla_error *error)
{
    size_t size = 0;
    const char *distrust = NULL;
    if ((how & CLA_TUNING_OPTIONAL) && !cla_os_exists(path))
        return CLATTN_SUCCESS;
    errno = 0;
    char *text = how & CLA_TUNING_OWN ? cla_os_read_own_file(path, MOST_BYTES, &size, &distrust)
                                      : cla_os_read_file(path, MOST_BYTES, &size);
    if (distrust)
        return cla_fail(error, CLATTN_FILE_FAILED,
                        "%s: is found by default, and %s: it and its directory must belong to the user or to root, and "
                        "no one else may write to them (mode 0644 and 0755, or less); or name it, or set "
                        "CLATTN_TUNING_FILE",
                        path, distrust);
    if (!text)
        return cla_fail(error, CLATTN_FILE_FAILED, "%s: cannot be read: %s", path,
                        errno ? strerror(errno) : "it is not a regular file of at most 64 MiB");
    const clattn_status status = cla_tuning_parse(path, text, size, db, error);
    free(text);
    return status;
}

static clattn_status write_file(const char *path, const struct cla_tuning_db *db, struct cla_error *error)
{
    struct cla_text text = {0};
    cla_tuning_format(db, &text);
    clattn_status status = CLATTN_SUCCESS;
    errno = 0;
    if (text.failed)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the text of %s", path);
    else if (!cla_os_replace_kept_file(path, text.data, text.length))
        status = cla_fail(error, CLATTN_FILE_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    cla_text_free(&text);
    return status;
}

static clattn_status update_locked(const char *path, int how, const struct cla_tuning_db *db, struct cla_error *error)
{
    struct cla_tuning_db all = {0};
    clattn_status status = cla_tuning_read_file(path, how | CLA_TUNING_OPTIONAL, &all, error);
    if (!status)
        status = cla_tuning_merge(&all, db, error);
    if (!status)
        status = write_file(path, &all, error);
    cla_tuning_free(&all);
    return status;
}

/* Makes the directory of a path; nothing where it has none. What cannot be made shows when the lock is opened. */
static void make_directory_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return;
    *slash = '\0';
    cla_os_make_directory(path);
    *slash = '/';
}

clattn_status cla_tuning_update_file(const char *path, int how, const struct cla_tuning_db *db, struct cla_error *error)
{
    static const char suffix[] = ".lock";
    const size_t length = strlen(path);
    char *lock_path = malloc(length + sizeof suffix);
    if (!lock_path)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the name of a lock");
    memcpy(lock_path, path, length);
    memcpy(lock_path + length, suffix, sizeof suffix);
    make_directory_of(lock_path);
    const int lock = cla_os_lock(lock_path, LOCK_MILLISECONDS);
    clattn_status status;
    if (lock < 0) {
        status = cla_fail(error, CLATTN_FILE_FAILED, "%s: the lock %s cannot be had: %s", path, lock_path,
                          errno == EWOULDBLOCK ? "another process has held it for ten seconds" : strerror(errno));
    } else {
        status = update_locked(path, how, db, error);
        cla_os_unlock(lock);
    }
    free(lock_path);
    return status;
}
