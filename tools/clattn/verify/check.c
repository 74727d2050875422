/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/check.h"
#include "verify/score.h"
#include <math.h>
#include <stdlib.h>

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
    const bool close = verify_close("o", data->o, expected->o, expected->naive, reference_o_count(problem),
                                    (size_t)problem->d_v, floor.o, result) &&
                       verify_close("lse", data->lse, expected->lse, NULL, rows, 1, floor.rows, result);
    if (!close || data->without_m)
        return close;
    /* Sums are compared by their logarithms: what counts is the relative error. */
    for (size_t i = 0; i < rows; i++) {
        data->l[i] = logf(data->l[i]);
        expected->l[i] = log(expected->l[i]);
    }
    return verify_close("m", data->m, expected->m, NULL, rows, 1, floor.rows, result) &&
           verify_close("ln l", data->l, expected->l, NULL, rows, 1, floor.rows, result);
}

/* With m and l, and then, as most callers want it, without. */
static bool judge_forward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                          struct verify_data *data, struct expected *expected, struct verify_result *result)
{
    bool good = judge(&item->problem, data, expected, result);
    if (good && item->kind == VERIFY_RULE) {
        data->without_m = true;
        good = verify_forward(session, plan, item, &item->problem, data, result) &&
               judge(&item->problem, data, expected, result);
        data->without_m = false;
    }
    return good;
}

static bool check_rule(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                       struct verify_data *data, struct verify_result *result)
{
    struct expected expected;
    bool good = item->kind == VERIFY_STATE ? verify_state(session, plan, item, data, result)
                                           : verify_forward(session, plan, item, &item->problem, data, result);
    if (good) {
        good = expect(&item->problem, data, &expected) ? judge_forward(session, plan, item, data, &expected, result)
                                                       : verify_error(result, "no memory for the reference");
        free(expected.o);
        free(expected.lse);
        free(expected.m);
        free(expected.l);
        free(expected.naive);
    }
    return good;
}

static void check_data(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                       uint64_t seed, struct verify_data *data, struct verify_result *result)
{
    if (!verify_data_fill(item, seed, data))
        verify_error(result, "no memory for what is stored of K and V");
    else if (item->kind == VERIFY_RULE || item->kind == VERIFY_STATE)
        check_rule(session, plan, item, data, result);
    else if (verify_is_backward(item))
        verify_gradients(session, plan, item, data, result);
    else
        verify_law(session, plan, item, seed, data, result);
}

static struct verify_result check_filled(const struct session *session, const struct verify_case *item,
                                         const struct verify_score *score, uint64_t seed)
{
    struct verify_result result = {.outcome = VERIFY_PASS};
    clattn_plan *plan = NULL;
    const clattn_status code = verify_plan(session, item, verify_pass(item), &plan);
    if (code) {
        verify_error(&result, "%s: %.900s", clattn_status_name(code), clattn_error_message());
        if (code == CLATTN_NOTHING_FITS && item->skeleton)
            result.outcome = VERIFY_SKIP;
        return result;
    }
    struct verify_data data;
    if (verify_data_create(&item->problem, verify_is_backward(item), &data)) {
        data.counts = score->counts;
        data.csr = score->csr;
        check_data(session, plan, item, seed, &data, &result);
        verify_data_destroy(&data);
    } else {
        verify_error(&result, "no memory for its arrays");
    }
    clattn_plan_destroy(&plan);
    return result;
}

struct verify_result verify_check(const struct session *session, const struct verify_case *item, uint64_t seed)
{
    struct verify_case filled = *item;
    struct verify_score score;
    struct verify_result result = {.outcome = VERIFY_PASS};
    if (!verify_score_create(&filled, seed, &score)) {
        verify_error(&result, "no memory for its arrays");
        return result;
    }
    result = check_filled(session, &filled, &score, seed);
    verify_score_destroy(&score);
    return result;
}
