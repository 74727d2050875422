/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/names.h"
#include "options/options.h"
#include "plan/feature.h"
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
