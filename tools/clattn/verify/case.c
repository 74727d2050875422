/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/case.h"
#include "options/names.h"
#include "plan/checked.h"
#include "random.h"
#include "verify/score.h"
#include "verify/types.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that a case gives itself. */
static void given_text(const struct verify_case *item, char *text, size_t size)
{
    const struct reference_score *score = &item->problem.score;
    size_t length = 0;
    text[0] = '\0';
    if (!item->given)
        return;
    if (score->features & CLATTN_WINDOW)
        length += (size_t)snprintf(text + length, size - length, ", window %" PRId64 ",%" PRId64, score->window_left,
                                   score->window_right);
    if (score->sink_keys)
        length += (size_t)snprintf(text + length, size - length, " beside %" PRId64 " first keys", score->sink_keys);
    if (score->features & CLATTN_BLOCK_MASK)
        length += (size_t)snprintf(text + length, size - length, ", blocks %dx%d %d %% kept", score->block_q,
                                   score->block_kv, item->kept);
    if (score->features & CLATTN_DROPOUT)
        length += (size_t)snprintf(text + length, size - length, ", drops %g%s", score->dropout_p,
                                   item->p_is_known ? " as planned" : "");
    if (item->expected[0])
        length += (size_t)snprintf(text + length, size - length, ", expects %" PRId64 "x%" PRId64 " of %" PRId64,
                                   item->expected[0], item->expected[1], item->expected[2]);
    if (item->page_keys)
        length += (size_t)snprintf(text + length, size - length, ", pages of %" PRId64 "%s", item->page_keys,
                                   item->compressed ? " (CSR)" : "");
    snprintf(text + length, size - length, "%s%s%s%s", item->aligned ? ", aligned" : "", item->mixed ? ", mixed" : "",
             item->shared ? ", shared" : "", item->unordered ? ", any order" : "");
}

/* ", window, score_mod": what the scores go through. */
static void modifications_text(const struct verify_case *item, char *text, size_t size)
{
    char names[160], expected[32] = "";
    features_text(item->problem.score.features, names, sizeof names);
    if (item->expected_density > 0.0f)
        snprintf(expected, sizeof expected, ", expected density %g", (double)item->expected_density);
    snprintf(text, size, "%s%s%s%s%s%s", names[0] ? ", " : "", names, item->csr ? " (CSR)" : "", expected,
             item->mods & VERIFY_SCORE_MOD ? ", score_mod" : "", item->mods & VERIFY_MASK_MOD ? ", mask_mod" : "");
}

void verify_case_name(const struct verify_case *item, char *text, size_t size)
{
    static const char *const kinds[VERIFY_KINDS] = {
        "reference",      "backward",   "state",       "backward",         "constant V", "permuted keys",
        "shifted logits", "split keys", "linear in V", "separate batches", "bit-equal",  "hidden values"};
    static const char *const layouts[VERIFY_LAYOUTS] = {"bhnd", "bnhd", "strided"};
    const struct reference_problem *p = &item->problem;
    char types[96], formats[96], modifications[224], given[192], chunk[64] = "";
    verify_types_text(p, types, sizeof types);
    verify_formats_text(item->formats, formats, sizeof formats);
    modifications_text(item, modifications, sizeof modifications);
    given_text(item, given, sizeof given);
    if (item->kind == VERIFY_BACKWARD_CHUNKS)
        snprintf(chunk, sizeof chunk, " in chunks of %" PRId64, item->chunk);
    if (item->splits == CLATTN_SPLITS_BY_SHAPE)
        snprintf(chunk, sizeof chunk, ", keys split by shape");
    if (item->splits > 1)
        snprintf(chunk, sizeof chunk, ", keys split into %d", item->splits);
    if (item->kind == VERIFY_STATE)
        snprintf(chunk, sizeof chunk, " in chunks of %" PRId64 "%s", item->chunk, item->merged ? ", merged" : "");
    if (item->packed)
        snprintf(chunk + strlen(chunk), sizeof chunk - strlen(chunk), ", packed");
    snprintf(text, size,
             "%s%s, %s%s, d %d/%d, causal %s%s, %" PRId64 "x%" PRId64 ", batch %" PRId64 ", heads %" PRId64 "/%" PRId64
             ", %s%s, gain %g, %s",
             kinds[item->kind], chunk, types, formats, p->d, p->d_v, causal_name(p->causal), modifications,
             p->shape.n_q, p->shape.n_kv, p->shape.batch, p->shape.heads, p->shape.kv_heads, layouts[item->layout],
             given, item->gain, item->skeleton ? item->skeleton : "planner's choice");
}

__attribute__((format(printf, 3, 0))) static void fill_result(struct verify_result *result, enum verify_outcome outcome,
                                                              const char *format, va_list arguments)
{
    vsnprintf(result->text, sizeof result->text, format, arguments);
    result->outcome = outcome;
}

bool verify_fail(struct verify_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_result(result, VERIFY_FAIL, format, arguments);
    va_end(arguments);
    return false;
}

bool verify_error(struct verify_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_result(result, VERIFY_ERROR, format, arguments);
    va_end(arguments);
    return false;
}

void verify_enlarge(struct reference_problem *problem)
{
    struct clattn_shape *shape = &problem->shape;
    const int64_t rows = shape->n_q < shape->n_kv ? shape->n_q : shape->n_kv;
    const int64_t elements = shape->kv_heads * rows * (problem->d < problem->d_v ? problem->d : problem->d_v);
    if (elements && shape->batch * elements < VERIFY_FEWEST)
        shape->batch = cla_ceil_div(VERIFY_FEWEST, elements);
}

static float *floats(size_t count)
{
    return calloc(count ? count : 1, sizeof(float));
}

static bool create_gradients(const struct reference_problem *problem, struct verify_data *data)
{
    data->d_o = floats(reference_o_count(problem));
    data->d_q = floats(reference_q_count(problem));
    data->d_k = floats(reference_k_count(problem));
    data->d_v = floats(reference_v_count(problem));
    if (problem->score.features & CLATTN_BIAS)
        data->d_bias = floats(reference_d_bias_count(problem));
    if (problem->score.features & CLATTN_SINKS)
        data->d_sinks = floats((size_t)problem->shape.heads);
    return data->d_o && data->d_q && data->d_k && data->d_v &&
           (data->d_bias || !(problem->score.features & CLATTN_BIAS)) &&
           (data->d_sinks || !(problem->score.features & CLATTN_SINKS));
}

bool verify_data_create(const struct reference_problem *problem, bool backward, struct verify_data *data)
{
    const size_t rows = reference_row_count(problem);
    *data = (struct verify_data){.q = floats(reference_q_count(problem)),
                                 .k = floats(reference_k_count(problem)),
                                 .v = floats(reference_v_count(problem)),
                                 .o = floats(reference_o_count(problem)),
                                 .lse = floats(rows),
                                 .m = floats(rows),
                                 .l = floats(rows)};
    if (data->q && data->k && data->v && data->o && data->lse && data->m && data->l &&
        (!backward || create_gradients(problem, data)))
        return true;
    verify_data_destroy(data);
    return false;
}

void verify_data_destroy(struct verify_data *data)
{
    float *const arrays[] = {data->q,   data->k,   data->v,   data->o,   data->lse,    data->m,      data->l,
                             data->d_o, data->d_q, data->d_k, data->d_v, data->d_bias, data->d_sinks};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    for (int i = 0; i < VERIFY_FORMATS; i++)
        verify_formats_free(&data->stored[i]);
    *data = (struct verify_data){.q = NULL};
}

static void fill(enum clattn_dtype dtype, struct random *random, double deviation, float *values, size_t count)
{
    random_normal(random, deviation, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = reference_round(dtype, values[i]);
}

/* What all batch elements, or all heads, have in common is what the first one has. */
static void share(const struct verify_case *item, int tensor, bool keys, int d, float *values)
{
    const struct clattn_shape *shape = &item->problem.shape;
    const struct reference_score *score = &item->problem.score;
    const bool packed = score->features & CLATTN_VARLEN;
    const size_t batches = packed ? 1 : (size_t)shape->batch, heads = (size_t)(keys ? shape->kv_heads : shape->heads);
    const int64_t rows = packed ? (keys ? score->total_kv : score->total_q) : keys ? shape->n_kv : shape->n_q;
    const size_t size = (size_t)rows * (size_t)d;
    for (size_t i = 1; i < batches * heads && size; i++) {
        const size_t batch = item->shared & 1u << tensor ? 0 : i / heads;
        const size_t head = item->shared & 1u << (VERIFY_SHARED + tensor) ? 0 : i % heads;
        if (batch * heads + head != i)
            memcpy(values + i * size, values + (batch * heads + head) * size, size * sizeof *values);
    }
}

bool verify_data_fill(const struct verify_case *item, uint64_t seed, struct verify_data *data)
{
    struct random random = {.state = seed};
    const struct reference_problem *problem = &item->problem;
    fill(reference_type(problem, REFERENCE_Q), &random, 1.0, data->q, reference_q_count(problem));
    fill(reference_type(problem, REFERENCE_K), &random, item->gain, data->k, reference_k_count(problem));
    fill(reference_type(problem, REFERENCE_V), &random, 1.0, data->v, reference_v_count(problem));
    if (data->d_o)
        fill(problem->dtype, &random, 1.0, data->d_o, reference_o_count(problem));
    share(item, 0, false, problem->d, data->q);
    share(item, 1, true, problem->d, data->k);
    share(item, 2, true, problem->d_v, data->v);
    if (data->d_o)
        share(item, 3, false, problem->d_v, data->d_o);
    const size_t keys = reference_k_count(problem) / (size_t)problem->d;
    return verify_formats_store(&item->formats[0], problem->d, keys, data->k, &data->stored[0]) &&
           verify_formats_store(&item->formats[1], problem->d_v, keys, data->v, &data->stored[1]);
}

static bool report(const char *what, const struct reference_verdict *verdict, const float *out, const double *expected,
                   size_t columns, struct verify_result *result)
{
    if (verdict->allowed > 0.0)
        result->share = fmax(result->share, verdict->error / verdict->allowed);
    if (verdict->pass)
        return true;
    return verify_fail(result, "%s: error %g where %g is allowed, at row %zu, column %zu: got %g, expected %g", what,
                       verdict->error, verdict->allowed, verdict->at / columns, verdict->at % columns,
                       (double)out[verdict->at], expected[verdict->at]);
}

bool verify_close(const char *what, const float *out, const double *expected, const float *naive, size_t count,
                  size_t columns, double floor, struct verify_result *result)
{
    const struct reference_verdict verdict = reference_judge(out, expected, naive, count, floor);
    return report(what, &verdict, out, expected, columns, result);
}

bool verify_gradient_close(const char *what, const float *out, const double *expected, const float *naive, size_t count,
                           size_t columns, double floor, struct verify_result *result)
{
    const struct reference_verdict verdict = reference_judge_gradient(out, expected, naive, count, floor);
    return report(what, &verdict, out, expected, columns, result);
}

bool verify_same_bits(const char *what, const float *first, const float *again, size_t count,
                      struct verify_result *result)
{
    if (!memcmp(first, again, count * sizeof *first))
        return true;
    return verify_fail(result, "%s: a further run gave other bits than the first", what);
}

bool verify_is_backward(const struct verify_case *item)
{
    return item->kind == VERIFY_BACKWARD || item->kind == VERIFY_BACKWARD_CHUNKS;
}

enum clattn_pass verify_pass(const struct verify_case *item)
{
    switch (item->kind) {
    case VERIFY_BACKWARD:
        return CLATTN_BACKWARD;
    case VERIFY_STATE:
        return CLATTN_ACCUMULATE;
    case VERIFY_BACKWARD_CHUNKS:
        return CLATTN_BACKWARD_ACCUMULATE;
    default:
        return CLATTN_FORWARD;
    }
}

static bool is_backward(enum clattn_pass pass)
{
    return pass == CLATTN_BACKWARD || pass == CLATTN_BACKWARD_ACCUMULATE;
}

/* Of dropout's numbers no row is packed. */
static enum clattn_packing packing_of(const struct verify_case *item, enum clattn_pass pass)
{
    return item->packed && !is_backward(pass) && !(item->problem.score.features & CLATTN_DROPOUT)
               ? CLATTN_PACKING_ALWAYS
               : CLATTN_PACKING_PLANNED;
}

clattn_status verify_plan(const struct session *session, const struct verify_case *item, enum clattn_pass pass,
                          clattn_plan **plan)
{
    const struct reference_score *score = &item->problem.score;
    const bool own = pass == verify_pass(item), blocks = score->features & CLATTN_BLOCK_MASK;
    const bool p_is_known = score->features & CLATTN_DROPOUT && /* both are to be looked at */
                            (item->given ? item->p_is_known : score->dropout_seed % 4 != 0);
    struct clattn_problem problem = {.pass = pass,
                                     .dtype = item->problem.dtype,
                                     .d = item->problem.d,
                                     .d_v = item->problem.d_v,
                                     .causal = item->problem.causal,
                                     .scale = (float)item->problem.scale,
                                     .features = cla_features_of_pass(score->features, is_backward(pass)),
                                     .dropout_p = p_is_known ? (float)score->dropout_p : 0.0f,
                                     .block_q = blocks ? score->block_q : 0,
                                     .block_kv = blocks ? score->block_kv : 0,
                                     .expected_density = item->expected_density,
                                     .sink_keys = score->sink_keys,
                                     .expected_n_q = item->expected[0],
                                     .expected_n_kv = item->expected[1],
                                     .expected_heads = item->expected[2],
                                     .score_mod = item->mods & VERIFY_SCORE_MOD ? verify_score_mod : NULL,
                                     .score_mod_grad = item->mods & VERIFY_SCORE_MOD ? verify_score_mod_grad : NULL,
                                     .mask_mod = item->mods & VERIFY_MASK_MOD ? verify_mask_mod : NULL,
                                     .skeleton = own ? item->skeleton : NULL,
                                     .unordered = item->unordered,
                                     .b_r = own ? item->b_r : 0,
                                     .b_c = own ? item->b_c : 0,
                                     .work_group_size = own ? item->work_group_size : 0,
                                     .knobs = own ? item->knobs : NULL,
                                     .splits = own ? item->splits : 0,
                                     .packing = packing_of(item, pass)};
    verify_types_say(&item->problem, &problem);
    verify_formats_say(item->formats, &problem);
    if (item->page_keys) {
        problem.features |= CLATTN_PAGES;
        problem.page_keys = item->page_keys;
    }
    return clattn_plan_create(plan, session->clattn, &problem);
}

clattn_status verify_workspace(const struct session *session, const clattn_plan *plan, const struct clattn_shape *shape,
                               cl_mem *workspace, size_t *bytes)
{
    clattn_status code = clattn_plan_workspace_bytes(plan, shape, bytes);
    if (!code && *bytes)
        *workspace = clCreateBuffer(session->context, CL_MEM_READ_WRITE, *bytes, NULL, &code);
    return code;
}
