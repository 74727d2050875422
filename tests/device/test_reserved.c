/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reserved room that lets structs grow (clattn/version.h): what a caller gives must be 0, every word of every
 * struct in every function; what the library fills is 0. The places are read from the headers (abi/reserved.py). */
#include "api_fixture.h"
#include "reserved_places.h"

/* What is given, good as it stands. */
static struct clattn_problem given_problem = {.d = D};
static struct clattn_shape given_shape;
static struct clattn_capabilities given_capabilities;
static struct clattn_context_params given_params;
static struct clattn_host_params given_host_params;
static struct clattn_plan_info given_info;
static struct clattn_traffic_params given_traffic_params;
static struct clattn_tuning_record given_record;
static struct clattn_forward_args given_forward;
static struct clattn_backward_args given_backward;
static struct clattn_accumulate_args given_accumulate;
static struct clattn_finish_args given_finish;
static struct clattn_append_params given_append_params;
static struct clattn_append_args given_append;
static struct clattn_host_cache_params given_cache_params;
static struct clattn_host_cache_args given_cache_args;
static struct clattn_host_forward_args given_host_forward;
static struct clattn_kv_scales given_scales;
static struct clattn_score_more given_more;
static struct clattn_host_kv_scales given_host_scales;
static struct clattn_host_backward_args given_host_backward;

static struct clattn_ring_params given_ring_params;
static struct clattn_ring_transport given_transport;
static struct clattn_ring_forward_args given_ring_forward;
static struct clattn_ring_backward_args given_ring_backward;

static clattn_plan *backward_plan, *accumulate_plan;
static clattn_ring_group *group;
static clattn_ring *ring, *backward_ring;
static clattn_appender *appender;
static clattn_host_cache *cache;
static clattn_tuning *tuning;
static struct clattn_plan_info info;

static clattn_status create_context(void)
{
    clattn_context *made = NULL;
    const clattn_status status = clattn_context_create(&made, &given_params);
    clattn_context_destroy(&made);
    return status;
}

static clattn_status create_host(void)
{
    clattn_host *made = NULL;
    const clattn_status status = clattn_host_create(&made, &given_host_params);
    clattn_host_destroy(&made);
    return status;
}

static clattn_status create_plan(void)
{
    clattn_plan *made = NULL;
    const clattn_status status = clattn_plan_create(&made, device.clattn, &given_problem);
    clattn_plan_destroy(&made);
    return status;
}

static clattn_status preview(void)
{
    return clattn_plan_preview(&given_capabilities, &given_problem, &info);
}

static clattn_status tuned_preview(void)
{
    return clattn_tuning_preview(tuning, &given_capabilities, &given_problem, &info);
}

static clattn_status candidates(void)
{
    int count;
    return clattn_tuning_candidates(&given_capabilities, &given_problem, &info, 1, &count);
}

static clattn_status describe(void)
{
    struct clattn_tuning_record record;
    return clattn_tuning_describe(&given_capabilities, &given_problem, &given_info, &record);
}

static clattn_status add_record(void)
{
    return clattn_tuning_add(tuning, &given_record);
}

static clattn_status traffic(void)
{
    struct clattn_traffic answer;
    return clattn_plan_traffic(&given_problem, &given_info, &given_traffic_params, &answer);
}

static clattn_status workspace_bytes(void)
{
    size_t bytes;
    return clattn_plan_workspace_bytes(plan, &given_shape, &bytes);
}

static clattn_status state_bytes(void)
{
    size_t bytes;
    return clattn_state_bytes(accumulate_plan, &given_shape, &bytes);
}

static clattn_status begin(void)
{
    return clattn_state_begin_enqueue(accumulate_plan, device.queue, &given_shape, buffers[O], 0, NULL, NULL);
}

static clattn_status merge(void)
{
    return clattn_state_merge_enqueue(accumulate_plan, device.queue, &given_shape, buffers[O], buffers[WORKSPACE], 0,
                                      NULL, NULL);
}

static clattn_status accumulate(void)
{
    return clattn_state_accumulate_enqueue(accumulate_plan, device.queue, &given_accumulate, 0, NULL, NULL);
}

static clattn_status finish(void)
{
    return clattn_state_finish_enqueue(accumulate_plan, device.queue, &given_finish, 0, NULL, NULL);
}

static clattn_status forward(void)
{
    return clattn_forward_enqueue(plan, device.queue, &given_forward, 0, NULL, NULL);
}

static clattn_status backward(void)
{
    return clattn_backward_enqueue(backward_plan, device.queue, &given_backward, 0, NULL, NULL);
}

static clattn_status create_appender(void)
{
    clattn_appender *made = NULL;
    const clattn_status status = clattn_appender_create(&made, device.clattn, &given_append_params);
    clattn_appender_destroy(&made);
    return status;
}

static clattn_status append(void)
{
    return clattn_append_enqueue(appender, device.queue, &given_append, 0, NULL, NULL);
}

static clattn_status create_cache(void)
{
    clattn_host_cache *made = NULL;
    const clattn_status status = clattn_host_cache_create(&made, &given_cache_params);
    clattn_host_cache_destroy(&made);
    return status;
}

static clattn_status cache_append(void)
{
    return clattn_host_cache_append(cache, &given_cache_args);
}

static clattn_status standard(void)
{
    return clattn_standard_enqueue(device.clattn, &given_problem, device.queue, &given_forward, 0, NULL, NULL);
}

static clattn_status standard_bytes(void)
{
    size_t bytes;
    return clattn_standard_workspace_bytes(device.clattn, &given_problem, &given_forward, &bytes);
}

static clattn_status host_forward(void)
{
    return clattn_host_forward(host, &given_problem, &given_host_forward);
}

static clattn_status host_backward(void)
{
    const struct clattn_problem both = {.d = D, .pass = CLATTN_BACKWARD};
    return clattn_host_backward(host, &both, &given_host_backward);
}

static clattn_status create_ring(void)
{
    clattn_ring *made = NULL;
    const clattn_status status = clattn_ring_create(&made, &given_ring_params, &given_problem);
    clattn_ring_destroy(&made);
    return status;
}

static clattn_status ring_forward(void)
{
    return clattn_ring_forward(ring, &given_ring_forward);
}

static clattn_status ring_backward(void)
{
    return clattn_ring_backward(backward_ring, &given_ring_backward);
}

#define GIVEN(function, argument, type, given)                                                                         \
    {                                                                                                                  \
#function, function, argument, &given, reserved_of_##type                                                      \
    }

static const struct {
    const char *name;
    clattn_status (*call)(void);
    const char *argument;
    void *given;
    const struct reserved_place *places;
} givens[] = {
    GIVEN(create_context, "params", context_params, given_params),
    GIVEN(create_host, "params", host_params, given_host_params),
    GIVEN(create_plan, "problem", problem, given_problem),
    GIVEN(preview, "capabilities", capabilities, given_capabilities),
    GIVEN(preview, "problem", problem, given_problem),
    GIVEN(tuned_preview, "capabilities", capabilities, given_capabilities),
    GIVEN(tuned_preview, "problem", problem, given_problem),
    GIVEN(candidates, "capabilities", capabilities, given_capabilities),
    GIVEN(candidates, "problem", problem, given_problem),
    GIVEN(describe, "capabilities", capabilities, given_capabilities),
    GIVEN(describe, "problem", problem, given_problem),
    GIVEN(describe, "info", plan_info, given_info),
    GIVEN(add_record, "record", tuning_record, given_record),
    GIVEN(traffic, "problem", problem, given_problem),
    GIVEN(traffic, "info", plan_info, given_info),
    GIVEN(traffic, "params", traffic_params, given_traffic_params),
    GIVEN(workspace_bytes, "shape", shape, given_shape),
    GIVEN(state_bytes, "shape", shape, given_shape),
    GIVEN(begin, "shape", shape, given_shape),
    GIVEN(merge, "shape", shape, given_shape),
    GIVEN(accumulate, "args", accumulate_args, given_accumulate),
    GIVEN(finish, "args", finish_args, given_finish),
    GIVEN(forward, "args", forward_args, given_forward),
    GIVEN(forward, "score.kv_scales", kv_scales, given_scales),
    GIVEN(forward, "score.more", score_more, given_more),
    GIVEN(backward, "args", backward_args, given_backward),
    GIVEN(create_appender, "params", append_params, given_append_params),
    GIVEN(append, "args", append_args, given_append),
    GIVEN(create_cache, "params", host_cache_params, given_cache_params),
    GIVEN(cache_append, "args", host_cache_args, given_cache_args),
    GIVEN(standard, "problem", problem, given_problem),
    GIVEN(standard, "args", forward_args, given_forward),
    GIVEN(standard_bytes, "problem", problem, given_problem),
    GIVEN(standard_bytes, "args", forward_args, given_forward),
    GIVEN(host_forward, "problem", problem, given_problem),
    GIVEN(host_forward, "args", host_forward_args, given_host_forward),
    GIVEN(host_forward, "score.kv_scales", host_kv_scales, given_host_scales),
    GIVEN(host_backward, "args", host_backward_args, given_host_backward),
    GIVEN(create_ring, "rank 0: params", ring_params, given_ring_params),
    GIVEN(create_ring, "params->transport", ring_transport, given_transport),
    GIVEN(ring_forward, "rank 0: args", ring_forward_args, given_ring_forward),
    GIVEN(ring_backward, "rank 0: args", ring_backward_args, given_ring_backward),
};

/* What calls are made on, beside the fixture's. */
static void make_objects(void)
{
    const struct clattn_problem backward_problem = {.d = D, .pass = CLATTN_BACKWARD};
    const struct clattn_problem accumulate_problem = {.d = D, .pass = CLATTN_ACCUMULATE};
    assert_int_equal(clattn_plan_create(&backward_plan, device.clattn, &backward_problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_create(&accumulate_plan, device.clattn, &accumulate_problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_create(&tuning), CLATTN_SUCCESS);
    given_append_params = (struct clattn_append_params){.problem = &given_problem};
    assert_int_equal(clattn_appender_create(&appender, device.clattn, &given_append_params), CLATTN_SUCCESS);
    given_cache_params =
        (struct clattn_host_cache_params){.context = device.clattn, .problem = &given_problem, .kv_heads = KV_HEADS};
    assert_int_equal(clattn_host_cache_create(&cache, &given_cache_params), CLATTN_SUCCESS);
}

/* Of one rank. */
static void set_up_rings(void)
{
    const struct clattn_problem backward_problem = {.d = D, .pass = CLATTN_BACKWARD};
    assert_int_equal(clattn_ring_group_create(&group, 1), CLATTN_SUCCESS);
    given_transport = *clattn_ring_group_transport(group, 0);
    given_ring_params =
        (struct clattn_ring_params){.transport = &given_transport, .context = device.clattn, .queue = device.queue};
    assert_int_equal(clattn_ring_create(&ring, &given_ring_params, &given_problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_ring_create(&backward_ring, &given_ring_params, &backward_problem), CLATTN_SUCCESS);
    const struct clattn_ring_part rows = {.count = {N_Q}}, keys = {.count = {N_KV}};
    given_ring_forward = (struct clattn_ring_forward_args){.arrays = good_host_args(), .rows = rows, .keys = keys};
    given_ring_backward = (struct clattn_ring_backward_args){.arrays = given_host_backward, .rows = rows, .keys = keys};
}

static int set_up_given(void **state)
{
    if (set_up(state))
        return -1;
    make_objects();
    given_shape = shape;
    given_capabilities = *clattn_context_capabilities(device.clattn);
    given_params = (struct clattn_context_params){
        .context = device.context, .device = device.device, .log = {.function = listen}, .cache_directory = ""};
    given_host_params = (struct clattn_host_params){.context = device.clattn};
    given_traffic_params = (struct clattn_traffic_params){.shape = shape};
    assert_int_equal(clattn_plan_get_info(plan, &given_info), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_describe(&given_capabilities, &given_problem, &given_info, &given_record), 0);
    given_record.ms = 1;
    given_forward = good_args();
    given_forward.score.kv_scales = &given_scales;
    given_forward.score.more = &given_more;
    given_host_forward = good_host_args();
    given_host_forward.score.kv_scales = &given_host_scales;
    given_accumulate = (struct clattn_accumulate_args){.shape = shape,
                                                       .key_count = N_KV,
                                                       .q = {buffers[Q], {0}},
                                                       .k = {buffers[K], {0}},
                                                       .v = {buffers[V], {0}},
                                                       .state = buffers[L]};
    given_append = (struct clattn_append_args){.shape = shape, .k_new = {buffers[Q], {0}}, .k = {buffers[M], {0}}};
    given_cache_args = (struct clattn_host_cache_args){.shape = {.batch = 1, .n_q = 1}, .k = arrays[K], .v = arrays[V]};
    given_finish = (struct clattn_finish_args){.shape = shape, .state = buffers[L], .o = {buffers[O], {0}}};
    given_backward = good_backward_args();
    given_host_backward = (struct clattn_host_backward_args){.shape = shape,
                                                             .q = arrays[Q],
                                                             .k = arrays[K],
                                                             .v = arrays[V],
                                                             .o = arrays[O],
                                                             .d_o = arrays[O],
                                                             .lse = arrays[LSE],
                                                             .d_q = arrays[M]};
    set_up_rings();
    return 0;
}

static int tear_down_given(void **state)
{
    clattn_ring_destroy(&ring);
    clattn_ring_destroy(&backward_ring);
    clattn_ring_group_destroy(&group);
    clattn_host_cache_destroy(&cache);
    clattn_appender_destroy(&appender);
    clattn_tuning_destroy(&tuning);
    clattn_plan_destroy(&accumulate_plan);
    clattn_plan_destroy(&backward_plan);
    return tear_down(state);
}

#define NAME(type) "struct clattn_" #type " ",
static const char *const structs[] = {EACH_PUBLIC_STRUCT(NAME)};
enum { STRUCTS = sizeof structs / sizeof *structs };
static bool checked[STRUCTS]; /* once, in either way */

static void note_checked(const char *name)
{
    int found = 0;
    for (int i = 0; i < STRUCTS; i++)
        if (strstr(name, structs[i])) {
            checked[i] = true;
            found++;
        }
    if (found != 1)
        fail_msg("names %d structs: %s", found, name);
}

static void every_word_that_is_given_must_be_0(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof givens / sizeof *givens; i++)
        for (const struct reserved_place *place = givens[i].places; place->path; place++)
            for (size_t word = 0; word < place->words; word++) {
                char part[160];
                uint64_t value = word % 2 ? 1 : UINT64_C(1) << 63; /* also one that an int cannot hold */
                char *at = (char *)givens[i].given + place->offset + 8 * word;
                snprintf(part, sizeof part, "%s.%s[%zu] is 0x%llx: reserved room of ", givens[i].argument, place->path,
                         word, (unsigned long long)value);
                memcpy(at, &value, sizeof value);
                const clattn_status status = givens[i].call();
                if (status != CLATTN_INVALID_ARGUMENT || strncmp(clattn_error_message(), part, strlen(part)) != 0)
                    fail_msg("%s with %s.%s[%zu]: %s, \"%s\"", givens[i].name, givens[i].argument, place->path, word,
                             clattn_status_name(status), clattn_error_message());
                memset(at, 0, sizeof value);
                note_checked(strstr(clattn_error_message(), "reserved room of "));
            }
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
}

/* Else the test above would be content with functions that refuse everything. */
static void what_is_given_is_good_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof givens / sizeof *givens; i++)
        if (givens[i].call() != CLATTN_SUCCESS)
            fail_msg("%s: %s", givens[i].name, clattn_error_message());
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

static void check_zero(const char *type, const void *filled, const struct reserved_place *places)
{
    char name[64];
    for (const struct reserved_place *place = places; place->path; place++)
        for (size_t word = 0; word < place->words; word++) {
            uint64_t value;
            memcpy(&value, (const char *)filled + place->offset + 8 * word, sizeof value);
            if (value)
                fail_msg("struct clattn_%s: %s[%zu] is left as it was", type, place->path, word);
        }
    snprintf(name, sizeof name, "struct clattn_%s ", type);
    note_checked(name);
}

/* `fill` succeeds and writes all reserved room of `object`. */
#define FILLED(type, object, fill)                                                                                     \
    do {                                                                                                               \
        memset(&(object), 0xff, sizeof(object));                                                                       \
        assert_int_equal(fill, CLATTN_SUCCESS);                                                                        \
        check_zero(#type, &(object), reserved_of_##type);                                                              \
    } while (0)

static void what_the_library_fills_is_0(void **state)
{
    (void)state;
    struct clattn_capabilities capabilities;
    struct clattn_plan_info plans[2];
    struct clattn_host_info host_info;
    struct clattn_traffic bytes;
    struct clattn_tuning_record record;
    struct clattn_skeleton_info skeleton;
    struct clattn_host_cache_info cache_info;
    struct clattn_ring_info ring_info;
    int count;
    FILLED(capabilities, capabilities, clattn_query_device(device.device, &capabilities));
    FILLED(plan_info, plans[0], clattn_plan_get_info(plan, &plans[0]));
    FILLED(plan_info, plans[0], clattn_plan_preview(&given_capabilities, &given_problem, &plans[0]));
    FILLED(plan_info, plans[0], clattn_tuning_preview(NULL, &given_capabilities, &given_problem, &plans[0]));
    memset(plans, 0xff, sizeof plans);
    FILLED(plan_info, plans[1], clattn_tuning_candidates(&given_capabilities, &given_problem, plans, 2, &count));
    assert_int_equal(count, 2);
    check_zero("plan_info", &plans[0], reserved_of_plan_info);
    FILLED(traffic, bytes, clattn_plan_traffic(&given_problem, &given_info, &given_traffic_params, &bytes));
    FILLED(tuning_record, record, clattn_tuning_describe(&given_capabilities, &given_problem, &given_info, &record));
    assert_int_equal(clattn_tuning_add(tuning, &given_record), CLATTN_SUCCESS);
    FILLED(tuning_record, record, clattn_tuning_get(tuning, 0, &record));
    assert_int_equal(clattn_host_forward(host, &given_problem, &given_host_forward), CLATTN_SUCCESS);
    FILLED(plan_info, plans[0], clattn_host_last(host, &plans[0], NULL));
    FILLED(host_info, host_info, clattn_host_last(host, NULL, &host_info));
    FILLED(host_cache_info, cache_info, clattn_host_cache_get_info(cache, &cache_info));
    assert_int_equal(ring_forward(), CLATTN_SUCCESS);
    FILLED(ring_info, ring_info, clattn_ring_last(ring, &ring_info));
    FILLED(skeleton_info, skeleton, clattn_skeleton_get_info(0, &skeleton));
    const struct clattn_layout layouts[] = {clattn_layout_bhnd(2, 3, 4), clattn_layout_bnhd(2, 3, 4)};
    check_zero("layout", &layouts[0], reserved_of_layout);
    check_zero("layout", &layouts[1], reserved_of_layout);
    check_zero("capabilities", clattn_context_capabilities(device.clattn), reserved_of_capabilities);
}

static void no_struct_is_left_out(void **state)
{
    (void)state;
    for (int i = 0; i < STRUCTS; i++)
        if (!checked[i])
            fail_msg("%swas neither refused nor filled", structs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_word_that_is_given_must_be_0, set_up_given, tear_down_given),
        cmocka_unit_test_setup_teardown(what_is_given_is_good_otherwise, set_up_given, tear_down_given),
        cmocka_unit_test_setup_teardown(what_the_library_fills_is_0, set_up_given, tear_down_given),
        cmocka_unit_test(no_struct_is_left_out),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
