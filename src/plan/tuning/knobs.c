/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/tuning/knobs.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KNOBS = 32 };

int cla_knob_get(const struct cla_knob *knob, const struct cla_config *config)
{
    int value;
    memcpy(&value, (const char *)config + knob->offset, sizeof value);
    return value;
}

void cla_knob_set(const struct cla_knob *knob, struct cla_config *config, int value)
{
    memcpy((char *)config + knob->offset, &value, sizeof value);
}

static void list_names(const struct cla_skeleton *skeleton, char *names, size_t size)
{
    size_t used = 0;
    names[0] = '\0';
    for (const struct cla_knob *knob = skeleton->knobs; knob && knob->name && used < size; knob++)
        used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", knob->name);
}

static clattn_status unknown(const struct cla_skeleton *skeleton, const char *word, int length, struct cla_error *error)
{
    char names[256];
    list_names(skeleton, names, sizeof names);
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.knobs: \"%.*s\": %s%s%s, each once, as in \"name=value\"",
                    length, word, skeleton->name, names[0] ? " has " : " has none", names);
}

/* Digits alone, nothing behind them but a space or the end. */
static bool read_value(const char *text, int *value)
{
    int64_t read = 0;
    int digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9'; digits++) {
        read = 10 * read + (text[digits] - '0');
        if (read > INT32_MAX)
            return false;
    }
    *value = (int)read;
    return digits > 0 && (text[digits] == ' ' || text[digits] == '\0');
}

static int find(const struct cla_skeleton *skeleton, const char *word, size_t length)
{
    for (int i = 0; skeleton->knobs && skeleton->knobs[i].name && i < MOST_KNOBS; i++)
        if (strlen(skeleton->knobs[i].name) == length && strncmp(skeleton->knobs[i].name, word, length) == 0)
            return i;
    return -1;
}

clattn_status cla_knobs_read(const struct cla_skeleton *skeleton, const char *text, struct cla_config *config,
                             struct cla_error *error)
{
    uint32_t seen = 0;
    for (const char *word = text + strspn(text, " "); *word; word += strcspn(word, " "), word += strspn(word, " ")) {
        const size_t name = strcspn(word, "= "), length = strcspn(word, " ");
        const int index = find(skeleton, word, name);
        if (index < 0 || word[name] != '=' || (seen & (UINT32_C(1) << index)))
            return unknown(skeleton, word, (int)(length < 80 ? length : 80), error);
        const struct cla_knob *knob = &skeleton->knobs[index];
        int value;
        if (!read_value(word + name + 1, &value) || value < knob->least || value > knob->most)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.knobs: \"%.*s\": %s is an integer from %d to %d",
                            (int)(length < 80 ? length : 80), word, knob->name, knob->least, knob->most);
        cla_knob_set(knob, config, value);
        seen |= UINT32_C(1) << index;
    }
    return CLATTN_SUCCESS;
}

void cla_knobs_write(const struct cla_skeleton *skeleton, const struct cla_config *config, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct cla_knob *knob = skeleton->knobs; knob && knob->name && used < size; knob++)
        used += (size_t)snprintf(text + used, size - used, "%s%s=%d", used ? " " : "", knob->name,
                                 cla_knob_get(knob, config));
}
