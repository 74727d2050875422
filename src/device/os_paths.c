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

/* The next word of CLATTN_DISABLE from *at on, which then points behind it; its length, 0 where there is none. */
static size_t next_word(const char **at)
{
    *at += strspn(*at, ", ");
    const size_t length = strcspn(*at, ", ");
    *at += length;
    return length;
}

bool cla_os_disables(const char *word)
{
    const char *at = cla_os_variable("CLATTN_DISABLE");
    for (size_t length; at && (length = next_word(&at)) > 0;)
        if (length == strlen(word) && strncmp(at - length, word, length) == 0)
            return true;
    return false;
}

bool cla_os_disabled_word(size_t place, char *word, size_t size)
{
    const char *at = cla_os_variable("CLATTN_DISABLE");
    for (size_t length; at && (length = next_word(&at)) > 0; place--)
        if (place == 0) {
            const size_t kept = length < size ? length : size - 1;
            memcpy(word, at - length, kept);
            word[kept] = '\0';
            return true;
        }
    return false;
}

bool cla_os_wants_pocl_cbs(void)
{
    const char *const method = cla_os_variable("POCL_WORK_GROUP_METHOD");
    return method && strcmp(method, "cbs") == 0;
}
