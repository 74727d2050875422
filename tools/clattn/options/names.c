/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/names.h"
#include "options/options.h"
#include "plan/features/feature.h"
#include <inttypes.h>

const char *device_type_name(enum clattn_device_type type)
{
    switch (type) {
    case CLATTN_DEVICE_CPU:
        return "CPU";
    case CLATTN_DEVICE_GPU:
        return "GPU";
    case CLATTN_DEVICE_ACCELERATOR:
        return "accelerator";
    case CLATTN_DEVICE_OTHER:
        break;
    }
    return "other";
}

const char *local_memory_name(enum clattn_local_memory_type type)
{
    switch (type) {
    case CLATTN_LOCAL_MEMORY_LOCAL:
        return "local";
    case CLATTN_LOCAL_MEMORY_GLOBAL:
        return "global";
    case CLATTN_LOCAL_MEMORY_NONE:
        break;
    }
    return "none";
}

const char *causal_name(enum clattn_causal causal)
{
    return option_word_of(option_causal, causal);
}

const char *pass_name(enum clattn_pass pass)
{
    static const char *const names[] = {"forward", "backward", "accumulate", "backward-accumulate"};
    return (unsigned)pass < sizeof names / sizeof names[0] ? names[pass] : "";
}

const char *plan_source_name(enum clattn_plan_source source)
{
    static const char *const names[] = {"the model", "the problem", "the tuning file", "the built-in table"};
    return (unsigned)source < sizeof names / sizeof names[0] ? names[source] : "";
}

static void feature_text(unsigned feature, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].bit == feature)
            snprintf(text, size, "%s", cla_features[i].name);
    for (char *at = text; *at; at++)
        *at = *at == '_' ? ' ' : *at;
}

void features_text(unsigned features, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned left = features & cla_features_known(); left && length < size; left &= left - 1) {
        char name[32];
        feature_text(left & -left, name, sizeof name);
        length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "", name);
    }
}

const struct option_word *option_words_of_features(unsigned features)
{
    enum { MOST = 32 };
    static struct option_word words[MOST + 1];
    static char names[MOST][32];
    int count = 0;
    for (unsigned left = features; left; left &= left - 1, count++) {
        feature_text(left & -left, names[count], sizeof names[count]);
        for (char *at = names[count]; *at; at++)
            *at = *at == ' ' ? '-' : *at;
        words[count] = (struct option_word){names[count], (int)(left & -left)};
    }
    words[count] = (struct option_word){NULL, 0};
    return words;
}

const struct option_word *option_feature_words(void)
{
    return option_words_of_features(cla_features_known());
}

void bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024.0 && unit < 4; unit++)
        value /= 1024.0;
    if (value == (double)(uint64_t)value)
        snprintf(text, size, "%" PRIu64 " %s", (uint64_t)value, units[unit]);
    else
        snprintf(text, size, "%.1f %s", value, units[unit]);
}

const char *format_name(int type)
{
    for (const struct option_word *word = option_formats; word->word; word++)
        if (word->value == type)
            return word->word;
    return "unknown";
}
