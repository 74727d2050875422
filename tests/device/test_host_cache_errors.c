/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a cache of keys at host level refuses, before anything is sent to the device. */
#include "support/device.h"
#include "support/unit.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, SEQUENCES = 3, HEADS = 4, KV_HEADS = 2, D = 8 };

static struct test_device device;
static clattn_host_cache *cache; /* of all tests */

static int make_cache(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = D};
    const struct clattn_host_cache_params params = {
        .context = device.clattn, .problem = &problem, .layers = LAYERS, .sequences = SEQUENCES, .kv_heads = KV_HEADS};
    return test_succeeded(clattn_host_cache_create(&cache, &params), "clattn_host_cache_create") ? 0 : -1;
}

static void assert_refused(clattn_status found, clattn_status status, const char *words)
{
    assert_int_equal(found, status);
    if (!strstr(clattn_error_message(), words))
        fail_msg("\"%s\" is not in: %s", words, clattn_error_message());
}

static int destroy_cache(void **state)
{
    (void)state;
    clattn_host_cache_destroy(&cache);
    clattn_host_cache_destroy(&cache);
    clattn_host_cache_destroy(NULL);
    return cache ? -1 : 0;
}

static float array[2 * HEADS * D];
static int32_t numbers[3];

#define TWO_ROWS .shape = {.batch = 2, .heads = HEADS, .n_q = 1}
#define NEW_ROWS .k = array, .v = array
#define ATTENDED .q = array, .o = array

static const struct {
    struct clattn_host_cache_args args;
    clattn_status status;
    const char *words;
} wrong_calls[] = {
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .sequences = (const int64_t[]){1, 1}},
     CLATTN_INVALID_ARGUMENT,
     "sequences[1] is 1: sequences are numbered from 0 to 2, and each"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .sequences = (const int64_t[]){0, SEQUENCES}},
     CLATTN_INVALID_ARGUMENT,
     "sequences[1] is 3"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .sequences = (const int64_t[]){-1, 0}},
     CLATTN_INVALID_ARGUMENT,
     "sequences[0] is -1"},
    {{.shape = {.batch = 2, .heads = HEADS, .n_q = 1, .n_kv = 5}, ATTENDED, NEW_ROWS},
     CLATTN_INVALID_SHAPE,
     "shape.n_kv is 5"},
    {{.shape = {.batch = 2, .heads = HEADS, .kv_heads = 1, .n_q = 1}, ATTENDED, NEW_ROWS},
     CLATTN_INVALID_SHAPE,
     "shape.kv_heads 1: keys are those of the cache"},
    {{.shape = {.batch = SEQUENCES + 1, .heads = HEADS, .n_q = 1}, ATTENDED, NEW_ROWS},
     CLATTN_INVALID_SHAPE,
     "the cache has 3 sequences"},
    {{.shape = {.batch = -1, .heads = HEADS, .n_q = 1}, ATTENDED, NEW_ROWS}, CLATTN_INVALID_SHAPE, "shape.batch is -1"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .layer = LAYERS},
     CLATTN_INVALID_ARGUMENT,
     "layer is 2: layers are numbered from 0 to 1"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .layer = -1}, CLATTN_INVALID_ARGUMENT, "layer is -1"},
    {{TWO_ROWS, ATTENDED, .k = array}, CLATTN_INVALID_ARGUMENT, "new rows are of both"},
    {{TWO_ROWS, ATTENDED, .v = array}, CLATTN_INVALID_ARGUMENT, "new rows are of both"},
    {{TWO_ROWS, .q = array, NEW_ROWS}, CLATTN_INVALID_ARGUMENT, "o is NULL: it must point to an array of"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.key_lengths = numbers}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.pages = numbers}, CLATTN_INVALID_ARGUMENT, "score has key_lengths, pages"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.page_offsets = numbers}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.pool_pages = 1}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.page_count = 1}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.cu_seqlens_kv = numbers}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
    {{TWO_ROWS, ATTENDED, NEW_ROWS, .score.total_kv = 1}, CLATTN_INVALID_ARGUMENT, "score has key_lengths"},
};

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    EACH (i, wrong_calls)
        assert_refused(clattn_host_cache_forward(cache, &wrong_calls[i].args), wrong_calls[i].status,
                       wrong_calls[i].words);
    const struct clattn_host_cache_args good = {TWO_ROWS, ATTENDED, NEW_ROWS};
    int64_t length = 1;
    assert_refused(clattn_host_cache_forward(NULL, &good), CLATTN_INVALID_ARGUMENT, "cache is NULL");
    assert_refused(clattn_host_cache_forward(cache, NULL), CLATTN_INVALID_ARGUMENT, "args is NULL");
    assert_int_equal(clattn_host_cache_length(cache, 0, 0, &length), CLATTN_SUCCESS);
    assert_int_equal(length, 0); /* none has left anything */
    assert_true(test_succeeded(clattn_host_cache_forward(cache, &good), "clattn_host_cache_forward"));
}

static void what_appends_computes_nothing(void **state)
{
    (void)state;
    const struct clattn_host_cache_args wrong[] = {{TWO_ROWS, NEW_ROWS, .q = array},
                                                   {TWO_ROWS, NEW_ROWS, .o = array},
                                                   {TWO_ROWS, NEW_ROWS, .lse = array}},
                                        none = {TWO_ROWS}, good = {TWO_ROWS, NEW_ROWS};
    EACH (i, wrong)
        assert_refused(clattn_host_cache_append(cache, &wrong[i]), CLATTN_INVALID_ARGUMENT, "computes nothing");
    assert_refused(clattn_host_cache_append(cache, &none), CLATTN_INVALID_ARGUMENT, "new rows are of both");
    assert_true(test_succeeded(clattn_host_cache_append(cache, &good), "clattn_host_cache_append"));
}

static void wrong_questions_are_refused(void **state)
{
    (void)state;
    struct clattn_host_cache_info info;
    int64_t length = 7;
    const clattn_status wrong = CLATTN_INVALID_ARGUMENT;
    assert_refused(clattn_host_cache_fork(cache, 1, 1, 0), wrong, "from and to are both 1");
    assert_refused(clattn_host_cache_fork(cache, 0, SEQUENCES, 0), wrong, "to is 3");
    assert_refused(clattn_host_cache_fork(cache, -1, 0, 0), wrong, "from is -1");
    assert_refused(clattn_host_cache_fork(cache, 0, 1, -1), wrong, "length is -1");
    assert_refused(clattn_host_cache_fork(NULL, 0, 1, 0), wrong, "cache is NULL");
    assert_refused(clattn_host_cache_truncate(cache, 0, -1), wrong, "length is -1");
    assert_refused(clattn_host_cache_truncate(cache, SEQUENCES, 0), wrong, "sequence is 3");
    assert_refused(clattn_host_cache_length(cache, LAYERS, 0, &length), wrong, "layer is 2");
    assert_refused(clattn_host_cache_length(cache, -1, 0, &length), wrong, "layer is -1");
    assert_refused(clattn_host_cache_length(cache, 0, SEQUENCES, &length), wrong, "sequence is 3");
    assert_refused(clattn_host_cache_length(cache, 0, 0, NULL), wrong, "length is NULL");
    assert_refused(clattn_host_cache_get_info(NULL, &info), wrong, "cache is NULL");
    assert_refused(clattn_host_cache_get_info(cache, NULL), wrong, "info is NULL");
    assert_int_equal(length, 7);
}

static void wrong_caches_are_refused(void **state)
{
    (void)state;
    const struct clattn_problem good = {.d = 8}, pages = {.d = 8, .features = CLATTN_PAGES, .page_keys = 4},
                                drops = {.d = 8, .features = CLATTN_DROPOUT},
                                first = {.d = 8, .causal = CLATTN_CAUSAL_TOP_LEFT},
                                back = {.d = 8, .pass = CLATTN_BACKWARD}, other = {.d = 8, .q_type = CLATTN_AS_BF16};
    const struct {
        struct clattn_host_cache_params params;
        const char *words;
    } wrong[] = {{{.problem = &good}, "params->kv_heads is 0: it is from 1"},
                 {{.problem = NULL, .kv_heads = 1}, "params->problem is NULL"},
                 {{.problem = &pages, .kv_heads = 1}, "pages and key lengths of its own"},
                 {{.problem = &drops, .kv_heads = 1}, "and no dropout"},
                 {{.problem = &first, .kv_heads = 1}, "CLATTN_CAUSAL_TOP_LEFT (2): new rows follow"},
                 {{.problem = &back, .kv_heads = 1}, "params->problem->pass is 1"},
                 {{.problem = &other, .kv_heads = 1}, "params->problem->q_type is 3"},
                 {{.problem = &good, .kv_heads = 1, .rotary_d = 8}, "params->rotary_d is 8 with rope_cos"},
                 {{.problem = &good, .kv_heads = 1, .rope_cos = array}, "params->rotary_d is 0 with rope_cos"},
                 {{.problem = &good, .kv_heads = 1, .rope_sin = array}, "params->rotary_d is 0 with rope_cos"},
                 {{.problem = &good, .kv_heads = 1, .rope_rows = 1}, "and rope_rows 1: both tables and"},
                 {{.problem = &good, .kv_heads = 1, .rope_rows = -1}, "and rope_rows -1: both tables and"},
                 {{.problem = &good, .kv_heads = 1, .rope_rows = INT64_MAX}, "both tables and how many positions"},
                 {{.problem = &good, .kv_heads = 1, .rotary_d = 8, .rope_cos = array}, "params->rotary_d is 8 with"},
                 {{.problem = &good, .kv_heads = 1, .layers = 1 << 24, .sequences = 2}, "is 33554432: it is at most"},
                 {{.problem = &good, .kv_heads = 1, .sequences = INT64_MAX}, "params->sequences is"},
                 {{.problem = &good, .kv_heads = 1, .layers = -1}, "params->layers is -1"}};
    const struct clattn_host_cache_params fine = {.problem = &good, .kv_heads = 1, .context = device.clattn};
    clattn_host_cache *made = NULL;
    EACH (i, wrong) {
        struct clattn_host_cache_params params = wrong[i].params;
        params.context = device.clattn;
        const clattn_status status = clattn_host_cache_create(&made, &params);
        assert_true(status < 0);
        assert_null(made);
        assert_refused(status, status, wrong[i].words);
    }
    assert_refused(clattn_host_cache_create(&made, NULL), CLATTN_INVALID_ARGUMENT, "params is NULL");
    assert_refused(clattn_host_cache_create(NULL, &fine), CLATTN_INVALID_ARGUMENT, "cache is NULL");
}

int main(void)
{
    test_device_open(&device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_calls_are_refused), cmocka_unit_test(what_appends_computes_nothing),
        cmocka_unit_test(wrong_questions_are_refused), cmocka_unit_test(wrong_caches_are_refused)};
    const int failed = cmocka_run_group_tests(tests, make_cache, destroy_cache);
    test_device_close(&device);
    return failed;
}
