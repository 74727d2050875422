/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The host level beyond one plain forward pass: keys that stream in pieces, gradients, and the arrays of the score
 * modifications.
 */
#include "support/device.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, H_KV = 2, N_Q = 37, N_KV = 101, D = 24, ROWS = B * H * N_Q, KEYS = B * H_KV * N_KV };
enum { BLOCK_ROWS = 3, BLOCK_COLUMNS = 4 };

static struct test_device device;
static clattn_host *host;
static float q[ROWS * D], k[KEYS * D], v[KEYS * D], d_o[ROWS * D], bias[H * N_Q * N_KV], sinks[H];
static float o[2][ROWS * D], lse[2][ROWS], d_q[2][ROWS * D], d_k[2][KEYS * D], d_v[2][KEYS * D];
static float d_bias[2][H * N_Q * N_KV], d_sinks[2][H];
static int32_t lengths[B] = {101, 60};
static int32_t offsets[BLOCK_ROWS + 1] = {0, 3, 5, 9}, columns[9] = {2, 0, 3, 1, 0, 3, 2, 1, 0};

static const struct clattn_shape shape = {B, H, H_KV, N_Q, N_KV};
static const unsigned features =
    CLATTN_BIAS | CLATTN_BLOCK_MASK | CLATTN_KEY_LENGTHS | CLATTN_SINKS | CLATTN_DROPOUT | CLATTN_SOFTCAP;

static void fill(float *values, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 2.0f;
    }
}

static int set_up(void **state)
{
    (void)state;
    fill(q, ROWS * D, 1);
    fill(k, KEYS * D, 2);
    fill(v, KEYS * D, 3);
    fill(d_o, ROWS * D, 4);
    fill(bias, H * N_Q * N_KV, 5);
    fill(sinks, H, 6);
    return clattn_host_create(&host, &(struct clattn_host_params){.context = device.clattn});
}

static int tear_down(void **state)
{
    (void)state;
    clattn_host_destroy(&host);
    return 0;
}

static void assert_success(clattn_status status)
{
    if (status)
        fail_msg("%s: %s", clattn_status_name(status), clattn_error_message());
}

static struct clattn_problem problem_of(enum clattn_pass pass)
{
    return (struct clattn_problem){.pass = pass, .d = D, .features = features, .block_q = 16, .block_kv = 32};
}

/* The bias serves all batch elements, the block mask all heads too; the mask comes as compressed rows. */
static struct clattn_host_score_args score_args(void)
{
    return (struct clattn_host_score_args){.softcap = 15,
                                           .bias = bias,
                                           .bias_layout = {.head = N_Q * N_KV, .row = N_KV, .column = 1},
                                           .block_offsets = offsets,
                                           .block_offsets_layout = {.row = 1},
                                           .block_columns = columns,
                                           .block_count = 9,
                                           .key_lengths = lengths,
                                           .sinks = sinks,
                                           .dropout_p = 0.2f,
                                           .dropout_seed = 77};
}

static struct clattn_host_forward_args forward_args(int turn)
{
    return (struct clattn_host_forward_args){
        .shape = shape, .q = q, .k = k, .v = v, .o = o[turn], .lse = lse[turn], .score = score_args()};
}

struct told {
    int64_t last;
    int times;
};

static void listen(void *user, int64_t done, int64_t keys)
{
    struct told *told = user;
    assert_true(done > told->last && done <= N_KV);
    assert_int_equal(keys, N_KV);
    told->last = done;
    told->times++;
}

static void assert_near(const float *a, const float *b, int count, float tolerance)
{
    for (int i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(b[i]))))
            fail_msg("element %d is %g and %g", i, (double)a[i], (double)b[i]);
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    static const int64_t chunks[] = {16, 37, 100, 101, 5000};
    const struct clattn_problem problem = problem_of(CLATTN_FORWARD);
    struct clattn_host_forward_args args = forward_args(0);
    assert_success(clattn_host_forward(host, &problem, &args));
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct told told = {0};
        args = forward_args(1);
        args.kv_chunk = chunks[i];
        args.progress = listen;
        args.progress_user = &told;
        memset(o[1], 0xff, sizeof o[1]);
        assert_success(clattn_host_forward(host, &problem, &args));
        assert_near(o[1], o[0], ROWS * D, 1e-5f);
        assert_near(lse[1], lse[0], ROWS, 1e-5f);
        assert_int_equal(told.last, N_KV);
        assert_int_equal(told.times, (N_KV + chunks[i] - 1) / chunks[i]);
    }
}

/* Of one head the keys go to the device as they lie, without a copy on the way. */
static void one_head_streams_as_it_lies(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
    struct clattn_host_forward_args args = {
        .shape = {1, 1, 1, N_Q, N_KV}, .q = q, .k = k, .v = v, .o = o[0], .lse = lse[0]};
    assert_success(clattn_host_forward(host, &problem, &args));
    args.o = o[1];
    args.lse = lse[1];
    args.kv_chunk = 30;
    assert_success(clattn_host_forward(host, &problem, &args));
    assert_near(o[1], o[0], N_Q * D, 1e-5f);
    assert_near(lse[1], lse[0], N_Q, 1e-5f);
    args.shape.n_kv = 0;
    assert_success(clattn_host_forward(host, &problem, &args));
    for (int i = 0; i < N_Q * D; i++)
        assert_true(o[1][i] == 0);
}

static struct clattn_host_backward_args backward_args(int turn)
{
    return (struct clattn_host_backward_args){.shape = shape,
                                              .q = q,
                                              .k = k,
                                              .v = v,
                                              .o = o[0],
                                              .d_o = d_o,
                                              .lse = lse[0],
                                              .d_q = d_q[turn],
                                              .d_k = d_k[turn],
                                              .d_v = d_v[turn],
                                              .d_bias = d_bias[turn],
                                              .d_bias_layout = {.head = N_Q * N_KV, .row = N_KV, .column = 1},
                                              .d_sinks = d_sinks[turn],
                                              .score = score_args()};
}

/* sum O * dO, whose gradients they are. */
static double loss(void)
{
    const struct clattn_problem problem = problem_of(CLATTN_FORWARD);
    const struct clattn_host_forward_args args = forward_args(1);
    double sum = 0;
    assert_success(clattn_host_forward(host, &problem, &args));
    for (int i = 0; i < ROWS * D; i++)
        sum += (double)o[1][i] * (double)d_o[i];
    return sum;
}

/* A step along `direction` changes the loss as the gradient says. */
static void assert_gradient(float *values, const float *gradient, int count, unsigned seed)
{
    float *direction = malloc((size_t)count * sizeof *direction), *kept = malloc((size_t)count * sizeof *kept);
    double expected = 0, size = 0;
    assert_true(direction && kept);
    fill(direction, count, seed);
    memcpy(kept, values, (size_t)count * sizeof *kept);
    for (int i = 0; i < count; i++) {
        expected += (double)gradient[i] * (double)direction[i];
        size += fabs((double)gradient[i] * (double)direction[i]);
    }
    const float step = 1.0f / 1024;
    for (int i = 0; i < count; i++)
        values[i] = kept[i] + step * direction[i];
    const double more = loss();
    for (int i = 0; i < count; i++)
        values[i] = kept[i] - step * direction[i];
    const double less = loss(), measured = (more - less) / (2.0 * (double)step);
    memcpy(values, kept, (size_t)count * sizeof *kept);
    free(direction);
    free(kept);
    if (!(fabs(measured - expected) <= 1e-2 * sqrt(size) + 1e-2 * fabs(expected)))
        fail_msg("the loss changes by %g, its gradient says %g", measured, expected);
}

static void gradients(void **state)
{
    (void)state;
    const struct clattn_problem forward = problem_of(CLATTN_FORWARD), backward = problem_of(CLATTN_BACKWARD);
    const struct clattn_host_forward_args args = forward_args(0);
    const struct clattn_host_backward_args grads = backward_args(0), again = backward_args(1);
    struct clattn_host_info info;
    assert_success(clattn_host_forward(host, &forward, &args));
    assert_success(clattn_host_backward(host, &backward, &grads));
    assert_success(clattn_host_last(host, NULL, &info));
    assert_true(info.compute_ms > 0 && info.copy_in_ms > 0 && info.copy_out_ms > 0);
    assert_success(clattn_host_backward(host, &backward, &again));
    assert_memory_equal(d_q[0], d_q[1], sizeof d_q[0]);
    assert_memory_equal(d_k[0], d_k[1], sizeof d_k[0]);
    assert_memory_equal(d_bias[0], d_bias[1], sizeof d_bias[0]);
    assert_memory_equal(d_sinks[0], d_sinks[1], sizeof d_sinks[0]);
    assert_gradient(q, d_q[0], ROWS * D, 11);
    assert_gradient(k, d_k[0], KEYS * D, 12);
    assert_gradient(v, d_v[0], KEYS * D, 13);
    assert_gradient(bias, d_bias[0], H * N_Q * N_KV, 14);
    assert_gradient(sinks, d_sinks[0], H, 15);
}

/* What is not wanted is left out, and the rest is the same. */
static void some_gradients(void **state)
{
    (void)state;
    const struct clattn_problem forward = problem_of(CLATTN_FORWARD), backward = problem_of(CLATTN_BACKWARD);
    const struct clattn_host_forward_args args = forward_args(0);
    struct clattn_host_backward_args grads = backward_args(0);
    assert_success(clattn_host_forward(host, &forward, &args));
    assert_success(clattn_host_backward(host, &backward, &grads));
    grads = backward_args(1);
    memset(d_v[1], 0, sizeof d_v[1]);
    grads.d_q = grads.d_k = grads.d_bias = grads.d_sinks = NULL;
    assert_success(clattn_host_backward(host, &backward, &grads));
    assert_memory_equal(d_v[0], d_v[1], sizeof d_v[0]);
    grads.d_v = NULL;
    grads.d_k = d_k[1];
    assert_success(clattn_host_backward(host, &backward, &grads));
    assert_memory_equal(d_k[0], d_k[1], sizeof d_k[0]);
}

/* Says no when it is asked for the `nth` time. */
struct asked {
    int nth, times;
    int64_t done[8];
};

static int ask(void *user, int64_t done, int64_t keys)
{
    struct asked *asked = user;
    assert_int_equal(keys, N_KV);
    assert_true(asked->times < 8);
    asked->done[asked->times++] = done;
    return asked->times == asked->nth ? 7 : 0;
}

static void assert_poison(const void *values, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)values)[i], 0xa5);
}

static const int64_t asked_whole[] = {0, N_KV}, asked_pieces[] = {0, 40, 80, N_KV, N_KV};

/* Each time that the library asks, no ends the call; the outputs are untouched, and the next call is right. */
static void calls_end_when_asked_to(void **state)
{
    (void)state;
    const struct clattn_problem problem = problem_of(CLATTN_FORWARD);
    for (int pieces = 0; pieces < 2; pieces++) {
        const int64_t *const expected = pieces ? asked_pieces : asked_whole;
        const int times = pieces ? 5 : 2;
        struct clattn_host_forward_args args = forward_args(0);
        args.kv_chunk = pieces ? 40 : 0;
        assert_success(clattn_host_forward(host, &problem, &args));
        for (int nth = 1; nth <= times + 1; nth++) {
            struct asked asked = {.nth = nth};
            args.o = memset(o[1], 0xa5, sizeof o[1]);
            args.lse = memset(lse[1], 0xa5, sizeof lse[1]);
            args.cancel = ask;
            args.progress_user = &asked;
            const clattn_status status = clattn_host_forward(host, &problem, &args);
            assert_int_equal(status, nth <= times ? CLATTN_CANCELLED : CLATTN_SUCCESS);
            assert_int_equal(asked.times, nth <= times ? nth : times);
            assert_memory_equal(asked.done, expected, (size_t)asked.times * sizeof *expected);
            if (status) {
                assert_non_null(strstr(clattn_error_message(), "args.cancel answered 7 after"));
                assert_poison(o[1], sizeof o[1]);
                assert_poison(lse[1], sizeof lse[1]);
            }
        }
        assert_memory_equal(o[1], o[0], sizeof o[0]);
        assert_memory_equal(lse[1], lse[0], sizeof lse[0]);
    }
}

static void gradients_end_when_asked_to(void **state)
{
    (void)state;
    const struct clattn_problem forward = problem_of(CLATTN_FORWARD), backward = problem_of(CLATTN_BACKWARD);
    const struct clattn_host_forward_args args = forward_args(0);
    struct clattn_host_backward_args grads = backward_args(0), again = backward_args(1);
    assert_success(clattn_host_forward(host, &forward, &args));
    grads.kv_chunk = again.kv_chunk = 40;
    assert_success(clattn_host_backward(host, &backward, &grads));
    for (int nth = 1; nth <= 6; nth++) {
        struct asked asked = {.nth = nth};
        memset(d_k[1], 0xa5, sizeof d_k[1]);
        memset(d_bias[1], 0xa5, sizeof d_bias[1]);
        again.cancel = ask;
        again.progress_user = &asked;
        const clattn_status status = clattn_host_backward(host, &backward, &again);
        assert_int_equal(status, nth < 6 ? CLATTN_CANCELLED : CLATTN_SUCCESS);
        assert_memory_equal(asked.done, asked_pieces, (size_t)asked.times * sizeof *asked_pieces);
        if (status) {
            assert_poison(d_k[1], sizeof d_k[1]);
            assert_poison(d_bias[1], sizeof d_bias[1]);
        }
    }
    assert_memory_equal(d_k[1], d_k[0], sizeof d_k[0]);
    assert_memory_equal(d_bias[1], d_bias[0], sizeof d_bias[0]);
}

static void refuse(const struct clattn_problem *problem, const struct clattn_host_forward_args *args,
                   clattn_status status, const char *part)
{
    static float before[ROWS * D];
    memcpy(before, o[1], sizeof before);
    const clattn_status got = clattn_host_forward(host, problem, args);
    if (got != status || !strstr(clattn_error_message(), part))
        fail_msg("got %s, \"%s\"; wanted %s with \"%s\"", clattn_status_name(got), clattn_error_message(),
                 clattn_status_name(status), part);
    assert_memory_equal(before, o[1], sizeof before);
}

static void wrong_arrays(void **state)
{
    (void)state;
    const struct clattn_problem problem = problem_of(CLATTN_FORWARD);
    struct clattn_host_forward_args args = forward_args(1);
    args.score.bias = NULL;
    refuse(&problem, &args, CLATTN_INVALID_ARGUMENT, "score.bias is NULL: it must point to an array of");
    args = forward_args(1);
    args.kv_chunk = -1;
    refuse(&problem, &args, CLATTN_INVALID_ARGUMENT, "kv_chunk is -1");
    args = forward_args(1);
    lengths[1] = N_KV + 1;
    refuse(&problem, &args, CLATTN_INVALID_SHAPE, "score.key_lengths[1] is 102: it is from 0 to n_kv, 101");
    lengths[1] = 60;
    columns[4] = BLOCK_COLUMNS;
    refuse(&problem, &args, CLATTN_INVALID_ARGUMENT, "score.block_columns[4] is 4");
    columns[4] = 0;
    offsets[1] = 6;
    refuse(&problem, &args, CLATTN_INVALID_ARGUMENT, "score.block_offsets goes from 6 to 5 in row 1");
    offsets[1] = 3;
    const struct clattn_problem packed = {.d = D, .features = CLATTN_VARLEN};
    int32_t cu_q[B + 1] = {0, 30, 60}, cu_kv[B + 1] = {0, 101, 150};
    args = forward_args(1);
    args.score = (struct clattn_host_score_args){
        .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv, .total_q = 60, .total_kv = 150, .data = NULL};
    cu_q[1] = 20;
    refuse(&packed, &args, CLATTN_INVALID_SHAPE, "score.cu_seqlens_q[2] is 60 after 20: a sequence has from 0 to 37");
    cu_q[1] = 30;
    cu_kv[2] = 149;
    refuse(&packed, &args, CLATTN_INVALID_SHAPE, "score.cu_seqlens_kv[2] is 149: the last sequence ends at the total");
    cu_kv[2] = 150;
    assert_success(clattn_host_forward(host, &packed, &args));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(pieces_are_the_whole),
        CASE(one_head_streams_as_it_lies),
        CASE(gradients),
        CASE(some_gradients),
        CASE(wrong_arrays),
        CASE(calls_end_when_asked_to),
        CASE(gradients_end_when_asked_to),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
