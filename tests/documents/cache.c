/* SPDX-License-Identifier: BSD-2-Clause */
#include <clattn/clattn.h>
#include <stdio.h>

/* A cache of keys that stay on the device: a prompt, then steps of one token each, of two sequences that share the
 * prompt. K is 0, so that all keys that a row sees weigh the same, and V is the key's place: O is the mean of
 * places. */

enum { HEADS = 4, KV_HEADS = 2, D = 64, PROMPT = 100, STEPS = 3 };

/* Rows of `sequence` go behind what it has, and attend to that and to themselves; *last is the last row's O. */
static clattn_status attend(clattn_host_cache *cache, int64_t sequence, int rows, float *last)
{
    static float q[HEADS * PROMPT * D], k[KV_HEADS * PROMPT * D], v[KV_HEADS * PROMPT * D], o[HEADS * PROMPT * D];
    int64_t before = 0;
    clattn_status status = clattn_host_cache_length(cache, 0, sequence, &before);
    for (int h = 0; h < KV_HEADS; h++)
        for (int i = 0; i < rows * D; i++)
            v[h * rows * D + i] = (float)(before + i / D);
    const struct clattn_host_cache_args args = {
        .shape = {.batch = 1, .heads = HEADS, .n_q = rows}, .sequences = &sequence, .q = q, .k = k, .v = v, .o = o};
    if (!status)
        status = clattn_host_cache_forward(cache, &args);
    *last = o[rows * D - 1];
    return status;
}

/* A prompt in sequence 0, of which sequence 1 becomes a fork; then steps of both. Returns how many rows were wrong. */
static int compute(clattn_host_cache *cache)
{
    float mean = 0.0f;
    int wrong = 0;
    clattn_status status = attend(cache, 0, PROMPT, &mean);
    wrong += mean != (PROMPT - 1) / 2.0f;
    if (!status)
        status = clattn_host_cache_fork(cache, 0, 1, PROMPT);
    for (int step = 0; step < STEPS; step++)
        for (int64_t sequence = 0; sequence < 2 && !status; sequence++) {
            status = attend(cache, sequence, 1, &mean);
            wrong += mean < (PROMPT + step) / 2.0f - 1e-4f || mean > (PROMPT + step) / 2.0f + 1e-4f;
        }
    if (status)
        fprintf(stderr, "%s\n", clattn_error_message());
    printf("the last mean of places: %.2f (%.2f)\n", (double)mean, (PROMPT + STEPS - 1) / 2.0);
    return status ? 1 : wrong;
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    clattn_context *context = NULL;
    clattn_host_cache *cache = NULL;
    const struct clattn_problem problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
    int wrong = 1;
    if (clattn_context_create(&context, &(struct clattn_context_params){.context = cl, .device = device}) ||
        clattn_host_cache_create(&cache,
                                 &(struct clattn_host_cache_params){
                                     .context = context, .problem = &problem, .sequences = 2, .kv_heads = KV_HEADS}))
        fprintf(stderr, "%s\n", clattn_error_message());
    else
        wrong = compute(cache);
    clattn_host_cache_destroy(&cache);
    clattn_context_destroy(&context);
    clReleaseContext(cl);
    return wrong != 0;
}
