/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_RECORD_H
#define CLATTN_RECORD_H

#include <clattn/append.h>
#include <clattn/attention.h>
#include <clattn/state.h>

CLATTN_BEGIN_DECLS

/* Calls recorded into the caller's command buffer (cl_khr_command_buffer), which is then replayed at the cost of one
 * enqueue: for programs that make the same small calls again and again, as a step of decoding does.
 *
 *     cl_command_buffer_khr buffer = clCreateCommandBufferKHR(1, &queue, NULL, &code);
 *     clattn_forward_record(plan, buffer, &args, 0, NULL, NULL);
 *     clFinalizeCommandBufferKHR(buffer);
 *     clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, &event);     as often as wanted
 *
 * A call becomes kernels alone, one for each that clattn_*_enqueue would enqueue, and nothing else. What is recorded is
 * what was said: buffers, layouts, lengths and numbers stay those of `args`, and the contents of the buffers are read
 * at each replay. What changes between replays therefore comes from buffers: the tensors, and score.key_lengths,
 * score.pages and other arrays of indices.
 *
 * The command buffer is for one queue, of the plan's context and device, and still being recorded. Results are those of
 * clattn_*_enqueue, bit for bit. Kernels depend on each other by sync points, so that queues of any order do. A
 * workspace is used at each replay: replays that may run at the same time, and command buffers that may, need one each.
 *
 * The plan, and the buffers, must live until the command buffer is released. Recording makes a kernel object for each
 * kernel, which the command buffer keeps, and allocates nothing else. Threads: as with clattn_forward_enqueue, any
 * number on one plan; a command buffer is for one thread at a time, as OpenCL has it.
 *
 * Not to be recorded: clattn_backward_check, which reads from the device (call it after a replay, as after an enqueued
 * call), the standard attention, whose products CLBlast enqueues, and the host level, which copies.
 *
 * Known are the versions 0.9 of the extension, from 0.9.0 on, as the device says its version. Others, and devices
 * without it, are CLATTN_UNSUPPORTED_DEVICE: enqueue the call then. */
struct _cl_command_buffer_khr;

/* Records a forward pass. The arguments are those of clattn_forward_enqueue, but sync points (cl_sync_point_khr, a
 * cl_uint) stand for events: the call waits for those of the list, which are of the same command buffer, and
 * *sync_point, where not NULL, is the one that its last kernel gives. args->first_event is NULL.
 *
 * A call that has nothing to do records nothing; sync_point must then be NULL.
 *
 * Errors: those of clattn_forward_enqueue; CLATTN_UNSUPPORTED_DEVICE; CLATTN_INVALID_ARGUMENT, also for a command
 * buffer that has been finalized; OpenCL's own, as for one of another context. After these a command buffer may hold a
 * part of the call: release it. */
CLATTN_API clattn_status clattn_forward_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                               const struct clattn_forward_args *args, cl_uint wait_count,
                                               const cl_uint *sync_points, cl_uint *sync_point);

/* The same for a backward pass, of a plan for which clattn_backward_enqueue is. */
CLATTN_API clattn_status clattn_backward_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                                const struct clattn_backward_args *args, cl_uint wait_count,
                                                const cl_uint *sync_points, cl_uint *sync_point);

/* The same for an append (clattn/append.h). Where rows go is in buffers: positions, key_lengths or row_shifts that
 * change between replays move it on, so that a step of decoding appends and attends in one command buffer. */
CLATTN_API clattn_status clattn_append_record(const clattn_appender *appender,
                                              struct _cl_command_buffer_khr *command_buffer,
                                              const struct clattn_append_args *args, cl_uint wait_count,
                                              const cl_uint *sync_points, cl_uint *sync_point);

/* The same for states (clattn/state.h), of a plan whose pass is CLATTN_ACCUMULATE. What a state holds is read and
 * written at each replay: one that is to begin anew has its begin recorded, too. */
CLATTN_API clattn_status clattn_state_begin_record(const clattn_plan *plan,
                                                   struct _cl_command_buffer_khr *command_buffer,
                                                   const struct clattn_shape *shape, cl_mem state,
                                                   enum clattn_memory state_memory, cl_uint wait_count,
                                                   const cl_uint *sync_points, cl_uint *sync_point);
CLATTN_API clattn_status clattn_state_accumulate_record(const clattn_plan *plan,
                                                        struct _cl_command_buffer_khr *command_buffer,
                                                        const struct clattn_accumulate_args *args, cl_uint wait_count,
                                                        const cl_uint *sync_points, cl_uint *sync_point);
CLATTN_API clattn_status clattn_state_merge_record(const clattn_plan *plan,
                                                   struct _cl_command_buffer_khr *command_buffer,
                                                   const struct clattn_shape *shape, cl_mem into,
                                                   enum clattn_memory into_memory, cl_mem from,
                                                   enum clattn_memory from_memory, cl_uint wait_count,
                                                   const cl_uint *sync_points, cl_uint *sync_point);
CLATTN_API clattn_status clattn_state_finish_record(const clattn_plan *plan,
                                                    struct _cl_command_buffer_khr *command_buffer,
                                                    const struct clattn_finish_args *args, cl_uint wait_count,
                                                    const cl_uint *sync_points, cl_uint *sync_point);

CLATTN_END_DECLS

#endif
