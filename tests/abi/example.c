/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Calls the example of clattn/attention.h, and computes the same by the formula. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int attend(cl_context cl, cl_device_id device, cl_command_queue queue, int64_t n, cl_mem q, cl_mem k, cl_mem v,
           cl_mem o);

enum { HEADS = 8, KV_HEADS = 2, D = 64, N = 37 };
static float q[HEADS * N * D], k[KV_HEADS * N * D], v[KV_HEADS * N * D], o[HEADS * N * D];

static double score(int h, int i, int j)
{
    double sum = 0;
    for (int c = 0; c < D; c++)
        sum += (double)q[(h * N + i) * D + c] * (double)k[(h / (HEADS / KV_HEADS) * N + j) * D + c];
    return sum / sqrt(D);
}

static double expected(int h, int i, int c)
{
    double most = -INFINITY, weights = 0, sum = 0;
    for (int j = 0; j <= i; j++)
        most = fmax(most, score(h, i, j));
    for (int j = 0; j <= i; j++) {
        const double weight = exp(score(h, i, j) - most);
        weights += weight;
        sum += weight * (double)v[(h / (HEADS / KV_HEADS) * N + j) * D + c];
    }
    return sum / weights;
}

static void fill(float *array, size_t count)
{
    for (size_t i = 0; i < count; i++)
        array[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, NULL);
    fill(q, sizeof q / sizeof *q);
    fill(k, sizeof k / sizeof *k);
    fill(v, sizeof v / sizeof *v);
    cl_mem buffers[] = {clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, sizeof q, q, NULL),
                        clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, sizeof k, k, NULL),
                        clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, sizeof v, v, NULL),
                        clCreateBuffer(cl, 0, sizeof o, NULL, NULL)};
    if (attend(cl, device, queue, N, buffers[0], buffers[1], buffers[2], buffers[3]) ||
        clEnqueueReadBuffer(queue, buffers[3], CL_TRUE, 0, sizeof o, o, 0, NULL, NULL))
        return 1;
    double error = 0;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < N; i += 6)
            for (int c = 0; c < D; c += 7)
                error = fmax(error, fabs((double)o[(h * N + i) * D + c] - expected(h, i, c)));
    printf("the example's O is off by %.1g at most\n", error);
    for (int i = 0; i < 4; i++)
        clReleaseMemObject(buffers[i]);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);
    return !(error < 1e-6);
}
