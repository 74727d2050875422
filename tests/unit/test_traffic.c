/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model of traffic: against tiles counted pair by pair, against the paper's formulas by hand, and at its edges. */
#include "support/unit.h"
#include <clattn/clattn.h>
#include <math.h>
#include <string.h>

/* A made-up plan: blocks of 48 rows and tiles of 32 keys; backward, blocks of 40 keys and tiles of 16 rows. */
static const struct clattn_plan_info plan = {
    .m_elements = 8192,
    .streams = {{.block = 48, .tile = 32, .reads = 1, .reads_v = 1, .resident = 1},
                {.block = 40, .tile = 16, .reads = 2, .reads_v = 2, .resident = 1}}};

static struct clattn_traffic traffic_of(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                                        const struct clattn_traffic_params *params)
{
    struct clattn_traffic traffic;
    assert_int_equal(clattn_plan_traffic(problem, info, params, &traffic), CLATTN_SUCCESS);
    return traffic;
}

static bool sees(const struct clattn_problem *problem, const struct clattn_traffic_params *params, int64_t i, int64_t j)
{
    const int64_t shift = problem->causal == CLATTN_CAUSAL_TOP_LEFT ? 0 : params->shape.n_kv - params->shape.n_q;
    if (problem->causal && j > i + shift)
        return false;
    if (!(problem->features & CLATTN_WINDOW))
        return true;
    return (params->window_left < 0 || j >= i + shift - params->window_left) &&
           (params->window_right < 0 || j <= i + shift + params->window_right);
}

/* Rows of the passing side that exist in tiles with a pair that is seen, over all blocks of the other side. */
static int64_t count_passing(const struct clattn_problem *problem, const struct clattn_traffic_params *params,
                             const struct clattn_plan_stream *stream, bool keys_stay)
{
    const int64_t n_q = params->shape.n_q, n_kv = params->shape.n_kv;
    const int64_t staying = keys_stay ? n_kv : n_q, passing = keys_stay ? n_q : n_kv;
    int64_t rows = 0;
    for (int64_t block = 0; block < staying; block += stream->block)
        for (int64_t tile = 0; tile < passing; tile += stream->tile) {
            bool any = false;
            for (int64_t a = block; a < staying && a < block + stream->block; a++)
                for (int64_t b = tile; b < passing && b < tile + stream->tile; b++)
                    any = any || (keys_stay ? sees(problem, params, b, a) : sees(problem, params, a, b));
            if (any)
                rows += passing - tile < stream->tile ? passing - tile : stream->tile;
        }
    return rows;
}

static const struct {
    enum clattn_causal causal;
    bool window;
    int64_t n_q, n_kv, left, right;
} views[] = {
    {CLATTN_FULL, false, 100, 150, 0, 0},
    {CLATTN_FULL, false, 1, 1, 0, 0},
    {CLATTN_CAUSAL_BOTTOM_RIGHT, false, 200, 200, 0, 0},
    {CLATTN_CAUSAL_BOTTOM_RIGHT, false, 130, 300, 0, 0},
    {CLATTN_CAUSAL_BOTTOM_RIGHT, false, 300, 130, 0, 0}, /* rows that see nothing */
    {CLATTN_CAUSAL_TOP_LEFT, false, 130, 300, 0, 0},
    {CLATTN_CAUSAL_TOP_LEFT, false, 300, 130, 0, 0},
    {CLATTN_FULL, true, 200, 210, 20, 5},
    {CLATTN_FULL, true, 200, 210, -1, 5},
    {CLATTN_CAUSAL_BOTTOM_RIGHT, true, 257, 257, 40, 90},
};

static void tiles_are_those_with_pairs(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof views / sizeof views[0]; n++) {
        struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                         .d = 24,
                                         .d_v = 40,
                                         .causal = views[n].causal,
                                         .features = views[n].window ? CLATTN_WINDOW : 0};
        const struct clattn_traffic_params params = {
            .shape = {.batch = 2, .heads = 6, .kv_heads = 3, .n_q = views[n].n_q, .n_kv = views[n].n_kv},
            .window_left = views[n].left,
            .window_right = views[n].right};
        const double keys = 12.0 * (double)count_passing(&problem, &params, &plan.streams[0], false);
        const double rows = 12.0 * (double)views[n].n_q, kv_rows = 6.0 * (double)views[n].n_kv;
        struct clattn_traffic traffic = traffic_of(&problem, &plan, &params);
        assert_float_equal(traffic.keys, keys * 2 * 64, 0.5);
        assert_float_equal(traffic.flash, traffic.keys + rows * (2 * 64 + 4), 0.5); /* Q, O and LSE */
        assert_float_equal(traffic.least, kv_rows * 2 * 64 + rows * (2 * 64 + 4), 0.5);

        problem.pass = CLATTN_BACKWARD;
        const double passed = 12.0 * (double)count_passing(&problem, &params, &plan.streams[1], true);
        traffic = traffic_of(&problem, &plan, &params);
        assert_float_equal(traffic.keys, keys * 2 * 64 + kv_rows * 2 * 64, 0.5);
        const double delta = rows * (2 * 2 * 40 + 8 + 16), dq = rows * (2 * 64 + 16 + 2 * 24);
        assert_float_equal(traffic.flash, traffic.keys + delta + dq + passed * (2 * 2 * 64 + 16) + kv_rows * 2 * 64,
                           0.5);
    }
}

static void the_papers_formulas_hold(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64};
    const struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 960, .n_kv = 960}};
    const struct clattn_traffic traffic = traffic_of(&problem, &plan, &params);
    assert_float_equal(traffic.standard, 4.0 * (4 * 960 * 960 + 4 * 960 * 64), 0.5); /* S, P twice each; Q, K, V, O */
    assert_float_equal(traffic.paper, 4.0 * 960 * 960 * 64 * 64 / 8192, 0.5);
    assert_float_equal(traffic.keys, 4.0 * (960 / 48) * 960 * 128, 0.5);
    struct clattn_plan_info larger = plan;
    larger.m_elements *= 2;
    assert_float_equal(traffic_of(&problem, &larger, &params).paper, traffic.paper / 2.0, 0.5);
    const struct clattn_problem half = {.d = 64, .dtype = CLATTN_BF16, .pass = CLATTN_BACKWARD};
    assert_float_equal(traffic_of(&half, &plan, &params).standard, 4.0 * 7 * 960 * 960 + 8.0 * 960 * 64 * (2 + 8), 0.5);
}

static void what_does_not_stay_is_read_again(void **state)
{
    (void)state;
    struct clattn_plan_info info = plan;
    const struct clattn_problem problem = {.d = 64}, backward = {.d = 64, .pass = CLATTN_BACKWARD};
    const struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 960, .n_kv = 960}};
    const double before = traffic_of(&problem, &info, &params).flash;
    const double before_backward = traffic_of(&backward, &info, &params).flash;
    info.streams[0].resident = info.streams[1].resident = 0;
    assert_float_equal(traffic_of(&problem, &info, &params).flash - before, 4.0 * 64 * 960 * (960 / 32 - 1), 0.5);
    assert_float_equal(traffic_of(&backward, &info, &params).flash - before_backward,
                       4.0 * 128 * 960 * (960 / 32 - 1) + 4.0 * 128 * 960 * (960 / 16 - 1), 0.5);
}

/* O, m and l, or dQ, are fp32 sums then, read and written. */
static void keys_in_pieces_move_their_sums(void **state)
{
    (void)state;
    const struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 960, .n_kv = 960}};
    struct clattn_problem whole = {.d = 64, .dtype = CLATTN_FP16}, pieces = whole;
    pieces.pass = CLATTN_ACCUMULATE;
    struct clattn_traffic a = traffic_of(&whole, &plan, &params), b = traffic_of(&pieces, &plan, &params);
    assert_float_equal(b.flash - a.flash, 960 * (2.0 * 4 * (64 + 2) - (2 * 64 + 4)), 0.5);
    assert_float_equal(b.least - a.least, b.flash - a.flash, 0.5);
    whole.pass = CLATTN_BACKWARD;
    pieces.pass = CLATTN_BACKWARD_ACCUMULATE;
    a = traffic_of(&whole, &plan, &params);
    b = traffic_of(&pieces, &plan, &params);
    assert_float_equal(b.flash - a.flash, 960 * 64 * (2.0 * 4 - 2), 0.5);
    assert_float_equal(b.least - a.least, b.flash - a.flash, 0.5);
    assert_float_equal(b.standard, a.standard, 0.0);
}

/* dQ is added to by each block of keys, and read at last; K and V are read once. */
static void sums_of_dq_move_with_each_block_of_keys(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64, .dtype = CLATTN_FP16, .pass = CLATTN_BACKWARD};
    const struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 960, .n_kv = 960}};
    struct clattn_plan_info info = plan;
    info.sums = 1;
    const struct clattn_traffic traffic = traffic_of(&problem, &info, &params);
    const double elements = 960 * 64, blocks = 960 / 40, kept = elements * 2 * 2;
    const double delta = 2 * elements * 2 + 960 * (8 + 16),
                 passed = blocks * (2 * 2 * elements * 2 + 960 * 16); /* twice each */
    assert_float_equal(traffic.keys, kept, 0.5);
    assert_float_equal(traffic.flash, delta + blocks * elements * 2 * 4 + elements * 2 + passed + 2 * kept, 0.5);
}

static void a_block_mask_saves_its_share(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 96, .block_kv = 32};
    struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 1, .n_q = 960, .n_kv = 960}};
    const double all = traffic_of(&problem, &plan, &params).keys;
    params.block_share = 0.25;
    assert_float_equal(traffic_of(&problem, &plan, &params).keys, all / 4.0, 0.5);
    const struct clattn_problem fine = {.d = 64, .features = CLATTN_BLOCK_MASK, .block_q = 96, .block_kv = 16};
    assert_float_equal(traffic_of(&fine, &plan, &params).keys, all * (1.0 - 0.75 * 0.75), 0.5);
}

static void long_sequences_are_quick_and_finite(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT}, full = {.d = 64};
    const struct clattn_traffic_params params = {
        .shape = {.batch = 1, .heads = 1, .n_q = 2000000000, .n_kv = 2000000000}};
    const double half = traffic_of(&problem, &plan, &params).keys, whole = traffic_of(&full, &plan, &params).keys;
    assert_float_equal(half / whole, 0.5, 1e-3);
    const struct clattn_traffic_params none = {.shape = {.batch = 1, .heads = 1, .n_q = 0, .n_kv = 0}};
    assert_float_equal(traffic_of(&problem, &plan, &none).flash, 0.0, 0.0);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64}, wrong = {.d = 513};
    struct clattn_traffic_params params = {.shape = {.batch = 1, .heads = 4, .kv_heads = 3, .n_q = 8, .n_kv = 8}};
    struct clattn_traffic traffic = {.flash = -1.0};
    const struct clattn_plan_info empty = {.b_r = 1};
    assert_int_equal(clattn_plan_traffic(NULL, &plan, &params, &traffic), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_plan_traffic(&problem, NULL, &params, &traffic), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "info is NULL"));
    assert_int_equal(clattn_plan_traffic(&problem, &plan, NULL, &traffic), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_plan_traffic(&problem, &plan, &params, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_plan_traffic(&wrong, &plan, &params, &traffic), CLATTN_INVALID_SHAPE);
    assert_int_equal(clattn_plan_traffic(&problem, &plan, &params, &traffic), CLATTN_INVALID_SHAPE);
    assert_non_null(strstr(clattn_error_message(), "kv_heads"));
    params.shape.kv_heads = 2;
    assert_int_equal(clattn_plan_traffic(&problem, &empty, &params, &traffic), CLATTN_INVALID_ARGUMENT);
    params.block_share = NAN;
    assert_int_equal(clattn_plan_traffic(&problem, &plan, &params, &traffic), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "block_share"));
    assert_true(traffic.flash == -1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_those_with_pairs),
        cmocka_unit_test(the_papers_formulas_hold),
        cmocka_unit_test(what_does_not_stay_is_read_again),
        cmocka_unit_test(a_block_mask_saves_its_share),
        cmocka_unit_test(keys_in_pieces_move_their_sums),
        cmocka_unit_test(sums_of_dq_move_with_each_block_of_keys),
        cmocka_unit_test(long_sequences_are_quick_and_finite),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
