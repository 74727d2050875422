/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the devices say of themselves: as ROCm's runtime says it of such chips. */
#include "platform.h"
#include <string.h>

static const struct device_facts facts[MOST_DEVICES] = {
    {{"gfx1100", RDNA3, 32}, "gfx1100", 48, 2482, 4, 24ull << 30, 32768},
    {{"gfx1201", RDNA4, 32}, "gfx1201", 32, 2970, 4, 16ull << 30, 32768},
    {{"gfx942", CDNA3, 64}, "gfx942:sramecc+:xnack-", 304, 2100, 4, 192ull << 30, 32768},
    {{"gfx90a", CDNA2, 64}, "gfx90a:sramecc+:xnack-", 104, 1700, 4, 64ull << 30, 16384},
};

struct _cl_device_id simulated_devices[MOST_DEVICES] = {{&simulated_dispatch, &facts[0]},
                                                        {&simulated_dispatch, &facts[1]},
                                                        {&simulated_dispatch, &facts[2]},
                                                        {&simulated_dispatch, &facts[3]}};

static const char extensions[] =
    "cl_khr_fp64 cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics "
    "cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics cl_khr_int64_extended_atomics "
    "cl_khr_byte_addressable_store cl_khr_fp16 cl_amd_device_attribute_query cl_amd_media_ops cl_amd_media_ops2 "
    "cl_khr_subgroups cl_khr_depth_images";

/* Vendors' own queries. */
enum { SIMD_PER_COMPUTE_UNIT = 0x4040, WAVEFRONT_WIDTH = 0x4043, LOCAL_PER_COMPUTE_UNIT = 0x4047, AMD_ID = 0x1002 };
enum { LOCAL_BYTES = 65536, MOST_ITEMS = 256, LARGEST = 1024 };

cl_int device_ids(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices, cl_uint *count)
{
    if (platform != &simulated_platform)
        return CL_INVALID_PLATFORM;
    if (type != CL_DEVICE_TYPE_ALL && !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    for (cl_uint n = 0; devices && n < room && n < MOST_DEVICES; n++)
        devices[n] = &simulated_devices[n];
    if (count)
        *count = MOST_DEVICES;
    return CL_SUCCESS;
}

static const char *text_of(const struct device_facts *device, cl_device_info name)
{
    switch (name) {
    case CL_DEVICE_NAME:
        return device->name;
    case CL_DEVICE_VENDOR:
        return "Advanced Micro Devices, Inc.";
    case CL_DEVICE_VERSION:
        return "OpenCL 2.0 ";
    case CL_DRIVER_VERSION:
        return "simulated";
    case CL_DEVICE_OPENCL_C_VERSION:
        return "OpenCL C 2.0 ";
    case CL_DEVICE_PROFILE:
        return "FULL_PROFILE";
    case CL_DEVICE_EXTENSIONS:
        return extensions;
    default:
        return NULL;
    }
}

/* A number with the bytes that OpenCL gives it. */
struct number {
    cl_ulong value;
    size_t bytes;
};

static struct number memory_number_of(const struct device_facts *device, cl_device_info name)
{
    switch (name) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return (struct number){device->global_bytes, 8};
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return (struct number){device->global_bytes / 2, 8};
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        return (struct number){device->cache_bytes, 8};
    case CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE:
        return (struct number){64, 4};
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return (struct number){1024, 4};
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return (struct number){CL_LOCAL, 4};
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return (struct number){LOCAL_BYTES, 8};
    case LOCAL_PER_COMPUTE_UNIT:
        return (struct number){LOCAL_BYTES, 4};
    default:
        return (struct number){0, 0};
    }
}

static struct number number_of(const struct device_facts *device, cl_device_info name)
{
    switch (name) {
    case CL_DEVICE_TYPE:
        return (struct number){CL_DEVICE_TYPE_GPU, 8};
    case CL_DEVICE_VENDOR_ID:
        return (struct number){AMD_ID, 4};
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return (struct number){CL_TRUE, 4};
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return (struct number){CL_FALSE, 4};
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return (struct number){device->compute_units, 4};
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        return (struct number){device->clock, 4};
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return (struct number){MOST_ITEMS, sizeof(size_t)};
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        return (struct number){3, 4};
    case CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return (struct number){(cl_ulong)device->chip.lanes, sizeof(size_t)};
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return (struct number){1, 4};
    case CL_DEVICE_ADDRESS_BITS:
        return (struct number){64, 4};
    case CL_DEVICE_QUEUE_PROPERTIES:
        return (struct number){CL_QUEUE_PROFILING_ENABLE, 8};
    case CL_DEVICE_REFERENCE_COUNT:
        return (struct number){1, 4};
    case SIMD_PER_COMPUTE_UNIT:
        return (struct number){device->simds, 4};
    case WAVEFRONT_WIDTH:
        return (struct number){(cl_ulong)device->chip.lanes, 4};
    default:
        return memory_number_of(device, name);
    }
}

cl_int device_info(cl_device_id device, cl_device_info name, size_t room, void *to, size_t *wanted)
{
    static const size_t sizes[3] = {LARGEST, LARGEST, LARGEST};
    const char *text = text_of(device->facts, name);
    if (text)
        return answer_text(text, room, to, wanted);
    if (name == CL_DEVICE_PLATFORM)
        return answer(&(cl_platform_id){&simulated_platform}, sizeof(cl_platform_id), room, to, wanted);
    if (name == CL_DEVICE_MAX_WORK_ITEM_SIZES)
        return answer(sizes, sizeof sizes, room, to, wanted);
    const struct number number = number_of(device->facts, name);
    return number.bytes ? answer(&number.value, number.bytes, room, to, wanted) : CL_INVALID_VALUE;
}

cl_int device_keep(cl_device_id device)
{
    return device ? CL_SUCCESS : CL_INVALID_DEVICE;
}

cl_int device_split(cl_device_id device, const cl_device_partition_property *how, cl_uint room, cl_device_id *devices,
                    cl_uint *count)
{
    (void)how;
    (void)room;
    (void)devices;
    (void)count;
    return device ? CL_DEVICE_PARTITION_FAILED : CL_INVALID_DEVICE;
}
