/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"
#include "json_out.h"
#include "options/names.h"
#include "tune/tune.h"
#include <inttypes.h>
#include <stdio.h>

static int count_state(const struct tune_outcome *outcome, enum clattn_tuning_state state)
{
    int count = 0;
    for (int i = 0; i < outcome->count; i++)
        count += outcome->search.items[i].tried && outcome->search.items[i].state == state;
    return count;
}

static void print_choice(const struct clattn_plan_info *info)
{
    flow(stdout, "%s, B_r %d, B_c %d, %d item%s%s%s", info->skeleton, info->b_r, info->b_c, info->work_group_size,
         info->work_group_size == 1 ? "" : "s", info->knobs[0] ? ", " : "", info->knobs);
}

void tune_print_head(const char *title)
{
    flow(stdout, "%s\n%-44s %10s %10s %6s  %s\n", title, "problem", "untuned ms", "tuned ms", "gain",
         "tried, and the best");
}

void tune_print(const struct tune_outcome *outcome)
{
    const struct tune_search *search = &outcome->search;
    char name[96];
    tune_problem_name(&outcome->problem, name, sizeof name);
    if (outcome->skipped) {
        flow(stdout, "%-44s measured before\n", name);
        return;
    }
    int tried = 0;
    for (int i = 0; i < outcome->count; i++)
        tried += search->items[i].tried && !search->items[i].known;
    flow(stdout, "%-44s ", name);
    if (search->best < 0 && !search->items[0].tried)
        flow(stdout, "%10s %10s %6s  no time for one measurement: more --budget is needed", "", "", "");
    else if (search->best < 0)
        flow(stdout, "%10s %10s %6s  %d of %d: none works", "", "", "", tried, outcome->count);
    else if (search->base_ms > 0)
        flow(stdout, "%10.4g %10.4g %5.2fx  %d of %d: ", search->base_ms, search->best_ms,
             search->base_ms / search->best_ms, tried, outcome->count);
    else
        flow(stdout, "%10s %10.4g %6s  %d of %d: ", "", search->best_ms, "", tried, outcome->count);
    if (search->best >= 0)
        print_choice(&outcome->candidates[search->best]);
    static const enum clattn_tuning_state bad[] = {CLATTN_TUNING_WRONG, CLATTN_TUNING_INFEASIBLE,
                                                   CLATTN_TUNING_TIMEOUT};
    static const char *const names[] = {"wrong", "infeasible", "too slow"};
    for (int i = 0; i < 3; i++)
        if (count_state(outcome, bad[i]))
            flow(stdout, "; %d %s", count_state(outcome, bad[i]), names[i]);
    flow(stdout, "%s\n", search->complete ? "" : "; not complete");
    fflush(stdout);
}

static json_t *json_candidate(const struct tune_outcome *outcome, int index)
{
    static const char *const states[] = {"ok", "wrong", "infeasible", "timeout"};
    const struct clattn_plan_info *info = &outcome->candidates[index];
    const struct tune_item *item = &outcome->search.items[index];
    const bool ok = item->tried && item->state == CLATTN_TUNING_OK;
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:f, s:o, s:o, s:i, s:o}", "skeleton", info->skeleton, "b_r", info->b_r,
                     "b_c", info->b_c, "work_group_size", info->work_group_size, "knobs", info->knobs, "estimate",
                     info->estimate, "state", item->tried ? json_text(states[item->state]) : json_null(), "ms",
                     ok ? json_real(item->ms) : json_null(), "runs", item->runs, "reason",
                     json_text(outcome->reasons[index]));
}

json_t *tune_json(const struct tune_outcome *outcome)
{
    const struct tune_problem *problem = &outcome->problem;
    const struct tune_search *search = &outcome->search;
    json_t *list = json_array();
    for (int i = 0; i < outcome->count; i++)
        json_array_append_new(list, json_candidate(outcome, i));
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:o}", "pass",
        pass_name(problem->pass), "dtype", clattn_dtype_name(problem->dtype), "d", problem->d, "d_v", problem->d_v,
        "causal", problem->causal, "batch", (json_int_t)problem->batch, "heads", (json_int_t)problem->heads, "kv_heads",
        (json_int_t)(problem->kv_heads ? problem->kv_heads : problem->heads), "n_q", (json_int_t)problem->n_q, "n_kv",
        (json_int_t)problem->n_kv, "complete", search->complete, "measured_before", outcome->skipped, "untuned_ms",
        search->base_ms > 0 ? json_real(search->base_ms) : json_null(), "tuned_ms",
        search->best_ms > 0 ? json_real(search->best_ms) : json_null(), "best",
        search->best >= 0 ? json_integer(search->best) : json_null(), "candidates", list);
}
