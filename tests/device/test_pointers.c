/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Addresses of SVM and USM in the place of buffers: the same bits as with buffers, alone and mixed, in every call that
 * takes operands; and what is refused. Where the device has no USM, the functions below say that it has, and pass its
 * calls on to SVM. */
#define _GNU_SOURCE              /* RTLD_NEXT */
#define CL_TARGET_OPENCL_VERSION 200
#include "support/device.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 20, N_KV = 33, D = 16, BLOCK = 16, MOST = 32, BYTES = 1 << 16 };
enum { SVM_CAPABILITIES = 0x1053, FINE_BUFFER = 2, ALLOCATION_TYPE = 0x419a, ALLOCATION_BASE = 0x419b };
static const char usm[] = "cl_intel_unified_shared_memory";

static struct test_device device;
static cl_ulong svm_grains;
static bool has_usm, hides_svm, hides_usm;

/* --- memory of each kind */

struct place {
    enum clattn_memory memory;
    bool fine;
    cl_mem buffer; /* or the address */
    void *allocation;
    int kind;      /* enum way */
    unsigned from; /* of numbers() that it held at first */
};

static struct place places[MOST];
static int place_count;

static void *real_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static cl_int CL_API_CALL fake_set(cl_kernel kernel, cl_uint index, const void *pointer)
{
    return clSetKernelArgSVMPointer(kernel, index, pointer);
}

static cl_int CL_API_CALL fake_copy(cl_command_queue queue, cl_bool blocks, void *to, const void *from, size_t bytes,
                                    cl_uint count, const cl_event *waits, cl_event *event)
{
    return clEnqueueSVMMemcpy(queue, blocks, to, from, bytes, count, waits, event);
}

static cl_int CL_API_CALL fake_query(cl_context context, const void *pointer, cl_uint name, size_t size, void *value,
                                     size_t *answered)
{
    static const cl_uint types[] = {0x4196 /* unknown */, 0x4199 /* shared */};
    const char *base = NULL;
    (void)context;
    (void)answered;
    for (int i = 0; i < place_count; i++) {
        const char *const from = places[i].allocation;
        if (from && (const char *)pointer >= from && (const char *)pointer < from + BYTES)
            base = from;
    }
    const size_t bytes = base ? BYTES : 0;
    const void *const answer = name == ALLOCATION_TYPE   ? (const void *)&types[base != NULL]
                               : name == ALLOCATION_BASE ? (const void *)&base
                                                         : (const void *)&bytes;
    memcpy(value, answer, size);
    return CL_SUCCESS;
}

static void look_for_usm(cl_device_id id,
                         cl_int(CL_API_CALL *real)(cl_device_id, cl_device_info, size_t, void *, size_t *))
{
    char text[1 << 14] = "";
    if (real(id, CL_DEVICE_EXTENSIONS, sizeof text, text, NULL) == CL_SUCCESS)
        has_usm = strstr(text, usm) != NULL;
}

/* These stand in the loader's place. */

cl_int CL_API_CALL clGetDeviceInfo(cl_device_id id, cl_device_info name, size_t size, void *value, size_t *answered)
{
    static cl_int(CL_API_CALL * real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    if (!real)
        *(void **)&real = real_function("clGetDeviceInfo");
    if (hides_svm && name == SVM_CAPABILITIES)
        return CL_INVALID_VALUE;
    if (name == CL_DEVICE_EXTENSIONS)
        look_for_usm(id, real);
    size_t bytes = 0;
    const cl_int code = real(id, name, size, value, &bytes);
    if (code == CL_SUCCESS && name == CL_DEVICE_EXTENSIONS && !has_usm && !hides_usm) {
        if (value && size >= bytes + sizeof usm)
            sprintf((char *)value + bytes - 1, " %s", usm);
        bytes += sizeof usm;
    } else if (value && name == CL_DEVICE_EXTENSIONS && hides_usm && strstr(value, usm)) {
        memset(strstr(value, usm), '-', sizeof usm - 1);
    }
    if (answered)
        *answered = bytes;
    return code;
}

void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    static void *(CL_API_CALL * real)(cl_platform_id, const char *);
    static const struct {
        const char *name;
        void (*function)(void);
    } fakes[] = {{"clSetKernelArgMemPointerINTEL", (void (*)(void))fake_set},
                 {"clEnqueueMemcpyINTEL", (void (*)(void))fake_copy},
                 {"clGetMemAllocInfoINTEL", (void (*)(void))fake_query}};
    if (!real)
        *(void **)&real = real_function("clGetExtensionFunctionAddressForPlatform");
    EACH (i, fakes) {
        void *address;
        memcpy(&address, &fakes[i].function, sizeof address);
        if (!has_usm && strcmp(name, fakes[i].name) == 0)
            return address;
    }
    return real(platform, name);
}

static void *usm_function(const char *name)
{
    cl_platform_id platform = NULL;
    clGetDeviceInfo(device.device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    return clGetExtensionFunctionAddressForPlatform(platform, name);
}

static void *allocate(enum clattn_memory memory, bool fine)
{
    typedef void *(CL_API_CALL * allocator)(cl_context, cl_device_id, const cl_ulong *, size_t, cl_uint, cl_int *);
    cl_int code = CL_SUCCESS;
    allocator usm_alloc;
    if (memory == CLATTN_SVM || !has_usm)
        return clSVMAlloc(device.context, CL_MEM_READ_WRITE | (fine ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0), BYTES, 0);
    *(void **)&usm_alloc = usm_function("clSharedMemAllocINTEL");
    return usm_alloc(device.context, device.device, NULL, BYTES, 0, &code);
}

static void release(struct place *place)
{
    cl_int(CL_API_CALL * usm_free)(cl_context, void *);
    *(void **)&usm_free = usm_function("clMemFreeINTEL");
    if (!place->memory)
        clReleaseMemObject(place->buffer);
    else if (place->memory == CLATTN_SVM || !has_usm)
        clSVMFree(device.context, place->allocation);
    else
        usm_free(device.context, place->allocation);
}

static void copy_in(const struct place *place, const void *data)
{
    if (!place->memory) {
        clEnqueueWriteBuffer(device.queue, place->buffer, CL_TRUE, 0, BYTES, data, 0, NULL, NULL);
    } else if (place->fine) {
        memcpy(place->allocation, data, BYTES);
    } else {
        clEnqueueSVMMap(device.queue, CL_TRUE, CL_MAP_WRITE, place->allocation, BYTES, 0, NULL, NULL);
        memcpy(place->allocation, data, BYTES);
        clEnqueueSVMUnmap(device.queue, place->allocation, 0, NULL, NULL);
    }
}

static void copy_out(const struct place *place, void *data)
{
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    if (!place->memory) {
        clEnqueueReadBuffer(device.queue, place->buffer, CL_TRUE, 0, BYTES, data, 0, NULL, NULL);
    } else if (place->fine) {
        memcpy(data, place->allocation, BYTES);
    } else {
        clEnqueueSVMMap(device.queue, CL_TRUE, CL_MAP_READ, place->allocation, BYTES, 0, NULL, NULL);
        memcpy(data, place->allocation, BYTES);
        clEnqueueSVMUnmap(device.queue, place->allocation, 0, NULL, NULL);
    }
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

/* How the operands of a call are given: the kinds in turn. */
enum way { BUFFERS, COARSE, FINE, UNIFIED, MIXED, WAYS };

static struct place *make(enum way way, const void *data)
{
    static const enum way turns[] = {COARSE, BUFFERS, UNIFIED, FINE, BUFFERS, COARSE, UNIFIED};
    struct place *place = &places[place_count];
    const enum way kind = way == MIXED ? turns[place_count % (int)(sizeof turns / sizeof *turns)] : way;
    const bool real_usm = kind == UNIFIED && has_usm;
    *place = (struct place){.memory = kind == BUFFERS   ? CLATTN_BUFFER
                                      : kind == UNIFIED ? CLATTN_USM
                                                        : CLATTN_SVM,
                            .fine = real_usm || (kind == FINE && (svm_grains & FINE_BUFFER)),
                            .kind = (int)kind};
    if (kind == BUFFERS) {
        place->buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    } else {
        place->allocation = allocate(place->memory, place->fine);
        place->buffer = (cl_mem)place->allocation;
    }
    assert_non_null(place->buffer);
    place_count++;
    copy_in(place, data);
    return place;
}

static void release_all(void)
{
    while (place_count)
        release(&places[--place_count]);
}

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
    struct place *place = make(way, numbers(from));
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
    const struct place *offsets = make(way, integers(0, 2)), *columns = make((enum way)offsets->kind, integers(0, 1));
    score.block_offsets.buffer = offsets->buffer;
    score.block_offsets.memory = offsets->memory;
    /* Each head's three numbers begin where the last ones have ended. */
    score.block_offsets.layout = (struct clattn_layout){.batch = 2 * HEADS, .head = 2, .row = 1};
    score.block_columns = columns->buffer;
    const struct place *data = make(way, numbers(9)), *shifts = make(way, integers(5, 8)),
                       *lengths = make(way, integers(17, 3));
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
    for (int i = 0; i < count; i++)
        for (int p = 0; p < place_count; p++)
            if (places[p].buffer == tensors[i]->buffer) {
                copy_out(&places[p], outputs->bytes[i]);
                assert_memory_not_equal(outputs->bytes[i], numbers(places[p].from), BYTES);
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
    const struct place *workspace = make(way, numbers(5));
    args.workspace = workspace->buffer;
    args.workspace_memory = workspace->memory;
    args.q.layout.offset = 3; /* and not at a multiple of more than the type's size */
    assert_true(test_succeeded(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "forward"));
    const struct clattn_tensor *const written[] = {&args.o, &args.lse};
    read_outputs(written, 2, outputs);
    release_all();
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
    const struct place *workspace = make(way, numbers(5));
    args.workspace = workspace->buffer;
    args.workspace_memory = workspace->memory;
    assert_true(test_succeeded(clattn_backward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "backward"));
    assert_true(test_succeeded(clattn_backward_check(plan, device.queue, &args, 0, NULL), "clattn_backward_check"));
    const struct clattn_tensor *const written[] = {&args.d_q, &args.d_k, &args.d_v, &args.d_bias};
    read_outputs(written, 4, outputs);
    release_all();
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
    const struct place *two[] = {make(way, numbers(0)), make(way, numbers(1))};
    struct clattn_accumulate_args chunk = {.shape = shape,
                                           .q = tensor_of(way, 0),
                                           .k = tensor_of(way, 1),
                                           .v = tensor_of(way, 2),
                                           .workspace_bytes = workspace_of(plan)};
    const struct place *workspace = make(way, numbers(5));
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
    release_all();
    clattn_plan_destroy(&plan);
}

static void states_have_the_same_bits(void **state)
{
    (void)state;
    assert_same(states);
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
    release_all();
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
        release_all();
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
    release_all();
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
    release_all();
    clattn_plan_destroy(&plan);
}

static void workspaces_and_states_are_aligned(void **state)
{
    (void)state;
    clattn_plan *plan = plan_of((struct clattn_problem){.pass = CLATTN_BACKWARD, .d = D});
    const struct place *workspace = make(COARSE, numbers(0));
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
    release_all();
    clattn_plan_destroy(&plan);
}

static void standard_attention_takes_buffers_alone(void **state)
{
    const struct clattn_problem of = {.d = D};
    (void)state;
    struct clattn_forward_args args = plain_args(COARSE);
    assert_refused(clattn_standard_enqueue(device.clattn, &of, device.queue, &args, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "q.memory is CLATTN_SVM: CLBlast takes a cl_mem alone");
    release_all();
    args = plain_args(BUFFERS);
    args.workspace_memory = CLATTN_USM;
    assert_refused(clattn_standard_enqueue(device.clattn, &of, device.queue, &args, 0, NULL, NULL),
                   CLATTN_INVALID_ARGUMENT, "workspace_memory is CLATTN_USM: CLBlast takes a cl_mem alone");
    release_all();
}

/* A device of OpenCL 1.2, by what it answers. */
static void devices_without_are_named(void **state)
{
    const struct clattn_context_params params = {.context = device.context, .device = device.device};
    const struct clattn_problem of = {.d = D};
    clattn_context *older = NULL;
    clattn_plan *plan = NULL;
    (void)state;
    hides_svm = hides_usm = true;
    assert_int_equal(clattn_context_create(&older, &params), CLATTN_SUCCESS);
    hides_svm = hides_usm = false;
    assert_int_equal(clattn_plan_create(&plan, older, &of), CLATTN_SUCCESS);
    struct clattn_forward_args args = plain_args(COARSE);
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_UNSUPPORTED_DEVICE,
                   "q.memory is CLATTN_SVM, and there is no shared virtual memory");
    args.q.memory = CLATTN_USM;
    assert_refused(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_UNSUPPORTED_DEVICE,
                   "q.memory is CLATTN_USM, and there is no cl_intel_unified_shared_memory");
    release_all();
    args = plain_args(BUFFERS);
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_SUCCESS);
    clFinish(device.queue);
    release_all();
    clattn_plan_destroy(&plan);
    clattn_context_destroy(&older);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_passes_have_the_same_bits),
        cmocka_unit_test(backward_passes_have_the_same_bits),
        cmocka_unit_test(states_have_the_same_bits),
        cmocka_unit_test(appends_have_the_same_bits),
        cmocka_unit_test(wrong_addresses_are_named),
        cmocka_unit_test(unknown_addresses_of_usm_are_refused),
        cmocka_unit_test(outputs_overlap_among_addresses),
        cmocka_unit_test(workspaces_and_states_are_aligned),
        cmocka_unit_test(standard_attention_takes_buffers_alone),
        cmocka_unit_test(devices_without_are_named),
    };
    test_device_open(&device);
    clGetDeviceInfo(device.device, SVM_CAPABILITIES, sizeof svm_grains, &svm_grains, NULL);
    if (!svm_grains) {
        test_device_close(&device);
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
