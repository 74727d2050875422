/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every documented error of the host level: the status, the argument's name in the message, and arrays as they were.
 */
#include "api_fixture.h"

static void assert_host_refuses(const struct clattn_host_forward_args *args, clattn_status status, const char *part)
{
    const int told = times_told;
    assert_failed(clattn_host_forward(host, &problem, args), status, part);
    assert_int_equal(times_told, told + 1);
}

static void host_errors(void **state)
{
    (void)state;
    struct clattn_host_forward_args args = good_host_args();
    assert_failed(clattn_host_forward(NULL, &problem, &args), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_forward(host, NULL, &args), CLATTN_INVALID_ARGUMENT, "problem is NULL");
    assert_host_refuses(NULL, CLATTN_INVALID_ARGUMENT, "args is NULL");
    args.q = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "q is NULL");
    args = good_host_args();
    args.v = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "v is NULL");
    args = good_host_args();
    args.o = NULL;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "o is NULL");
    args = good_host_args();
    args.shape.n_kv = -5;
    assert_host_refuses(&args, CLATTN_INVALID_SHAPE, "shape.n_kv is -5");
    args = good_host_args();
    args.k_layout.row = -3;
    assert_host_refuses(&args, CLATTN_INVALID_LAYOUT, "k.layout.row is -3: strides are not negative");
    args = good_host_args();
    args.o_layout = (struct clattn_layout){.head = 96, .column = 1};
    assert_host_refuses(&args, CLATTN_INVALID_LAYOUT, "o.layout.row is 0");
    args = good_host_args();
    args.l = args.m + HEADS * N_Q - 1;
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "l at ");
    args = good_host_args();
    args.lse = arrays[O];
    assert_host_refuses(&args, CLATTN_INVALID_ARGUMENT, "lse at ");
    assert_nothing_written();
}

static void assert_score_refused(unsigned features, const struct clattn_host_score_args *score, clattn_status status,
                                 const char *part)
{
    struct clattn_problem modified = problem;
    struct clattn_host_forward_args args = good_host_args();
    modified.features = features;
    modified.page_keys = features & CLATTN_PAGES ? 4 : 0;
    args.score = *score;
    assert_failed(clattn_host_forward(host, &modified, &args), status, part);
}

/* Ten keys take three pages of four; six rows and ten keys of one sequence. */
static void wrong_index_arrays(void **state)
{
    (void)state;
    enum { PAGES = CLATTN_PAGES, VARLEN = CLATTN_VARLEN, LENGTHS = CLATTN_KEY_LENGTHS };
    const struct {
        unsigned features;
        struct clattn_host_score_args score;
        clattn_status status;
        const char *part;
    } rows[] = {
        {PAGES, {.pages = (int32_t[]){0, 1, 3}, .pool_pages = 3}, CLATTN_INVALID_ARGUMENT, "has 3 as page 2"},
        {PAGES, {.pages = (int32_t[]){0, -1, 2}, .pool_pages = 3}, CLATTN_INVALID_ARGUMENT, "has -1 as page 1"},
        {PAGES,
         {.pages = (int32_t[]){0, 1, 2}, .pool_pages = 3, .page_offsets = (int32_t[]){-1, 2}, .page_count = 3},
         CLATTN_INVALID_ARGUMENT,
         "score.page_offsets goes from -1 to 2"},
        {PAGES,
         {.pages = (int32_t[]){0, 1, 2}, .pool_pages = 3, .page_offsets = (int32_t[]){2, 1}, .page_count = 3},
         CLATTN_INVALID_ARGUMENT,
         "score.page_offsets goes from 2 to 1"},
        {PAGES,
         {.pages = (int32_t[]){0, 1, 2}, .pool_pages = 3, .page_offsets = (int32_t[]){0, 4}, .page_count = 3},
         CLATTN_INVALID_ARGUMENT,
         "score.page_offsets goes from 0 to 4"},
        {PAGES,
         {.pages = (int32_t[]){0, 1, 2}, .pool_pages = 3, .page_offsets = (int32_t[]){0, 2}, .page_count = 3},
         CLATTN_INVALID_ARGUMENT,
         "gives batch element 0 2 pages: its 10 keys take 3 of 4"},
        {VARLEN,
         {.cu_seqlens_q = (int32_t[]){0, N_Q}, .total_q = N_Q, .cu_seqlens_kv = (int32_t[]){1, N_KV}, .total_kv = N_KV},
         CLATTN_INVALID_SHAPE,
         "score.cu_seqlens_kv[0] is 1"},
        {VARLEN,
         {.cu_seqlens_q = (int32_t[]){0, -1}, .total_q = N_Q, .cu_seqlens_kv = (int32_t[]){0, N_KV}, .total_kv = N_KV},
         CLATTN_INVALID_SHAPE,
         "score.cu_seqlens_q[1] is -1 after 0"},
        {VARLEN,
         {.cu_seqlens_q = (int32_t[]){0, 5}, .total_q = N_Q, .cu_seqlens_kv = (int32_t[]){0, N_KV}, .total_kv = N_KV},
         CLATTN_INVALID_SHAPE,
         "the last sequence ends at the total, 6"},
        {LENGTHS, {.key_lengths = (int32_t[]){-1}}, CLATTN_INVALID_SHAPE, "score.key_lengths[0] is -1"},
        {LENGTHS, {.key_lengths = (int32_t[]){N_KV + 1}}, CLATTN_INVALID_SHAPE, "score.key_lengths[0] is 11"},
    };
    EACH (i, rows)
        assert_score_refused(rows[i].features, &rows[i].score, rows[i].status, rows[i].part);
    assert_nothing_written();
}

static void passes_and_pieces(void **state)
{
    (void)state;
    struct clattn_problem other = problem;
    struct clattn_host_forward_args args = good_host_args();
    struct clattn_host_backward_args back = {.shape = shape};
    other.pass = CLATTN_BACKWARD;
    assert_failed(clattn_host_forward(host, &other, &args), CLATTN_INVALID_ARGUMENT, "problem.pass is 1");
    assert_failed(clattn_host_backward(host, &problem, &back), CLATTN_INVALID_ARGUMENT, "problem.pass is 0");
    assert_failed(clattn_host_backward(host, &other, NULL), CLATTN_INVALID_ARGUMENT, "args is NULL");
    assert_failed(clattn_host_backward(NULL, &other, &back), CLATTN_INVALID_ARGUMENT, "host is NULL");
    args.kv_chunk = 4;
    other = problem;
    other.splits = 2;
    assert_failed(clattn_host_forward(host, &other, &args), CLATTN_INVALID_ARGUMENT, "problem.splits is 2");
    other.splits = 0;
    other.split_keys = 8;
    assert_failed(clattn_host_forward(host, &other, &args), CLATTN_INVALID_ARGUMENT, "problem.split_keys is 8");
    assert_nothing_written();
}

/* Two billion rows: more than a device allocates (so many keys would stream). Where all lie in one place, that one is
 * copied; outputs have none. */
static void arrays_too_large_for_the_device(void **state)
{
    (void)state;
    struct clattn_host_forward_args args = good_host_args();
    args.shape.n_q = INT64_C(0x7fffffff) - 4096;
    args.lse = args.m = args.l = NULL;
    char expected[96];
    snprintf(expected, sizeof expected, "q takes %lld bytes on the device, which can allocate at most",
             (long long)(args.shape.n_q * args.shape.heads * problem.d * 4));
    assert_host_refuses(&args, CLATTN_TOO_LARGE, expected);
    args.shape.n_q = args.shape.n_kv = 1;
    args.shape.batch = INT32_MAX;
    args.q_layout = args.k_layout = args.v_layout = (struct clattn_layout){.column = 1};
    args.shape.heads = args.shape.kv_heads = INT32_MAX;
    args.o = arrays[O];
    args.o_layout = (struct clattn_layout){.batch = INT64_C(1) << 31, .head = 1};
    clattn_host_forward(host, &problem, &args); /* whatever it says, it overflows nothing */
    assert_nothing_written();
}

static void host_handle_errors(void **state)
{
    (void)state;
    clattn_host *made = host, *none = NULL;
    struct clattn_host_info info;
    struct clattn_host_params params = {0};
    assert_failed(clattn_host_create(NULL, &params), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_create(&made, NULL), CLATTN_INVALID_ARGUMENT, "params is NULL");
    assert_failed(clattn_host_create(&made, &params), CLATTN_INVALID_ARGUMENT, "params->context is NULL");
    params = (struct clattn_host_params){.context = device.clattn, .queue = foreign_queue};
    assert_failed(clattn_host_create(&made, &params), CLATTN_INVALID_ARGUMENT, "queue belongs to the cl_context");
    assert_ptr_equal(made, host);
    assert_failed(clattn_host_last(NULL, NULL, &info), CLATTN_INVALID_ARGUMENT, "host is NULL");
    assert_failed(clattn_host_last(host, NULL, &info), CLATTN_INVALID_ARGUMENT, "host has not computed anything");
    clattn_host_destroy(NULL);
    clattn_host_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(host_errors),        TEST(wrong_index_arrays),
        TEST(passes_and_pieces),  TEST(arrays_too_large_for_the_device),
        TEST(host_handle_errors),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
