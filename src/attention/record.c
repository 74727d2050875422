/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/append.h"
#include "attention/backward.h"
#include "attention/forward.h"
#include "attention/state.h"
#include "device/recorder.h"
#include "device/report.h"
#include <clattn/record.h>

/* A call under way: `to` names the recorder beside it, so it stays where it was begun. */
struct recording {
    struct cla_recorder recorder;
    struct cla_dispatch to;
    struct cla_error error;
};

static void begin(struct recording *recording, struct _cl_command_buffer_khr *buffer, cl_uint wait_count,
                  const cl_uint *sync_points, cl_uint *sync_point)
{
    recording->recorder = (struct cla_recorder){.buffer = buffer};
    recording->to = (struct cla_dispatch){
        .recorder = &recording->recorder, .wait_count = wait_count, .wait_points = sync_points, .point = sync_point};
}

/* What is wrong with it can be told without OpenCL; the command buffer itself is looked at when the arguments are found
 * right (cla_dispatch_checks). */
static clattn_status check(struct recording *recording, const cl_event *first_event)
{
    const struct cla_dispatch *to = &recording->to;
    if (!recording->recorder.buffer)
        return cla_fail(&recording->error, CLATTN_INVALID_ARGUMENT,
                        "command_buffer is NULL: it must be a cl_command_buffer_khr that is being recorded");
    if (first_event)
        return cla_fail(&recording->error, CLATTN_INVALID_ARGUMENT,
                        "args->first_event is not NULL, as it must be: what is recorded has no events");
    if (to->wait_count && !to->wait_points)
        return cla_fail(&recording->error, CLATTN_INVALID_ARGUMENT,
                        "sync_points is NULL with a wait_count of %u: it must hold that many, or wait_count be 0",
                        (unsigned)to->wait_count);
    return CLATTN_SUCCESS;
}

/* What all that record a pass of a plan begin with. */
static clattn_status check_pass(struct recording *recording, const struct clattn_plan *plan, enum clattn_pass pass,
                                const char *function, const cl_event *first_event)
{
    const clattn_status status = cla_plan_check_pass(plan, pass, function, &recording->error);
    return status ? status : check(recording, first_event);
}

static clattn_status finish(const struct recording *recording, clattn_status status,
                            const struct clattn_context *context)
{
    return status ? cla_report(context ? &context->log : NULL, &recording->error) : CLATTN_SUCCESS;
}

clattn_status clattn_forward_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                    const struct clattn_forward_args *args, cl_uint wait_count,
                                    const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check_pass(&one, plan, CLATTN_FORWARD, __func__, args ? args->first_event : NULL);
    if (!status)
        status = cla_forward_dispatch(plan, args, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}

clattn_status clattn_backward_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                     const struct clattn_backward_args *args, cl_uint wait_count,
                                     const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    const bool chunks = plan && plan->problem.pass == CLATTN_BACKWARD_ACCUMULATE;
    clattn_status status = check_pass(&one, plan, chunks ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD, __func__,
                                      args ? args->first_event : NULL);
    if (!status)
        status = cla_backward_dispatch(plan, args, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}

clattn_status clattn_append_record(const clattn_appender *appender, struct _cl_command_buffer_khr *command_buffer,
                                   const struct clattn_append_args *args, cl_uint wait_count,
                                   const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check(&one, args ? args->first_event : NULL);
    if (!status)
        status = cla_append_dispatch(appender, args, &one.to, &one.error);
    return finish(&one, status, appender ? appender->context : NULL);
}

clattn_status clattn_state_begin_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                        const struct clattn_shape *shape, cl_mem state, enum clattn_memory state_memory,
                                        cl_uint wait_count, const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check_pass(&one, plan, CLATTN_ACCUMULATE, __func__, NULL);
    if (!status)
        status = cla_state_begin(plan, shape, (struct cla_bytes){state, state_memory, 0}, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}

clattn_status clattn_state_accumulate_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                             const struct clattn_accumulate_args *args, cl_uint wait_count,
                                             const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check_pass(&one, plan, CLATTN_ACCUMULATE, __func__, args ? args->first_event : NULL);
    if (!status)
        status = cla_state_accumulate(plan, args, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}

clattn_status clattn_state_merge_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                        const struct clattn_shape *shape, cl_mem into, enum clattn_memory into_memory,
                                        cl_mem from, enum clattn_memory from_memory, cl_uint wait_count,
                                        const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check_pass(&one, plan, CLATTN_ACCUMULATE, __func__, NULL);
    if (!status)
        status = cla_state_merge(plan, shape, (struct cla_bytes){into, into_memory, 0},
                                 (struct cla_bytes){from, from_memory, 0}, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}

clattn_status clattn_state_finish_record(const clattn_plan *plan, struct _cl_command_buffer_khr *command_buffer,
                                         const struct clattn_finish_args *args, cl_uint wait_count,
                                         const cl_uint *sync_points, cl_uint *sync_point)
{
    struct recording one;
    begin(&one, command_buffer, wait_count, sync_points, sync_point);
    clattn_status status = check_pass(&one, plan, CLATTN_ACCUMULATE, __func__, NULL);
    if (!status)
        status = cla_state_finish(plan, args, &one.to, &one.error);
    return finish(&one, status, plan ? plan->context : NULL);
}
