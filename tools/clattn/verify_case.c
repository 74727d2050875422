/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify_case.h"
#include "names.h"
#include "random.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void verify_case_name(const struct verify_case *item, char *text, size_t size)
{
    static const char *const kinds[VERIFY_KINDS] = {"reference",  "constant V",  "permuted keys",    "shifted logits",
                                                    "split keys", "linear in V", "separate batches", "bit-equal"};
    static const char *const layouts[VERIFY_LAYOUTS] = {"bhnd", "bnhd", "strided"};
    const struct reference_problem *p = &item->problem;
    snprintf(text, size,
             "%s, %s, d %d/%d, causal %s, %" PRId64 "x%" PRId64 ", batch %" PRId64 ", heads %" PRId64 "/%" PRId64
             ", %s, gain %g, %s",
             kinds[item->kind], clattn_dtype_name(p->dtype), p->d, p->d_v, causal_name(p->causal), p->shape.n_q,
             p->shape.n_kv, p->shape.batch, p->shape.heads, p->shape.kv_heads, layouts[item->layout], item->gain,
             item->skeleton ? item->skeleton : "planner's choice");
}

bool verify_fail(struct verify_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof result->text, format, arguments);
    va_end(arguments);
    result->outcome = VERIFY_FAIL;
    return false;
}

static float *floats(size_t count)
{
    return calloc(count ? count : 1, sizeof(float));
}

bool verify_data_create(const struct reference_problem *problem, struct verify_data *data)
{
    const size_t rows = reference_row_count(problem);
    *data = (struct verify_data){.q = floats(reference_q_count(problem)),
                                 .k = floats(reference_k_count(problem)),
                                 .v = floats(reference_v_count(problem)),
                                 .o = floats(reference_o_count(problem)),
                                 .lse = floats(rows),
                                 .m = floats(rows),
                                 .l = floats(rows)};
    if (data->q && data->k && data->v && data->o && data->lse && data->m && data->l)
        return true;
    verify_data_destroy(data);
    return false;
}

void verify_data_destroy(struct verify_data *data)
{
    float *const arrays[] = {data->q, data->k, data->v, data->o, data->lse, data->m, data->l};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    *data = (struct verify_data){.q = NULL};
}

static void fill(enum clattn_dtype dtype, struct random *random, double deviation, float *values, size_t count)
{
    random_normal(random, deviation, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = reference_round(dtype, values[i]);
}

void verify_data_fill(const struct verify_case *item, uint64_t seed, struct verify_data *data)
{
    struct random random = {.state = seed};
    const struct reference_problem *problem = &item->problem;
    fill(problem->dtype, &random, 1.0, data->q, reference_q_count(problem));
    fill(problem->dtype, &random, item->gain, data->k, reference_k_count(problem));
    fill(problem->dtype, &random, 1.0, data->v, reference_v_count(problem));
}

bool verify_close(const char *what, const float *out, const double *expected, const float *naive, size_t count,
                  size_t columns, double floor, struct verify_result *result)
{
    const struct reference_verdict verdict = reference_judge(out, expected, naive, count, floor);
    if (verdict.allowed > 0.0)
        result->share = fmax(result->share, verdict.error / verdict.allowed);
    if (verdict.pass)
        return true;
    return verify_fail(result, "%s: error %g where %g is allowed, at row %zu, column %zu: got %g, expected %g", what,
                       verdict.error, verdict.allowed, verdict.at / columns, verdict.at % columns,
                       (double)out[verdict.at], expected[verdict.at]);
}

/* What the reference answers. */
struct expected {
    double *o, *lse, *m, *l;
    float *naive;
};

static bool expect(const struct reference_problem *problem, const struct verify_data *data, struct expected *expected)
{
    const size_t rows = reference_row_count(problem) + 1, count = reference_o_count(problem) + 1;
    *expected = (struct expected){.o = calloc(count, sizeof(double)),
                                  .lse = calloc(rows, sizeof(double)),
                                  .m = calloc(rows, sizeof(double)),
                                  .l = calloc(rows, sizeof(double)),
                                  .naive = calloc(count, sizeof(float))};
    return expected->o && expected->lse && expected->m && expected->l && expected->naive &&
           reference_attention(problem, data->q, data->k, data->v, expected->o, expected->lse, expected->m,
                               expected->l) &&
           reference_naive(problem, data->q, data->k, data->v, expected->naive);
}

static bool judge(const struct reference_problem *problem, struct verify_data *data, struct expected *expected,
                  struct verify_result *result)
{
    const size_t rows = reference_row_count(problem);
    const struct reference_floor floor = reference_floor(problem, data->q, data->k, data->v, expected->o);
    /* Sums are compared by their logarithms: what counts is the relative error. */
    for (size_t i = 0; i < rows; i++) {
        data->l[i] = logf(data->l[i]);
        expected->l[i] = log(expected->l[i]);
    }
    return verify_close("o", data->o, expected->o, expected->naive, reference_o_count(problem), (size_t)problem->d_v,
                        floor.o, result) &&
           verify_close("lse", data->lse, expected->lse, NULL, rows, 1, floor.rows, result) &&
           verify_close("m", data->m, expected->m, NULL, rows, 1, floor.rows, result) &&
           verify_close("ln l", data->l, expected->l, NULL, rows, 1, floor.rows, result);
}

static bool check_rule(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                       struct verify_data *data, struct verify_result *result)
{
    struct expected expected;
    bool good = verify_forward(session, plan, item, &item->problem, data, result);
    if (good) {
        good = expect(&item->problem, data, &expected) ? judge(&item->problem, data, &expected, result)
                                                       : verify_fail(result, "no memory for the reference");
        free(expected.o);
        free(expected.lse);
        free(expected.m);
        free(expected.l);
        free(expected.naive);
    }
    return good;
}

static clattn_status make_plan(const struct session *session, const struct verify_case *item, clattn_plan **plan)
{
    const struct clattn_problem problem = {.dtype = item->problem.dtype,
                                           .d = item->problem.d,
                                           .d_v = item->problem.d_v,
                                           .causal = item->problem.causal,
                                           .scale = (float)item->problem.scale,
                                           .skeleton = item->skeleton};
    return clattn_plan_create(plan, session->clattn, &problem);
}

struct verify_result verify_check(const struct session *session, const struct verify_case *item, uint64_t seed)
{
    struct verify_result result = {.outcome = VERIFY_PASS};
    clattn_plan *plan = NULL;
    const clattn_status code = make_plan(session, item, &plan);
    if (code) {
        verify_fail(&result, "%s: %.900s", clattn_status_name(code), clattn_error_message());
        if (code == CLATTN_NOTHING_FITS && item->skeleton)
            result.outcome = VERIFY_SKIP;
        return result;
    }
    struct verify_data data;
    if (verify_data_create(&item->problem, &data)) {
        verify_data_fill(item, seed, &data);
        if (item->kind == VERIFY_RULE)
            check_rule(session, plan, item, &data, &result);
        else
            verify_law(session, plan, item, seed, &data, &result);
        verify_data_destroy(&data);
    } else {
        verify_fail(&result, "no memory for its arrays");
    }
    clattn_plan_destroy(&plan);
    return result;
}
