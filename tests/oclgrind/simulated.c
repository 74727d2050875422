/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tiny forward passes with every skeleton, for Oclgrind to watch: buffers of exactly the needed size, so that it sees
 * any access beyond, and shapes with blocks that are full, cut off, hidden and partly hidden. The planner meets the
 * device that the environment pretends; what it takes must run there, be right, and leave Oclgrind with nothing to say.
 */
#include "support/compare.h"
#include "support/turn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

/* Small enough for an interpreter, and still more than one block each way where the local memory is small. */
static const struct forward_case cases[] = {
    {.problem = {.d = 8}, .shape = {.batch = 1, .heads = 1, .n_q = 5, .n_kv = 37}, .seed = 1},
    {.problem = {.dtype = CLATTN_FP16, .d = 33, .d_v = 20, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
     .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 21, .n_kv = 18},
     .seed = 2},
    {.problem = {.dtype = CLATTN_BF16, .d = 7, .causal = CLATTN_CAUSAL_TOP_LEFT},
     .shape = {.batch = 2, .heads = 1, .n_q = 3, .n_kv = 40},
     .seed = 3},
    {.problem = {.d = 64, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
     .shape = {.batch = 1, .heads = 1, .n_q = 2, .n_kv = 35},
     .seed = 4},
};

static cl_mem buffer_of(const struct test_device *device, size_t bytes, void *from)
{
    cl_int code = CL_SUCCESS;
    cl_mem_flags flags = from ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_WRITE_ONLY;
    cl_mem buffer = clCreateBuffer(device->context, flags, bytes, from, &code);
    return test_cl_succeeded(code, "clCreateBuffer") ? buffer : NULL;
}

static cl_mem stored(const struct test_device *device, enum clattn_dtype dtype, const float *dense, size_t count)
{
    static float storage[MOST];
    const int64_t sizes[4] = {1, 1, 1, (int64_t)count};
    const struct clattn_layout packed = {0};
    if (count > MOST)
        return NULL;
    reference_scatter(dtype, sizes, &packed, dense, storage);
    return buffer_of(device, count * (size_t)clattn_dtype_size(dtype), storage);
}

static bool fetch(const struct test_device *device, cl_mem buffer, enum clattn_dtype dtype, float *dense, size_t count)
{
    static float storage[MOST];
    const int64_t sizes[4] = {1, 1, 1, (int64_t)count};
    const struct clattn_layout packed = {0};
    const cl_int code = clEnqueueReadBuffer(device->queue, buffer, CL_TRUE, 0, count * (size_t)clattn_dtype_size(dtype),
                                            storage, 0, NULL, NULL);
    reference_gather(dtype, sizes, &packed, storage, dense);
    return test_cl_succeeded(code, "clEnqueueReadBuffer");
}

enum { Q, K, V, O, LSE, M, L, TENSORS };

static bool run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                struct forward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference(forward);
    const size_t rows = reference_row_count(&problem), outputs = reference_o_count(&problem);
    const enum clattn_dtype dtype = problem.dtype;
    cl_mem buffers[TENSORS] = {
        stored(device, dtype, arrays->q, reference_q_count(&problem)),
        stored(device, dtype, arrays->k, reference_k_count(&problem)),
        stored(device, dtype, arrays->v, reference_v_count(&problem)),
        buffer_of(device, outputs * (size_t)clattn_dtype_size(dtype), NULL),
        buffer_of(device, rows * sizeof(float), NULL),
        buffer_of(device, rows * sizeof(float), NULL),
        buffer_of(device, rows * sizeof(float), NULL),
    };
    const struct clattn_forward_args args = {.shape = forward->shape,
                                             .q = {.buffer = buffers[Q]},
                                             .k = {.buffer = buffers[K]},
                                             .v = {.buffer = buffers[V]},
                                             .o = {.buffer = buffers[O]},
                                             .lse = {.buffer = buffers[LSE]},
                                             .m = {.buffer = buffers[M]},
                                             .l = {.buffer = buffers[L]}};
    const bool ran =
        test_succeeded(clattn_forward_enqueue(plan, device->queue, &args, 0, NULL, NULL), "clattn_forward_enqueue") &&
        fetch(device, buffers[O], dtype, arrays->o, outputs) &&
        fetch(device, buffers[LSE], CLATTN_FP32, arrays->lse, rows) &&
        fetch(device, buffers[M], CLATTN_FP32, arrays->m, rows) &&
        fetch(device, buffers[L], CLATTN_FP32, arrays->l, rows);
    for (int i = 0; i < TENSORS; i++)
        if (buffers[i])
            clReleaseMemObject(buffers[i]);
    return ran;
}

static bool check(const struct test_device *device, struct forward_case forward, const char *skeleton)
{
    struct clattn_plan_info info = {.b_r = 0};
    struct forward_arrays arrays;
    clattn_plan *plan = NULL;
    char text[256];
    forward.problem.skeleton = skeleton;
    if (!test_serves(device, &forward.problem))
        return true;
    if (!forward_arrays_make(&forward, &arrays))
        return false;
    const bool right =
        test_succeeded(clattn_plan_create(&plan, device->clattn, &forward.problem), "clattn_plan_create") &&
        test_succeeded(clattn_plan_get_info(plan, &info), "clattn_plan_get_info") &&
        run(device, plan, &forward, &arrays) && compare_outputs(&forward, &arrays);
    forward_describe(&forward, text, sizeof text);
    printf("%s: %s: B_r %d, B_c %d, %d work-items, %llu of %llu bytes\n", right ? "right" : "WRONG", text, info.b_r,
           info.b_c, info.work_group_size, (unsigned long long)info.local_bytes,
           (unsigned long long)info.local_bytes_limit);
    clattn_plan_destroy(&plan);
    forward_arrays_free(&arrays);
    return right;
}

static int failures_of_shapes(const struct test_device *device, const char *skeleton)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        failures += !check(device, cases[i], skeleton);
    return failures;
}

static int failures_of_sweep(const struct test_device *device, const char *skeleton)
{
    static const int dimensions[] = {1, 2, 5, 16, 32, 40, 59, 80, 96, 111, 128, 160, 192};
    int failures = 0;
    for (int i = 0; i < (int)(sizeof dimensions / sizeof dimensions[0]); i++) {
        const struct forward_case forward = {.problem = {.dtype = (enum clattn_dtype)(i % 3),
                                                         .d = dimensions[i],
                                                         .d_v = i % 4 == 2 ? 24 : 0,
                                                         .causal = (enum clattn_causal)(i / 3 % 3)},
                                             .shape = {.batch = 1, .heads = 1, .n_q = 3, .n_kv = 19},
                                             .seed = (uint64_t)i + 1};
        failures += test_is_turn(i, 4) && !check(device, forward, skeleton);
    }
    return failures;
}

int main(int argc, char **argv)
{
    struct test_device device;
    int failures = 0;
    const bool sweep = argc > 1 && strcmp(argv[1], "sweep") == 0;
    test_device_open(&device);
    /* Not the matrix skeletons: LLVM makes freeze instructions of their text, which Oclgrind 21.10 cannot run. */
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        if (!strstr((*skeleton)->name, "matrix"))
            failures +=
                sweep ? failures_of_sweep(&device, (*skeleton)->name) : failures_of_shapes(&device, (*skeleton)->name);
    test_device_close(&device);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
