/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE              /* RTLD_NEXT */
#define CL_TARGET_OPENCL_VERSION 200
#include "device/memory_kinds.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32, MOST_ADDRESSED = 128, BYTES = PLACE_BYTES };
enum { SVM_CAPABILITIES = 0x1053, FINE_BUFFER = 2, ALLOCATION_TYPE = 0x419a, ALLOCATION_BASE = 0x419b };
static const char usm[] = "cl_intel_unified_shared_memory";

static const struct test_device *device;
static cl_ulong svm_grains;
static bool has_usm, hidden;

static struct place places[MOST];
static int place_count;

static void *real_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* Arguments that hold addresses, by fake_set, as long as their kernel objects are there. */
static struct {
    cl_kernel kernel;
    cl_uint index;
} addressed[MOST_ADDRESSED];
static int addressed_count;

static bool holds_address(cl_kernel kernel, cl_uint index)
{
    for (int i = 0; i < addressed_count; i++)
        if (addressed[i].kernel == kernel && addressed[i].index == index)
            return true;
    return false;
}

static cl_int CL_API_CALL fake_set(cl_kernel kernel, cl_uint index, const void *pointer)
{
    if (!holds_address(kernel, index)) {
        assert_true(addressed_count < MOST_ADDRESSED);
        addressed[addressed_count].kernel = kernel;
        addressed[addressed_count++].index = index;
    }
    return clSetKernelArgSVMPointer(kernel, index, pointer);
}

static cl_int CL_API_CALL fake_copy(cl_command_queue queue, cl_bool blocks, void *to, const void *from, size_t bytes,
                                    cl_uint count, const cl_event *waits, cl_event *event)
{
    return clEnqueueSVMMemcpy(queue, blocks, to, from, bytes, count, waits, event);
}

static cl_int CL_API_CALL fake_query(cl_context context, const void *pointer, cl_uint name, size_t size, void *value,
                                     size_t *answered)
{
    static const cl_uint types[] = {0x4196 /* unknown */, 0x4199 /* shared */};
    const char *base = NULL;
    (void)context;
    (void)answered;
    for (int i = 0; i < place_count; i++) {
        const char *const from = places[i].allocation;
        if (from && (const char *)pointer >= from && (const char *)pointer < from + BYTES)
            base = from;
    }
    const size_t bytes = base ? BYTES : 0;
    const void *const answer = name == ALLOCATION_TYPE   ? (const void *)&types[base != NULL]
                               : name == ALLOCATION_BASE ? (const void *)&base
                                                         : (const void *)&bytes;
    memcpy(value, answer, size);
    return CL_SUCCESS;
}

static void look_for_usm(cl_device_id id,
                         cl_int(CL_API_CALL *real)(cl_device_id, cl_device_info, size_t, void *, size_t *))
{
    char text[1 << 14] = "";
    if (real(id, CL_DEVICE_EXTENSIONS, sizeof text, text, NULL) == CL_SUCCESS)
        has_usm = strstr(text, usm) != NULL;
}

/* These stand in the loader's place. */

/* As NVIDIA's driver 580: no buffer where an address was. (There the launch fails.) */
cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    static cl_int(CL_API_CALL * real)(cl_kernel, cl_uint, size_t, const void *);
    if (!real)
        *(void **)&real = real_function("clSetKernelArg");
    return holds_address(kernel, index) ? CL_INVALID_KERNEL_ARGS : real(kernel, index, size, value);
}

cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    static cl_int(CL_API_CALL * real)(cl_kernel);
    if (!real)
        *(void **)&real = real_function("clReleaseKernel");
    int kept = 0;
    for (int i = 0; i < addressed_count; i++)
        if (addressed[i].kernel != kernel)
            addressed[kept++] = addressed[i];
    addressed_count = kept;
    return real(kernel);
}

cl_int CL_API_CALL clGetDeviceInfo(cl_device_id id, cl_device_info name, size_t size, void *value, size_t *answered)
{
    static cl_int(CL_API_CALL * real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    if (!real)
        *(void **)&real = real_function("clGetDeviceInfo");
    if (hidden && name == SVM_CAPABILITIES)
        return CL_INVALID_VALUE;
    if (name == CL_DEVICE_EXTENSIONS)
        look_for_usm(id, real);
    size_t bytes = 0;
    const cl_int code = real(id, name, size, value, &bytes);
    if (code == CL_SUCCESS && name == CL_DEVICE_EXTENSIONS && !has_usm && !hidden) {
        if (value && size >= bytes + sizeof usm)
            sprintf((char *)value + bytes - 1, " %s", usm);
        bytes += sizeof usm;
    } else if (value && name == CL_DEVICE_EXTENSIONS && hidden && strstr(value, usm)) {
        memset(strstr(value, usm), '-', sizeof usm - 1);
    }
    if (answered)
        *answered = bytes;
    return code;
}

void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    static void *(CL_API_CALL * real)(cl_platform_id, const char *);
    static const struct {
        const char *name;
        void (*function)(void);
    } fakes[] = {{"clSetKernelArgMemPointerINTEL", (void (*)(void))fake_set},
                 {"clEnqueueMemcpyINTEL", (void (*)(void))fake_copy},
                 {"clGetMemAllocInfoINTEL", (void (*)(void))fake_query}};
    if (!real)
        *(void **)&real = real_function("clGetExtensionFunctionAddressForPlatform");
    EACH (i, fakes) {
        void *address;
        memcpy(&address, &fakes[i].function, sizeof address);
        if (!has_usm && strcmp(name, fakes[i].name) == 0)
            return address;
    }
    return real(platform, name);
}

static void *usm_function(const char *name)
{
    cl_platform_id platform = NULL;
    clGetDeviceInfo(device->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    return clGetExtensionFunctionAddressForPlatform(platform, name);
}

static void *allocate(enum clattn_memory memory, bool fine)
{
    typedef void *(CL_API_CALL * allocator)(cl_context, cl_device_id, const cl_ulong *, size_t, cl_uint, cl_int *);
    cl_int code = CL_SUCCESS;
    allocator usm_alloc;
    if (memory == CLATTN_SVM || !has_usm)
        return clSVMAlloc(device->context, CL_MEM_READ_WRITE | (fine ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0), BYTES, 0);
    *(void **)&usm_alloc = usm_function("clSharedMemAllocINTEL");
    return usm_alloc(device->context, device->device, NULL, BYTES, 0, &code);
}

static void release(struct place *place)
{
    cl_int(CL_API_CALL * usm_free)(cl_context, void *);
    *(void **)&usm_free = usm_function("clMemFreeINTEL");
    if (!place->memory)
        clReleaseMemObject(place->buffer);
    else if (place->memory == CLATTN_SVM || !has_usm)
        clSVMFree(device->context, place->allocation);
    else
        usm_free(device->context, place->allocation);
}

static void copy_in(const struct place *place, const void *data)
{
    if (!place->memory) {
        clEnqueueWriteBuffer(device->queue, place->buffer, CL_TRUE, 0, BYTES, data, 0, NULL, NULL);
    } else if (place->fine) {
        memcpy(place->allocation, data, BYTES);
    } else {
        clEnqueueSVMMap(device->queue, CL_TRUE, CL_MAP_WRITE, place->allocation, BYTES, 0, NULL, NULL);
        memcpy(place->allocation, data, BYTES);
        clEnqueueSVMUnmap(device->queue, place->allocation, 0, NULL, NULL);
    }
}

void place_read(const struct place *place, void *data)
{
    assert_int_equal(clFinish(device->queue), CL_SUCCESS);
    if (!place->memory) {
        clEnqueueReadBuffer(device->queue, place->buffer, CL_TRUE, 0, BYTES, data, 0, NULL, NULL);
    } else if (place->fine) {
        memcpy(data, place->allocation, BYTES);
    } else {
        clEnqueueSVMMap(device->queue, CL_TRUE, CL_MAP_READ, place->allocation, BYTES, 0, NULL, NULL);
        memcpy(data, place->allocation, BYTES);
        clEnqueueSVMUnmap(device->queue, place->allocation, 0, NULL, NULL);
    }
    assert_int_equal(clFinish(device->queue), CL_SUCCESS);
}

struct place *place_make(enum way way, const void *data)
{
    static const enum way turns[] = {COARSE, BUFFERS, UNIFIED, FINE, BUFFERS, COARSE, UNIFIED};
    struct place *place = &places[place_count];
    const enum way kind = way == MIXED ? turns[place_count % (int)(sizeof turns / sizeof *turns)] : way;
    const bool real_usm = kind == UNIFIED && has_usm;
    *place = (struct place){.memory = kind == BUFFERS   ? CLATTN_BUFFER
                                      : kind == UNIFIED ? CLATTN_USM
                                                        : CLATTN_SVM,
                            .fine = real_usm || (kind == FINE && (svm_grains & FINE_BUFFER)),
                            .kind = (int)kind};
    if (kind == BUFFERS) {
        place->buffer = clCreateBuffer(device->context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    } else {
        place->allocation = allocate(place->memory, place->fine);
        place->buffer = (cl_mem)place->allocation;
    }
    assert_non_null(place->buffer);
    place_count++;
    copy_in(place, data);
    return place;
}

void places_release(void)
{
    while (place_count)
        release(&places[--place_count]);
}

struct place *place_of(cl_mem buffer)
{
    for (int i = 0; i < place_count; i++)
        if (places[i].buffer == buffer)
            return &places[i];
    return NULL;
}

bool places_open(const struct test_device *on)
{
    device = on;
    clGetDeviceInfo(device->device, SVM_CAPABILITIES, sizeof svm_grains, &svm_grains, NULL);
    return svm_grains;
}

void places_hide(bool hide)
{
    hidden = hide;
}
