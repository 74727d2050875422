/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference's outputs for one case. */
struct judge {
    struct reference_problem problem;
    double *o, *lse, *m, *l;
    float *naive;
    size_t count, rows;
};

static bool say(const char *what, const struct reference_verdict *verdict, const float *out, const double *reference)
{
    if (!verdict->pass)
        fprintf(stderr, "%s[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g\n", what, verdict->at,
                (double)out[verdict->at], reference[verdict->at], verdict->error, verdict->allowed);
    return verdict->pass;
}

static bool judge_make(struct judge *judge, const struct forward_case *forward, const struct forward_arrays *arrays)
{
    *judge = (struct judge){.problem = forward_reference_of(forward, arrays)};
    judge->count = reference_o_count(&judge->problem);
    judge->rows = reference_row_count(&judge->problem);
    judge->o = calloc(judge->count + 1, sizeof *judge->o);
    judge->naive = calloc(judge->count + 1, sizeof *judge->naive);
    judge->lse = calloc(judge->rows + 1, sizeof *judge->lse);
    judge->m = calloc(judge->rows + 1, sizeof *judge->m);
    judge->l = calloc(judge->rows + 1, sizeof *judge->l);
    return judge->o && judge->naive && judge->lse && judge->m && judge->l &&
           reference_attention(&judge->problem, arrays->q, arrays->k, arrays->v, judge->o, judge->lse, judge->m,
                               judge->l) &&
           reference_naive(&judge->problem, arrays->q, arrays->k, arrays->v, judge->naive);
}

static void judge_free(struct judge *judge)
{
    free(judge->o);
    free(judge->naive);
    free(judge->lse);
    free(judge->m);
    free(judge->l);
}

static bool judge_rows(const char *what, const float *out, const double *reference, size_t count, double allowed)
{
    const struct reference_verdict verdict = reference_judge(out, reference, NULL, count, allowed);
    return say(what, &verdict, out, reference);
}

/* l is as exact as what it sums: its logarithm has the error of a score. Where no key is seen it is exactly 0. */
static bool judge_l(const struct judge *judge, const float *l, double allowed)
{
    for (size_t i = 0; i < judge->rows; i++) {
        const double error = judge->l[i] > 0.0 ? fabs(log((double)l[i]) - log(judge->l[i])) : fabs((double)l[i]);
        if (!(error <= (judge->l[i] > 0.0 ? allowed : 0.0))) {
            fprintf(stderr, "l[%zu] = %.9g, not %.9g\n", i, (double)l[i], judge->l[i]);
            return false;
        }
    }
    return true;
}

bool compare_outputs(const struct forward_case *forward, const struct forward_arrays *arrays)
{
    struct judge judge;
    bool right = judge_make(&judge, forward, arrays);
    if (right) {
        const struct reference_floor allowed =
            reference_floor(&judge.problem, arrays->q, arrays->k, arrays->v, judge.o);
        const struct reference_verdict o = reference_judge(arrays->o, judge.o, judge.naive, judge.count, allowed.o);
        right = say("o", &o, arrays->o, judge.o);
        right = judge_rows("lse", arrays->lse, judge.lse, judge.rows, allowed.rows) && right;
        if (!arrays->without_m) {
            right = judge_rows("m", arrays->m, judge.m, judge.rows, allowed.rows) && right;
            right = judge_l(&judge, arrays->l, allowed.rows) && right;
        }
    }
    judge_free(&judge);
    return right;
}

static bool same_bits(const char *what, const float *a, const float *b, size_t count)
{
    const bool same = count == 0 || memcmp(a, b, count * sizeof *a) == 0;
    if (!same)
        fprintf(stderr, "%s differs between two runs of one plan\n", what);
    return same;
}

bool compare_bits(const struct forward_case *forward, const struct forward_arrays *a, const struct forward_arrays *b)
{
    const struct reference_problem problem = forward_reference_of(forward, a);
    const size_t rows = reference_row_count(&problem);
    return same_bits("o", a->o, b->o, reference_o_count(&problem)) && same_bits("lse", a->lse, b->lse, rows) &&
           same_bits("m", a->m, b->m, rows) && same_bits("l", a->l, b->l, rows);
}

bool compare_close(const char *what, const float *a, const float *b, size_t count, double allowed)
{
    for (size_t i = 0; i < count; i++) {
        const double error = a[i] == b[i] ? 0.0 : fabs((double)a[i] - (double)b[i]);
        if (!(error <= allowed)) {
            fprintf(stderr, "%s[%zu]: %.9g and %.9g are %.3g apart, allowed %.3g\n", what, i, (double)a[i],
                    (double)b[i], error, allowed);
            return false;
        }
    }
    return true;
}
