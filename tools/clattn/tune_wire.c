/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune_wire.h"
#include "json_out.h"
#include <stdlib.h>
#include <string.h>

json_t *wire_error(const char *text)
{
    return json_pack("{s:o}", "error", json_text(text));
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

json_t *wire_measure(const struct tune_problem *problem, const struct tune_candidate *candidate,
                     const struct tune_request *request)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:s, s:i, s:i, s:i, s:s, s:b, s:i, s:f}", "op",
                     "measure", "pass", (int)problem->pass, "dtype", (int)problem->dtype, "d", problem->d, "d_v",
                     problem->d_v, "causal", problem->causal, "batch", (json_int_t)problem->batch, "heads",
                     (json_int_t)problem->heads, "n_q", (json_int_t)problem->n_q, "n_kv", (json_int_t)problem->n_kv,
                     "skeleton", candidate->skeleton, "b_r", candidate->b_r, "b_c", candidate->b_c, "work_group_size",
                     candidate->work_group_size, "knobs", candidate->knobs, "first", request->first, "runs",
                     request->runs, "limit_ms", request->limit_ms);
}

bool wire_read_measure(const json_t *value, struct tune_problem *problem, struct tune_candidate *candidate,
                       struct tune_request *request)
{
    int pass, dtype, causal, first;
    json_int_t batch, heads, n_q, n_kv;
    const char *skeleton, *knobs;
    memset(candidate, 0, sizeof *candidate); /* they are compared as bytes */
    *problem = (struct tune_problem){.d = 0};
    *request = (struct tune_request){.index = 0};
    if (json_unpack((json_t *)value,
                    "{s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:s, s:i, s:i, s:i, s:s, s:b, s:i, s:F}", "pass",
                    &pass, "dtype", &dtype, "d", &problem->d, "d_v", &problem->d_v, "causal", &causal, "batch", &batch,
                    "heads", &heads, "n_q", &n_q, "n_kv", &n_kv, "skeleton", &skeleton, "b_r", &candidate->b_r, "b_c",
                    &candidate->b_c, "work_group_size", &candidate->work_group_size, "knobs", &knobs, "first", &first,
                    "runs", &request->runs, "limit_ms", &request->limit_ms))
        return false;
    problem->pass = (enum clattn_pass)pass;
    problem->dtype = (enum clattn_dtype)dtype;
    problem->causal = causal;
    problem->batch = batch;
    problem->heads = heads;
    problem->n_q = n_q;
    problem->n_kv = n_kv;
    request->first = first;
    snprintf(candidate->skeleton, sizeof candidate->skeleton, "%s", skeleton);
    snprintf(candidate->knobs, sizeof candidate->knobs, "%s", knobs);
    return true;
}

json_t *wire_measured(const struct tune_measured *measured)
{
    json_t *ms = json_array();
    for (int i = 0; i < measured->runs; i++)
        json_array_append_new(ms, json_real(measured->ms[i]));
    return json_pack("{s:i, s:b, s:o, s:o}", "state", (int)measured->state, "broken", measured->broken, "ms", ms,
                     "text", json_text(measured->text));
}

bool wire_read_measured(const json_t *value, struct tune_measured *measured)
{
    int state, broken;
    const char *text;
    json_t *ms;
    *measured = (struct tune_measured){.runs = 0};
    if (json_unpack((json_t *)value, "{s:i, s:b, s:o, s:s}", "state", &state, "broken", &broken, "ms", &ms, "text",
                    &text) ||
        state < CLATTN_TUNING_OK || state > CLATTN_TUNING_TIMEOUT)
        return false;
    measured->state = (enum clattn_tuning_state)state;
    measured->broken = broken;
    for (size_t i = 0; i < json_array_size(ms) && i < TUNE_MOST_RUNS; i++)
        measured->ms[measured->runs++] = json_number_value(json_array_get(ms, i));
    snprintf(measured->text, sizeof measured->text, "%s", text);
    return true;
}
