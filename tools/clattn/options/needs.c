/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/options.h"
#include <string.h>

/* Whether an option has been given, of the kinds whose values tell: 0 stands for none. */
static bool is_given(const struct option_spec *option, const void *values)
{
    const void *field = (const char *)values + option->field;
    if (option->of_feature && option->kind != OPTION_STRING)
        return ((const struct option_number *)field)->given;
    switch (option->kind) {
    case OPTION_STRING:
    case OPTION_SKELETON:
        return *(const char *const *)field != NULL;
    case OPTION_FLAG:
        return *(const bool *)field;
    case OPTION_WORD:
        return *(const int *)field != 0;
    case OPTION_PAIR:
        return ((const struct option_number *)field)->given;
    case OPTION_INTEGERS:
        return ((const struct option_list *)field)->count != 0;
    case OPTION_DEVICES:
        return ((const struct option_devices *)field)->count != 0;
    default:
        return false;
    }
}

static bool name_is_given(const struct command_spec *command, const char *name, size_t length, const void *values)
{
    struct option_spec option;
    for (int i = 0; option_at(command, i, &option); i++)
        if (strlen(option.name) == length && !memcmp(option.name, name, length))
            return is_given(&option, values);
    return false;
}

/* Whether one of the options that a line names is there: "seed N", "cu-seqlens-kv FILE (or --kv-pages FILE)". */
static bool one_is_given(const struct command_spec *command, const char *line, size_t length, const void *values)
{
    const char *name = line;
    while (name) {
        if (name_is_given(command, name, strcspn(name, " "), values))
            return true;
        name = strstr(name, "--");
        name = name && name < line + length ? name + 2 : NULL;
    }
    return false;
}

static int check_needs(const struct command_spec *command, const char *name, const char *needs, const void *values,
                       struct failure *failure)
{
    for (const char *line = needs; *line; line += strspn(line, "\n")) {
        const size_t length = strcspn(line, "\n");
        if (!one_is_given(command, line, length, values))
            return fail(failure, STATUS_USAGE, "--%s needs --%.*s", name, (int)length, line);
        line += length;
    }
    return STATUS_OK;
}

int options_check_needs(const struct command_spec *command, const void *values, struct failure *failure)
{
    int status = STATUS_OK;
    struct option_spec option;
    for (int i = 0; !status && option_at(command, i, &option); i++)
        if (option.needs && is_given(&option, values))
            status = check_needs(command, option.name, option.needs, values, failure);
    for (const struct option_need *need = command->needs; need && need->name && !status; need++)
        if (name_is_given(command, need->name, strlen(need->name), values))
            status = check_needs(command, need->name, need->needs, values, failure);
    return status;
}
