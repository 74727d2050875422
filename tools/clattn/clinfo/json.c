/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/fields.h"
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form is {"platforms": [{...}], "devices": [{"online": [{...}]}]}: devices[i] belongs to platforms[i]. */

static const json_t *raw_member(const json_t *object)
{
    const json_t *raw = json_object_get(object, "raw");
    return raw ? raw : json_object_get(object, " raw "); /* clinfo 3.0.23 writes both */
}

static void scalar_text(const json_t *value, char *text, size_t size)
{
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value) && json_real_value(value) >= 0.0 && json_real_value(value) < 1.8e19)
        snprintf(text, size, "%" PRIu64, (uint64_t)json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "CL_TRUE" : "CL_FALSE");
    else
        text[0] = '\0';
}

/* Any value in the words that `clinfo --raw` has for it: a list with spaces, an object by its number. */
static void value_text(const json_t *value, char *text, size_t size)
{
    if (json_is_object(value)) {
        scalar_text(raw_member(value), text, size);
        return;
    }
    if (!json_is_array(value)) {
        scalar_text(value, text, size);
        return;
    }
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(value) && length + 1 < size; i++) {
        if (i)
            text[length++] = ' ';
        scalar_text(json_array_get(value, i), text + length, size - length);
        length += strlen(text + length);
    }
}

static void set_all(struct clattn_capabilities *capabilities, json_t *object)
{
    char text[16384]; /* the longest value is the list of extensions, of a few thousand bytes */
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        value_text(value, text, sizeof text);
        if (*text)
            clinfo_set(capabilities, name, text);
    }
    clinfo_finish(capabilities);
}

static bool append_platform(json_t *platform, json_t *online, int index, struct clinfo_devices *devices)
{
    for (size_t i = 0; i < json_array_size(online); i++) {
        json_t *object = json_array_get(online, i);
        if (!json_is_object(object))
            continue;
        struct clinfo_device *device = clinfo_append(devices, index, (int)i);
        if (!device)
            return false;
        set_all(&device->capabilities, platform);
        set_all(&device->capabilities, object);
    }
    return true;
}

/* A byte that may stand in JSON. */
static char clean(char byte, bool lenient)
{
    const unsigned char value = (unsigned char)byte;
    return value < ' ' ? ' ' : lenient && value > '~' ? '?' : byte;
}

/* The text with clean bytes and with quotes around bare hexadecimal numbers (pointers, identifiers), which JSON does
 * not know. `copy` has room for twice the text. */
static size_t repair(const char *text, size_t size, bool lenient, char *copy)
{
    size_t length = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        if (!in_string && text[i] == '0' && i + 1 < size && (text[i + 1] == 'x' || text[i + 1] == 'X')) {
            copy[length++] = '"';
            for (; i < size && isalnum((unsigned char)text[i]); i++)
                copy[length++] = text[i];
            copy[length++] = '"';
            i--;
            continue;
        }
        if (in_string && text[i] == '\\' && i + 1 < size)
            copy[length++] = clean(text[i++], lenient);
        else if (text[i] == '"')
            in_string = !in_string;
        copy[length++] = clean(text[i], lenient);
    }
    return length;
}

/* Drivers print where they should not, names hold bytes that are not UTF-8, and some numbers exceed 2^63: `lenient`
 * takes such a dump all the same, at the price of question marks in names. */
static json_t *load(const char *text, size_t size, bool lenient, json_error_t *error)
{
    char *copy = malloc(2 * size + 1);
    if (!copy)
        return NULL;
    const size_t length = repair(text, size, lenient, copy);
    json_t *root = json_loadb(copy, length, JSON_DISABLE_EOF_CHECK | (lenient ? JSON_DECODE_INT_AS_REAL : 0), error);
    free(copy);
    return root;
}

int clinfo_parse_json(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                      struct failure *failure)
{
    json_error_t error, second;
    json_t *root = load(text, size, false, &error);
    if (!root)
        root = load(text, size, true, &second);
    if (!root)
        return fail(failure, STATUS_FILE, "%s: not the output of 'clinfo --json': %s at byte %d", name, error.text,
                    error.position);
    json_t *platforms = json_object_get(root, "platforms"), *lists = json_object_get(root, "devices");
    bool enough = true;
    for (size_t i = 0; enough && i < json_array_size(lists); i++)
        enough = append_platform(json_array_get(platforms, i), json_object_get(json_array_get(lists, i), "online"),
                                 (int)i, devices);
    json_decref(root);
    return enough ? STATUS_OK : fail(failure, STATUS_FILE, "%s: no memory for its devices", name);
}
