/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A whole model on the device level: all-MiniLM-L6-v2, which makes a vector of a sentence. In each of its six layers
 *
 *     Q = x W_q + b_q,  K = x W_k + b_k,  V = x W_v + b_v      CLBlast
 *     O = softmax(Q K^T / sqrt(d)) V                           clattn
 *     x = norm(x + O W_o + b_o),  x = norm(x + gelu(x W_1 + b_1) W_2 + b_2)
 *
 * on one queue. What is left of it, sums and norms of rows, is done by the host, since it is short.
 *
 * usage: minilm model.safetensors TOKEN...      the tokens' numbers, [CLS] and [SEP] among them; prints the vector */
#include <clattn/clattn.h>
#include <clblast_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, HEADS = 12, D = 32, WIDTH = HEADS * D, INNER = 1536, MOST_TOKENS = 512 };

struct model {
    char *file; /* safetensors: the length of a JSON text, the text, the numbers */
    const char *names, *numbers;
    cl_context cl;
    cl_command_queue queue;
    clattn_context *context;
    clattn_plan *plan;
};

static void stop(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, clattn_error_message());
    exit(1);
}

static void check(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%d: ", code);
    stop(what);
}

/* --- the file */

static void read_file(struct model *model, const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char length[8];
    if (!file || fseek(file, 0, SEEK_END))
        stop(path);
    const long size = ftell(file);
    rewind(file);
    model->file = size > 8 ? malloc((size_t)size) : NULL;
    if (!model->file || fread(model->file, 1, (size_t)size, file) != (size_t)size)
        stop(path);
    fclose(file);
    memcpy(length, model->file, sizeof length);
    size_t text = 0;
    for (int i = 7; i >= 0; i--)
        text = text << 8 | length[i];
    if (text > (size_t)size - 8)
        stop(path);
    model->file[8 + text - 1] = '\0'; /* in the place of the last brace */
    model->names = model->file + 8;
    model->numbers = model->file + 8 + text;
}

/* The tensor of layer `layer` whose name ends so; -1: of no layer. */
static const float *tensor(const struct model *model, int layer, const char *name)
{
    char key[128];
    unsigned long first = 0;
    if (layer < 0)
        snprintf(key, sizeof key, "\"%s\"", name);
    else
        snprintf(key, sizeof key, "\"encoder.layer.%d.%s\"", layer, name);
    const char *found = strstr(model->names, key), *offsets = found ? strstr(found, "\"data_offsets\":[") : NULL;
    if (!offsets || sscanf(offsets, "\"data_offsets\":[%lu", &first) != 1)
        stop(key);
    return (const float *)(const void *)(model->numbers + first);
}

/* --- the device */

static cl_mem buffer_of(const struct model *model, const float *values, size_t count)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(model->cl, CL_MEM_READ_WRITE | (values ? CL_MEM_COPY_HOST_PTR : 0),
                                   count * sizeof *values, (void *)(size_t)values, &code);
    check(code, "clCreateBuffer");
    return buffer;
}

static void read_rows(const struct model *model, cl_mem from, float *rows, size_t count)
{
    check(clEnqueueReadBuffer(model->queue, from, CL_TRUE, 0, count * sizeof *rows, rows, 0, NULL, NULL),
          "clEnqueueReadBuffer");
}

/* x W^T + b, n rows of `in` columns becoming rows of `out`. The sum begins with b. */
static cl_mem linear(const struct model *model, cl_mem x, size_t n, size_t in, size_t out, int layer, const char *name)
{
    char key[96];
    float *rows = malloc(n * out * sizeof *rows);
    if (!rows)
        stop("malloc");
    snprintf(key, sizeof key, "%s.bias", name);
    for (size_t i = 0; i < n; i++)
        memcpy(rows + i * out, tensor(model, layer, key), out * sizeof *rows);
    snprintf(key, sizeof key, "%s.weight", name);
    cl_mem weights = buffer_of(model, tensor(model, layer, key), in * out), y = buffer_of(model, rows, n * out);
    cl_command_queue queue = model->queue;
    check(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, n, out, in, 1.0f, x, 0, in,
                       weights, 0, in, 1.0f, y, 0, out, &queue, NULL),
          "CLBlastSgemm");
    check(clFinish(queue), "clFinish");
    clReleaseMemObject(weights);
    free(rows);
    return y;
}

/* Q, K, V and O are [n, heads, d]. */
static cl_mem attend(const struct model *model, cl_mem q, cl_mem k, cl_mem v, int64_t n)
{
    const struct clattn_layout layout = clattn_layout_bnhd(HEADS, n, D);
    struct clattn_forward_args args = {.shape = {.batch = 1, .heads = HEADS, .n_q = n, .n_kv = n},
                                       .q = {q, layout},
                                       .k = {k, layout},
                                       .v = {v, layout},
                                       .o = {buffer_of(model, NULL, (size_t)n * WIDTH), layout}};
    check(clattn_plan_workspace_bytes(model->plan, &args.shape, &args.workspace_bytes), "clattn_plan_workspace_bytes");
    if (args.workspace_bytes)
        args.workspace = buffer_of(model, NULL, args.workspace_bytes / sizeof(float) + 1);
    check(clattn_forward_enqueue(model->plan, model->queue, &args, 0, NULL, NULL), "clattn_forward_enqueue");
    check(clFinish(model->queue), "clFinish");
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return args.o.buffer;
}

/* --- rows on the host */

static void normalise(const struct model *model, float *rows, size_t n, int layer, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s.weight", name);
    const float *weight = tensor(model, layer, key);
    snprintf(key, sizeof key, "%s.bias", name);
    const float *bias = tensor(model, layer, key);
    for (float *row = rows; row < rows + n * WIDTH; row += WIDTH) {
        double mean = 0, variance = 0;
        for (int x = 0; x < WIDTH; x++)
            mean += row[x] / (double)WIDTH;
        for (int x = 0; x < WIDTH; x++)
            variance += (row[x] - mean) * (row[x] - mean) / (double)WIDTH;
        for (int x = 0; x < WIDTH; x++)
            row[x] = (float)((row[x] - mean) / sqrt(variance + 1e-12)) * weight[x] + bias[x];
    }
}

/* rows += what is on the device, which goes. */
static void add(const struct model *model, float *rows, cl_mem more, size_t n)
{
    float *read = malloc(n * WIDTH * sizeof *read);
    if (!read)
        stop("malloc");
    read_rows(model, more, read, n * WIDTH);
    for (size_t i = 0; i < n * WIDTH; i++)
        rows[i] += read[i];
    free(read);
    clReleaseMemObject(more);
}

static void gelu(const struct model *model, cl_mem *rows, size_t count)
{
    float *read = malloc(count * sizeof *read);
    if (!read)
        stop("malloc");
    read_rows(model, *rows, read, count);
    for (size_t i = 0; i < count; i++)
        read[i] *= 0.5f * (1.0f + erff(read[i] / sqrtf(2.0f)));
    clReleaseMemObject(*rows);
    *rows = buffer_of(model, read, count);
    free(read);
}

static void run_layer(const struct model *model, float *rows, size_t n, int layer)
{
    cl_mem x = buffer_of(model, rows, n * WIDTH);
    cl_mem q = linear(model, x, n, WIDTH, WIDTH, layer, "attention.self.query");
    cl_mem k = linear(model, x, n, WIDTH, WIDTH, layer, "attention.self.key");
    cl_mem v = linear(model, x, n, WIDTH, WIDTH, layer, "attention.self.value");
    cl_mem o = attend(model, q, k, v, (int64_t)n);
    add(model, rows, linear(model, o, n, WIDTH, WIDTH, layer, "attention.output.dense"), n);
    normalise(model, rows, n, layer, "attention.output.LayerNorm");
    cl_mem y = buffer_of(model, rows, n * WIDTH);
    cl_mem inner = linear(model, y, n, WIDTH, INNER, layer, "intermediate.dense");
    gelu(model, &inner, n * INNER);
    add(model, rows, linear(model, inner, n, INNER, WIDTH, layer, "output.dense"), n);
    normalise(model, rows, n, layer, "output.LayerNorm");
    cl_mem const done[] = {x, q, k, v, o, y, inner};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        clReleaseMemObject(done[i]);
}

/* Words, places and the one kind of text. */
static void embed(const struct model *model, float *rows, const long *tokens, size_t n)
{
    const float *words = tensor(model, -1, "embeddings.word_embeddings.weight");
    const float *places = tensor(model, -1, "embeddings.position_embeddings.weight");
    const float *kind = tensor(model, -1, "embeddings.token_type_embeddings.weight");
    for (size_t i = 0; i < n; i++)
        for (size_t x = 0; x < WIDTH; x++)
            rows[i * WIDTH + x] = words[(size_t)tokens[i] * WIDTH + x] + places[i * WIDTH + x] + kind[x];
    normalise(model, rows, n, -1, "embeddings.LayerNorm");
}

/* The mean of all rows, of length 1. */
static void print_vector(const float *rows, size_t n)
{
    double mean[WIDTH] = {0}, square = 0;
    for (size_t i = 0; i < n * WIDTH; i++)
        mean[i % WIDTH] += rows[i] / (double)n;
    for (int x = 0; x < WIDTH; x++)
        square += mean[x] * mean[x];
    for (int x = 0; x < WIDTH; x++)
        printf("%.9g\n", mean[x] / sqrt(square));
}

static void open_device(struct model *model)
{
    cl_platform_id platform;
    cl_device_id device = NULL;
    cl_int code = CL_SUCCESS;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        stop("no OpenCL device");
    model->cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    model->queue = clCreateCommandQueue(model->cl, device, 0, &code);
    check(code, "clCreateCommandQueue");
    check(
        clattn_context_create(&model->context, &(struct clattn_context_params){.context = model->cl, .device = device}),
        "clattn_context_create");
    check(clattn_plan_create(&model->plan, model->context, &(struct clattn_problem){.d = D}), "clattn_plan_create");
}

int main(int argc, char **argv)
{
    static float rows[MOST_TOKENS * WIDTH];
    static long tokens[MOST_TOKENS];
    struct model model = {0};
    const size_t n = (size_t)argc - 2;
    if (argc < 3 || n > MOST_TOKENS) {
        fprintf(stderr, "usage: %s model.safetensors TOKEN...\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < n; i++)
        tokens[i] = strtol(argv[i + 2], NULL, 10);
    read_file(&model, argv[1]);
    open_device(&model);
    embed(&model, rows, tokens, n);
    for (int layer = 0; layer < LAYERS; layer++)
        run_layer(&model, rows, n, layer);
    print_vector(rows, n);
    clattn_plan_destroy(&model.plan);
    clattn_context_destroy(&model.context);
    clReleaseCommandQueue(model.queue);
    clReleaseContext(model.cl);
    free(model.file);
    return 0;
}
