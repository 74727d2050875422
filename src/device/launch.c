/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/launch.h"
#include "device/clcall.h"
#include "device/recorder.h"

clattn_status cla_kernel_init(struct cla_kernel *kernel, cl_program program, const char *name, struct cla_error *error)
{
    cl_kernel made = NULL;
    const clattn_status status = cla_cl_kernel(program, name, &made, error);
    if (status)
        return status;
    if (pthread_mutex_init(&kernel->lock, NULL) != 0) {
        cla_cl_release_kernel(made);
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no resources for the lock of kernel %s", name);
    }
    kernel->kernel = made;
    kernel->program = program;
    kernel->name = name;
    kernel->addresses = 0;
    return CLATTN_SUCCESS;
}

void cla_kernel_finish(struct cla_kernel *kernel)
{
    if (!kernel->kernel)
        return;
    cla_cl_release_kernel(kernel->kernel);
    kernel->kernel = NULL;
    pthread_mutex_destroy(&kernel->lock);
}

static clattn_status set_pointer(cl_kernel kernel, cl_uint index, const struct cla_argument *argument,
                                 struct cla_error *error)
{
    const void *const pointer = *(const void *const *)argument->value;
    const cl_int code = argument->set(kernel, index, pointer);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "the driver refuses the address %p as argument %u of a kernel: %s (%d)", pointer,
                    (unsigned)index, clattn_status_name(code), (int)code);
}

struct cla_dispatch cla_to_queue(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    return (struct cla_dispatch){.queue = queue, .wait_count = wait_count, .wait_list = wait_list, .event = event};
}

static clattn_status put(cl_kernel kernel, const struct cla_dispatch *to, size_t global, size_t local,
                         struct cla_error *error)
{
    if (to->recorder)
        return cla_record_kernel(to->recorder, kernel, global, local, to->wait_count, to->wait_points, to->point,
                                 error);
    return cla_cl_enqueue_kernel(to->queue, kernel, global, local, to->wait_count, to->wait_list, to->event, error);
}

static clattn_status set_and_put(cl_kernel kernel, const struct cla_dispatch *to, const struct cla_argument *arguments,
                                 cl_uint argument_count, size_t global, size_t local, struct cla_error *error)
{
    for (cl_uint i = 0; i < argument_count; i++) {
        const struct cla_argument *argument = &arguments[i];
        const clattn_status status = argument->set
                                         ? set_pointer(kernel, i, argument, error)
                                         : cla_cl_set_argument(kernel, i, argument->size, argument->value, error);
        if (status)
            return status;
    }
    return put(kernel, to, global, local, error);
}

/* The command buffer should take the arguments as they are now. PoCL 3.1 takes those that the kernel object has at each
 * replay: so this one is set once, and the command buffer keeps it. */
static clattn_status record(const struct cla_kernel *kernel, const struct cla_dispatch *to,
                            const struct cla_argument *arguments, cl_uint argument_count, size_t global, size_t local,
                            struct cla_error *error)
{
    cl_kernel own = NULL;
    clattn_status status = cla_cl_kernel(kernel->program, kernel->name, &own, error);
    if (!status)
        status = set_and_put(own, to, arguments, argument_count, global, local, error);
    cla_cl_release_kernel(own);
    return status;
}

static uint64_t addresses_among(const struct cla_argument *arguments, cl_uint argument_count)
{
    uint64_t bits = 0;
    for (cl_uint i = 0; i < argument_count; i++)
        bits |= (uint64_t)(arguments[i].set != NULL) << i;
    return bits;
}

/* NVIDIA's driver 580 refused a launch of a state's kernel (CL_INVALID_KERNEL_ARGS) in a test that gives it addresses
 * and buffers in turn; other kernels, which have one kind alone, ran. So one whose arguments change in kind is made
 * anew. */
static clattn_status suit(struct cla_kernel *kernel, uint64_t addresses, struct cla_error *error)
{
    cl_kernel made = NULL;
    if (kernel->addresses == addresses)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_kernel(kernel->program, kernel->name, &made, error);
    if (status)
        return status;
    cla_cl_release_kernel(kernel->kernel);
    kernel->kernel = made;
    kernel->addresses = addresses;
    return CLATTN_SUCCESS;
}

clattn_status cla_kernel_launch(struct cla_kernel *kernel, const struct cla_dispatch *to,
                                const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                size_t work_group_size, struct cla_error *error)
{
    size_t global;
    if (__builtin_mul_overflow(groups, work_group_size, &global))
        return cla_fail(error, CLATTN_TOO_LARGE, "%zu work-groups of %zu work-items are more than a size_t counts",
                        groups, work_group_size);
    if (to->recorder)
        return record(kernel, to, arguments, argument_count, global, work_group_size, error);
    pthread_mutex_lock(&kernel->lock);
    clattn_status status = suit(kernel, addresses_among(arguments, argument_count), error);
    if (!status)
        status = set_and_put(kernel->kernel, to, arguments, argument_count, global, work_group_size, error);
    pthread_mutex_unlock(&kernel->lock);
    return status;
}
