/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How long calls with few rows take, one after the other in turns, so that what else the machine does meets all: the
 * plans of several numbers of rows, or such as are forced. K and V in one type. Prints nanoseconds of processor time a
 * key and head of K and V: the least and the median of TURNS. Two builds of the library take turns by the loader's
 * path:
 *
 *     cc -std=c11 -O2 -Iinclude -o decode_turns tests/peers/decode_turns.c BUILD/src/libclattn.so -lOpenCL
 *     export POCL_MAX_PTHREAD_COUNT=1
 *     LD_LIBRARY_PATH=BEFORE/src ./decode_turns 128 16384 32 8 1 8 1 2 4 8
 *     LD_LIBRARY_PATH=NOW/src ./decode_turns 128 16384 32 8 1 8 1 2 4 8
 *
 * The arguments are d, keys, heads, heads of K and V, the type (0 fp32, 1 fp16, 2 bf16), turns, and then a plan each:
 * its rows, or "ROWS|SKELETON|B_R|B_C|KNOBS". */
#define _POSIX_C_SOURCE 199309L
#include "turns.h"
#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 16, MOST_TURNS = 999, MOST_ROWS = 64, FIRST_PLAN = 7 };

struct row {
    clattn_plan *plan;
    struct clattn_forward_args args;
    double times[MOST_TURNS];
};

/* `count` numbers between 1 and 2, whose sign bit changes, in any of the types. */
static cl_mem numbers(cl_context context, size_t count, int type)
{
    const size_t bytes = count * (type ? 2 : 4);
    unsigned char *data = malloc(bytes);
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; data && i < count; ++i) {
        const unsigned random = (unsigned)rand(), sign = random >> 8 & 1u;
        const unsigned whole = sign << 31 | 0x3f800000u | (random & 0x7fu) << 16;
        const unsigned short half =
            (unsigned short)(type == 1 ? sign << 15 | 0x3c00u | (random & 0x7fu) << 3 : whole >> 16);
        memcpy(data + i * (type ? 2 : 4), type ? (const void *)&half : (const void *)&whole, type ? 2 : 4);
    }
    if (!data)
        stop("no memory");
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, &code);
    free(data);
    if (code)
        stop("no buffer");
    return buffer;
}

/* "ROWS|SKELETON|B_R|B_C|KNOBS", whose words are cut off in place. */
static void force(struct clattn_problem *problem, char *words)
{
    char *at[5] = {words};
    for (int i = 1; i < 5 && at[i - 1] && (at[i] = strchr(at[i - 1], '|')); ++i)
        *at[i]++ = '\0';
    problem->expected_n_q = atoi(at[0]);
    if (at[1]) {
        problem->skeleton = at[1];
        problem->packing = CLATTN_PACKING_ALWAYS;
    }
    problem->b_r = at[2] ? atoi(at[2]) : 0;
    problem->b_c = at[3] ? atoi(at[3]) : 0;
    problem->knobs = at[4];
}

int main(int count, char **words)
{
    static struct row rows[MOST_PLANS];
    if (count <= FIRST_PLAN || count > FIRST_PLAN + MOST_PLANS)
        stop("decode_turns D KEYS HEADS KV_HEADS TYPE TURNS ROWS...");
    const int d = atoi(words[1]), heads = atoi(words[3]), kv_heads = atoi(words[4]), type = atoi(words[5]);
    const int turns = atoi(words[6]), plans = count - FIRST_PLAN;
    const int64_t keys = atoll(words[2]);
    if (turns < 1 || turns > MOST_TURNS)
        stop("turns are 1 to 999");

    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        stop("no device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    clattn_context *clattn = NULL;
    const struct clattn_context_params params = {.context = context, .device = device};
    if (clattn_context_create(&clattn, &params))
        stop(clattn_error_message());
    const cl_mem k = numbers(context, (size_t)(keys * kv_heads * d), type);
    const cl_mem v = numbers(context, (size_t)(keys * kv_heads * d), type);
    const cl_mem q = numbers(context, (size_t)(heads * MOST_ROWS * d), type);
    const cl_mem o = numbers(context, (size_t)(heads * MOST_ROWS * d), type);
    for (int i = 0; i < plans; ++i) {
        struct clattn_forward_args *args = &rows[i].args;
        struct clattn_problem problem = {.dtype = (enum clattn_dtype)type,
                                         .d = d,
                                         .expected_n_kv = keys,
                                         .expected_heads = heads,
                                         .expected_kv_heads = kv_heads,
                                         .splits = 1};
        force(&problem, words[FIRST_PLAN + i]);
        args->shape = (struct clattn_shape){
            .batch = 1, .heads = heads, .kv_heads = kv_heads, .n_q = problem.expected_n_q, .n_kv = keys};
        args->q.buffer = q;
        args->k.buffer = k;
        args->v.buffer = v;
        args->o.buffer = o;
        if (problem.expected_n_q < 1 || problem.expected_n_q > MOST_ROWS)
            stop("rows are 1 to 64");
        if (clattn_plan_create(&rows[i].plan, clattn, &problem) ||
            clattn_plan_workspace_bytes(rows[i].plan, &args->shape, &args->workspace_bytes))
            stop(clattn_error_message());
        if (args->workspace_bytes)
            args->workspace = numbers(context, args->workspace_bytes, 0);
    }
    for (int turn = -1; turn < turns; ++turn) {
        for (int i = 0; i < plans; ++i) {
            const double begin = cpu_ns();
            if (clattn_forward_enqueue(rows[i].plan, queue, &rows[i].args, 0, NULL, NULL) || clFinish(queue))
                stop(clattn_error_message());
            rows[i].times[turn < 0 ? 0 : turn] = (cpu_ns() - begin) / (double)(keys * kv_heads);
        }
    }
    for (int i = 0; i < plans; ++i) {
        qsort(rows[i].times, (size_t)turns, sizeof rows[i].times[0], by_size);
        printf("d %d, %lld rows: least %.1f, median %.1f ns a key\n", d, (long long)rows[i].args.shape.n_q,
               rows[i].times[0], rows[i].times[turns / 2]);
        clattn_plan_destroy(&rows[i].plan);
    }
    clattn_context_destroy(&clattn);
    return 0;
}
