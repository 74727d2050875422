/* SPDX-License-Identifier: BSD-2-Clause */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include "fault/live_bytes.h"
#include <stdatomic.h>
#include <stdlib.h>

static struct _cl_icd_dispatch before;
static atomic_int_fast64_t live, most;
static atomic_long watch; /* how often there has been one: a buffer counts in its own */

struct counted {
    int64_t bytes;
    long watch;
};

static void CL_CALLBACK buffer_ends(cl_mem buffer, void *user)
{
    struct counted *counted = user;
    (void)buffer;
    if (counted->watch == atomic_load(&watch))
        atomic_fetch_sub(&live, counted->bytes);
    free(counted);
}

void live_bytes_watch(void)
{
    atomic_fetch_add(&watch, 1);
    atomic_store(&live, 0);
    atomic_store(&most, 0);
}

uint64_t live_bytes_peak(void)
{
    return (uint64_t)atomic_load(&most);
}

static void count(cl_mem buffer, size_t bytes)
{
    struct counted *counted = malloc(sizeof *counted);
    if (!counted)
        abort();
    *counted = (struct counted){(int64_t)bytes, atomic_load(&watch)};
    if (before.clSetMemObjectDestructorCallback(buffer, buffer_ends, counted))
        abort();
    const int64_t now = atomic_fetch_add(&live, counted->bytes) + counted->bytes;
    if (now > atomic_load(&most))
        atomic_store(&most, now);
}

static cl_mem CL_API_CALL create(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret)
{
    const cl_mem made = before.clCreateBuffer(context, flags, size, host, errcode_ret);
    if (made)
        count(made, size);
    return made;
}

void live_bytes_take_over(struct _cl_icd_dispatch *table)
{
    before = *table;
    table->clCreateBuffer = create;
}
