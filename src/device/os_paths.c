/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"
#include "device/os_system.h"
#include <string.h>

/* Touches path only where the whole fits. */
static bool join(char *path, size_t size, const char *directory, const char *rest)
{
    const size_t length = strlen(directory), rest_length = strlen(rest);
    if (length + rest_length >= size)
        return false;
    memcpy(path, directory, length);
    memcpy(path + length, rest, rest_length + 1);
    return true;
}

/* The file or directory that a variable names, else the one that the system keeps for such things; "" for none. */
static bool find(const char *variable, const struct cla_os_place *places, char *path, size_t size)
{
    const char *value = cla_os_variable(variable);
    if (value)
        return join(path, size, value, "");
    for (; places->variable; places++) {
        value = cla_os_variable(places->variable);
        if (value && value[0] && (!places->absolute || cla_os_is_absolute(value)))
            return join(path, size, value, places->below);
    }
    return join(path, size, "", "");
}

bool cla_os_cache_directory(char *path, size_t size)
{
    return find("CLATTN_CACHE_DIR", cla_os_cache_places, path, size);
}

bool cla_os_tuning_path(char *path, size_t size)
{
    return find("CLATTN_TUNING_FILE", cla_os_tuning_places, path, size);
}

bool cla_os_names_tuning_file(void)
{
    return cla_os_variable("CLATTN_TUNING_FILE") != NULL;
}

bool cla_os_disables(const char *path)
{
    const char *list = cla_os_variable("CLATTN_DISABLE");
    const size_t length = strlen(path);
    for (const char *at = list; at && *at; at += strcspn(at, ", ")) {
        at += strspn(at, ", ");
        if (strcspn(at, ", ") == length && strncmp(at, path, length) == 0)
            return true;
    }
    return false;
}

bool cla_os_wants_pocl_cbs(void)
{
    const char *const method = cla_os_variable("POCL_WORK_GROUP_METHOD");
    return method && strcmp(method, "cbs") == 0;
}
