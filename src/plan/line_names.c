/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/line_names.h"
#include "plan/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char whole[] = "<kernel>:";

/* What a physical line, counted from 1, is called: the last directive before it says. name is "" where there is none.
 */
struct place {
    char name[64];
    long line;
};

static struct place find_place(const char *program, long number)
{
    struct place place = {.line = number};
    long line = 1;
    for (const char *at = program; *at && line < number; line++) {
        char name[64];
        long first;
        if (sscanf(at, "#line %ld \"%63[^\"]\"", &first, name) == 2) {
            memcpy(place.name, name, sizeof name);
            place.line = first + number - line - 1;
        }
        const char *next = strchr(at, '\n');
        at = next ? next + 1 : at + strlen(at);
    }
    return place;
}

void cla_name_lines(const char *program, struct cla_error *error)
{
    struct cla_text text = {0};
    const char *at = error->text;
    for (const char *found; (found = strstr(at, whole));) {
        char *end;
        const long number = strtol(found + strlen(whole), &end, 10);
        const struct place place = find_place(program, number);
        cla_text_add(&text, at, (size_t)(found - at));
        if (place.name[0])
            cla_text_printf(&text, "%s:%ld", place.name, place.line);
        else
            cla_text_add(&text, found, (size_t)(end - found));
        at = end;
    }
    cla_text_add(&text, at, strlen(at));
    if (!text.failed && text.data)
        snprintf(error->text, sizeof error->text, "%s", text.data);
    cla_text_free(&text);
}
