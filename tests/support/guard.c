/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/guard.h"
#include "reference/reference.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff };

bool guard_exact;

size_t guard_behind(void)
{
    return guard_exact ? 0 : GUARD_BYTES;
}

static bool is_dense(const struct clattn_layout *layout)
{
    return !layout->strided && !layout->batch && !layout->head && !layout->row && !layout->column;
}

static size_t count_of(const struct guard_view *view)
{
    return (size_t)(view->sizes[0] * view->sizes[1] * view->sizes[2] * view->sizes[3]);
}

static size_t element_bytes(const struct guard_view *view)
{
    return (size_t)clattn_dtype_size(view->dtype);
}

/* Where the element that is number `index` of the dense tensor lies. */
static size_t place(const struct guard_view *view, size_t index)
{
    const struct clattn_layout *layout = &view->layout;
    if (is_dense(layout))
        return (size_t)layout->offset + index;
    const int64_t *sizes = view->sizes, at = (int64_t)index;
    const int64_t column = at % sizes[3], row = at / sizes[3] % sizes[2];
    const int64_t head = at / sizes[3] / sizes[2] % sizes[1], batch = at / sizes[3] / sizes[2] / sizes[1];
    return (size_t)(layout->offset + batch * layout->batch + head * layout->head + row * layout->row +
                    column * layout->column);
}

size_t guard_end(const struct guard_view *view)
{
    /* Strides are not negative, so the last element lies furthest. */
    return count_of(view) ? (place(view, count_of(view) - 1) + 1) * element_bytes(view) : 0;
}

struct clattn_layout guard_layout(const struct guard_view *view)
{
    struct clattn_layout layout = view->layout;
    layout.offset += (int64_t)(GUARD_BYTES / element_bytes(view));
    return layout;
}

bool guard_make(struct guarded *guarded, size_t bytes)
{
    *guarded = (struct guarded){.bytes = GUARD_BYTES + bytes + guard_behind()};
    guarded->before = malloc(guarded->bytes);
    guarded->after = malloc(guarded->bytes);
    if (!guarded->before || !guarded->after) {
        guard_free(guarded);
        return test_cl_succeeded(CL_OUT_OF_HOST_MEMORY, "guard_make");
    }
    memset(guarded->before, POISON, guarded->bytes);
    memset(guarded->after, POISON, guarded->bytes);
    return true;
}

void guard_free(struct guarded *guarded)
{
    free(guarded->before);
    free(guarded->after);
    if (guarded->buffer)
        clReleaseMemObject(guarded->buffer);
    *guarded = (struct guarded){0};
}

void guard_put(struct guarded *guarded, const struct guard_view *view, const float *dense)
{
    reference_scatter(view->dtype, view->sizes, &view->layout, dense, guarded->before + GUARD_BYTES);
    reference_scatter(view->dtype, view->sizes, &view->layout, dense, guarded->after + GUARD_BYTES);
}

void guard_get(const struct guarded *guarded, const struct guard_view *view, float *dense)
{
    reference_gather(view->dtype, view->sizes, &view->layout, guarded->after + GUARD_BYTES, dense);
}

bool guard_upload(struct guarded *guarded, const struct test_device *device)
{
    cl_int code = CL_SUCCESS;
    guarded->buffer = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, guarded->bytes,
                                     guarded->before, &code);
    return test_cl_succeeded(code, "clCreateBuffer");
}

bool guard_download(struct guarded *guarded, const struct test_device *device)
{
    return test_cl_succeeded(
        clEnqueueReadBuffer(device->queue, guarded->buffer, CL_TRUE, 0, guarded->bytes, guarded->after, 0, NULL, NULL),
        "clEnqueueReadBuffer");
}

void guard_forgive(struct guarded *guarded, const struct guard_view *view)
{
    const size_t bytes = element_bytes(view);
    for (size_t i = 0; i < count_of(view); i++) {
        const size_t at = GUARD_BYTES + place(view, i) * bytes;
        memcpy(guarded->before + at, guarded->after + at, bytes);
    }
}

bool guard_intact(const struct guarded *guarded, const char *name)
{
    size_t at = 0;
    while (at < guarded->bytes && guarded->before[at] == guarded->after[at])
        at++;
    if (at < guarded->bytes)
        fprintf(stderr, "%s: byte %td of %zu, which is not an element, was written\n", name,
                (ptrdiff_t)at - GUARD_BYTES, guarded->bytes - GUARD_BYTES - guard_behind());
    return at == guarded->bytes;
}

bool guard_poison(struct guarded *guarded, const struct test_device *device)
{
    const unsigned char poison = POISON;
    return test_cl_succeeded(
        clEnqueueFillBuffer(device->queue, guarded->buffer, &poison, 1, 0, guarded->bytes, 0, NULL, NULL),
        "clEnqueueFillBuffer");
}

bool guard_same(struct guarded *guarded, const struct test_device *device, const char *name)
{
    if (!guard_download(guarded, device))
        return false;
    const bool same = memcmp(guarded->before, guarded->after, guarded->bytes) == 0;
    if (!same)
        fprintf(stderr, "%s: not the bits that came before\n", name);
    return same;
}
