/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/wire.h"
#include "json_out.h"
#include <stdlib.h>
#include <string.h>

json_t *wire_error(const char *text)
{
    return json_pack("{s:o}", "error", json_text(text));
}

json_t *wire_open(const struct option_device *device, uint64_t memory_bytes)
{
    return json_pack("{s:s, s:b, s:i, s:i, s:I}", "op", "open", "given", device->given, "platform", device->platform,
                     "device", device->device, "memory", (json_int_t)memory_bytes);
}

json_t *wire_capabilities(const struct clattn_capabilities *capabilities)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = (const unsigned char *)capabilities;
    char *text = malloc(2 * sizeof *capabilities);
    for (size_t i = 0; text && i < sizeof *capabilities; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    json_t *value = text ? json_stringn(text, 2 * sizeof *capabilities) : NULL;
    free(text);
    return value;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool wire_read_capabilities(const json_t *value, struct clattn_capabilities *capabilities)
{
    const char *text = json_string_value(value);
    unsigned char *bytes = (unsigned char *)capabilities;
    if (json_string_length(value) != 2 * sizeof *capabilities)
        return false;
    for (size_t i = 0; i < sizeof *capabilities; i++) {
        const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static json_t *wire_candidate(const struct tune_candidate *candidate)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:s}", "skeleton", candidate->skeleton, "b_r", candidate->b_r, "b_c",
                     candidate->b_c, "work_group_size", candidate->work_group_size, "knobs", candidate->knobs);
}

static bool read_candidate(const json_t *value, struct tune_candidate *candidate)
{
    const char *skeleton, *knobs;
    memset(candidate, 0, sizeof *candidate); /* they are compared as bytes */
    if (json_unpack((json_t *)value, "{s:s, s:i, s:i, s:i, s:s}", "skeleton", &skeleton, "b_r", &candidate->b_r, "b_c",
                    &candidate->b_c, "work_group_size", &candidate->work_group_size, "knobs", &knobs))
        return false;
    snprintf(candidate->skeleton, sizeof candidate->skeleton, "%s", skeleton);
    snprintf(candidate->knobs, sizeof candidate->knobs, "%s", knobs);
    return true;
}

json_t *wire_measure(const struct tune_problem *problem, const struct tune_candidate *candidate,
                     const struct tune_candidate *base, const struct tune_request *request)
{
    json_t *value = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:i, s:f}", "op", "measure", "pass",
        (int)problem->pass, "dtype", (int)problem->dtype, "d", problem->d, "d_v", problem->d_v, "causal",
        problem->causal, "batch", (json_int_t)problem->batch, "heads", (json_int_t)problem->heads, "kv_heads",
        (json_int_t)problem->kv_heads, "n_q", (json_int_t)problem->n_q, "n_kv", (json_int_t)problem->n_kv, "candidate",
        wire_candidate(candidate), "first", request->first, "runs", request->runs, "limit", request->limit);
    if (value && request->paired)
        json_object_set_new(value, "base", wire_candidate(base));
    return value;
}

json_t *wire_build(const struct tune_problem *problem, const struct tune_candidate *candidate)
{
    const struct tune_request nothing = {.runs = 0};
    json_t *value = wire_measure(problem, candidate, NULL, &nothing);
    if (value)
        json_object_set_new(value, "op", json_string("build"));
    return value;
}

bool wire_read_measure(const json_t *value, struct tune_problem *problem, struct tune_candidate *candidate,
                       struct tune_candidate *base, struct tune_request *request)
{
    int pass, dtype, causal, first;
    json_int_t batch, heads, kv_heads, n_q, n_kv;
    const json_t *beside = json_object_get(value, "base");
    memset(base, 0, sizeof *base);
    *problem = (struct tune_problem){.d = 0};
    *request = (struct tune_request){.paired = beside != NULL};
    if (json_unpack((json_t *)value, "{s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:F}", "pass", &pass,
                    "dtype", &dtype, "d", &problem->d, "d_v", &problem->d_v, "causal", &causal, "batch", &batch,
                    "heads", &heads, "kv_heads", &kv_heads, "n_q", &n_q, "n_kv", &n_kv, "first", &first, "runs",
                    &request->runs, "limit", &request->limit) ||
        !read_candidate(json_object_get(value, "candidate"), candidate) || (beside && !read_candidate(beside, base)))
        return false;
    problem->pass = (enum clattn_pass)pass;
    problem->dtype = (enum clattn_dtype)dtype;
    problem->causal = causal;
    problem->batch = batch;
    problem->heads = heads;
    problem->kv_heads = kv_heads;
    problem->n_q = n_q;
    problem->n_kv = n_kv;
    request->first = first;
    return true;
}

static json_t *wire_times(const double *ms, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_real(ms[i]));
    return list;
}

static void read_times(const json_t *list, double *ms, int count)
{
    for (int i = 0; i < count; i++)
        ms[i] = json_number_value(json_array_get(list, (size_t)i));
}

json_t *wire_measured(const struct tune_measured *measured)
{
    return json_pack("{s:i, s:b, s:i, s:o, s:o, s:o}", "state", (int)measured->state, "broken", measured->broken,
                     "runs", measured->runs, "ms", wire_times(measured->ms, measured->runs), "base_ms",
                     wire_times(measured->base_ms, measured->runs), "text", json_text(measured->text));
}

bool wire_read_measured(const json_t *value, struct tune_measured *measured)
{
    int state, broken, runs;
    const char *text;
    *measured = (struct tune_measured){.runs = 0};
    if (json_unpack((json_t *)value, "{s:i, s:b, s:i, s:s}", "state", &state, "broken", &broken, "runs", &runs, "text",
                    &text) ||
        state < CLATTN_TUNING_OK || state > CLATTN_TUNING_TIMEOUT || runs < 0 || runs > TUNE_MOST_RUNS)
        return false;
    measured->state = (enum clattn_tuning_state)state;
    measured->broken = broken;
    measured->runs = runs;
    read_times(json_object_get(value, "ms"), measured->ms, runs);
    read_times(json_object_get(value, "base_ms"), measured->base_ms, runs);
    snprintf(measured->text, sizeof measured->text, "%s", text);
    return true;
}
