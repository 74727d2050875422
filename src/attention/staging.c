/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/staging.h"
#include "device/clcall.h"
#include <stdlib.h>
#include <string.h>

clattn_status cla_host_block_grow(struct cla_host_block *block, size_t bytes, struct cla_error *error)
{
    if (bytes <= block->bytes)
        return CLATTN_SUCCESS;
    cla_host_block_free(block);
    block->data = malloc(bytes);
    if (!block->data)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes to stage a copy in", bytes);
    block->bytes = bytes;
    return CLATTN_SUCCESS;
}

void cla_host_block_free(struct cla_host_block *block)
{
    free(block->data);
    *block = (struct cla_host_block){0};
}

clattn_status cla_device_block_grow(struct cla_device_block *block, cl_context context, size_t bytes,
                                    struct cla_error *error)
{
    if (bytes <= block->bytes)
        return CLATTN_SUCCESS;
    cla_device_block_free(block);
    const clattn_status status = cla_cl_buffer(context, CL_MEM_READ_WRITE, bytes, &block->buffer, error);
    if (!status)
        block->bytes = bytes;
    return status;
}

void cla_device_block_free(struct cla_device_block *block)
{
    cla_cl_release_buffer(block->buffer);
    *block = (struct cla_device_block){0};
}

clattn_status cla_pinned_block_grow(struct cla_pinned_block *block, cl_context context, cl_command_queue queue,
                                    size_t bytes, struct cla_error *error)
{
    if (bytes <= block->bytes)
        return CLATTN_SUCCESS;
    cla_pinned_block_free(block);
    block->queue = queue;
    clattn_status status =
        cla_cl_buffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, &block->buffer, error);
    if (!status)
        status = cla_cl_map(queue, block->buffer, bytes, &block->data, error);
    if (!status)
        block->bytes = bytes;
    return status;
}

void cla_pinned_block_free(struct cla_pinned_block *block)
{
    if (block->data)
        cla_cl_unmap(block->queue, block->buffer, block->data);
    cla_cl_release_buffer(block->buffer);
    *block = (struct cla_pinned_block){0};
}

/* Byte strides of a tensor in memory. */
struct strides {
    int64_t batch, head, row, column;
};

static struct strides bytes_of(const struct cla_layout *layout, int64_t element)
{
    return (struct strides){layout->batch * element, layout->head * element, layout->row * element,
                            layout->column * element};
}

static void copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t columns, int64_t element)
{
    if (to_step == element && from_step == element) {
        memcpy(to, from, (size_t)(columns * element));
        return;
    }
    /* memcpy of a constant size is a move, and asks for no alignment. */
    for (int64_t i = 0; i < columns; i++) {
        if (element == 4)
            memcpy(to + i * to_step, from + i * from_step, 4);
        else if (element == 2)
            memcpy(to + i * to_step, from + i * from_step, 2);
        else
            to[i * to_step] = from[i * from_step];
    }
}

static void copy_pieces(char *to, const struct strides *to_steps, const char *from, const struct strides *from_steps,
                        const struct cla_sizes *sizes, int element)
{
    for (int64_t b = 0; b < sizes->batch; b++)
        for (int64_t h = 0; h < sizes->heads; h++)
            for (int64_t i = 0; i < sizes->rows; i++)
                copy_row(to + b * to_steps->batch + h * to_steps->head + i * to_steps->row, to_steps->column,
                         from + b * from_steps->batch + h * from_steps->head + i * from_steps->row, from_steps->column,
                         sizes->columns, element);
}

static void copy_tensor(char *to, const struct strides *to_steps, const char *from, const struct strides *from_steps,
                        const struct cla_sizes *sizes, int element)
{
    struct cla_sizes pieces = *sizes;
    const int64_t row = sizes->columns * element;
    if (to_steps->column == element && from_steps->column == element && to_steps->row == row &&
        from_steps->row == row) { /* a head is one piece */
        pieces.columns *= sizes->rows;
        pieces.rows = 1;
    }
    copy_pieces(to, to_steps, from, from_steps, &pieces, element);
}

static struct strides dense_bytes(const struct cla_sizes *sizes, int element)
{
    const struct cla_layout dense = cla_layout_dense(sizes->heads, sizes->rows, sizes->columns);
    return bytes_of(&dense, element);
}

void cla_gather(void *dense, const void *array, const struct cla_layout *layout, const struct cla_sizes *sizes,
                int element_bytes)
{
    const struct strides to = dense_bytes(sizes, element_bytes), from = bytes_of(layout, element_bytes);
    copy_tensor(dense, &to, (const char *)array + layout->offset * element_bytes, &from, sizes, element_bytes);
}

void cla_scatter(void *array, const void *dense, const struct cla_layout *layout, const struct cla_sizes *sizes,
                 int element_bytes)
{
    const struct strides to = bytes_of(layout, element_bytes), from = dense_bytes(sizes, element_bytes);
    copy_tensor((char *)array + layout->offset * element_bytes, &to, dense, &from, sizes, element_bytes);
}

void cla_clear(void *array, const struct cla_layout *layout, const struct cla_sizes *sizes, int element_bytes)
{
    static const char zero[sizeof(float)];
    const struct strides to = bytes_of(layout, element_bytes), from = {0};
    copy_tensor((char *)array + layout->offset * element_bytes, &to, zero, &from, sizes, element_bytes);
}
