/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/pointers.h"
#include "device/clcall.h"
#include "device/os.h"
#include "plan/machine.h"
#include <string.h>

/* By number: not every header has their names. */
enum {
    SVM_CAPABILITIES = 0x1053,           /* OpenCL 2.0 */
    SHARED_SYSTEM_CAPABILITIES = 0x4194, /* this and what follows: cl_intel_unified_shared_memory */
    ALLOCATION_TYPE = 0x419a,
    ALLOCATION_BASE = 0x419b,
    ALLOCATION_SIZE = 0x419c,
    TYPE_UNKNOWN = 0x4196
};

/* A query that failed means that the device has none: those before OpenCL 2.0 do not know it. */
static cl_ulong bits_of(cl_device_id device, cl_device_info name)
{
    struct cla_error ignored;
    cl_ulong bits = 0;
    return cla_cl_device_info(device, name, sizeof bits, &bits, &ignored) ? 0 : bits;
}

/* By way of its bytes: C has no conversion from an object's address to a function's. */
#define TAKE(function, address)                                                                                        \
    do {                                                                                                               \
        void *const found = address;                                                                                   \
        _Static_assert(sizeof found == sizeof(function), "functions have addresses as objects have");                  \
        memcpy(&(function), &found, sizeof found);                                                                     \
    } while (0)

static void find_svm(struct cla_pointer_calls *calls)
{
    TAKE(calls->copy, cla_os_opencl_symbol("clEnqueueSVMMemcpy"));
    if (calls->copy)
        TAKE(calls->set, cla_os_opencl_symbol("clSetKernelArgSVMPointer"));
}

static void find_usm(struct cla_pointers *pointers, cl_device_id device)
{
    struct cla_error ignored;
    cl_platform_id platform = NULL;
    if (cla_cl_device_info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, &ignored))
        return;
    TAKE(pointers->usm_query, cla_cl_extension_function(platform, "clGetMemAllocInfoINTEL"));
    TAKE(pointers->usm.copy, cla_cl_extension_function(platform, "clEnqueueMemcpyINTEL"));
    if (pointers->usm_query && pointers->usm.copy)
        TAKE(pointers->usm.set, cla_cl_extension_function(platform, "clSetKernelArgMemPointerINTEL"));
    pointers->usm_of_system = bits_of(device, SHARED_SYSTEM_CAPABILITIES) != 0;
}

void cla_pointers_find(struct cla_pointers *pointers, cl_device_id device,
                       const struct clattn_capabilities *capabilities)
{
    *pointers = (struct cla_pointers){0};
    if (bits_of(device, SVM_CAPABILITIES))
        find_svm(&pointers->svm);
    if (cla_has_extension(capabilities, "cl_intel_unified_shared_memory"))
        find_usm(pointers, device);
}

cla_pointer_setter cla_pointers_setter(const struct cla_pointers *pointers, enum clattn_memory memory)
{
    return memory == CLATTN_SVM ? pointers->svm.set : pointers->usm.set;
}

clattn_status cla_pointers_read(const struct cla_pointers *pointers, enum clattn_memory memory, cl_command_queue queue,
                                const void *from, size_t bytes, void *to, cl_uint wait_count, const cl_event *wait_list,
                                cl_event *event, struct cla_error *error)
{
    const bool svm = memory == CLATTN_SVM;
    const cl_int code = (svm ? pointers->svm.copy : pointers->usm.copy)(queue, CL_FALSE, to, from, bytes, wait_count,
                                                                        wait_count ? wait_list : NULL, event);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "%s failed: %s (%d)", svm ? "clEnqueueSVMMemcpy" : "clEnqueueMemcpyINTEL",
                    clattn_status_name(code), (int)code);
}

clattn_status cla_pointers_allocation(const struct cla_pointers *pointers, cl_context context, const void *pointer,
                                      struct cla_allocation *allocation, struct cla_error *error)
{
    cl_uint type = TYPE_UNKNOWN;
    void *base = NULL;
    size_t bytes = 0;
    const struct {
        cl_uint name;
        size_t size;
        void *value;
    } queries[] = {{ALLOCATION_TYPE, sizeof type, &type},
                   {ALLOCATION_BASE, sizeof base, &base},
                   {ALLOCATION_SIZE, sizeof bytes, &bytes}};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        const cl_int code =
            pointers->usm_query(context, pointer, queries[i].name, queries[i].size, queries[i].value, NULL);
        if (code != CL_SUCCESS)
            return cla_fail(error, code, "clGetMemAllocInfoINTEL(0x%04x) failed: %s (%d)", (unsigned)queries[i].name,
                            clattn_status_name(code), (int)code);
    }
    *allocation = (struct cla_allocation){(uintptr_t)base, type == TYPE_UNKNOWN ? 0 : bytes};
    return CLATTN_SUCCESS;
}
