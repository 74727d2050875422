/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Addresses of SVM and USM in the place of buffers: the same bits as with buffers, alone and mixed, in every call that
 * takes operands; and what is refused. */
#include "device/memory_kinds.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 20, N_KV = 33, D = 16, BLOCK = 16, BYTES = PLACE_BYTES };

static struct test_device device;

/* Small numbers: what they are is nothing to this test. */
static const void *numbers(unsigned from)
{
    static float values[BYTES / sizeof(float)];
    EACH (i, values)
        values[i] = (float)((i * 7 + from * 13) % 31) / 16 - 1;
    return values;
}

static struct clattn_tensor tensor_of(enum way way, unsigned from)
{
    struct place *place = place_make(way, numbers(from));
    place->from = from;
    return (struct clattn_tensor){.buffer = place->buffer, .memory = place->memory};
}

static const int32_t *integers(int32_t first, int32_t step)
{
    static int32_t values[BYTES / sizeof(int32_t)];
    EACH (i, values)
        values[i] = first + step * (int32_t)i;
    return values;
}

static const struct clattn_shape shape = {
    .batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};
static const struct clattn_problem problem = {
    .d = D,
    .features = CLATTN_BIAS | CLATTN_BLOCK_MASK | CLATTN_ROW_SHIFTS | CLATTN_QUERY_LENGTHS,
    .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
    .block_q = BLOCK,
    .block_kv = BLOCK,
    .score_mod = "float score_mod(float score, int b, int h, int i, int j, "
                 "__global const float *data)\n"
                 "{ return score + data[j % 8]; }",
    .score_mod_grad = "float score_mod_grad(float score, int b, int h, int i, "
                      "int j, __global const float *data)\n"
                      "{ return 1; }"};

static struct clattn_score_args score_of(enum way way)
{
    struct clattn_score_args score = {.bias = tensor_of(way, 8), .block_count = BATCH * HEADS * 2 * 2};
    const struct place *offsets = place_make(way, integers(0, 2)),
                       *columns = place_make((enum way)offsets->kind, integers(0, 1));
    score.block_offsets.buffer = offsets->buffer;
    score.block_offsets.memory = offsets->memory;
    /* Each head's three numbers begin where the last ones have ended. */
    score.block_offsets.layout = (struct clattn_layout){.batch = 2 * HEADS, .head = 2, .row = 1};
    score.block_columns = columns->buffer;
    const struct place *data = place_make(way, numbers(9)), *shifts = place_make(way, integers(5, 8)),
                       *lengths = place_make(way, integers(17, 3));
    score.data = data->buffer;
    score.data_memory = data->memory;
    score.row_shifts = shifts->buffer;
    score.row_shifts_memory = shifts->memory;
    score.query_lengths = lengths->buffer;
    score.query_lengths_memory = lengths->memory;
    return score;
}

static clattn_plan *plan_of(struct clattn_problem of)
{
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &of), "clattn_plan_create"));
    return plan;
}

static size_t workspace_of(const clattn_plan *plan)
{
    size_t bytes = 0;
    assert_true(test_succeeded(clattn_plan_workspace_bytes(plan, &shape, &bytes), "clattn_plan_workspace_bytes"));
    assert_true(bytes <= BYTES);
    return bytes;
}

struct outputs {
    char bytes[6][BYTES];
};

static struct outputs by_buffers, by_way;

static void read_outputs(const struct clattn_tensor *const *tensors, int count, struct outputs *outputs)
{
    for (int i = 0; i < count; i++) {
        const struct place *place = place_of(tensors[i]->buffer);
        if (!place)
            continue; /* not asked for */
        place_read(place, outputs->bytes[i]);
        assert_memory_not_equal(outputs->bytes[i], numbers(place->from), BYTES);
    }
}

/* All ways in turn; with buffers first, whose outputs the others must have. */
static void assert_same(void (*run)(enum way way, struct outputs *outputs))
{
    memset(&by_buffers, 0, sizeof by_buffers);
    run(BUFFERS, &by_buffers);
    for (enum way way = COARSE; way < WAYS; way++) {
        memset(&by_way, 0, sizeof by_way);
        run(way, &by_way);
        assert_memory_equal(&by_way, &by_buffers, sizeof by_way);
    }
}

/* --- each call */

static void forward(enum way way, struct outputs *outputs)
{
    clattn_plan *plan = plan_of(problem);
    struct clattn_forward_args args = {.shape = shape,
                                       .q = tensor_of(way, 0),
                                       .k = tensor_of(way, 1),
                                       .v = tensor_of(way, 2),
                                       .o = tensor_of(way, 3),
                                       .lse = tensor_of(way, 4),
                                       .score = score_of(way),
                                       .workspace_bytes = workspace_of(plan)};
    const struct place *workspace = place_make(way, numbers(5));
    args.workspace = workspace->buffer;
    args.workspace_memory = workspace->memory;
    args.q.layout.offset = 3; /* and not at a multiple of more than the type's size */
    assert_true(test_succeeded(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "forward"));
    const struct clattn_tensor *const written[] = {&args.o, &args.lse};
    read_outputs(written, 2, outputs);
    places_release();
    clattn_plan_destroy(&plan);
}

static void forward_passes_have_the_same_bits(void **state)
{
    (void)state;
    assert_same(forward);
}

static void backward(enum way way, struct outputs *outputs)
{
    struct clattn_problem of = problem;
    of.pass = CLATTN_BACKWARD;
    clattn_plan *plan = plan_of(of);
    struct clattn_backward_args args = {.shape = shape,
                                        .q = tensor_of(way, 0),
                                        .k = tensor_of(way, 1),
                                        .v = tensor_of(way, 2),
                                        .o = tensor_of(way, 3),
                                        .d_o = tensor_of(way, 4),
                                        .lse = tensor_of(way, 5),
                                        .d_q = tensor_of(way, 6),
                                        .d_k = tensor_of(way, 7),
                                        .d_v = tensor_of(way, 8),
                                        .d_bias = tensor_of(way, 9),
                                        .score = score_of(way),
                                        .workspace_bytes = workspace_of(plan)};
    const struct place *workspace = place_make(way, numbers(5));
    args.workspace = workspace->buffer;
    args.workspace_memory = workspace->memory;
    assert_true(test_succeeded(clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "backward"));
    assert_true(test_succeeded(clattn_backward_check(plan, device.queue, &args, 0, NULL), "clattn_backward_check"));
    const struct clattn_tensor *const written[] = {&args.d_q, &args.d_k, &args.d_v, &args.d_bias};
    read_outputs(written, 4, outputs);
    places_release();
    clattn_plan_destroy(&plan);
}

static void backward_passes_have_the_same_bits(void **state)
{
    (void)state;
    assert_same(backward);
}

/* Each of two states over some of the keys; then one. */
static void states(enum way way, struct outputs *outputs)
{
    const struct clattn_problem of = {.pass = CLATTN_ACCUMULATE, .d = D};
    clattn_plan *plan = plan_of(of);
    const struct place *two[] = {place_make(way, numbers(0)), place_make(way, numbers(1))};
    struct clattn_accumulate_args chunk = {.shape = shape,
                                           .q = tensor_of(way, 0),
                                           .k = tensor_of(way, 1),
                                           .v = tensor_of(way, 2),
                                           .workspace_bytes = workspace_of(plan)};
    const struct place *workspace = place_make(way, numbers(5));
    chunk.workspace = workspace->buffer;
    chunk.workspace_memory = workspace->memory;
    for (int i = 0; i < 2; i++) {
        assert_true(test_succeeded(clattn_state_begin_memory_enqueue(plan, device.queue, &shape, two[i]->buffer,
                                                                     two[i]->memory, 0, NULL, NULL),
                                   "begin"));
        chunk.state = two[i]->buffer;
        chunk.state_memory = two[i]->memory;
        chunk.first_key = i * 20;
        chunk.key_count = i ? N_KV - 20 : 20;
        assert_true(test_succeeded(clattn_state_accumulate_enqueue(plan, device.queue, &chunk, 0, NULL, NULL), "add"));
    }
    assert_true(
        test_succeeded(clattn_state_merge_memory_enqueue(plan, device.queue, &shape, two[0]->buffer, two[0]->memory,
                                                         two[1]->buffer, two[1]->memory, 0, NULL, NULL),
                       "merge"));
    struct clattn_finish_args finish = {.shape = shape,
                                        .state = two[0]->buffer,
                                        .state_memory = two[0]->memory,
                                        .o = tensor_of(way, 3),
                                        .lse = tensor_of(way, 4)};
    assert_true(test_succeeded(clattn_state_finish_enqueue(plan, device.queue, &finish, 0, NULL, NULL), "finish"));
    const struct clattn_tensor *const written[] = {&finish.o, &finish.lse};
    read_outputs(written, 2, outputs);
    places_release();
    clattn_plan_destroy(&plan);
}

static void states_have_the_same_bits(void **state)
{
    (void)state;
    assert_same(states);
}

/* One plan is given an address, a buffer and an address again, for the same operand. */
static void a_plan_takes_kinds_in_turn(void **state)
{
    (void)state;
    static const enum way turns[] = {UNIFIED, BUFFERS, COARSE, UNIFIED};
    const struct clattn_problem of = {.pass = CLATTN_ACCUMULATE, .d = D};
    clattn_plan *plan = plan_of(of);
    EACH (i, turns) {
        static float wanted[BYTES / sizeof(float)], got[BYTES / sizeof(float)];
        const struct place *place = place_make(turns[i], numbers((unsigned)i));
        assert_true(test_succeeded(
            clattn_state_begin_memory_enqueue(plan, device.queue, &shape, place->buffer, place->memory, 0, NULL, NULL),
            "begin"));
        place_read(place, got);
        assert_true(got[0] == -INFINITY);
        if (!i)
            memcpy(wanted, got, sizeof wanted);
        const size_t rows = BATCH * HEADS * N_Q, state_floats = rows * (2 + D);
        assert_memory_equal(got, wanted, state_floats * sizeof *got);
    }
    places_release();
    clattn_plan_destroy(&plan);
}

static void append(enum way way, struct outputs *outputs)
{
    const struct clattn_problem of = {.d = D};
    const struct clattn_append_params params = {.problem = &of, .rotary_d = D};
    clattn_appender *appender = NULL;
    struct clattn_append_args args = {.shape = shape,
                                      .k_new = tensor_of(way, 0),
                                      .v_new = tensor_of(way, 1),
                                      .k = tensor_of(way, 2),
                                      .v = tensor_of(way, 3),
                                      .rope_cos = tensor_of(way, 4),
                                      .rope_sin = tensor_of(way, 5),
                                      .rope_rows = N_KV};
    assert_true(test_succeeded(clattn_appender_create(&appender, device.clattn, &params), "clattn_appender_create"));
    assert_true(test_succeeded(clattn_append_enqueue(appender, device.queue, &args, 0, NULL, NULL), "append"));
    const struct clattn_tensor *const written[] = {&args.k, &args.v};
    read_outputs(written, 2, outputs);
    places_release();
    clattn_appender_destroy(&appender);
}

static void appends_have_the_same_bits(void **state)
{
    (void)state;
    assert_same(append);
}

/* --- what is refused */

static void assert_refused(clattn_status got, clattn_status wanted, const char *part)
{
    if (got != wanted || !strstr(clattn_error_message(), part))
        fail_msg("got %s, \"%s\"; wanted %s with \"%s\"", clattn_status_name(got), clattn_error_message(),
                 clattn_status_name(wanted), part);
}

/* One plain call, whose Q is not as it should be. */
struct wrong {
    int64_t memory;
    intptr_t more; /* beside the beginning of Q's allocation */
    clattn_status status;
    const char *part;
};

static struct clattn_forward_args plain_args(enum way way)
{
    return (struct clattn_forward_args){
        .shape = shape, .q = tensor_of(way, 0), .k = tensor_of(way, 1), .v = tensor_of(way, 2), .o = tensor_of(way, 3)};
}

static cl_mem moved(cl_mem address, intptr_t by)
{
    return (cl_mem)((char *)address + by);
}

static void wrong_addresses_are_named(void **state)
{
    static const struct wrong wrongs[] = {
        {3, 0, CLATTN_INVALID_ARGUMENT, "q.memory is 3: it is CLATTN_BUFFER (0), CLATTN_SVM (1) or CLATTN_USM (2)"},
        {-1, 0, CLATTN_INVALID_ARGUMENT, "q.memory is -1"},
        {CLATTN_SVM, 2, CLATTN_INVALID_ARGUMENT, ": it must be a multiple of 4"},
        {CLATTN_USM, 1, CLATTN_INVALID_ARGUMENT, ": it must be a multiple of 4"},
        {CLATTN_USM, BYTES - 64, CLATTN_BUFFER_TOO_SMALL, "q.buffer has 64 bytes: the tensor reaches to byte 10240"},
    };
    (void)state;
    clattn_plan *plan = plan_of((struct clattn_problem){.d = D});
    EACH (i, wrongs) {
        struct clattn_forward_args args = plain_args(UNIFIED);
        args.q.memory = wrongs[i].memory;
        args.q.buffer = moved(args.q.buffer, wrongs[i].more);
        assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), wrongs[i].status,
                       wrongs[i].part);
        places_release();
    }
    clattn_plan_destroy(&plan);
}

static void unknown_addresses_of_usm_are_refused(void **state)
{
    static float elsewhere[BYTES / sizeof(float)];
    cl_ulong of_system = 0;
    (void)state;
    clGetDeviceInfo(device.device, 0x4194 /* shared system memory */, sizeof of_system, &of_system, NULL);
    clattn_plan *plan = plan_of((struct clattn_problem){.d = D});
    struct clattn_forward_args args = plain_args(UNIFIED);
    args.q.buffer = (cl_mem)elsewhere;
    const clattn_status status = clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL);
    if (of_system)
        assert_int_equal(status, CLATTN_SUCCESS);
    else
        assert_refused(status, CLATTN_INVALID_ARGUMENT, "q.buffer is no address of unified shared memory");
    clFinish(device.queue);
    places_release();
    clattn_plan_destroy(&plan);
}

/* Outputs within another allocation's operand, whatever the kinds. */
static void outputs_overlap_among_addresses(void **state)
{
    (void)state;
    clattn_plan *plan = plan_of((struct clattn_problem){.d = D});
    struct clattn_forward_args args = plain_args(UNIFIED);
    args.o.buffer = moved(args.k.buffer, 128);
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                   "o (addresses 0x");
    args.o.memory = CLATTN_SVM;
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                   "overlaps k (0x");
    args.o.buffer = moved(args.q.buffer, BYTES / 2); /* behind what Q has of it */
    args.o.memory = args.q.memory;
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_SUCCESS);
    clFinish(device.queue);
    places_release();
    clattn_plan_destroy(&plan);
}

static void workspaces_and_states_are_aligned(void **state)
{
    (void)state;
    clattn_plan *plan = plan_of((struct clattn_problem){.pass = CLATTN_BACKWARD, .d = D});
    const struct place *workspace = place_make(COARSE, numbers(0));
    struct clattn_backward_args args = {.shape = shape,
                                        .q = tensor_of(COARSE, 0),
                                        .k = tensor_of(COARSE, 1),
                                        .v = tensor_of(COARSE, 2),
                                        .o = tensor_of(COARSE, 3),
                                        .d_o = tensor_of(COARSE, 4),
                                        .lse = tensor_of(COARSE, 5),
                                        .workspace = moved(workspace->buffer, 64),
                                        .workspace_memory = CLATTN_SVM,
                                        .workspace_bytes = BYTES};
    assert_refused(clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                   "workspace is the address");
    args.workspace_memory = 7;
    assert_refused(clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                   "workspace_memory is 7");
    clattn_plan_destroy(&plan);
    plan = plan_of((struct clattn_problem){.pass = CLATTN_ACCUMULATE, .d = D});
    assert_refused(clattn_state_begin_memory_enqueue(plan, device.queue, &shape, moved(workspace->buffer, 32),
                                                     CLATTN_SVM, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "it must be a multiple of 64");
    assert_refused(clattn_state_merge_memory_enqueue(plan, device.queue, &shape, workspace->buffer, CLATTN_SVM,
                                                     workspace->buffer, CLATTN_SVM, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "from is the same address as into");
    assert_refused(clattn_state_merge_memory_enqueue(plan, device.queue, &shape, workspace->buffer, CLATTN_SVM,
                                                     moved(workspace->buffer, 64), CLATTN_SVM, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "overlaps from");
    places_release();
    clattn_plan_destroy(&plan);
}

static void standard_attention_takes_buffers_alone(void **state)
{
    const struct clattn_problem of = {.d = D};
    (void)state;
    struct clattn_forward_args args = plain_args(COARSE);
    assert_refused(clattn_standard_enqueue(device.clattn, &of, device.queue, &args, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "q.memory is CLATTN_SVM: CLBlast takes a cl_mem alone");
    places_release();
    args = plain_args(BUFFERS);
    args.workspace_memory = CLATTN_USM;
    assert_refused(clattn_standard_enqueue(device.clattn, &of, device.queue, &args, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "workspace_memory is CLATTN_USM: CLBlast takes a cl_mem alone");
    places_release();
}

/* A device of OpenCL 1.2, by what it answers. */
static void devices_without_are_named(void **state)
{
    const struct clattn_context_params params = {.context = device.context, .device = device.device};
    const struct clattn_problem of = {.d = D};
    clattn_context *older = NULL;
    clattn_plan *plan = NULL;
    (void)state;
    places_hide(true);
    assert_int_equal(clattn_context_create(&older, &params), CLATTN_SUCCESS);
    places_hide(false);
    assert_int_equal(clattn_plan_create(&plan, older, &of), CLATTN_SUCCESS);
    struct clattn_forward_args args = plain_args(COARSE);
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_UNSUPPORTED_DEVICE,
                   "q.memory is CLATTN_SVM, and there is no shared virtual memory");
    args.q.memory = CLATTN_USM;
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_UNSUPPORTED_DEVICE,
                   "q.memory is CLATTN_USM, and there is no cl_intel_unified_shared_memory");
    places_release();
    args = plain_args(BUFFERS);
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_SUCCESS);
    clFinish(device.queue);
    places_release();
    clattn_plan_destroy(&plan);
    clattn_context_destroy(&older);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_passes_have_the_same_bits),
        cmocka_unit_test(backward_passes_have_the_same_bits),
        cmocka_unit_test(states_have_the_same_bits),
        cmocka_unit_test(a_plan_takes_kinds_in_turn),
        cmocka_unit_test(appends_have_the_same_bits),
        cmocka_unit_test(wrong_addresses_are_named),
        cmocka_unit_test(unknown_addresses_of_usm_are_refused),
        cmocka_unit_test(outputs_overlap_among_addresses),
        cmocka_unit_test(workspaces_and_states_are_aligned),
        cmocka_unit_test(standard_attention_takes_buffers_alone),
        cmocka_unit_test(devices_without_are_named),
    };
    test_device_open(&device);
    if (!places_open(&device)) {
        test_device_close(&device);
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
