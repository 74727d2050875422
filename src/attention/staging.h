/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STAGING_H
#define CLA_STAGING_H

#include "plan/problem.h"
#include <clattn/opencl.h>

/* Memory that is kept from call to call and grows when a call needs more. Zero-initialised it is empty. */
struct cla_host_block {
    void *data;
    size_t bytes;
};

struct cla_device_block {
    cl_mem buffer;
    size_t bytes;
};

clattn_status cla_host_block_grow(struct cla_host_block *block, size_t bytes, struct cla_error *error);
void cla_host_block_free(struct cla_host_block *block);

/* What the block held is lost where it has to grow: the old buffer goes before the new one comes. */
clattn_status cla_device_block_grow(struct cla_device_block *block, cl_context context, size_t bytes,
                                    struct cla_error *error);
void cla_device_block_free(struct cla_device_block *block);

/* Host memory that the driver allocates, as a buffer that stays mapped: devices with memory of their own copy from and
 * to it several times as fast. The queue lives longer. */
struct cla_pinned_block {
    cl_command_queue queue;
    cl_mem buffer;
    void *data;
    size_t bytes;
};

clattn_status cla_pinned_block_grow(struct cla_pinned_block *block, cl_context context, cl_command_queue queue,
                                    size_t bytes, struct cla_error *error);
void cla_pinned_block_free(struct cla_pinned_block *block);

/* Copies a tensor from its layout in `array` to dense [batch, heads, rows, columns], and back. Elements have 1, 2 or 4
 * bytes. */
void cla_gather(void *dense, const void *array, const struct cla_layout *layout, const struct cla_sizes *sizes,
                int element_bytes);
void cla_scatter(void *array, const void *dense, const struct cla_layout *layout, const struct cla_sizes *sizes,
                 int element_bytes);

/* Sets the elements to 0. */
void cla_clear(void *array, const struct cla_layout *layout, const struct cla_sizes *sizes, int element_bytes);

#endif
