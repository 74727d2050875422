/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* mmap's MAP_ANONYMOUS */
#include "support/fence.h"
#include "support/unit.h"
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, MOST_BUFFERS = 32 };

static struct fenced {
    char *pages, *at;
    size_t page_bytes, bytes;
    cl_mem buffer;
} fenced[MOST_BUFFERS];
static int fenced_count;

cl_mem fence_make(const struct test_device *device, struct random *chance, size_t bytes, size_t align, int fill,
                  char **memory)
{
    const size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    assert_true(fenced_count < MOST_BUFFERS);
    if (!bytes)
        return NULL;
    char *pages = mmap(NULL, body + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(pages + PAGE + body, PAGE, PROT_NONE), 0);
    char *at = pages + PAGE + (random_below(chance, 3) ? (body - bytes) & ~(align - 1) : 0);
    memset(at, fill, bytes);
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, at, &code);
    assert_int_equal(code, CL_SUCCESS);
    fenced[fenced_count++] = (struct fenced){pages, at, body + 2 * PAGE, bytes, buffer};
    if (memory)
        *memory = at;
    return buffer;
}

void fence_to_device(const struct test_device *device)
{
    for (const struct fenced *f = fenced; f < fenced + fenced_count; f++)
        assert_int_equal(clEnqueueWriteBuffer(device->queue, f->buffer, CL_TRUE, 0, f->bytes, f->at, 0, NULL, NULL),
                         CL_SUCCESS);
}

void fence_from_device(const struct test_device *device)
{
    assert_int_equal(clFinish(device->queue), CL_SUCCESS);
    for (const struct fenced *f = fenced; f < fenced + fenced_count; f++)
        assert_int_equal(clEnqueueReadBuffer(device->queue, f->buffer, CL_TRUE, 0, f->bytes, f->at, 0, NULL, NULL),
                         CL_SUCCESS);
}

void fence_drop_all(void)
{
    for (int i = 0; i < fenced_count; i++) {
        clReleaseMemObject(fenced[i].buffer);
        munmap(fenced[i].pages, fenced[i].page_bytes);
    }
    fenced_count = 0;
}
