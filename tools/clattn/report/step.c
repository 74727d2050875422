/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include "child.h"
#include "json_out.h"
#include "report/report.h"
#include "system/files.h"
#include "system/system.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 40, SAID_BYTES = 4000 };

/* A process starts, a driver loads, a context is made: less is not worth a beginning. */
#define LEAST_SECONDS 2.0

/* What a step that knows its time needs beside it, to begin and to end. */
#define BESIDE_SECONDS 15.0

/* A step's command line; `text` holds the words. */
struct line {
    char program[4096], text[1024], device[32], budget[32], file[4096];
    char *argv[MOST_WORDS];
    int count;
};

static void add(struct line *line, char *word)
{
    line->argv[line->count++] = word;
    line->argv[line->count] = NULL;
}

static bool fill(struct line *line, const struct report_step *step, const struct report_room *room)
{
    if (!system_program(line->program, sizeof line->program))
        return false;
    line->count = 0;
    add(line, line->program);
    snprintf(line->text, sizeof line->text, "%s", step->words);
    char *rest = NULL;
    for (char *word = strtok_r(line->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        add(line, word);
    if (room->device) {
        snprintf(line->device, sizeof line->device, "%s", room->device);
        add(line, (char *)"--device");
        add(line, line->device);
    }
    if (step->budget) {
        snprintf(line->budget, sizeof line->budget, "%.0f", room->seconds - BESIDE_SECONDS);
        add(line, (char *)step->budget);
        add(line, line->budget);
    }
    if (step->file) {
        snprintf(line->file, sizeof line->file, "%s/%s", room->folder, REPORT_FILE);
        add(line, (char *)step->file);
        add(line, line->file);
    }
    return true;
}

/* The last of what stands in the file: where much was said, the end says why it ended. */
static json_t *last_words(FILE *errors)
{
    char text[SAID_BYTES + 1];
    if (!errors || fseek(errors, 0, SEEK_END))
        return json_null();
    const long size = ftell(errors);
    fseek(errors, size > SAID_BYTES ? size - SAID_BYTES : 0, SEEK_SET);
    const size_t length = fread(text, 1, SAID_BYTES, errors);
    text[length] = '\0';
    return length ? json_text(text) : json_null();
}

/* What was printed: JSON if it is that, else its beginning as text. */
static json_t *printed(const char *text)
{
    char start[SAID_BYTES + 1];
    if (!text || !*text)
        return json_null();
    json_t *value = json_loads(text, JSON_ALLOW_NUL, NULL);
    snprintf(start, sizeof start, "%s", text);
    return value ? value : json_text(start);
}

static const char *outcome_of(enum child_result result, int exit_status)
{
    switch (result) {
    case CHILD_OK:
        return exit_status ? "failed" : "done";
    case CHILD_TIMEOUT:
        return "timed out";
    case CHILD_STOPPED:
        return "stopped";
    default:
        return "crashed";
    }
}

static json_t *row_of(const struct report_step *step, const char *outcome)
{
    return json_pack("{s:s, s:s, s:s}", "name", step->name, "command", step->words, "outcome", outcome);
}

static json_t *run_line(const struct report_step *step, const struct report_room *room, const struct line *line,
                        FILE *errors)
{
    struct child child;
    char *text = NULL;
    size_t size = 0;
    int exit_status = 0;
    const double begin = system_clock();
    const struct process_spec spec = {.argv = line->argv, .errors = errors ? fileno(errors) : 0, .quiet = true};
    if (!child_start(&spec, &child))
        return row_of(step, "crashed");
    const enum child_result result = child_read_all(&child, room->seconds, room->stop, &text, &size, &exit_status);
    json_t *row = row_of(step, outcome_of(result, exit_status));
    json_object_set_new(row, "ended_with", json_text(result == CHILD_OK || result == CHILD_DIED ? child_death() : ""));
    json_object_set_new(row, "exit_status", result == CHILD_OK ? json_integer(exit_status) : json_null());
    json_object_set_new(row, "seconds", json_measure(system_clock() - begin));
    json_object_set_new(row, "printed", printed(text));
    json_object_set_new(row, "errors", last_words(errors));
    free(text);
    return row;
}

json_t *report_run(const struct report_step *step, const struct report_room *room)
{
    struct line line;
    if (room->stop && *room->stop)
        return row_of(step, "stopped");
    if (room->seconds < LEAST_SECONDS + (step->budget ? BESIDE_SECONDS : 0))
        return row_of(step, "no time");
    if (!fill(&line, step, room))
        return row_of(step, "crashed");
    FILE *errors = files_temporary();
    json_t *row = run_line(step, room, &line, errors);
    if (errors)
        fclose(errors);
    return row;
}

const char *report_outcome(const json_t *row)
{
    const char *outcome = json_string_value(json_object_get(row, "outcome"));
    return outcome ? outcome : "no memory";
}
