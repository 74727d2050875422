/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The functions behind the dispatch table, by file. */
#ifndef SIMULATED_PLATFORM_H
#define SIMULATED_PLATFORM_H

#include "objects.h"

/* device.c */
cl_int device_ids(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices, cl_uint *count);
cl_int device_info(cl_device_id device, cl_device_info name, size_t room, void *to, size_t *wanted);
cl_int device_keep(cl_device_id device);
cl_int device_split(cl_device_id device, const cl_device_partition_property *how, cl_uint room, cl_device_id *devices,
                    cl_uint *count);

/* context.c */
cl_context context_create(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                          void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
                          cl_int *code);
cl_int context_retain(cl_context context);
cl_int context_release(cl_context context);
cl_int context_info(cl_context context, cl_context_info name, size_t room, void *to, size_t *wanted);

/* buffer.c */
cl_mem buffer_create(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code);
cl_mem buffer_part(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code);
cl_mem image_create(cl_context context, cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *how,
                    void *host, cl_int *code);
cl_int buffer_retain(cl_mem buffer);
cl_int buffer_release(cl_mem buffer);
cl_int buffer_info(cl_mem buffer, cl_mem_info name, size_t room, void *to, size_t *wanted);

/* program.c */
cl_program program_from_source(cl_context context, cl_uint count, const char **texts, const size_t *lengths,
                               cl_int *code);
cl_program program_from_binary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *sizes,
                               const unsigned char **binaries, cl_int *states, cl_int *code);
cl_int program_build(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                     void(CL_CALLBACK *notify)(cl_program, void *), void *data);
cl_int program_retain(cl_program program);
cl_int program_release(cl_program program);
cl_int program_info(cl_program program, cl_program_info name, size_t room, void *to, size_t *wanted);
cl_int program_build_info(cl_program program, cl_device_id device, cl_program_build_info name, size_t room, void *to,
                          size_t *wanted);

/* kernel.c */
cl_kernel kernel_create(cl_program program, const char *name, cl_int *code);
cl_int kernel_retain(cl_kernel kernel);
cl_int kernel_release(cl_kernel kernel);
cl_int kernel_argument(cl_kernel kernel, cl_uint number, size_t size, const void *value);
cl_int kernel_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t room, void *to,
                         size_t *wanted);

/* queue.c */
cl_command_queue queue_create(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                              cl_int *code);
cl_int queue_retain(cl_command_queue queue);
cl_int queue_release(cl_command_queue queue);
cl_int queue_info(cl_command_queue queue, cl_command_queue_info name, size_t room, void *to, size_t *wanted);
cl_int queue_flush(cl_command_queue queue);
cl_int queue_finish(cl_command_queue queue);

/* event.c */
cl_event event_user(cl_context context, cl_int *code);
cl_int event_set(cl_event event, cl_int status);
cl_int event_wait(cl_uint count, const cl_event *events);
cl_int event_retain(cl_event event);
cl_int event_release(cl_event event);
cl_int event_info(cl_event event, cl_event_info name, size_t room, void *to, size_t *wanted);
cl_int event_times(cl_event event, cl_profiling_info name, size_t room, void *to, size_t *wanted);

/* enqueue.c */
cl_int enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                      const size_t *global, const size_t *local, cl_uint waits, const cl_event *list, cl_event *event);
cl_int enqueue_read(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *host,
                    cl_uint waits, const cl_event *list, cl_event *event);
cl_int enqueue_write(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                     const void *host, cl_uint waits, const cl_event *list, cl_event *event);
cl_int enqueue_fill(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                    size_t size, cl_uint waits, const cl_event *list, cl_event *event);
cl_int enqueue_marker(cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event);

#endif
