/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/names.h"
#include "tune/tune.h"
#include <inttypes.h>
#include <stdlib.h>

enum { PASS_FORWARD = 1, PASS_BACKWARD, CAUSAL_OFF = 1, CAUSAL_ON };

static bool add(struct tune_list *list, const struct tune_problem *problem)
{
    struct tune_problem *items = realloc(list->items, (size_t)(list->count + 1) * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    list->items[list->count++] = *problem;
    return true;
}

/* As many heads as keep all of a CPU at work, and no more: runs are to be short. A GPU gets FlashAttention's shapes,
 * 16384 rows of 2048 columns in all. */
static void take_size(const struct values *values, const struct clattn_capabilities *capabilities,
                      struct tune_problem *problem)
{
    const int64_t units = capabilities->compute_units ? capabilities->compute_units : 1, n = problem->n_kv;
    const int64_t filling = (units * 4096 + n - 1) / n;
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    problem->heads = cpu ? (filling < 1 ? 1 : filling < 8 ? filling : 8) : problem->d < 2048 ? 2048 / problem->d : 1;
    problem->batch = cpu || n > 16384 ? 1 : 16384 / n;
    if (values->heads)
        problem->heads = values->heads;
    if (values->batch)
        problem->batch = values->batch;
    problem->kv_heads = values->kv_heads;
}

static bool add_variants(struct tune_list *list, const struct values *values, struct tune_problem problem)
{
    bool enough = true;
    for (int pass = 1; pass <= PASS_BACKWARD; pass++)
        for (int causal = 1; causal <= CAUSAL_ON; causal++) {
            problem.pass = pass == PASS_BACKWARD ? CLATTN_BACKWARD : CLATTN_FORWARD;
            problem.causal = causal == CAUSAL_ON;
            if ((pass & (values->pass ? values->pass : PASS_FORWARD)) && (!values->causal || (causal & values->causal)))
                enough = enough && add(list, &problem);
        }
    return enough;
}

bool tune_list_create(struct tune_list *list, const struct values *values,
                      const struct clattn_capabilities *capabilities)
{
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    const struct option_list types = {.count = 1, .values = {CLATTN_FP32}}, widths = {.count = 2, .values = {64, 128}};
    const struct option_list lengths = {.count = 3, .values = {1024, 4096, cpu ? 8192 : 16384}};
    const struct option_list *dtype = values->dtype.count ? &values->dtype : &types;
    const struct option_list *d = values->d.count ? &values->d : &widths, *n = values->n.count ? &values->n : &lengths;
    bool enough = true;
    *list = (struct tune_list){.count = 0};
    for (int t = 0; t < dtype->count; t++)
        for (int i = 0; i < d->count; i++)
            for (int j = 0; j < n->count; j++) {
                struct tune_problem problem = {.dtype = (enum clattn_dtype)dtype->values[t],
                                               .d = (int)d->values[i],
                                               .d_v = (int)(values->d_v ? values->d_v : d->values[i]),
                                               .n_q = values->n_q ? values->n_q : n->values[j],
                                               .n_kv = n->values[j]};
                take_size(values, capabilities, &problem);
                enough = enough && add_variants(list, values, problem);
            }
    if (!enough)
        tune_list_destroy(list);
    return enough;
}

/* A length changes no program: where a class has had them compiled, the next needs less time. */
static int weight(const struct tune_list *list, int index)
{
    const struct tune_problem *item = &list->items[index];
    for (int i = 0; i < index; i++) {
        const struct tune_problem *before = &list->items[i];
        if (before->pass == item->pass && before->dtype == item->dtype && before->d == item->d &&
            before->d_v == item->d_v && before->causal == item->causal)
            return 1;
    }
    return 2;
}

double tune_list_share(const struct tune_list *list, int index)
{
    double all = 0;
    for (int i = index; i < list->count; i++)
        all += weight(list, i);
    return weight(list, index) / all;
}

void tune_list_destroy(struct tune_list *list)
{
    free(list->items);
    *list = (struct tune_list){.count = 0};
}

void tune_problem_name(const struct tune_problem *problem, char *text, size_t size)
{
    char d_v[16] = "", n_q[32] = "";
    if (problem->d_v != problem->d)
        snprintf(d_v, sizeof d_v, "/%d", problem->d_v);
    if (problem->n_q != problem->n_kv)
        snprintf(n_q, sizeof n_q, "%" PRId64 " x ", problem->n_q);
    snprintf(text, size, "%s, %s, d %d%s, %s, n %s%" PRId64, pass_name(problem->pass),
             clattn_dtype_name(problem->dtype), problem->d, d_v, problem->causal ? "causal" : "full", n_q,
             problem->n_kv);
}
