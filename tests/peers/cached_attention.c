/* SPDX-License-Identifier: BSD-2-Clause
 *
 * clattn_host_cache for cached_model.py, which compiles it: one sequence, fp32 arrays [heads, n, d]. */
#include <clattn/clattn.h>
#include <stdio.h>

static cl_context cl;
static clattn_context *context;
static clattn_host_cache *cache;

static int fail(void)
{
    fprintf(stderr, "%s\n", clattn_error_message());
    return -1;
}

static int open_device(void)
{
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return -1;
    cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const struct clattn_context_params params = {.context = cl, .device = device};
    return clattn_context_create(&context, &params) ? fail() : 0;
}

/* type: enum clattn_operand_type of K and V. */
int cache_open(long layers, long kv_heads, int d, int type, long page_keys, float scale)
{
    const struct clattn_problem problem = {.d = d,
                                           .scale = scale,
                                           .k_type = type,
                                           .v_type = type,
                                           .page_keys = page_keys,
                                           .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
    if (!context && open_device())
        return -1;
    const struct clattn_host_cache_params params = {
        .context = context, .problem = &problem, .layers = layers, .kv_heads = kv_heads};
    clattn_host_cache_destroy(&cache);
    return clattn_host_cache_create(&cache, &params) ? fail() : 0;
}

int cache_step(long layer, long heads, long n, const float *q, const float *k, const float *v, float *o)
{
    const struct clattn_host_cache_args args = {
        .shape = {.batch = 1, .heads = heads, .n_q = n}, .layer = layer, .q = q, .k = k, .v = v, .o = o};
    return clattn_host_cache_forward(cache, &args) ? fail() : 0;
}

int cache_forget(void)
{
    return clattn_host_cache_truncate(cache, 0, 0) ? fail() : 0;
}
