/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The cases that `clattn verify` goes through, in lists and drawn at random. */
#include "verify/draw.h"
#include "verify/list.h"
#include "verify/score.h"
#include "verify/skeletons.h"

#include "support/nvidia.h"
#include "support/unit.h"
#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_sizes(bool full)
{
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct verify_list list;
    int few = 0;
    verify_list_create(&list, full, &capabilities, NULL, 1);
    assert_false(list.failed);
    assert_true(list.count > (full ? 1000 : 50));
    for (int i = 0; i < list.count; i++) {
        const struct reference_problem *problem = &list.items[i].problem;
        const struct clattn_shape *shape = &problem->shape;
        const int64_t rows = smaller(shape->n_q, shape->n_kv);
        few += rows && shape->batch * shape->kv_heads * rows * smaller(problem->d, problem->d_v) < VERIFY_FEWEST;
    }
    assert_int_equal(few, 0);
    verify_list_destroy(&list);
}

/* Largest errors of a few elements say little. */
static void cases_have_elements_enough(void **state)
{
    (void)state;
    check_sizes(false);
    check_sizes(true);
}

/* A hint that moves plans has cases of its own beside those of the same masks without it, in a full run; and none where
 * it moves nothing. */
static void masks_that_are_mostly_seen_have_cases(void **state)
{
    (void)state;
    static const struct {
        const char *skeleton;
        bool hinted;
    } rows[] = {{"forward_simt", false},  {"forward_matrix", true},   {"forward_hopper", true},
                {"backward_simt", false}, {"backward_matrix", false}, {"backward_hopper", true},
                {"backward_fused", true}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int full = 0; full < 2; full++) {
            struct verify_list list;
            int hinted = 0, others = 0;
            verify_list_create(&list, full, &capabilities, rows[i].skeleton, 1);
            assert_false(list.failed);
            for (int n = 0; n < list.count; n++)
                if (list.items[n].problem.score.features & CLATTN_BLOCK_MASK) {
                    hinted += list.items[n].expected_density > 0;
                    others += list.items[n].expected_density <= 0;
                } else {
                    assert_true(list.items[n].expected_density <= 0);
                }
            assert_int_equal(hinted > 0, full && rows[i].hinted);
            assert_true(others > 0);
            verify_list_destroy(&list);
        }
}

/* Dozens of cases of each skeleton in a full run, some in a quick one, of four to eleven features, which no other part
 * of the list has. */
static void combinations_are_sampled(void **state)
{
    (void)state;
    static const char *const skeletons[] = {"forward_hopper", "backward_hopper", "backward_fused"};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (int i = 0; i < 6; i++) {
        struct verify_list list;
        const bool full = i / 3, any_order = i % 3 == 2;
        int drawn = 0, several = 0, ordered = 0;
        verify_list_create(&list, full, &capabilities, skeletons[i % 3], 5);
        assert_false(list.failed);
        for (int n = 0; n < list.count; n++) {
            const int count = verify_count_features(verify_traits_of(&list.items[n]));
            drawn += list.items[n].given;
            several += list.items[n].given && count > 3 && count < verify_feature_count();
            ordered += list.items[n].given && !list.items[n].unordered;
        }
        assert_true(drawn >= (full ? 45 : 3) && several >= (full ? 24 : 0));
        assert_int_equal(ordered > 12, full && !any_order);
        verify_list_destroy(&list);
    }
}

/* --- cases that are drawn */

enum { DRAWN = 6000 };

static struct verify_case draw(uint64_t seed, const char *skeleton)
{
    struct verify_case item;
    verify_draw(seed, skeleton, &item);
    return item;
}

/* A seed is a case for good: these were written down when the draw was. A change of it takes from all seeds that are in
 * files and reports what they stand for. */
static void seeds_keep_their_cases(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        const char *skeleton, *name;
    } rows[] = {
        {100000011, "forward_cpu",
         "reference, keys split into 7, bf16, d 35/32, causal off, softcap, varlen, dropout, mask_mod, 287x287, batch "
         "6, heads 5/1, bnhd, drops 0.125, expects 201x287 of 8, mixed, gain 3, forward_cpu"},
        {20000000012345672, "backward_hopper",
         "backward, bf16, d 112/112, causal off, alibi, block mask, key lengths, varlen, sinks, score_mod, mask_mod, "
         "141x252, batch 3, heads 4/2, strided, blocks 16x256 70 % kept, aligned, gain 3, backward_hopper"},
        {700000023, "backward_fused",
         "backward, fp16, d 48/64, causal top-left, window, softcap, alibi, block mask, dropout, score_mod, 148x191, "
         "batch 3, heads 5/1, bhnd, window 40,18, blocks 320x256 50 % kept, drops 0.9 as planned, aligned, any order, "
         "gain 0.3, backward_fused"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[512];
        struct verify_case item = draw(rows[i].seed, rows[i].skeleton);
        verify_leave_out(&item, verify_later_features() | VERIFY_WITH_FORMATS);
        verify_case_name(&item, name, sizeof name);
        assert_string_equal(name, rows[i].name);
    }
}

static bool same_program(const struct verify_case *a, const struct verify_case *b)
{
    const struct reference_problem *x = &a->problem, *y = &b->problem;
    return a->kind == b->kind && verify_traits_of(a) == verify_traits_of(b) && x->dtype == y->dtype && x->d == y->d &&
           x->d_v == y->d_v && x->causal == y->causal && x->scale == y->scale && a->splits == b->splits &&
           x->score.block_q == y->score.block_q && x->score.block_kv == y->score.block_kv &&
           a->expected_density == b->expected_density && a->p_is_known == b->p_is_known &&
           x->score.dropout_p == y->score.dropout_p && !memcmp(a->expected, b->expected, sizeof a->expected);
}

static bool same_call(const struct verify_case *a, const struct verify_case *b)
{
    const struct clattn_shape *x = &a->problem.shape, *y = &b->problem.shape;
    return x->batch == y->batch && x->heads == y->heads && x->n_q == y->n_q && x->n_kv == y->n_kv &&
           a->problem.score.window_left == b->problem.score.window_left;
}

static void cases_of_a_program_share_it_and_nothing_else(void **state)
{
    (void)state;
    int alike = 0;
    for (uint64_t program = 0; program < DRAWN / VERIFY_PER_PROGRAM; program++) {
        const struct verify_case first = draw(program * VERIFY_PER_PROGRAM, "backward_hopper");
        const struct verify_case next = draw((program + 1) * VERIFY_PER_PROGRAM, "backward_hopper");
        assert_false(same_program(&first, &next));
        for (uint64_t i = 1; i < VERIFY_PER_PROGRAM; i++) {
            const struct verify_case other = draw(program * VERIFY_PER_PROGRAM + i, "backward_hopper");
            assert_true(same_program(&first, &other));
            alike += same_call(&first, &other);
        }
    }
    assert_true(alike < DRAWN / 200);
}

/* What has been seen in many cases. */
struct seen {
    unsigned traits;
    int counts[32 + 1];
    int kinds[VERIFY_KINDS], dtypes[3], causal[3], layouts[VERIFY_LAYOUTS];
    int unequal, odd, wide, aligned, mixed, crowds, shared, grouped, short_rows, long_rows, no_limit, reach_0, merged,
        splits, fp32_by_matrix_units;
};

static void look(const struct verify_case *item, struct seen *seen)
{
    const struct reference_problem *p = &item->problem;
    const int64_t left = p->score.window_left, right = p->score.window_right;
    seen->traits |= verify_traits_of(item);
    seen->counts[verify_count_features(verify_traits_of(item) & ~verify_later_features())]++;
    seen->kinds[item->kind]++;
    seen->dtypes[p->dtype]++;
    seen->causal[p->causal]++;
    seen->layouts[item->layout]++;
    seen->unequal += p->d != p->d_v;
    seen->odd += p->d % 2;
    seen->wide += p->d > 256;
    seen->aligned += item->aligned;
    seen->mixed += item->mixed;
    seen->crowds += p->shape.batch * p->shape.heads > 100;
    seen->shared += item->shared != 0;
    seen->grouped += p->shape.heads != p->shape.kv_heads;
    seen->short_rows += p->shape.n_q == 1;
    seen->long_rows += p->shape.n_q >= 1000 || p->shape.n_kv >= 1000;
    seen->no_limit += left == -1 || right == -1;
    seen->reach_0 += left == 0 || right == 0;
    seen->merged += item->merged;
    seen->splits += item->splits != 0;
}

static void check_case(const struct verify_case *item, const struct verify_skeleton *row)
{
    const struct reference_problem *p = &item->problem;
    const struct clattn_shape *s = &p->shape;
    const unsigned traits = verify_traits_of(item);
    assert_true(verify_count_features(traits) >= 3);
    const bool latent = p->d == CLATTN_MAX_LATENT_D && !row->declines && !row->backward;
    assert_true(p->d >= 1 && (p->d <= row->largest_d || latent) && p->d_v >= 1 && p->d_v <= row->largest_d);
    assert_true(s->batch >= 1 && s->kv_heads >= 1 && s->heads % s->kv_heads == 0 && s->n_q >= 1 && s->n_kv >= 1);
    assert_true(p->score.block_q % 16 == 0 && p->score.block_kv % 16 == 0 && p->score.block_q && p->score.block_kv);
    assert_true(row->takes_fp32 || p->dtype != CLATTN_FP32);
    assert_int_equal(verify_is_backward(item), row->backward);
    assert_true(row->chunks || (item->kind != VERIFY_STATE && item->kind != VERIFY_BACKWARD_CHUNKS));
    assert_true(!row->any_order || item->unordered);
    assert_true(!(traits & VERIFY_WITH_CSR) || traits & CLATTN_BLOCK_MASK);
    const int64_t rows = smaller(s->n_q, s->n_kv), elements = s->kv_heads * rows * smaller(p->d, p->d_v);
    assert_true(s->batch * elements >= VERIFY_FEWEST);
    assert_true((double)(s->heads * s->n_q) * (double)s->n_kv * (p->d + p->d_v) < 1e9); /* the reference's work */
}

static void cases_have_everything(void **state)
{
    (void)state;
    struct seen seen = {.traits = 0};
    for (const struct verify_skeleton *row = verify_skeletons(); row->name; row++)
        for (uint64_t i = 0; i < DRAWN; i++) {
            const struct verify_case item = draw(77 * DRAWN + i, row->name);
            check_case(&item, row);
            look(&item, &seen);
            seen.fp32_by_matrix_units += row->declines && item.problem.dtype == CLATTN_FP32;
        }
    for (const struct option_word *word = verify_trait_words(); word->word; word++)
        assert_true(seen.traits & (unsigned)word->value);
    for (int i = 0; i < verify_feature_count() - verify_count_features(verify_later_features()); i++)
        assert_int_equal(seen.counts[i] > DRAWN / 5, i >= 3);
    for (int i = 0; i < VERIFY_KINDS; i++)
        assert_int_equal(seen.kinds[i] > DRAWN / 5, i <= VERIFY_BACKWARD_CHUNKS);
    for (int i = 0; i < 3; i++)
        assert_true(seen.dtypes[i] > DRAWN / 5 && seen.causal[i] > DRAWN / 5 && seen.layouts[i] > DRAWN / 5);
    const int others[] = {seen.unequal,  seen.odd,     seen.wide,    seen.aligned,    seen.crowds,
                          seen.mixed,    seen.shared,  seen.grouped, seen.short_rows, seen.long_rows,
                          seen.no_limit, seen.reach_0, seen.merged,  seen.splits,     seen.fp32_by_matrix_units};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(others[i] > DRAWN / 20);
}

/* What is left of a case without some of its features is the same in all else, its numbers too. */
static void features_can_be_left_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        const struct verify_case whole = draw(seed, "backward_cpu");
        struct verify_case less = whole;
        verify_leave_out(&less, CLATTN_WINDOW | CLATTN_BLOCK_MASK | VERIFY_WITH_SCORE_MOD);
        const unsigned gone = CLATTN_WINDOW | CLATTN_BLOCK_MASK | VERIFY_WITH_SCORE_MOD | VERIFY_WITH_CSR;
        assert_int_equal(verify_traits_of(&less), verify_traits_of(&whole) & ~gone);
        assert_true(same_call(&less, &whole) && less.problem.d == whole.problem.d);
    }
}

/* The arrays of a case keep to what was drawn: the share of a block mask, windows, dropout. */
static void drawn_numbers_are_used(void **state)
{
    (void)state;
    int checked = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct verify_case item = draw(seed, "backward_cpu");
        const struct verify_case before = item;
        struct verify_score score;
        assert_true(verify_score_create(&item, seed, &score));
        const struct reference_score *a = &item.problem.score, *b = &before.problem.score;
        assert_true(a->window_left == b->window_left && a->window_right == b->window_right &&
                    a->dropout_p == b->dropout_p && a->dropout_seed == b->dropout_seed && a->softcap == b->softcap);
        size_t kept = 0;
        for (size_t i = 0; a->features & CLATTN_BLOCK_MASK && i < score.counts.block_mask; i++)
            kept += a->block_mask[i];
        if (a->features & CLATTN_BLOCK_MASK && score.counts.block_mask >= 100) {
            const double share = 100.0 * (double)kept / (double)score.counts.block_mask;
            assert_true(share > item.kept - 25 && share < item.kept + 25);
            checked++;
        }
        verify_score_destroy(&score);
    }
    assert_true(checked >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_have_elements_enough),
                                       cmocka_unit_test(masks_that_are_mostly_seen_have_cases),
                                       cmocka_unit_test(combinations_are_sampled),
                                       cmocka_unit_test(seeds_keep_their_cases),
                                       cmocka_unit_test(cases_of_a_program_share_it_and_nothing_else),
                                       cmocka_unit_test(cases_have_everything),
                                       cmocka_unit_test(features_can_be_left_out),
                                       cmocka_unit_test(drawn_numbers_are_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
