/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/values.h"
#include <clattn/ring.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option_word option_packings[] = {
    {"planned", CLATTN_PACKING_PLANNED}, {"never", CLATTN_PACKING_NEVER}, {"always", CLATTN_PACKING_ALWAYS}, {NULL, 0}};

const struct option_word option_formats[] = {{"fp32", CLATTN_FP32},
                                             {"fp16", CLATTN_FP16},
                                             {"bf16", CLATTN_BF16},
                                             {"int8", CLATTN_AS_INT8 - CLATTN_AS_FP32},
                                             {"int4", CLATTN_AS_INT4 - CLATTN_AS_FP32},
                                             {"fp8_e4m3", CLATTN_AS_FP8_E4M3 - CLATTN_AS_FP32},
                                             {"fp8_e5m2", CLATTN_AS_FP8_E5M2 - CLATTN_AS_FP32},
                                             {"q8_0", CLATTN_AS_Q8_0 - CLATTN_AS_FP32},
                                             {"q4_0", CLATTN_AS_Q4_0 - CLATTN_AS_FP32},
                                             {NULL, 0}};

const struct option_word option_dtypes[] = {
    {"fp32", CLATTN_FP32}, {"fp16", CLATTN_FP16}, {"bf16", CLATTN_BF16}, {NULL, 0}};

const struct option_word option_causal[] = {{"off", CLATTN_FULL},
                                            {"bottom-right", CLATTN_CAUSAL_BOTTOM_RIGHT},
                                            {"top-left", CLATTN_CAUSAL_TOP_LEFT},
                                            {NULL, 0}};

const struct option_word option_passing[] = {
    {"auto", CLATTN_RING_PASS_AUTO}, {"kv", CLATTN_RING_PASS_KV}, {"q", CLATTN_RING_PASS_Q}, {NULL, 0}};

const char *option_word_of(const struct option_word *words, int64_t value)
{
    for (; words->word; words++)
        if (words->value == value)
            return words->word;
    return "";
}

bool option_skeleton(const struct option_spec *option, int index, struct clattn_skeleton_info *info)
{
    for (int i = 0; i < clattn_skeleton_count() && !clattn_skeleton_get_info(i, info); i++) {
        const int passes = info->backward ? OPTION_BACKWARD : OPTION_FORWARD;
        if ((option->maximum & passes) && !info->emulated && index-- == 0)
            return true;
    }
    return false;
}

/* Digits alone: no space, no sign but a minus, nothing behind. */
static bool parse_integer(const char *text, int64_t *value)
{
    if (!((*text >= '0' && *text <= '9') || (*text == '-' && text[1] >= '0' && text[1] <= '9')))
        return false;
    char *end;
    errno = 0;
    const long long parsed = strtoll(text, &end, 10);
    *value = parsed;
    return !errno && !*end;
}

static int store_integer(const struct option_spec *option, const char *text, int64_t *value, struct failure *failure)
{
    int64_t parsed;
    if (!parse_integer(text, &parsed) || parsed < option->minimum || parsed > option->maximum)
        return fail(failure, STATUS_USAGE, "--%s '%s': must be an integer from %" PRId64 " to %" PRId64, option->name,
                    text, option->minimum, option->maximum);
    *value = parsed;
    return STATUS_OK;
}

static bool parse_number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && strchr("-.0123456789", *text) && !*end;
}

static int store_share(const struct option_spec *option, const char *text, double *value, struct failure *failure)
{
    double parsed;
    if (!parse_number(text, &parsed) || !(parsed >= 0.0 && (float)parsed < 1.0f))
        return fail(failure, STATUS_USAGE, "--%s '%s': must be a number from 0 to less than 1, such as 0.1",
                    option->name, text);
    *value = parsed;
    return STATUS_OK;
}

static int store_number(const struct option_spec *option, const char *text, double *value, struct failure *failure)
{
    double parsed;
    const bool number = parse_number(text, &parsed);
    if (!number || !(fabs(parsed) >= (double)FLT_MIN && fabs(parsed) <= (double)FLT_MAX))
        return fail(failure, STATUS_USAGE,
                    "--%s '%s': must be a number such as 0.125, neither 0 nor beyond what fp32 can hold", option->name,
                    text);
    if (option->above_0 && parsed < 0.0)
        return fail(failure, STATUS_USAGE, "--%s '%g': must be greater than 0, such as %s", option->name, parsed,
                    option->example);
    *value = parsed;
    return STATUS_OK;
}

static void join_words(const struct option_word *words, char *buffer, size_t size)
{
    size_t length = 0;
    buffer[0] = '\0';
    for (; words->word && length < size; words++)
        length += (size_t)snprintf(buffer + length, size - length, "%s%s", length ? ", " : "", words->word);
}

static int store_word(const struct option_spec *option, const char *text, int64_t *value, struct failure *failure)
{
    for (const struct option_word *word = option->words; word->word; word++) {
        if (!strcmp(word->word, text)) {
            *value = word->value;
            return STATUS_OK;
        }
    }
    char all[256];
    join_words(option->words, all, sizeof all);
    return fail(failure, STATUS_USAGE, "--%s '%s': must be one of %s", option->name, text, all);
}

static int store_list(const struct option_spec *option, const char *text, struct option_list *list,
                      struct failure *failure)
{
    struct option_list parsed = {.count = 0};
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char item[64];
        const size_t length = strcspn(at, ",");
        if (parsed.count == OPTION_LIST_MAX)
            return fail(failure, STATUS_USAGE, "--%s '%s': at most %d values", option->name, text, OPTION_LIST_MAX);
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), at);
        int64_t *value = &parsed.values[parsed.count++];
        const int status = option->kind == OPTION_WORDS ? store_word(option, item, value, failure)
                                                        : store_integer(option, item, value, failure);
        if (status)
            return status;
    }
    *list = parsed;
    return STATUS_OK;
}

static int store_pair(const struct option_spec *option, const char *text, int64_t *pair, struct failure *failure)
{
    struct option_list list;
    const int status = store_list(option, text, &list, failure);
    if (status)
        return status;
    if (list.count != 2)
        return fail(failure, STATUS_USAGE, "--%s '%s': %d number%s where two are needed: %s, such as %s", option->name,
                    text, list.count, list.count == 1 ? "" : "s", option->argument, option->example);
    for (int i = 0; i < 2; i++)
        if (option->multiple && list.values[i] % option->multiple)
            return fail(failure, STATUS_USAGE, "--%s '%" PRId64 "': must be a multiple of %d", option->name,
                        list.values[i], option->multiple);
    memcpy(pair, list.values, 2 * sizeof *pair);
    return STATUS_OK;
}

/* Of any kind that is one. */
static int store_numbers(const struct option_spec *option, const char *text, struct option_number *number,
                         struct failure *failure)
{
    int status;
    if (option->kind == OPTION_PAIR)
        status = store_pair(option, text, number->whole, failure);
    else if (option->kind == OPTION_WORD)
        status = store_word(option, text, number->whole, failure);
    else if (option->kind == OPTION_INTEGER)
        status = store_integer(option, text, number->whole, failure);
    else if (option->kind == OPTION_SHARE)
        status = store_share(option, text, &number->real, failure);
    else
        status = store_number(option, text, &number->real, failure);
    number->given = number->given || !status;
    return status;
}

static int store_device(const struct option_spec *option, const char *text, struct option_device *device,
                        struct failure *failure)
{
    const char *colon = strchr(text, ':');
    char platform[16] = "";
    int64_t numbers[2];
    if (colon && colon - text < (ptrdiff_t)sizeof platform)
        snprintf(platform, sizeof platform, "%.*s", (int)(colon - text), text);
    if (!colon || !parse_integer(platform, &numbers[0]) || !parse_integer(colon + 1, &numbers[1]) || numbers[0] < 0 ||
        numbers[1] < 0 || numbers[0] > 9999 || numbers[1] > 9999)
        return fail(failure, STATUS_USAGE,
                    "--%s '%s': must be PLATFORM:DEVICE, such as 0:0 ('clattn devices' lists them)", option->name,
                    text);
    *device = (struct option_device){.given = true, .platform = (int)numbers[0], .device = (int)numbers[1]};
    return STATUS_OK;
}

static int store_devices(const struct option_spec *option, const char *text, struct option_devices *devices,
                         struct failure *failure)
{
    struct option_devices parsed = {.count = 0};
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char item[64];
        const size_t length = strcspn(at, ",");
        if (parsed.count == OPTION_LIST_MAX)
            return fail(failure, STATUS_USAGE, "--%s '%s': at most %d devices", option->name, text, OPTION_LIST_MAX);
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), at);
        const int status = store_device(option, item, &parsed.items[parsed.count++], failure);
        if (status)
            return status;
    }
    *devices = parsed;
    return STATUS_OK;
}

static int store_file(const struct option_spec *option, const char *text, struct option_files *files,
                      struct failure *failure)
{
    if (!*text)
        return fail(failure, STATUS_USAGE, "--%s '': a file's name must not be empty", option->name);
    if (files->count == OPTION_LIST_MAX)
        return fail(failure, STATUS_USAGE, "--%s: at most %d files", option->name, OPTION_LIST_MAX);
    files->paths[files->count++] = text;
    return STATUS_OK;
}

static int store_text(const struct option_spec *option, const char *text, const char **to, struct failure *failure)
{
    if (!*text)
        return fail(failure, STATUS_USAGE, "--%s '': must not be empty", option->name);
    *to = text;
    return STATUS_OK;
}

int option_store(const struct option_spec *option, const char *text, void *values, struct failure *failure)
{
    void *field = (char *)values + option->field;
    int64_t word;
    int status;
    if (option->of_feature && option->kind != OPTION_STRING)
        return store_numbers(option, text, field, failure);
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return STATUS_OK;
    case OPTION_STRING:
    case OPTION_SKELETON:
        return store_text(option, text, field, failure);
    case OPTION_INTEGER:
        return store_integer(option, text, field, failure);
    case OPTION_NUMBER:
        return store_number(option, text, field, failure);
    case OPTION_SHARE:
        return store_share(option, text, field, failure);
    case OPTION_WORD:
        status = store_word(option, text, &word, failure);
        if (!status)
            *(int *)field = (int)word;
        return status;
    case OPTION_PAIR:
        return store_numbers(option, text, field, failure);
    case OPTION_INTEGERS:
    case OPTION_WORDS:
        return store_list(option, text, field, failure);
    case OPTION_DEVICE:
        return store_device(option, text, field, failure);
    case OPTION_DEVICES:
        return store_devices(option, text, field, failure);
    case OPTION_FILES:
        return store_file(option, text, field, failure);
    case OPTION_FEATURES:
    case OPTION_END:
        break;
    }
    return fail(failure, STATUS_USAGE, "--%s: not an option", option->name);
}
