/* SPDX-License-Identifier: BSD-2-Clause */
#include "report/report.h"
#include "system/system.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name of fewer letters is part of too many other words. */
enum { SHORTEST = 3, LONGEST = 4096, NAMES = 5 };

struct name {
    char text[LONGEST];
    const char *instead;
};

static void add(struct name *name, const char *text, const char *instead)
{
    const size_t length = text ? strlen(text) : 0;
    const bool takes =
        length >= SHORTEST && length < LONGEST && strcmp(text, "root") != 0 && strcmp(text, "localhost") != 0;
    memcpy(name->text, takes ? text : "", takes ? length + 1 : 1);
    name->instead = instead;
}

/* Longer ones first: a working folder may lie in the home folder, and that have the user's name. */
static void own_names(struct name names[NAMES])
{
    struct system_user user;
    system_user(&user);
    add(&names[0], user.folder, ".");
    add(&names[1], getenv("HOME"), "~");
    add(&names[2], user.home, "~");
    add(&names[3], user.host, "HOST");
    add(&names[4], user.name, "USER");
}

/* Whether the name that begins at `at` is a word, or a path, and not a piece of one. */
static bool stands_alone(const char *text, const char *at, size_t length)
{
    return (at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]);
}

/* Replaces one name in a malloc'ed text; frees it. NULL without memory. */
static char *without(char *text, const struct name *name)
{
    const size_t length = strlen(name->text), instead = strlen(name->instead);
    char *at = text;
    while (text && length && (at = strstr(at, name->text))) {
        if (!stands_alone(text, at, length)) {
            at++;
            continue;
        }
        const size_t before = (size_t)(at - text);
        char *changed = malloc(strlen(text) + instead + 1);
        if (changed)
            sprintf(changed, "%.*s%s%s", (int)before, text, name->instead, at + length);
        free(text);
        text = changed;
        at = changed ? changed + before + instead : NULL;
    }
    return text;
}

static json_t *clean_text(const char *text, const struct name names[NAMES])
{
    char *copy = malloc(strlen(text) + 1);
    if (copy)
        strcpy(copy, text);
    for (int i = 0; i < NAMES; i++)
        copy = without(copy, &names[i]);
    json_t *clean = copy ? json_string(copy) : NULL;
    free(copy);
    return clean;
}

static json_t *clean_value(const json_t *value, const struct name names[NAMES]);

static json_t *clean_array(const json_t *value, const struct name names[NAMES])
{
    json_t *array = json_array();
    for (size_t i = 0; i < json_array_size(value); i++)
        json_array_append_new(array, clean_value(json_array_get(value, i), names));
    return array;
}

static json_t *clean_object(const json_t *value, const struct name names[NAMES])
{
    json_t *object = json_object(), *member;
    const char *key;
    json_object_foreach((json_t *)value, key, member) json_object_set_new(object, key, clean_value(member, names));
    return object;
}

static json_t *clean_value(const json_t *value, const struct name names[NAMES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return clean_text(json_string_value(value), names);
    case JSON_ARRAY:
        return clean_array(value, names);
    case JSON_OBJECT:
        return clean_object(value, names);
    default:
        return json_deep_copy(value);
    }
}

json_t *report_without_names(const json_t *value)
{
    struct name names[NAMES];
    own_names(names);
    return value ? clean_value(value, names) : NULL;
}
