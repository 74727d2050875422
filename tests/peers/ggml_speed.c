/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How long one new row takes beside ggml's flash attention on the CPU: 32 heads on 8 of K and V, d 128, the same bytes
 * of K and V in fp16 and in q8_0, one thread each, calls in turns. Prints nanoseconds of processor time a key and head
 * of K and V, the least and the median of TURNS, what times clattn's ggml's are, and the largest difference of O.
 * GGML and BUILT are a checkout of ggml and its build with static libraries and without OpenMP (tests/ggml/compare.sh):
 *
 *     cc -std=c11 -O2 -Iinclude -IGGML/include -o ggml_speed tests/peers/ggml_speed.c BUILT/src/libggml-cpu.a \
 *         BUILT/src/libggml-base.a build/src/libclattn.so -Wl,-rpath,$PWD/build/src -lOpenCL -lstdc++ -lpthread -lm
 *     POCL_MAX_PTHREAD_COUNT=1 ./ggml_speed [TURNS [KEYS]]
 */
#define _POSIX_C_SOURCE 199309L
#include "turns.h"
#include <clattn/clattn.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { D = 128, HEADS = 32, KV_HEADS = 8, MOST_TURNS = 999 };

static float *numbers(size_t count)
{
    float *x = malloc(count * sizeof *x);
    if (!x)
        stop("no memory");
    for (size_t i = 0; i < count; ++i)
        x[i] = 4.0f * (float)rand() / (float)RAND_MAX - 2.0f;
    return x;
}

static cl_mem buffer_of(cl_context context, size_t bytes, void *data)
{
    cl_int code = CL_SUCCESS;
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0);
    const cl_mem buffer = clCreateBuffer(context, flags, bytes, data, &code);
    if (code)
        stop("no buffer");
    return buffer;
}

/* Both of one format, with `keys` keys. */
static void compare(const char *name, enum ggml_type type, enum clattn_operand_type as, int64_t keys, int turns)
{
    static double times[2][MOST_TURNS];
    struct ggml_init_params memory = {.mem_size = (size_t)keys * KV_HEADS * D * 8 + (64u << 20)};
    struct ggml_context *ggml = ggml_init(memory);
    struct ggml_tensor *q = ggml_new_tensor_4d(ggml, GGML_TYPE_F32, D, 1, HEADS, 1);
    struct ggml_tensor *k = ggml_new_tensor_4d(ggml, type, D, keys, KV_HEADS, 1);
    struct ggml_tensor *v = ggml_new_tensor_4d(ggml, type, D, keys, KV_HEADS, 1);
    const float scale = 1.0f / sqrtf(D);
    struct ggml_tensor *o = ggml_flash_attn_ext(ggml, q, k, v, NULL, scale, 0.0f, 0.0f);
    struct ggml_cgraph *graph = ggml_new_graph(ggml);
    ggml_build_forward_expand(graph, o);

    float *rows = numbers((size_t)keys * KV_HEADS * D);
    ggml_quantize_chunk(type, rows, k->data, 0, keys * KV_HEADS, D, NULL);
    free(rows);
    rows = numbers((size_t)keys * KV_HEADS * D);
    ggml_quantize_chunk(type, rows, v->data, 0, keys * KV_HEADS, D, NULL);
    free(rows);
    ggml_fp16_t halves[HEADS * D];
    rows = numbers(HEADS * D);
    ggml_fp32_to_fp16_row(rows, halves, HEADS * D);
    ggml_fp16_to_fp32_row(halves, (float *)q->data, HEADS * D);
    free(rows);

    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL))
        stop("no device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    clattn_context *clattn = NULL;
    clattn_plan *plan = NULL;
    const struct clattn_context_params params = {.context = context, .device = device};
    const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                           .d = D,
                                           .k_type = as,
                                           .v_type = as,
                                           .expected_n_q = 1,
                                           .expected_n_kv = keys,
                                           .expected_heads = HEADS,
                                           .expected_kv_heads = KV_HEADS,
                                           .splits = 1};
    if (clattn_context_create(&clattn, &params) || clattn_plan_create(&plan, clattn, &problem))
        stop(clattn_error_message());
    struct clattn_forward_args args = {
        .shape = {.batch = 1, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = 1, .n_kv = keys},
        .q.buffer = buffer_of(context, sizeof halves, halves),
        .k.buffer = buffer_of(context, ggml_nbytes(k), k->data),
        .v.buffer = buffer_of(context, ggml_nbytes(v), v->data),
        .o.buffer = buffer_of(context, sizeof halves, NULL)};
    if (clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes))
        stop(clattn_error_message());
    if (args.workspace_bytes)
        args.workspace = buffer_of(context, args.workspace_bytes, NULL);

    for (int turn = -1; turn < turns; ++turn) {
        const double begin = cpu_ns();
        if (clattn_forward_enqueue(plan, queue, &args, 0, NULL, NULL) || clFinish(queue))
            stop(clattn_error_message());
        const double middle = cpu_ns();
        if (ggml_graph_compute_with_ctx(ggml, graph, 1) != GGML_STATUS_SUCCESS)
            stop("ggml");
        if (turn >= 0) {
            times[0][turn] = (middle - begin) / (double)(keys * KV_HEADS);
            times[1][turn] = (cpu_ns() - middle) / (double)(keys * KV_HEADS);
        }
    }
    float apart = 0.0f, results[HEADS * D];
    if (clEnqueueReadBuffer(queue, args.o.buffer, CL_TRUE, 0, sizeof halves, halves, 0, NULL, NULL))
        stop("no result");
    ggml_fp16_to_fp32_row(halves, results, HEADS * D);
    for (int i = 0; i < HEADS * D; ++i)
        apart = fmaxf(apart, fabsf(results[i] - ((const float *)o->data)[i]));
    for (int who = 0; who < 2; ++who)
        qsort(times[who], (size_t)turns, sizeof times[who][0], by_size);
    printf("%-5s clattn %.1f (%.1f), ggml %.1f (%.1f) ns a key: %.2f (%.2f) times; O differs by %.1e\n", name,
           times[0][0], times[0][turns / 2], times[1][0], times[1][turns / 2], times[1][0] / times[0][0],
           times[1][turns / 2] / times[0][turns / 2], (double)apart);
    clattn_plan_destroy(&plan);
    clattn_context_destroy(&clattn);
    ggml_free(ggml);
}

int main(int count, char **words)
{
    const int turns = count > 1 ? atoi(words[1]) : 9;
    const int64_t keys = count > 2 ? atoll(words[2]) : 16384;
    if (turns < 1 || turns > MOST_TURNS || keys < 1)
        stop("ggml_speed [TURNS [KEYS]]");
    compare("fp16", GGML_TYPE_F16, CLATTN_AS_FP16, keys, turns);
    compare("q8_0", GGML_TYPE_Q8_0, CLATTN_AS_Q8_0, keys, turns);
    compare("q4_0", GGML_TYPE_Q4_0, CLATTN_AS_Q4_0, keys, turns);
    return 0;
}
