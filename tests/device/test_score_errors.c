/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every documented error of the score modifications: the status, the argument's name and value in the message, and
 * outputs as they were. */
#include "api_fixture.h"
#include <math.h>

enum { ALL_FEATURES = 2 * CLATTN_DROPOUT - 1 };

static cl_mem odds; /* what the modifications read: zeros */
static clattn_plan *full_plan, *packed_plan;

static const struct clattn_shape two = {2, 2, 1, N_Q, N_KV}; /* with both broadcasting to look at */

static struct clattn_problem full_problem(unsigned features)
{
    return (struct clattn_problem){.d = D,
                                   .features = features,
                                   .block_q = features & CLATTN_BLOCK_MASK ? 16 : 0,
                                   .block_kv = features & CLATTN_BLOCK_MASK ? 16 : 0,
                                   .mask_mod = "bool mask_mod(int b, int h, int i, int j, __global const float *data)\n"
                                               "{ return true; }"};
}

/* All that does not change the sizes of the tensors. */
static struct clattn_forward_args full_args(void)
{
    struct clattn_forward_args args = good_args();
    args.shape = two;
    args.score = (struct clattn_score_args){.window_left = CLATTN_UNLIMITED,
                                            .window_right = 3,
                                            .softcap = 20,
                                            .alibi = {odds, {0}},
                                            .bias = {odds, {0}},
                                            .bias_slopes = odds,
                                            .mask = {odds, {0}},
                                            .block_mask = {odds, {0}},
                                            .key_lengths = {odds, {0}},
                                            .sinks = {odds, {0}},
                                            .dropout_p = 0.5f,
                                            .data = odds};
    return args;
}

struct mistake {
    void (*make)(struct clattn_forward_args *args);
    clattn_status status;
    const char *part;
};

#define MISTAKE(name, change)                                                                                          \
    static void name(struct clattn_forward_args *args)                                                                 \
    {                                                                                                                  \
        struct clattn_score_args *score = &args->score;                                                                \
        (void)score;                                                                                                   \
        change;                                                                                                        \
    }
MISTAKE(bad_left, score->window_left = -2)
MISTAKE(bad_right, score->window_right = INT64_MIN)
MISTAKE(no_softcap, score->softcap = 0)
MISTAKE(negative_softcap, score->softcap = -3)
MISTAKE(infinite_softcap, score->softcap = INFINITY)
MISTAKE(nan_softcap, score->softcap = NAN)
MISTAKE(all_dropped, score->dropout_p = 1)
MISTAKE(negative_p, score->dropout_p = -0.5f)
MISTAKE(nan_p, score->dropout_p = NAN)
MISTAKE(vanishing_p, score->dropout_p = 0.0001f)
MISTAKE(shift_offset_alone, score->row_shifts_offset = 3)
MISTAKE(tree_keys_alone, score->tree_keys = 4)
MISTAKE(no_alibi, score->alibi.buffer = NULL)
MISTAKE(no_bias, score->bias.buffer = NULL)
MISTAKE(no_bias_slopes, score->bias_slopes = NULL)
MISTAKE(far_bias_slopes, score->bias_slopes_offset = FLOATS - 1)
MISTAKE(no_mask, score->mask.buffer = NULL)
MISTAKE(no_block_mask, score->block_mask.buffer = NULL)
MISTAKE(no_key_lengths, score->key_lengths.buffer = NULL)
MISTAKE(no_sinks, score->sinks.buffer = NULL)
MISTAKE(negative_mask_row, score->mask.layout = ((struct clattn_layout){.row = -10, .column = 1}))
MISTAKE(spread_lengths, score->key_lengths.layout.batch = 2)
MISTAKE(far_lengths, score->key_lengths.layout.offset = FLOATS)
MISTAKE(far_alibi, score->alibi.layout = ((struct clattn_layout){.offset = FLOATS - 3, .batch = 2, .head = 1}))
MISTAKE(far_bias, score->bias.layout = ((struct clattn_layout){.batch = FLOATS, .row = N_KV, .column = 1}))
MISTAKE(far_mask, score->mask.layout.offset = 4 * FLOATS - 2 * 2 * N_Q * N_KV + 1)
MISTAKE(far_sinks, score->sinks.layout.offset = FLOATS - 1)
MISTAKE(o_is_bias, score->bias.buffer = args->o.buffer)
MISTAKE(o_is_data, score->data = args->o.buffer)
MISTAKE(lse_is_mask, (score->mask.buffer = args->lse.buffer,
                      score->mask.layout = (struct clattn_layout){.offset = 8, .row = 10, .column = 1}))
MISTAKE(both_block_masks, score->block_offsets.buffer = odds)
MISTAKE(columns_alone, score->block_columns = odds)
MISTAKE(count_alone, score->block_count = 3)
MISTAKE(total_without, score->total_q = 3)
MISTAKE(cu_without, score->cu_seqlens_q.buffer = odds)

static void csr(struct clattn_forward_args *args)
{
    args->score.block_mask.buffer = NULL;
    args->score.block_offsets.buffer = odds;
    args->score.block_columns = odds;
    args->score.block_count = 5;
}
MISTAKE(csr_count, (csr(args), score->block_count = -1))
MISTAKE(csr_columns, (csr(args), score->block_columns = NULL))
MISTAKE(csr_row,
        (csr(args), score->block_offsets.layout = (struct clattn_layout){.batch = 4, .head = 2, .row = 2, .column = 1}))
MISTAKE(csr_far, (csr(args), score->block_count = FLOATS + 1))
MISTAKE(csr_no_workspace, (csr(args), args->workspace = NULL))
MISTAKE(csr_workspace, (csr(args), args->workspace_bytes = 3))
MISTAKE(csr_in_o, (csr(args), args->workspace = args->o.buffer))

static const struct mistake mistakes[] = {
    {bad_left, CLATTN_INVALID_ARGUMENT, "score.window_left is -2"},
    {bad_right, CLATTN_INVALID_ARGUMENT, "score.window_right is -9223372036854775808"},
    {no_softcap, CLATTN_INVALID_ARGUMENT, "score.softcap is 0"},
    {negative_softcap, CLATTN_INVALID_ARGUMENT, "score.softcap is -3"},
    {infinite_softcap, CLATTN_INVALID_ARGUMENT, "score.softcap is inf"},
    {nan_softcap, CLATTN_INVALID_ARGUMENT, "score.softcap is"},
    {all_dropped, CLATTN_INVALID_ARGUMENT, "score.dropout_p is 1"},
    {negative_p, CLATTN_INVALID_ARGUMENT, "score.dropout_p is -0.5"},
    {nan_p, CLATTN_INVALID_ARGUMENT, "score.dropout_p is"},
    {vanishing_p, CLATTN_INVALID_ARGUMENT, "score.dropout_p is 0.0001, and shares are rounded to multiples of 1/4096"},
    {no_alibi, CLATTN_INVALID_ARGUMENT, "score.alibi.buffer is NULL: it must be a cl_mem of at least 16 bytes"},
    {no_bias, CLATTN_INVALID_ARGUMENT, "score.bias.buffer is NULL: it must be a cl_mem of at least 960 bytes"},
    {no_bias_slopes, CLATTN_INVALID_ARGUMENT, "score.bias_slopes is NULL: it must be a cl_mem of at least 8 bytes"},
    {far_bias_slopes, CLATTN_BUFFER_TOO_SMALL, "score.bias_slopes has 4096 bytes"},
    {no_mask, CLATTN_INVALID_ARGUMENT, "score.mask.buffer is NULL: it must be a cl_mem of at least 240 bytes"},
    {no_block_mask, CLATTN_INVALID_ARGUMENT, "score.block_mask.buffer is NULL"},
    {no_key_lengths, CLATTN_INVALID_ARGUMENT, "score.key_lengths.buffer is NULL"},
    {no_sinks, CLATTN_INVALID_ARGUMENT, "score.sinks.buffer is NULL"},
    {negative_mask_row, CLATTN_INVALID_LAYOUT, "score.mask.layout.row is -10"},
    {spread_lengths, CLATTN_INVALID_LAYOUT, "score.key_lengths.layout.batch is 2"},
    {far_lengths, CLATTN_BUFFER_TOO_SMALL, "score.key_lengths.buffer has 4096 bytes"},
    {far_alibi, CLATTN_BUFFER_TOO_SMALL, "score.alibi.buffer has 4096 bytes"},
    {far_bias, CLATTN_BUFFER_TOO_SMALL, "score.bias.buffer has 4096 bytes"},
    {far_mask, CLATTN_BUFFER_TOO_SMALL, "score.mask.buffer has 4096 bytes"},
    {far_sinks, CLATTN_BUFFER_TOO_SMALL, "score.sinks.buffer has 4096 bytes"},
    {o_is_bias, CLATTN_INVALID_ARGUMENT, "o (bytes 0 to 1535 of its buffer) overlaps score.bias"},
    {o_is_data, CLATTN_INVALID_ARGUMENT, "o (bytes 0 to 1535 of its buffer) overlaps score.data"},
    {lse_is_mask, CLATTN_INVALID_ARGUMENT, "lse (bytes 0 to 95 of its buffer) overlaps score.mask"},
    {both_block_masks, CLATTN_INVALID_ARGUMENT, "score.block_mask and score.block_offsets are both given"},
    {columns_alone, CLATTN_INVALID_ARGUMENT, "score.block_offsets.buffer is NULL"},
    {count_alone, CLATTN_INVALID_ARGUMENT, "score.block_offsets.buffer is NULL"},
    {total_without, CLATTN_INVALID_ARGUMENT, "score.total_q is 3, and the problem has no CLATTN_VARLEN"},
    {cu_without, CLATTN_INVALID_ARGUMENT, "score.cu_seqlens_q is given, and the problem has no CLATTN_VARLEN"},
    {csr_count, CLATTN_INVALID_ARGUMENT, "score.block_count is -1"},
    {csr_columns, CLATTN_INVALID_ARGUMENT, "score.block_columns is NULL: it must be a cl_mem of at least 20 bytes"},
    {csr_row, CLATTN_INVALID_LAYOUT, "score.block_offsets.layout.row is 2"},
    {csr_far, CLATTN_BUFFER_TOO_SMALL, "score.block_columns has 4096 bytes: this call needs 4100"},
    {csr_no_workspace, CLATTN_WORKSPACE_TOO_SMALL, "workspace is NULL: it must be a cl_mem of 4 bytes"},
    {csr_workspace, CLATTN_WORKSPACE_TOO_SMALL, "workspace_bytes is 3: this shape needs 4"},
    {csr_in_o, CLATTN_INVALID_ARGUMENT, "overlaps o"},
};

static void refuse(const clattn_plan *of, const struct clattn_forward_args *args, clattn_status status,
                   const char *part)
{
    cl_event untouched = (cl_event)(void *)buffers, event = untouched;
    assert_failed(clattn_forward_enqueue(of, device.queue, args, 0, NULL, &event), status, part);
    assert_ptr_equal(event, untouched);
}

static void assert_success(clattn_status status)
{
    if (status)
        fail_msg("%s: %s", clattn_status_name(status), clattn_error_message());
}

static void score_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct clattn_forward_args args = full_args();
        mistakes[i].make(&args);
        refuse(full_plan, &args, mistakes[i].status, mistakes[i].part);
    }
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    /* What they were made from is right, with bytes and with compressed rows. */
    struct clattn_forward_args args = full_args();
    assert_success(clattn_forward_enqueue(full_plan, device.queue, &args, 0, NULL, NULL));
    csr(&args);
    args.workspace_bytes = 4;
    assert_success(clattn_forward_enqueue(full_plan, device.queue, &args, 0, NULL, NULL));
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

/* A plan without features wants every field to be zero. */
static void values_without_a_feature(void **state)
{
    (void)state;
    static const struct mistake without[] = {
        {bad_left, CLATTN_INVALID_ARGUMENT, "score.window_left is -2, and the problem has no CLATTN_WINDOW"},
        {negative_softcap, CLATTN_INVALID_ARGUMENT, "score.softcap is -3, and the problem has no CLATTN_SOFTCAP"},
        {nan_softcap, CLATTN_INVALID_ARGUMENT, "and the problem has no CLATTN_SOFTCAP"},
        {all_dropped, CLATTN_INVALID_ARGUMENT, "score.dropout_p is 1, and the problem has no CLATTN_DROPOUT"},
        {negative_mask_row, CLATTN_INVALID_ARGUMENT, "score.mask is given, and the problem has no CLATTN_MASK"},
        {spread_lengths, CLATTN_INVALID_ARGUMENT, "score.key_lengths is given"},
        {far_alibi, CLATTN_INVALID_ARGUMENT, "score.alibi is given, and the problem has no CLATTN_ALIBI"},
        {far_bias_slopes, CLATTN_INVALID_ARGUMENT, "score.bias_slopes is given, and the problem has no CLATTN_BIAS_SL"},
        {o_is_bias, CLATTN_INVALID_ARGUMENT, "score.bias is given, and the problem has no CLATTN_BIAS"},
        {far_sinks, CLATTN_INVALID_ARGUMENT, "score.sinks is given, and the problem has no CLATTN_SINKS"},
        {o_is_data, CLATTN_INVALID_ARGUMENT, "score.data is given, and the problem has no score_mod or mask_mod"},
        {both_block_masks, CLATTN_INVALID_ARGUMENT, "score.block_offsets is given"},
        {columns_alone, CLATTN_INVALID_ARGUMENT, "score.block_columns is given"},
        {count_alone, CLATTN_INVALID_ARGUMENT, "score.block_count is 3, and the problem has no CLATTN_BLOCK_MASK"},
        {shift_offset_alone, CLATTN_INVALID_ARGUMENT, "score.row_shifts is given, and the problem has no CLATTN_ROW"},
        {tree_keys_alone, CLATTN_INVALID_ARGUMENT, "score.tree_keys is 4, and the problem has no CLATTN_TREE_MASK"},
    };
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        struct clattn_forward_args args = good_args();
        without[i].make(&args);
        refuse(plan, &args, without[i].status, without[i].part);
    }
    assert_nothing_written();
}

static void window_reaches(void **state)
{
    (void)state;
    struct clattn_forward_args args = full_args();
    args.score.window_left = INT64_MAX; /* more than there are keys hides nothing */
    args.score.window_right = 0;
    assert_success(clattn_forward_enqueue(full_plan, device.queue, &args, 0, NULL, NULL));
    args.shape.n_kv = INT32_MAX - 4096;
    args.shape.batch = args.shape.heads = 1;
    args.score.window_left = 5;
    args.score.window_right = CLATTN_UNLIMITED;
    refuse(full_plan, &args, CLATTN_TOO_LARGE, "score.window_right comes to 2147479551 keys");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

static struct clattn_forward_args packed_args(void)
{
    struct clattn_forward_args args = good_args();
    args.shape = two;
    args.score = (struct clattn_score_args){
        .cu_seqlens_q = {odds, {0}}, .cu_seqlens_kv = {odds, {0}}, .total_q = 2 * N_Q, .total_kv = 2 * N_KV};
    return args;
}
MISTAKE(negative_total, score->total_q = -1)
MISTAKE(huge_total, score->total_kv = INT64_C(1) << 31)
MISTAKE(long_total, score->total_q = 2 * N_Q + 1)
MISTAKE(long_kv_total, score->total_kv = 2 * N_KV + 1)
MISTAKE(no_cu_q, score->cu_seqlens_q.buffer = NULL)
MISTAKE(no_cu_kv, score->cu_seqlens_kv.buffer = NULL)
MISTAKE(far_cu, score->cu_seqlens_q.layout.offset = FLOATS - 2)

static void packed_errors(void **state)
{
    (void)state;
    static const struct mistake packed[] = {
        {negative_total, CLATTN_INVALID_SHAPE, "score.total_q is -1"},
        {huge_total, CLATTN_TOO_LARGE, "score.total_kv is 2147483648"},
        {long_total, CLATTN_INVALID_SHAPE, "score.total_q is 13: 2 sequences (shape.batch) of at most 6 (shape.n_q)"},
        {long_kv_total, CLATTN_INVALID_SHAPE, "score.total_kv is 21"},
        {no_cu_q, CLATTN_INVALID_ARGUMENT, "score.cu_seqlens_q.buffer is NULL"},
        {no_cu_kv, CLATTN_INVALID_ARGUMENT, "score.cu_seqlens_kv.buffer is NULL"},
        {far_cu, CLATTN_BUFFER_TOO_SMALL, "score.cu_seqlens_q.buffer has 4096 bytes"},
    };
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        struct clattn_forward_args args = packed_args();
        packed[i].make(&args);
        refuse(packed_plan, &args, packed[i].status, packed[i].part);
    }
    assert_nothing_written();
    struct clattn_forward_args args = packed_args();
    args.q.layout = (struct clattn_layout){.batch = INT64_MAX, .head = N_Q * 2 * D, .row = D, .column = 1};
    assert_success(clattn_forward_enqueue(packed_plan, device.queue, &args, 0, NULL, NULL)); /* there is no batch */
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

/* The compiler's log counts the lines of the user's own text. */
static void texts_that_do_not_compile(void **state)
{
    (void)state;
    static const char *const good = "float score_mod(float s, int b, int h, int i, int j, __global const float *data)\n"
                                    "{ return s; }";
    static const char *const bad = "bool mask_mod(int b, int h, int i, int j, __global const float *data)\n"
                                   "{\n"
                                   "    return no_such_thing;\n"
                                   "}\n";
    clattn_plan *made = plan;
    struct clattn_problem wrong = {.d = D, .score_mod = good, .mask_mod = bad};
    assert_failed(clattn_plan_create(&made, device.clattn, &wrong), CLATTN_BUILD_FAILED, "mask_mod:3");
    wrong = (struct clattn_problem){.d = D, .score_mod = "float score_mod(float s)\n{ return nothing; }"};
    assert_failed(clattn_plan_create(&made, device.clattn, &wrong), CLATTN_BUILD_FAILED, "score_mod:2");
    wrong = (struct clattn_problem){.d = D, .score_mod_grad = good};
    assert_failed(clattn_plan_create(&made, device.clattn, &wrong), CLATTN_INVALID_ARGUMENT, "problem.score_mod_grad");
    wrong = (struct clattn_problem){.d = D, .pass = CLATTN_BACKWARD, .score_mod = good};
    assert_failed(clattn_plan_create(&made, device.clattn, &wrong), CLATTN_INVALID_ARGUMENT,
                  "problem.score_mod_grad is NULL");
    assert_ptr_equal(made, plan);
}

static void passes_are_told_apart(void **state)
{
    (void)state;
    const struct clattn_forward_args args = good_args();
    const struct clattn_backward_args backward = {.shape = shape};
    const struct clattn_problem accumulate = {.d = D, .pass = CLATTN_ACCUMULATE};
    clattn_plan *made = NULL;
    size_t bytes = 12345;
    assert_success(clattn_plan_create(&made, device.clattn, &accumulate));
    refuse(made, &args, CLATTN_INVALID_ARGUMENT, "plan was made for the pass CLATTN_ACCUMULATE");
    assert_failed(clattn_backward_enqueue(plan, device.queue, &backward, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "clattn_backward_enqueue needs one whose problem.pass is CLATTN_BACKWARD");
    assert_failed(clattn_state_bytes(plan, &shape, &bytes), CLATTN_INVALID_ARGUMENT, "CLATTN_FORWARD");
    assert_failed(clattn_state_bytes(NULL, &shape, &bytes), CLATTN_INVALID_ARGUMENT, "plan is NULL");
    assert_failed(clattn_state_bytes(made, NULL, &bytes), CLATTN_INVALID_ARGUMENT, "shape is NULL");
    assert_failed(clattn_state_bytes(made, &shape, NULL), CLATTN_INVALID_ARGUMENT, "bytes is NULL");
    assert_int_equal(bytes, 12345);
    assert_failed(clattn_standard_enqueue(device.clattn, &accumulate, device.queue, &args, 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "problem.pass is 2: standard attention");
    const struct clattn_problem windowed = {.d = D, .features = CLATTN_WINDOW};
    assert_failed(clattn_standard_enqueue(device.clattn, &windowed, device.queue, &args, 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "problem.features is 0x1: standard attention");
    clattn_plan_destroy(&made);
}

static void workspace_counts_blocks(void **state)
{
    (void)state;
    const struct clattn_shape many = {3, 4, 2, 33, 100};
    size_t bytes = 0;
    assert_success(clattn_plan_workspace_bytes(full_plan, &many, &bytes));
    assert_int_equal(bytes, 3 * 4 * 3 * 7);
    assert_success(clattn_plan_workspace_bytes(plan, &many, &bytes));
    assert_int_equal(bytes, 0);
}

static int make_plans(void **state)
{
    (void)state;
    static const float zeros[FLOATS];
    const struct clattn_problem full = full_problem((ALL_FEATURES & ~CLATTN_VARLEN) | CLATTN_BIAS_SLOPES);
    const struct clattn_problem packed = {.d = D, .features = CLATTN_VARLEN};
    set_up_context();
    odds = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros,
                          (void *)(uintptr_t)zeros, NULL);
    return !odds || clattn_plan_create(&full_plan, device.clattn, &full) ||
           clattn_plan_create(&packed_plan, device.clattn, &packed);
}

static int drop_plans(void **state)
{
    (void)state;
    clattn_plan_destroy(&full_plan);
    clattn_plan_destroy(&packed_plan);
    return clReleaseMemObject(odds);
}

/* As the fixture, but for the context, which the plans of all tests keep. */
static int set_up_buffers(void **state)
{
    (void)state;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_SUCCESS);
    make_buffers();
    return 0;
}

static int tear_down_buffers(void **state)
{
    (void)state;
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(buffers[i]);
    clattn_plan_destroy(&plan);
    return 0;
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up_buffers, tear_down_buffers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(score_errors),
        CASE(values_without_a_feature),
        CASE(window_reaches),
        CASE(packed_errors),
        CASE(texts_that_do_not_compile),
        CASE(passes_are_told_apart),
        CASE(workspace_counts_blocks),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, make_plans, drop_plans);
    test_device_close(&device);
    return failures;
}
