/* SPDX-License-Identifier: BSD-2-Clause
 *
 * clattn beside ggml: nodes of GGML_OP_FLASH_ATTN_EXT computed by ggml's CPU back end, by clattn on tensors in the
 * host's memory, and by clattn on tensors in one buffer of the device, placed as ggml's OpenCL back end places them.
 * Each is held to the same in float64.
 *
 * usage: compare [COUNT]      the first COUNT nodes, or all, on the first device of the first platform or that of
 *                             CLATTN_TEST_DEVICE=P:D. The exit status is 1 where clattn is further from float64 than
 *                             LIMIT, or from ggml than ggml's own limit */
#include "clattn_ggml.h"
#include "judge.h"
#include "nodes.h"
#include "own.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT       1e-5
#define GGML_LIMIT  5e-4
#define ARENA_BYTES (256u << 20)

struct side {
    struct clattn_ggml ggml;
    cl_mem buffer; /* what the device has of the tensors */
    size_t used, align;
};

static void need(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %d %s\n", what, code, clattn_error_message());
    exit(1);
}

/* --- the device */

/* As ggml's OpenCL back end keeps it in `extra`: the buffer, and where in it the tensor begins, of a view the tensor
 * that it is a view of. */
struct extra {
    cl_mem buffer;
    size_t offset;
};

static bool place(void *user, const struct ggml_tensor *tensor, cl_mem *buffer, size_t *offset)
{
    (void)user;
    const struct extra *extra = tensor->extra;
    if (!extra)
        return false;
    *buffer = extra->buffer;
    *offset = extra->offset + tensor->view_offs;
    return true;
}

/* Writes the tensor, or what it is a view of, behind the others. */
static void bring(struct side *side, struct ggml_tensor *tensor, struct extra *extra)
{
    struct ggml_tensor *all = tensor->view_src ? tensor->view_src : tensor;
    if (!all->extra) {
        *extra = (struct extra){side->buffer, side->used};
        need(clEnqueueWriteBuffer(side->ggml.queue, side->buffer, CL_TRUE, side->used, ggml_nbytes(all), all->data, 0,
                                  NULL, NULL),
             "clEnqueueWriteBuffer");
        side->used += (ggml_nbytes(all) + side->align - 1) / side->align * side->align;
        all->extra = extra;
    }
    tensor->extra = all->extra;
}

static int compute_on_device(struct side *side, struct ggml_tensor *node, float *result)
{
    struct extra extras[6];
    side->used = side->align;
    for (int i = 0; i < 5; i++)
        if (node->src[i])
            bring(side, node->src[i], &extras[i]);
    memset(node->data, 0, ggml_nbytes(node));
    bring(side, node, &extras[5]);
    if (clattn_ggml_enqueue(&side->ggml, node, place, NULL))
        return 1;
    need(clEnqueueReadBuffer(side->ggml.queue, side->buffer, CL_TRUE, extras[5].offset, ggml_nbytes(node), result, 0,
                             NULL, NULL),
         "clEnqueueReadBuffer");
    return 0;
}

static void open_side(struct side *side)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_uint count = 0, bits = 0;
    unsigned p = 0, d = 0;
    const char *named = getenv("CLATTN_TEST_DEVICE");
    cl_int code = clGetPlatformIDs(16, platforms, &count);
    if (named && (sscanf(named, "%u:%u", &p, &d) != 2 || p >= count || p > 15 || d > 15))
        need(1, "CLATTN_TEST_DEVICE is P:D, platform and device");
    need(code, "clGetPlatformIDs");
    need(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &count), "clGetDeviceIDs");
    need(d >= count, "CLATTN_TEST_DEVICE: there is no such device");
    side->ggml.device = devices[d];
    side->ggml.cl = clCreateContext(NULL, 1, &devices[d], NULL, NULL, &code);
    need(code, "clCreateContext");
    side->ggml.queue = clCreateCommandQueue(side->ggml.cl, devices[d], 0, &code);
    need(code, "clCreateCommandQueue");
    need(clattn_context_create(&side->ggml.context,
                               &(struct clattn_context_params){.context = side->ggml.cl, .device = devices[d]}),
         "clattn_context_create");
    need(clGetDeviceInfo(devices[d], CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL), "clGetDeviceInfo");
    side->align = bits / 8;
    side->buffer = clCreateBuffer(side->ggml.cl, CL_MEM_READ_WRITE, ARENA_BYTES, NULL, &code);
    need(code, "clCreateBuffer");
}

static void close_side(struct side *side)
{
    clattn_ggml_clear(&side->ggml);
    clReleaseMemObject(side->buffer);
    clReleaseCommandQueue(side->ggml.queue);
    clattn_context_destroy(&side->ggml.context);
    clReleaseContext(side->ggml.cl);
}

/* --- what is compared */

/* What a node's result is held to. */
struct held {
    size_t count;
    double *expected, *of_ggml; /* of_ggml NULL: there is no ggml here */
    float *result;
};

static struct held hold(struct ggml_context *arena, struct ggml_tensor *node)
{
    struct held held = {.count = (size_t)ggml_nelements(node)};
    held.expected = calloc(held.count, sizeof *held.expected);
    held.result = calloc(held.count, sizeof *held.result);
    judge_expected(node, held.expected);
    if (own_result(arena, node)) {
        held.of_ggml = calloc(held.count, sizeof *held.of_ggml);
        for (size_t i = 0; i < held.count; i++)
            held.of_ggml[i] = (double)((const float *)node->data)[i];
        printf(": ggml %.1e", judge_compare(node->data, held.expected, held.count).largest);
    }
    return held;
}

static void let_go(struct held *held)
{
    free(held->result);
    free(held->of_ggml);
    free(held->expected);
}

/* Whether `result` is near enough. */
static bool is_near(const struct held *held, const char *where, const float *result)
{
    const double largest = judge_compare(result, held->expected, held->count).largest;
    printf("%s %.1e", where, largest);
    return largest <= LIMIT &&
           (!held->of_ggml || judge_compare(result, held->of_ggml, held->count).squares <= GGML_LIMIT);
}

static bool compare(struct side *side, const struct one *given, unsigned seed)
{
    const struct one completed = node_complete(given), *one = &completed;
    struct ggml_context *arena = ggml_init((struct ggml_init_params){.mem_size = ARENA_BYTES});
    struct ggml_tensor *node = node_make(arena, one, seed);
    node_describe(one);
    struct held held = hold(arena, node);
    memset(node->data, 0, ggml_nbytes(node));
    bool good = !clattn_ggml_compute(&side->ggml, node) != one->refused;
    good = good && (one->refused || is_near(&held, ": clattn", node->data));
    const bool on_device = !one->refused && !one->host_only;
    if (good)
        good = !compute_on_device(side, node, held.result) == on_device;
    good = good && (!on_device || is_near(&held, ", on the device", held.result));
    const char *message = side->ggml.message;
    printf("%s%s%s\n", good ? "" : " WRONG", !message ? "" : good ? ", refused: " : ": ", message ? message : "");
    let_go(&held);
    ggml_free(arena);
    return good;
}

#define TYPE(type_)   .k_type = type_, .v_type = type_
#define MASKED(rows_) .mask_rows = rows_, .mask_heads = 1, .mask_batch = 1

/* The first ones run without ggml, too. */
static const struct one ones[] = {
    {TYPE(GGML_TYPE_Q8_0), .n_q = 12, .n_kv = 40, MASKED(32), .cache = true, .sinks = true, .softcap = 2},
    {TYPE(GGML_TYPE_F16), .n_q = 3, .n_kv = 40, .mask_rows = 16, .mask_heads = 2, .mask_batch = 2, .batch = 2},
    {TYPE(GGML_TYPE_F16), .n_q = 12, .n_kv = 40, .mask_rows = 16, .mask_heads = 4, .mask_batch = 2, .batch = 4,
     .max_bias = 8},
    {TYPE(GGML_TYPE_Q4_1), .n_q = 12, .n_kv = 40, MASKED(12), .host_only = true, .v_one_head = true},
    {TYPE(GGML_TYPE_F32), .n_q = 1, .n_kv = 8, .d = 640, .refused = true},

    {TYPE(GGML_TYPE_F32), .n_q = 7, .n_kv = 96},
    {TYPE(GGML_TYPE_F32), .n_q = 64, .n_kv = 96, MASKED(64), .cache = true},
    {TYPE(GGML_TYPE_F16), .n_q = 1, .n_kv = 600, MASKED(1)},
    {TYPE(GGML_TYPE_F16), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true},
    {TYPE(GGML_TYPE_F16), .n_q = 75, .n_kv = 300, MASKED(128), .cache = true},
    {TYPE(GGML_TYPE_F16), .n_q = 12, .n_kv = 96, MASKED(32), .sinks = true},
    {TYPE(GGML_TYPE_F16), .n_q = 12, .n_kv = 96, MASKED(32), .softcap = 3},
    {TYPE(GGML_TYPE_F16), .heads = 12, .n_q = 1, .n_kv = 96, MASKED(32), .max_bias = 8},
    {TYPE(GGML_TYPE_F16), .heads = 12, .n_q = 30, .n_kv = 96, MASKED(32), .max_bias = 8},
    {TYPE(GGML_TYPE_F32), .n_q = 5, .n_kv = 96, .mask_rows = 5, .mask_heads = 2, .mask_batch = 1, .max_bias = 4},
    {TYPE(GGML_TYPE_Q8_0), .n_q = 5, .n_kv = 96, MASKED(5), .max_bias = 8, .softcap = 10, .sinks = true},
    {TYPE(GGML_TYPE_F16), .n_q = 5, .n_kv = 113, MASKED(32), .sinks = true, .softcap = 3, .batch = 3},
    {TYPE(GGML_TYPE_F16), .n_q = 5, .n_kv = 40, MASKED(5), .v_one_head = true},
    {TYPE(GGML_TYPE_BF16), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true},
    {TYPE(GGML_TYPE_Q8_0), .n_q = 1, .n_kv = 96, MASKED(32), .cache = true},
    {TYPE(GGML_TYPE_Q8_0), .n_q = 75, .n_kv = 300, MASKED(96), .cache = true},
    {TYPE(GGML_TYPE_Q4_0), .n_q = 1, .n_kv = 96, MASKED(32), .cache = true},
    {TYPE(GGML_TYPE_Q4_0), .n_q = 75, .n_kv = 300, MASKED(96), .cache = true},
    {.k_type = GGML_TYPE_Q8_0, .v_type = GGML_TYPE_Q4_0, .n_q = 7, .n_kv = 96, MASKED(32), .cache = true},
    {.k_type = GGML_TYPE_Q4_0, .v_type = GGML_TYPE_F16, .n_q = 7, .n_kv = 96, MASKED(32)},
    {TYPE(GGML_TYPE_Q4_1), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true, .host_only = true},
    {TYPE(GGML_TYPE_Q5_0), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true, .host_only = true},
    {TYPE(GGML_TYPE_Q5_1), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true, .host_only = true},
    {TYPE(GGML_TYPE_IQ4_NL), .n_q = 7, .n_kv = 96, MASKED(32), .cache = true, .host_only = true},
    {TYPE(GGML_TYPE_Q4_K), .d = 256, .d_v = 256, .n_q = 7, .n_kv = 96, MASKED(32), .host_only = true},
    {TYPE(GGML_TYPE_F16), .d = 40, .d_v = 40, .n_q = 9, .n_kv = 33, MASKED(9)},
    {TYPE(GGML_TYPE_F16), .d = 128, .d_v = 128, .heads = 16, .n_q = 1, .n_kv = 512, MASKED(32), .cache = true},
    {TYPE(GGML_TYPE_F16), .d = 192, .d_v = 128, .n_q = 9, .n_kv = 65, MASKED(9), .v_in_k = true},
    {TYPE(GGML_TYPE_F16), .d = 576, .d_v = 512, .kv_heads = 1, .n_q = 2, .n_kv = 65, MASKED(2), .v_in_k = true},
    {TYPE(GGML_TYPE_Q8_0), .d = 576, .d_v = 512, .kv_heads = 1, .n_q = 2, .n_kv = 65, MASKED(2), .v_in_k = true},
};

int main(int argc, char **argv)
{
    const size_t all = sizeof ones / sizeof *ones;
    const size_t asked = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : all, count = asked < all ? asked : all;
    struct side side = {0};
    size_t wrong = 0;
    open_side(&side);
    for (size_t i = 0; i < count; i++)
        wrong += !compare(&side, &ones[i], 100 + (unsigned)i);
    close_side(&side);
    printf("%zu of %zu wrong\n", wrong, count);
    return wrong || !count;
}
