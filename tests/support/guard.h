/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_GUARD_H
#define TEST_GUARD_H

#include "support/device.h"

/* Memory for tensors that notices every byte it should not lose. Before, after and between the elements lies poison,
 * which reads as NaN in every type; so do the elements of outputs until they are written. Inputs must come back
 * unchanged to the byte, and so must all of an output but its elements. */
#define GUARD_BYTES 4096 /* of poison in front of the elements and behind them */

/* Set before any memory is made: nothing lies behind the elements, so that a tool that watches the ends of buffers sees
 * a read beyond them, which poison does not show where it is multiplied away. */
extern bool guard_exact;
size_t guard_behind(void); /* bytes of poison behind the elements */

struct guarded {
    unsigned char *before; /* what was put there */
    unsigned char *after;  /* what came back; the host level works on this one directly */
    size_t bytes;
    cl_mem buffer; /* NULL until guard_upload */
};

/* One tensor in guarded memory. `layout` counts from the first byte behind the front guard. */
struct guard_view {
    enum clattn_dtype dtype;
    int64_t sizes[4]; /* batch, heads, n, d */
    struct clattn_layout layout;
};

/* One past the last byte that the tensor touches, counted like the layout. */
size_t guard_end(const struct guard_view *view);

/* The tensor's layout as the library is to see it: counted from the start of the buffer. */
struct clattn_layout guard_layout(const struct guard_view *view);

bool guard_make(struct guarded *guarded, size_t bytes);
void guard_free(struct guarded *guarded);

/* Moves dense floats in and out. */
void guard_put(struct guarded *guarded, const struct guard_view *view, const float *dense);
void guard_get(const struct guarded *guarded, const struct guard_view *view, float *dense);

bool guard_upload(struct guarded *guarded, const struct test_device *device);
bool guard_download(struct guarded *guarded, const struct test_device *device);

/* Accepts what came back as the tensor's elements. */
void guard_forgive(struct guarded *guarded, const struct guard_view *view);

/* True where nothing has changed but what was forgiven; says where otherwise. */
bool guard_intact(const struct guarded *guarded, const char *name);

/* Fills what was uploaded with poison, as it was where all of it is an output; and whether a download gives what was
 * accepted, to the bit. */
bool guard_poison(struct guarded *guarded, const struct test_device *device);
bool guard_same(struct guarded *guarded, const struct test_device *device, const char *name);

#endif
