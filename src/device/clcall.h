/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CLCALL_H
#define CLA_CLCALL_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/opencl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The files that name OpenCL's entry points: clcall.c, and clcall_program.c for programs and kernels. Each function
 * makes one call (or one query in its two steps, or all queries of one object), fills *error with the call's name and
 * code if it fails, and returns that code. Outputs are set on success alone. */

/* Queries. Strings are cut to fit; a query the device does not know gives an error, not a default. */
clattn_status cla_cl_device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                                 struct cla_error *error);
clattn_status cla_cl_device_string(cl_device_id device, cl_device_info name, char *text, size_t size,
                                   struct cla_error *error);
clattn_status cla_cl_platform_string(cl_platform_id platform, cl_platform_info name, char *text, size_t size,
                                     struct cla_error *error);
clattn_status cla_cl_context_has_device(cl_context context, cl_device_id device, bool *has, struct cla_error *error);
clattn_status cla_cl_queue_context(cl_command_queue queue, cl_context *context, cl_device_id *device,
                                   struct cla_error *error);
clattn_status cla_cl_queue_properties(cl_command_queue queue, cl_command_queue_properties *properties,
                                      struct cla_error *error);

/* All that is to be known of a memory object. */
struct cla_buffer_facts {
    cl_mem_object_type type;
    cl_context context;
    cl_mem_flags flags;
    size_t bytes;
    cl_mem parent; /* of a sub-buffer, which begins so far within it; else NULL */
    size_t from;
};
clattn_status cla_cl_buffer_facts(cl_mem buffer, struct cla_buffer_facts *facts, struct cla_error *error);

/* A function of an extension, its address; NULL where the platform has none of that name. */
void *cla_cl_extension_function(cl_platform_id platform, const char *name);

/* Reference counts. */
clattn_status cla_cl_retain_context(cl_context context, struct cla_error *error);
clattn_status cla_cl_retain_device(cl_device_id device, struct cla_error *error);
clattn_status cla_cl_retain_queue(cl_command_queue queue, struct cla_error *error);
clattn_status cla_cl_retain_program(cl_program program, struct cla_error *error);
clattn_status cla_cl_retain_event(cl_event event, struct cla_error *error);
void cla_cl_release_context(cl_context context); /* each accepts NULL; what a release answers changes nothing */
void cla_cl_release_device(cl_device_id device);
void cla_cl_release_queue(cl_command_queue queue);
void cla_cl_release_program(cl_program program);
void cla_cl_release_kernel(cl_kernel kernel);
void cla_cl_release_buffer(cl_mem buffer);
void cla_cl_release_event(cl_event event);

/* A context for one device alone, apart from the caller's. */
clattn_status cla_cl_context_for_device(cl_device_id device, cl_context *context, struct cla_error *error);

/* Programs and kernels. A failed build answers CLATTN_BUILD_FAILED with the compiler's log in *error. */
clattn_status cla_cl_program_from_source(cl_context context, const char *text, size_t length, cl_program *program,
                                         struct cla_error *error);
clattn_status cla_cl_program_from_binary(cl_context context, cl_device_id device, const void *binary, size_t size,
                                         cl_program *program, struct cla_error *error);
clattn_status cla_cl_build(cl_program program, cl_device_id device, const char *options, struct cla_error *error);
clattn_status cla_cl_build_log(cl_program program, cl_device_id device, struct cla_text *log, struct cla_error *error);
clattn_status cla_cl_program_binary(cl_program program, cl_device_id device, void **binary, size_t *size,
                                    struct cla_error *error); /* malloc'ed */
clattn_status cla_cl_kernel(cl_program program, const char *name, cl_kernel *kernel, struct cla_error *error);
clattn_status cla_cl_kernel_work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                            size_t size, void *value, struct cla_error *error);
clattn_status cla_cl_set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value,
                                  struct cla_error *error);

/* Memory and queues. Reads and writes do not block; event may be NULL. */
clattn_status cla_cl_buffer(cl_context context, cl_mem_flags flags, size_t bytes, cl_mem *buffer,
                            struct cla_error *error);
clattn_status cla_cl_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                           cl_command_queue *queue, struct cla_error *error);
clattn_status cla_cl_enqueue_kernel(cl_command_queue queue, cl_kernel kernel, size_t global, size_t local,
                                    cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                    struct cla_error *error);
clattn_status cla_cl_enqueue_write(cl_command_queue queue, cl_mem buffer, size_t offset, size_t bytes, const void *data,
                                   cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                   struct cla_error *error);
clattn_status cla_cl_enqueue_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t bytes, void *data,
                                  cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                  struct cla_error *error);
clattn_status cla_cl_map(cl_command_queue queue, cl_mem buffer, size_t bytes, void **data,
                         struct cla_error *error); /* to be read and written; blocks */
void cla_cl_unmap(cl_command_queue queue, cl_mem buffer, void *data);
clattn_status cla_cl_enqueue_copy(cl_command_queue queue, cl_mem from, size_t from_offset, cl_mem to, size_t to_offset,
                                  size_t bytes, cl_event *event, struct cla_error *error);
clattn_status cla_cl_enqueue_fill(cl_command_queue queue, cl_mem buffer, uint32_t pattern, size_t offset, size_t bytes,
                                  cl_event *event, struct cla_error *error);
clattn_status cla_cl_enqueue_marker(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                    cl_event *event, struct cla_error *error);
clattn_status cla_cl_enqueue_barrier(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                     struct cla_error *error);
clattn_status cla_cl_flush(cl_command_queue queue, struct cla_error *error);
clattn_status cla_cl_finish(cl_command_queue queue, struct cla_error *error);
clattn_status cla_cl_wait(cl_uint count, const cl_event *events, struct cla_error *error);
clattn_status cla_cl_event_context(cl_event event, cl_context *context, struct cla_error *error);
clattn_status cla_cl_event_is_done(cl_event event, bool *done, struct cla_error *error); /* or has failed */
clattn_status cla_cl_event_times(cl_event event, uint64_t *start_ns, uint64_t *end_ns, struct cla_error *error);

#endif
