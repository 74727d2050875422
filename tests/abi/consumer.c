/* SPDX-License-Identifier: BSD-2-Clause */
#include <clattn/clattn.h>
#include <stdio.h>

enum { HEADS = 8, N = 256, D = 64 };
static float q[HEADS * N * D], k[HEADS * N * D], v[HEADS * N * D], o[HEADS * N * D];

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);

    for (int i = 0; i < HEADS * N * D; i++) {
        q[i] = (float)(i % 7) - 3.0f;
        k[i] = (float)(i % 5) - 2.0f;
        v[i] = 0.5f;
    }
    clattn_context *context = NULL;
    clattn_host *host = NULL;
    const struct clattn_problem problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
    const struct clattn_host_forward_args args = {
        .shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N}, .q = q, .k = k, .v = v, .o = o};
    if (clattn_context_create(&context, &(struct clattn_context_params){.context = cl, .device = device}) ||
        clattn_host_create(&host, &(struct clattn_host_params){.context = context}) ||
        clattn_host_forward(host, &problem, &args))
        fprintf(stderr, "%s\n", clattn_error_message());
    printf("o[0] = %.3f (the mean of equal values: 0.500)\n", (double)o[0]);

    clattn_host_destroy(&host);
    clattn_context_destroy(&context);
    clReleaseContext(cl);
    return o[0] < 0.499f || o[0] > 0.501f;
}
