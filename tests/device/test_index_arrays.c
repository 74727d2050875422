/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whatever cu_seqlens, lengths, row_shifts, block_offsets and block_columns hold, nothing outside the tensors is
 * touched: each buffer begins or ends at a page that must not be read or written, in every skeleton and pass. And a
 * call without query heads, whose alibi and sinks have no elements, gives gradients of 0. */
#include "random.h"
#include "support/device.h"
#include "support/fence.h"
#include "support/turn.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    D = 20,
    D_V = 12,
    BATCH = 5,
    N_Q = 33,
    N_KV = 37,
    BLOCK = 16,
    HEADS = 4,
    KV_HEADS = 2,
    POOL = 9 /* pages, at most */
};

static struct test_device device;
static struct random chance;

/* From a multiple of `align` on: a device aligns its own buffers, and kernels take vectors of floats from a
 * workspace. */
static cl_mem make_aligned(size_t bytes, size_t align, int fill, char **memory)
{
    return fence_make(&device, &chance, bytes, align, fill, memory);
}

static cl_mem make(size_t bytes, int fill, char **memory)
{
    return make_aligned(bytes, 4, fill, memory);
}

/* Small values, which are numbers in every type. */
static struct clattn_tensor tensor(int64_t elements, int element_bytes)
{
    return (struct clattn_tensor){.buffer = make((size_t)elements * (size_t)element_bytes, 0x2c, NULL)};
}

static int32_t hostile(int64_t usual)
{
    switch (random_below(&chance, 6)) {
    case 0:
        return (int32_t)(INT32_MAX - (int32_t)random_below(&chance, 3));
    case 1:
        return INT32_MIN + (int32_t)random_below(&chance, 3);
    case 2:
        return -1 - (int32_t)random_below(&chance, 40);
    default:
        return (int32_t)random_below(&chance, usual + 2);
    }
}

/* At times one sequence that has all rows or keys, which are more than the shape's. */
static struct clattn_tensor list(int64_t count, int64_t total)
{
    char *memory = NULL;
    const struct clattn_tensor made = {.buffer = make((size_t)count * 4, 0, &memory)};
    const bool one = random_below(&chance, 3) == 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t value = one ? (i + 1 == count ? (int32_t)total : 0) : hostile(total);
        memcpy(memory + 4 * i, &value, 4);
    }
    return made;
}

static int64_t blocks_of(int64_t length, int64_t block)
{
    return (length + block - 1) / block;
}

static int64_t blocks(int64_t length)
{
    return blocks_of(length, BLOCK);
}

/* Packed sequences, and pages. */
static void place_sequences(const struct clattn_problem *problem, const struct clattn_shape *shape,
                            struct clattn_score_args *score)
{
    if (problem->features & CLATTN_VARLEN) {
        score->total_q = random_below(&chance, (shape->batch * shape->n_q) + 1);
        score->cu_seqlens_q = list(shape->batch + 1, score->total_q);
    }
    if (problem->features & CLATTN_PAGES) {
        const int64_t each = blocks_of(shape->n_kv, problem->page_keys);
        score->pool_pages = random_below(&chance, POOL + 1);
        score->page_count = random_below(&chance, 2) ? 1 + random_below(&chance, 30) : 0;
        score->pages = list(score->page_count ? score->page_count : shape->batch * each, score->pool_pages);
        if (score->page_count)
            score->page_offsets = list(shape->batch + 1, score->page_count);
    } else if (problem->features & CLATTN_VARLEN) {
        score->total_kv = random_below(&chance, (shape->batch * shape->n_kv) + 1);
        score->cu_seqlens_kv = list(shape->batch + 1, score->total_kv);
    }
}

/* A mask of blocks, as bytes or compressed. */
static void place_blocks(const struct clattn_shape *shape, struct clattn_score_args *score)
{
    const int64_t heads = shape->batch * shape->heads;
    if (random_below(&chance, 2)) {
        score->block_mask = tensor(heads * blocks(shape->n_q) * blocks(shape->n_kv), 1);
    } else {
        score->block_count = 1 + random_below(&chance, 60);
        score->block_offsets = list(heads * (blocks(shape->n_q) + 1), score->block_count);
        score->block_columns = list(score->block_count, blocks(shape->n_kv)).buffer;
    }
}

static struct clattn_score_args score_of(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    const int64_t heads = shape->batch * shape->heads, pairs = heads * shape->n_q * shape->n_kv;
    const unsigned features = problem->features;
    struct clattn_score_args score = {0};
    score.window_left = features & CLATTN_WINDOW ? random_below(&chance, 30) : 0;
    score.window_right = features & CLATTN_WINDOW ? random_below(&chance, 30) : 0;
    if (features & CLATTN_ALIBI)
        score.alibi = tensor(heads, 4);
    if (features & CLATTN_BIAS)
        score.bias = tensor(pairs, clattn_dtype_size(problem->dtype));
    if (features & CLATTN_MASK)
        score.mask = tensor(pairs, 1);
    if (features & CLATTN_SINKS)
        score.sinks = tensor(shape->heads, 4);
    if (features & CLATTN_KEY_LENGTHS)
        score.key_lengths = list(shape->batch, shape->n_kv);
    if (features & CLATTN_ROW_SHIFTS)
        score.row_shifts = list(shape->batch, shape->n_kv).buffer;
    if (features & CLATTN_QUERY_LENGTHS)
        score.query_lengths = list(shape->batch, shape->n_q).buffer;
    if (features & CLATTN_TREE_MASK) {
        score.tree_keys = 1 + random_below(&chance, 80);
        score.tree_mask = tensor(heads * shape->n_q * blocks_of(score.tree_keys, 32), 4);
    }
    place_sequences(problem, shape, &score);
    if (features & CLATTN_BLOCK_MASK)
        place_blocks(shape, &score);
    return score;
}

/* The sizes of packed tensors, or of those that are not. */
struct sizes {
    int64_t rows, keys, all_keys; /* keys: of all heads, which in pages are all that these have */
    int element;
};

static struct sizes sizes_of(const struct clattn_problem *problem, const struct clattn_shape *shape,
                             const struct clattn_score_args *score)
{
    const bool packed = problem->features & CLATTN_VARLEN, pages = problem->features & CLATTN_PAGES;
    const int64_t keys = packed && !pages ? score->total_kv : shape->n_kv, batch = packed ? 1 : shape->batch;
    return (struct sizes){.rows = (packed ? score->total_q : shape->n_q) * shape->heads * batch,
                          .keys = pages ? score->pool_pages * problem->page_keys * shape->kv_heads
                                        : keys * shape->kv_heads * batch,
                          .all_keys = keys,
                          .element = clattn_dtype_size(problem->dtype)};
}

static void workspace_of(const clattn_plan *plan, const struct clattn_shape *shape, cl_mem *workspace, size_t *bytes)
{
    assert_int_equal(clattn_plan_workspace_bytes(plan, shape, bytes), CLATTN_SUCCESS);
    *workspace = make_aligned(*bytes, 4 * sizeof(float), 0x7f, NULL);
}

static clattn_status forward(const clattn_plan *plan, const struct clattn_problem *problem, struct clattn_shape shape)
{
    struct clattn_forward_args args = {.shape = shape, .score = score_of(problem, &shape)};
    const struct sizes s = sizes_of(problem, &shape, &args.score);
    workspace_of(plan, &shape, &args.workspace, &args.workspace_bytes);
    args.q = tensor(s.rows * D, s.element);
    args.k = tensor(s.keys * D, s.element);
    args.v = tensor(s.keys * D_V, s.element);
    args.o = tensor(s.rows * D_V, s.element);
    args.lse = tensor(s.rows, 4);
    args.m = tensor(s.rows, 4);
    fence_to_device(&device);
    return clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL);
}

static clattn_status accumulate(const clattn_plan *plan, const struct clattn_problem *problem,
                                struct clattn_shape shape)
{
    struct clattn_accumulate_args args = {.shape = shape, .score = score_of(problem, &shape)};
    const struct sizes s = sizes_of(problem, &shape, &args.score);
    const int64_t heads = s.keys && s.all_keys ? s.keys / s.all_keys : 0;
    size_t bytes = 0;
    assert_int_equal(clattn_state_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    workspace_of(plan, &shape, &args.workspace, &args.workspace_bytes);
    args.state = make(bytes, 0x7f, NULL);
    args.first_key = random_below(&chance, s.all_keys + 1);
    args.key_count = random_below(&chance, (s.all_keys - args.first_key) + 1);
    const int64_t keys = problem->features & CLATTN_PAGES ? s.keys : args.key_count * heads;
    args.q = tensor(s.rows * D, s.element);
    args.k = tensor(keys * D, s.element);
    args.v = tensor(keys * D_V, s.element);
    fence_to_device(&device);
    clattn_status status = clattn_state_begin_enqueue(plan, device.queue, &shape, args.state, 0, NULL, NULL);
    if (!status)
        status = clattn_state_accumulate_enqueue(plan, device.queue, &args, 0, NULL, NULL);
    const struct clattn_finish_args finish = {.shape = shape,
                                              .state = args.state,
                                              .o = tensor(s.rows * D_V, s.element),
                                              .lse = tensor(s.rows, 4),
                                              .score = args.score};
    return status ? status : clattn_state_finish_enqueue(plan, device.queue, &finish, 0, NULL, NULL);
}

static clattn_status backward(const clattn_plan *plan, const struct clattn_problem *problem, struct clattn_shape shape)
{
    const bool in_chunks = problem->pass == CLATTN_BACKWARD_ACCUMULATE;
    struct clattn_backward_args args = {.shape = shape, .score = score_of(problem, &shape)};
    const struct sizes s = sizes_of(problem, &shape, &args.score);
    const int64_t heads = s.keys && s.all_keys ? s.keys / s.all_keys : 0;
    workspace_of(plan, &shape, &args.workspace, &args.workspace_bytes);
    args.first_key = in_chunks ? random_below(&chance, s.all_keys + 1) : 0;
    args.key_count = in_chunks ? random_below(&chance, (s.all_keys - args.first_key) + 1) : 0;
    const int64_t keys = in_chunks ? args.key_count * heads : s.keys;
    const int summed = in_chunks ? 4 : s.element;
    args.q = tensor(s.rows * D, s.element);
    args.k = tensor(keys * D, s.element);
    args.v = tensor(keys * D_V, s.element);
    args.o = tensor(s.rows * D_V, s.element);
    args.d_o = tensor(s.rows * D_V, s.element);
    args.lse = tensor(s.rows, 4);
    args.d_q = tensor(s.rows * D, summed);
    args.d_k = tensor(keys * D, s.element);
    args.d_v = tensor(keys * D_V, s.element);
    if (problem->features & CLATTN_BIAS)
        args.d_bias = tensor(shape.batch * shape.heads * shape.n_q * shape.n_kv, summed);
    if (problem->features & CLATTN_SINKS)
        args.d_sinks = tensor(shape.heads, 4);
    fence_to_device(&device);
    return clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL);
}

static clattn_status call(const clattn_plan *plan, const struct clattn_problem *problem, struct clattn_shape shape)
{
    return problem->pass == CLATTN_FORWARD      ? forward(plan, problem, shape)
           : problem->pass == CLATTN_ACCUMULATE ? accumulate(plan, problem, shape)
                                                : backward(plan, problem, shape);
}

enum { CALLS = 24 };

static void calls_stay_inside(const struct clattn_problem *problem)
{
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, problem), "clattn_plan_create"));
    for (int i = 0; i < CALLS; i++) {
        const struct clattn_shape shape = {.batch = 1 + random_below(&chance, BATCH),
                                           .heads = HEADS,
                                           .kv_heads = KV_HEADS,
                                           .n_q = 1 + random_below(&chance, N_Q),
                                           .n_kv = 1 + random_below(&chance, N_KV)};
        assert_true(test_succeeded(call(plan, problem, shape), "the call"));
        assert_int_equal(clFinish(device.queue), CL_SUCCESS);
        fence_drop_all();
    }
    clattn_plan_destroy(&plan);
}

/* An emulation, which takes seconds to compile, meets the pages going forward, and else one of the other sets in each
 * pass. */
static bool is_left_out(const struct cla_skeleton *skeleton, int pass, size_t set)
{
    static const char *const scenes[] = {"keys and rows", "keys", "pages"};
    const bool pages = set == 2;
    if (!skeleton->emulated && !test_is_turn_of(skeleton, scenes[set]))
        return true;
    return skeleton->emulated && !test_is_full() && (pages ? pass != CLATTN_FORWARD : (int)set != pass / 2 % 2);
}

/* With all that is looked up by a row and a key, and with bias alone, so that tiles without hidden pairs are met. */
static void index_arrays_lead_nowhere(void **state)
{
    (void)state;
    static const unsigned of_keys = CLATTN_VARLEN | CLATTN_KEY_LENGTHS;
    static const unsigned of_rows = CLATTN_ROW_SHIFTS | CLATTN_QUERY_LENGTHS;
    static const unsigned sets[] = {of_keys | of_rows | CLATTN_TREE_MASK | CLATTN_BIAS | CLATTN_ALIBI | CLATTN_SINKS,
                                    of_keys | CLATTN_BIAS | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_WINDOW,
                                    of_keys | of_rows | CLATTN_PAGES};
    for (int pass = CLATTN_FORWARD; pass <= CLATTN_BACKWARD_ACCUMULATE; pass++) {
        const bool back = pass % 2;
        const struct cla_skeleton *const *skeleton = back ? test_backward_skeletons() : test_skeletons();
        for (; test_asks_for(back) && *skeleton; skeleton++)
            EACH (i, sets) {
                struct clattn_problem problem = {
                    .pass = (enum clattn_pass)pass, .d = D, .d_v = D_V, .features = sets[i]};
                problem.skeleton = (*skeleton)->name;
                problem.causal = (enum clattn_causal)(i % 3);
                problem.unordered = cla_skeleton_describe(*skeleton).any_order;
                problem.block_q = problem.block_kv = sets[i] & CLATTN_BLOCK_MASK ? BLOCK : 0;
                problem.page_keys = sets[i] & CLATTN_PAGES ? 6 : 0;
                if ((back && problem.page_keys) || is_left_out(*skeleton, pass, i))
                    continue;
                if (!test_serves(&device, &problem))
                    problem.dtype = CLATTN_FP16;
                if (test_serves(&device, &problem))
                    calls_stay_inside(&problem);
            }
    }
}

/* heads = 0: nothing of Q is there, and K may be (kv_heads = 2), whose gradients are then 0; or there is nothing at
 * all. */
static void nothing_of_q_gives_zeros(const clattn_plan *plan, const struct clattn_problem *problem,
                                     const struct clattn_shape *shape)
{
    const int64_t keys = shape->batch * shape->kv_heads * shape->n_kv;
    const int element = clattn_dtype_size(problem->dtype);
    const size_t bytes = (size_t)(keys * D * element);
    struct clattn_backward_args args = {.shape = *shape};
    char *memory = NULL;
    workspace_of(plan, shape, &args.workspace, &args.workspace_bytes);
    args.k = tensor(keys * D, element);
    args.v = tensor(keys * D_V, element);
    args.d_v = tensor(keys * D_V, element);
    args.score.sinks = tensor(shape->heads, 4);
    args.d_k.buffer = make(bytes, 0x7f, &memory);
    fence_to_device(&device);
    assert_true(test_succeeded(clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "the backward pass"));
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    char *const left = malloc(bytes ? bytes : 1);
    assert_non_null(left);
    if (bytes) /* a device may keep its own copy of the host's memory */
        assert_int_equal(clEnqueueReadBuffer(device.queue, args.d_k.buffer, CL_TRUE, 0, bytes, left, 0, NULL, NULL),
                         CL_SUCCESS);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(left[i], 0);
    free(left);
    fence_drop_all();
}

static void no_heads_give_gradients_of_zero(void **state)
{
    (void)state;
    static const struct clattn_shape shapes[] = {{.batch = 2, .n_q = N_Q, .n_kv = N_KV},
                                                 {.batch = 2, .kv_heads = 2, .n_q = N_Q, .n_kv = N_KV},
                                                 {.heads = 2, .kv_heads = 1, .n_q = N_Q, .n_kv = N_KV},
                                                 {.batch = 1, .kv_heads = 3}};
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct clattn_problem problem = {.pass = CLATTN_BACKWARD, .d = D, .d_v = D_V, .skeleton = (*skeleton)->name};
        clattn_plan *plan = NULL;
        problem.features = CLATTN_BIAS | CLATTN_ALIBI | CLATTN_SINKS;
        problem.unordered = cla_skeleton_describe(*skeleton).any_order;
        if (!test_serves(&device, &problem))
            problem.dtype = CLATTN_FP16;
        if (!test_asks_for(true) || !test_serves(&device, &problem))
            continue;
        assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"));
        EACH (i, shapes)
            nothing_of_q_gives_zeros(plan, &problem, &shapes[i]);
        clattn_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_arrays_lead_nowhere),
        cmocka_unit_test(no_heads_give_gradients_of_zero),
    };
    chance.state = 37;
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
