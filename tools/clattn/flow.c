/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"
#include "system/terminal.h"
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* Texts are written up to WRITTEN columns wide; a line of at least FULL is taken to go on in the next. */
enum { LINE_BYTES = 16384, WRITTEN = 116, FULL = 60 };

/* What has come of a line. */
static char line[LINE_BYTES];
static size_t length;

/* Where further lines begin. */
static size_t hang_of(const char *text, size_t room)
{
    size_t hang = strspn(text, " ");
    for (size_t i = hang; text[i] && i < room / 2; i++)
        if (text[i] == ' ' && text[i + 1] == ' ') {
            i += strspn(text + i, " ");
            hang = i < room / 2 ? i : hang;
        }
    return hang;
}

/* How much of the text goes into so many columns, broken behind column `least`: all that has no place to be broken. */
static size_t piece_of(const char *text, size_t least, size_t room)
{
    size_t cut = room;
    if (strlen(text) <= room)
        return strlen(text);
    while (cut > least && text[cut] != ' ')
        cut--;
    return cut > least ? cut : room + strcspn(text + room, " ");
}

/* Where a further line begins: at the hang, or as far left of it as its first word needs, but behind the first line. */
static size_t indent_of(const char *text, size_t own, size_t hang, size_t room)
{
    const size_t word = strcspn(text, " "), least = own + 2 < hang ? own + 2 : hang;
    if (hang + word <= room)
        return hang;
    return room >= least + word ? room - word : least;
}

static void put_line(FILE *stream, const char *text, size_t room)
{
    const size_t own = strspn(text, " "), hang = hang_of(text, room);
    size_t indent = 0, piece = piece_of(text, hang, room);
    while (text[piece]) {
        fprintf(stream, "%*s%.*s\n", (int)indent, "", (int)piece, text);
        text += piece;
        text += strspn(text, " ");
        indent = indent_of(text, own, hang, room);
        piece = piece_of(text, 0, room - indent);
    }
    fprintf(stream, "%*s%s\n", *text ? (int)indent : 0, "", text);
}

/* Writes the lines that are whole. */
static void put_lines(FILE *stream, size_t room)
{
    char *at = line;
    for (char *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        put_line(stream, at, room);
    }
    length -= (size_t)(at - line);
    memmove(line, at, length + 1);
}

void flow(FILE *stream, const char *format, ...)
{
    const int room = terminal_width(stream);
    va_list arguments;
    va_start(arguments, format);
    if (room > 0) {
        const int added = vsnprintf(line + length, sizeof line - length, format, arguments);
        length += added < 0 ? 0 : (size_t)added;
        if (length >= sizeof line)
            length = sizeof line - 1;
        put_lines(stream, (size_t)room);
    } else {
        vfprintf(stream, format, arguments);
    }
    va_end(arguments);
}

/* Whether a line of a paragraph goes on in the next one, which begins at `next`. */
static bool goes_on(size_t line_length, const char *next)
{
    return line_length >= FULL && *next && *next != ' ' && *next != '\n';
}

static void put_text(FILE *stream, const char *text, int indent, bool joins)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        const size_t own = (size_t)(end - text);
        if (joins && goes_on(own + (size_t)indent, end + 1))
            flow(stream, "%.*s ", (int)own, text);
        else
            flow(stream, "%.*s\n%*s", (int)own, text, indent, "");
    }
    flow(stream, "%s\n", text);
}

void flow_lines(FILE *stream, const char *text, int indent)
{
    put_text(stream, text, indent, false);
}

void flow_text(FILE *stream, const char *text, int indent)
{
    const int room = terminal_width(stream);
    put_text(stream, text, indent, room > 0 && room < WRITTEN);
}
