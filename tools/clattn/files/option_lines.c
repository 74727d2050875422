/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/option_lines.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 256, MOST_TEXT = 64 << 20 };

static int read_all(const char *path, char **text, struct failure *failure)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t length = 0, room = 1 << 16;
    if (!file)
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(errno));
    char *bytes = malloc(room);
    for (size_t got; bytes && (got = fread(bytes + length, 1, room - length - 1, file)) > 0;) {
        length += got;
        if (length + 1 < room)
            continue;
        char *larger = room < MOST_TEXT ? realloc(bytes, room *= 2) : NULL;
        if (!larger)
            free(bytes);
        bytes = larger;
    }
    const bool failed = ferror(file);
    const int reason = errno;
    if (file != stdin)
        fclose(file);
    if (bytes && !failed && !memchr(bytes, '\0', length)) {
        bytes[length] = '\0';
        *text = bytes;
        return STATUS_OK;
    }
    const bool zero = bytes && !failed;
    free(bytes);
    return fail(failure, STATUS_FILE, "%s: %s", path,
                failed ? strerror(reason)
                : zero ? "is not text: it holds a zero byte"
                       : "is too long to be read");
}

/* Takes the next word out of the line at *at, in place; NULL where there is none, or *open where a quote stays open. */
static char *next_word(char **at, bool *open)
{
    char *from = *at + strspn(*at, " \t\r"), *to = from, *const word = from, quote = '\0';
    if (!*from || *from == '#')
        return NULL;
    for (; *from && (quote || !strchr(" \t\r", *from)); from++) {
        if (*from == '\\' && quote != '\'' && from[1])
            *to++ = *++from;
        else if (*from == quote)
            quote = '\0';
        else if (!quote && (*from == '\'' || *from == '"'))
            quote = *from;
        else
            *to++ = *from;
    }
    *open = quote;
    *at = from + (*from != '\0');
    *to = '\0';
    return word;
}

static int split(const char *path, int number, char *line, int argc, char **first, struct option_line *made,
                 struct failure *failure)
{
    bool open = false;
    *made = (struct option_line){.number = number, .argv = calloc(MOST_WORDS + 1, sizeof *made->argv)};
    if (!made->argv)
        return fail(failure, STATUS_DEVICE, "%s: no memory for line %d", path, number);
    for (; made->argc < argc; made->argc++)
        made->argv[made->argc] = first[made->argc];
    for (char *word; (word = next_word(&line, &open)); made->argv[made->argc++] = word)
        if (made->argc == MOST_WORDS)
            return fail(failure, STATUS_FILE, "%s: line %d: more than %d words", path, number, MOST_WORDS);
    return open ? fail(failure, STATUS_FILE, "%s: line %d: a quotation mark stays open", path, number) : STATUS_OK;
}

static int split_all(const char *path, int argc, char **first, struct option_lines *lines, struct failure *failure)
{
    int number = 0, status = STATUS_OK;
    for (char *line = lines->text, *end; line && !status; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        number++;
        if (!line[strspn(line, " \t\r")] || line[strspn(line, " \t\r")] == '#')
            continue;
        struct option_line *items = realloc(lines->items, ((size_t)lines->count + 1) * sizeof *items);
        if (!items)
            return fail(failure, STATUS_DEVICE, "%s: no memory for line %d", path, number);
        lines->items = items;
        status = split(path, number, line, argc, first, &items[lines->count++], failure);
    }
    return status || lines->count ? status : fail(failure, STATUS_FILE, "%s: has no line with options", path);
}

int option_lines_read(const char *path, int argc, char **first, struct option_lines *lines, struct failure *failure)
{
    *lines = (struct option_lines){.count = 0};
    if (argc > MOST_WORDS)
        return fail(failure, STATUS_USAGE, "%d words before those of %s: at most %d", argc, path, MOST_WORDS);
    int status = read_all(path, &lines->text, failure);
    if (!status)
        status = split_all(path, argc, first, lines, failure);
    if (status)
        option_lines_free(lines);
    return status;
}

void option_lines_free(struct option_lines *lines)
{
    for (int i = 0; i < lines->count; i++)
        free(lines->items[i].argv);
    free(lines->items);
    free(lines->text);
    *lines = (struct option_lines){.count = 0};
}
