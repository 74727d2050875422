/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a step of clattn_host_cache_forward takes: 30 layers of 9 heads on 3 of K and V, d 64, one new row, 64 keys in
 * fp16, as a small language model has them. Prints microseconds of a layer's step by the clock: the median, and the
 * least, of the means of STEPS / 100 runs of 100 steps. Two builds of the library take turns by the loader's path, on a
 * machine that is quiet:
 *
 *     cc -O2 -Iinclude -o cache_step tests/peers/cache_step.c BUILD/src/libclattn.so -lOpenCL
 *     for i in 1 2 3 4 5; do LD_LIBRARY_PATH=BEFORE ./cache_step; LD_LIBRARY_PATH=BUILD/src ./cache_step; done
 */
#define _POSIX_C_SOURCE 199309L
#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAYERS = 30, HEADS = 9, KV_HEADS = 3, D = 64, KEYS = 64, RUN = 100, MOST_RUNS = 1000 };

static float q[HEADS * D], k[KEYS * KV_HEADS * D], v[KEYS * KV_HEADS * D], o[KEYS * HEADS * D];

static clattn_host_cache *open_cache(void)
{
    cl_platform_id platform;
    cl_device_id device;
    clattn_context *context = NULL;
    clattn_host_cache *cache = NULL;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return NULL;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const struct clattn_problem problem = {
        .d = D, .k_type = CLATTN_AS_FP16, .v_type = CLATTN_AS_FP16, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
    const struct clattn_context_params params = {.context = cl, .device = device};
    if (clattn_context_create(&context, &params))
        return NULL;
    const struct clattn_host_cache_params of = {
        .context = context, .problem = &problem, .layers = LAYERS, .kv_heads = KV_HEADS};
    return clattn_host_cache_create(&cache, &of) ? NULL : cache;
}

static clattn_status fill(clattn_host_cache *cache)
{
    clattn_status status = clattn_host_cache_truncate(cache, 0, 0);
    for (int layer = 0; layer < LAYERS && !status; layer++) {
        const struct clattn_host_cache_args args = {
            .shape = {.batch = 1, .heads = HEADS, .n_q = KEYS - 1}, .layer = layer, .k = k, .v = v};
        status = clattn_host_cache_append(cache, &args);
    }
    return status;
}

/* All layers once, then the new key is forgotten. */
static clattn_status step(clattn_host_cache *cache)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int layer = 0; layer < LAYERS && !status; layer++) {
        const struct clattn_host_cache_args args = {
            .shape = {.batch = 1, .heads = HEADS, .n_q = 1}, .layer = layer, .q = q, .k = k, .v = v, .o = o};
        status = clattn_host_cache_forward(cache, &args);
    }
    return status ? status : clattn_host_cache_truncate(cache, 0, KEYS - 1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double times[MOST_RUNS];
    const int asked = (argc > 1 ? atoi(argv[1]) : 2000) / RUN, runs = asked < 1           ? 1
                                                                      : asked < MOST_RUNS ? asked
                                                                                          : MOST_RUNS;
    for (int i = 0; i < HEADS * D; i++)
        q[i] = (float)(i % 7) - 3.0f;
    for (int i = 0; i < KEYS * KV_HEADS * D; i++)
        v[i] = k[i] = (float)(i % 5) - 2.0f;
    clattn_host_cache *cache = open_cache();
    clattn_status status = cache ? fill(cache) : CLATTN_INVALID_ARGUMENT;
    for (int i = 0; i < RUN && !status; i++)
        status = step(cache);
    for (int run = 0; run < runs && !status; run++) {
        const double begin = now();
        for (int i = 0; i < RUN && !status; i++)
            status = step(cache);
        times[run] = (now() - begin) / (RUN * LAYERS);
    }
    if (status) {
        fprintf(stderr, "%s\n", clattn_error_message());
        return 1;
    }
    qsort(times, (size_t)runs, sizeof *times, ascending);
    printf("%.1f us, the least %.1f\n", times[runs / 2], times[0]);
    clattn_host_cache_destroy(&cache);
    return 0;
}
