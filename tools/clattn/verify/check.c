/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/check.h"
#include "verify/judged.h"
#include "verify/score.h"
#include <math.h>

enum { O, LSE, M, LN_L, OUTPUTS };

static void list(const struct reference_problem *problem, const struct verify_data *data, struct judged all[OUTPUTS])
{
    const size_t rows = reference_row_count(problem);
    all[O] = (struct judged){.name = "o",
                             .answer = data->o,
                             .count = reference_o_count(problem),
                             .columns = (size_t)problem->d_v,
                             .has_naive = true};
    all[LSE] = (struct judged){.name = "lse", .answer = data->lse, .count = rows, .columns = 1};
    all[M] = (struct judged){.name = "m", .answer = data->m, .count = rows, .columns = 1};
    all[LN_L] = (struct judged){.name = "ln l", .answer = data->l, .count = rows, .columns = 1};
}

static bool expect(const struct reference_problem *problem, const struct verify_data *data, struct judged all[OUTPUTS])
{
    return judged_create(all, OUTPUTS) &&
           reference_attention(problem, data->q, data->k, data->v, all[O].expected, all[LSE].expected, all[M].expected,
                               all[LN_L].expected) &&
           reference_naive(problem, data->q, data->k, data->v, all[O].naive);
}

static bool judge(const struct reference_problem *problem, struct verify_data *data, struct judged all[OUTPUTS],
                  struct verify_result *result)
{
    const struct reference_floor floor = reference_floor(problem, data->q, data->k, data->v, all[O].expected);
    for (int i = 0; i < OUTPUTS; i++)
        all[i].floor = i == O ? floor.o : floor.rows;
    const bool close = judged_close(all, M, result);
    if (!close || data->without_m)
        return close;
    /* Sums are compared by their logarithms: what counts is the relative error. */
    for (size_t i = 0; i < all[LN_L].count; i++) {
        all[LN_L].answer[i] = logf(all[LN_L].answer[i]);
        all[LN_L].expected[i] = log(all[LN_L].expected[i]);
    }
    return judged_close(all + M, OUTPUTS - M, result);
}

/* With m and l, and then, as most callers want it, without. */
static bool judge_forward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                          struct verify_data *data, struct judged all[OUTPUTS], struct verify_result *result)
{
    bool good = judge(&item->problem, data, all, result);
    if (good && item->kind == VERIFY_RULE) {
        data->without_m = true;
        good = verify_forward(session, plan, item, &item->problem, data, result) &&
               judge(&item->problem, data, all, result);
        data->without_m = false;
    }
    return good;
}

static bool check_rule(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                       struct verify_data *data, struct verify_result *result)
{
    struct judged all[OUTPUTS];
    list(&item->problem, data, all);
    bool good = item->kind == VERIFY_STATE ? verify_state(session, plan, item, data, result)
                                           : verify_forward(session, plan, item, &item->problem, data, result);
    if (good)
        good = expect(&item->problem, data, all) ? judge_forward(session, plan, item, data, all, result)
                                                 : verify_error(result, "no memory for the reference");
    judged_free(all, OUTPUTS);
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
