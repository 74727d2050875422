/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/names.h"
#include "options/options.h"
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

static const struct option_word features_words[] = {{"window", CLATTN_WINDOW},
                                                    {"softcap", CLATTN_SOFTCAP},
                                                    {"alibi", CLATTN_ALIBI},
                                                    {"bias", CLATTN_BIAS},
                                                    {"mask", CLATTN_MASK},
                                                    {"block mask", CLATTN_BLOCK_MASK},
                                                    {"key lengths", CLATTN_KEY_LENGTHS},
                                                    {"varlen", CLATTN_VARLEN},
                                                    {"sinks", CLATTN_SINKS},
                                                    {"dropout", CLATTN_DROPOUT},
                                                    {NULL, 0}};

const char *feature_name(unsigned feature)
{
    return option_word_of(features_words, feature);
}

void features_text(unsigned features, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (const struct option_word *word = features_words; word->word && length < size; word++)
        if (features & (unsigned)word->value)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "", word->word);
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
