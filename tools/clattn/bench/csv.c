/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/rows.h"
#include "files/output_file.h"
#include <stdlib.h>
#include <string.h>

/* A text that grows; NULL once memory was short. */
struct buffer {
    char *data;
    size_t used, size;
};

static void append(struct buffer *buffer, const char *text, size_t length)
{
    if (buffer->used + length + 1 > buffer->size) {
        const size_t size = 2 * (buffer->size + length) + 1024;
        char *data = buffer->size && !buffer->data ? NULL : realloc(buffer->data, size);
        if (!data)
            free(buffer->data);
        *buffer = (struct buffer){.data = data, .used = data ? buffer->used : 0, .size = size};
    }
    if (!buffer->data)
        return;
    memcpy(buffer->data + buffer->used, text, length);
    buffer->used += length;
    buffer->data[buffer->used] = '\0';
}

/* Quoted where it has to be (RFC 4180). */
static void append_field(struct buffer *buffer, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        append(buffer, text, strlen(text));
        return;
    }
    append(buffer, "\"", 1);
    for (; *text; text++)
        append(buffer, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    append(buffer, "\"", 1);
}

static void append_value(struct buffer *buffer, const json_t *value);

/* The elements of a list, with spaces between them. */
static void append_list(struct buffer *buffer, const json_t *list)
{
    struct buffer joined = {NULL, 0, 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (i)
            append(&joined, " ", 1);
        append_value(&joined, json_array_get(list, i));
    }
    if (joined.data)
        append_field(buffer, joined.data);
    free(joined.data);
}

/* As JSON has it; a text without its quotes, nothing for null. */
static void append_value(struct buffer *buffer, const json_t *value)
{
    if (json_is_array(value)) {
        append_list(buffer, value);
    } else if (json_is_string(value)) {
        append_field(buffer, json_string_value(value));
    } else if (value && !json_is_null(value)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        append_field(buffer, text ? text : "");
        free(text);
    }
}

static void append_rows(struct buffer *buffer, const json_t *rows)
{
    json_t *first = json_array_get(rows, 0);
    const char *name;
    json_t *value;
    json_object_foreach(first, name, value)
    {
        append(buffer, ",", name == json_object_iter_key(json_object_iter(first)) ? 0 : 1);
        append_field(buffer, name);
    }
    append(buffer, "\r\n", 2);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_object_foreach(first, name, value)
        {
            append(buffer, ",", name == json_object_iter_key(json_object_iter(first)) ? 0 : 1);
            append_value(buffer, json_object_get(json_array_get(rows, i), name));
        }
        append(buffer, "\r\n", 2);
    }
}

int bench_csv_print(const json_t *rows, const char *path, struct failure *failure)
{
    struct buffer buffer = {NULL, 0, 0};
    append_rows(&buffer, rows);
    if (!buffer.data)
        return fail(failure, STATUS_DEVICE, "no memory for the CSV output");
    int status = STATUS_OK;
    if (!strcmp(path, "-"))
        fwrite(buffer.data, 1, buffer.used, stdout);
    else
        status = output_write_whole(path, buffer.data, buffer.used, failure);
    free(buffer.data);
    return status;
}
