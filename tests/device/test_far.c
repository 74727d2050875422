/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tensors that lie further apart than 32 bits can say: a second head beyond 2^31 elements of its buffer where the
 * device has buffers of more than 4 GiB, else beyond 2^31 bytes. The space between is never touched. */
#include "support/compare.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;

enum { D = 32, N = 40, HEADS = 2, ELEMENTS = HEADS * N * D, HALF = N * D, BYTES = sizeof(uint16_t) };
enum place { FAR_K, FAR_V, FAR_O, PLACES };

static const struct forward_case forward = {
    .problem = {.dtype = CLATTN_FP16, .d = D}, .shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N}, .seed = 31};

/* The distance between the heads in elements; 0 where the device has no buffer of that size. */
static int64_t distance(void)
{
    const uint64_t most = clattn_context_capabilities(device.clattn)->max_allocation_bytes;
    for (int bits = 31; bits >= 30; bits--) {
        const int64_t elements = (INT64_C(1) << bits) + 12345;
        if ((uint64_t)(elements + HALF) * BYTES <= most)
            return elements;
    }
    return 0;
}

static cl_mem make(size_t bytes)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return test_cl_succeeded(code, "clCreateBuffer") ? buffer : NULL;
}

static bool write_heads(const struct clattn_tensor *tensor, const float *dense)
{
    static const int64_t sizes[4] = {1, HEADS, N, D};
    static const struct clattn_layout packed = {0};
    uint16_t storage[ELEMENTS];
    reference_scatter(CLATTN_FP16, sizes, &packed, dense, storage);
    for (int head = 0; head < HEADS; head++)
        if (clEnqueueWriteBuffer(device.queue, tensor->buffer, CL_TRUE, (size_t)(head * tensor->layout.head) * BYTES,
                                 HALF * BYTES, storage + head * HALF, 0, NULL, NULL) != CL_SUCCESS)
            return false;
    return true;
}

static bool read_heads(const struct clattn_tensor *tensor, float *dense)
{
    static const int64_t sizes[4] = {1, HEADS, N, D};
    static const struct clattn_layout packed = {0};
    uint16_t storage[ELEMENTS];
    for (int head = 0; head < HEADS; head++)
        if (clEnqueueReadBuffer(device.queue, tensor->buffer, CL_TRUE, (size_t)(head * tensor->layout.head) * BYTES,
                                HALF * BYTES, storage + head * HALF, 0, NULL, NULL) != CL_SUCCESS)
            return false;
    reference_gather(CLATTN_FP16, sizes, &packed, storage, dense);
    return true;
}

static bool add_workspace(const clattn_plan *plan, struct clattn_forward_args *args)
{
    if (!test_succeeded(clattn_plan_workspace_bytes(plan, &args->shape, &args->workspace_bytes),
                        "clattn_plan_workspace_bytes"))
        return false;
    args->workspace = args->workspace_bytes ? make(args->workspace_bytes) : NULL;
    return args->workspace || !args->workspace_bytes;
}

static bool run(const clattn_plan *plan, const struct clattn_forward_args *args, struct forward_arrays *arrays)
{
    return write_heads(&args->q, arrays->q) && write_heads(&args->k, arrays->k) && write_heads(&args->v, arrays->v) &&
           test_succeeded(clattn_forward_enqueue(plan, device.queue, args, 0, NULL, NULL), "clattn_forward_enqueue") &&
           test_cl_succeeded(clFinish(device.queue), "clFinish") && read_heads(&args->o, arrays->o);
}

/* The outputs with one tensor far must be those with all near, which other tests have judged. */
static bool same_when_far(const struct cla_skeleton *skeleton, const char *knobs, enum place place, int64_t apart)
{
    struct forward_case named = forward;
    struct forward_arrays near, far;
    named.problem.skeleton = skeleton->name;
    named.problem.knobs = knobs;
    clattn_plan *plan = NULL;
    struct clattn_forward_args args = {.shape = forward.shape};
    struct clattn_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o};
    bool same = forward_arrays_make(&named, &near) && forward_arrays_make(&named, &far) &&
                forward_run(&device, NULL, &named, &near) &&
                test_succeeded(clattn_plan_create(&plan, device.clattn, &named.problem), "clattn_plan_create");
    for (int i = 0; i < 4; i++) {
        const bool is_far = i == (int)place + 1;
        tensors[i]->layout = clattn_layout_bhnd(HEADS, N, D);
        if (is_far)
            tensors[i]->layout.head = apart;
        tensors[i]->buffer = make((size_t)(is_far ? apart + HALF : ELEMENTS) * BYTES);
        same = same && tensors[i]->buffer;
    }
    same = same && add_workspace(plan, &args) && run(plan, &args, &far) &&
           compare_close("o", near.o, far.o, ELEMENTS, 0.0);
    for (int i = 0; i < 4; i++)
        if (tensors[i]->buffer)
            clReleaseMemObject(tensors[i]->buffer);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    clattn_plan_destroy(&plan);
    forward_arrays_free(&near);
    forward_arrays_free(&far);
    return same;
}

static void a_head_beyond_32_bits(void **state)
{
    (void)state;
    const int64_t apart = distance();
    int failures = 0;
    if (!apart) {
        print_message("the device has no buffer of 2 GiB\n");
        skip();
    }
    print_message("heads are %lld elements apart\n", (long long)apart);
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        struct clattn_problem named = forward.problem;
        named.skeleton = (*skeleton)->name;
        for (int place = 0; place < PLACES && test_serves(&device, &named); place++) {
            failures += !same_when_far(*skeleton, NULL, (enum place)place, apart);
            if (test_knobs(*skeleton, 1))
                failures += !same_when_far(*skeleton, test_knobs(*skeleton, 1), (enum place)place, apart);
        }
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_head_beyond_32_bits)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
