/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/query.h"
#include "device/clcall.h"
#include "plan/machine.h"
#include <clattn/version.h>
#include <inttypes.h>
#include <string.h>

/* Queries that are younger than OpenCL 1.2, deprecated or a vendor's own, by number: not every header has their names.
 */
enum {
    HOST_UNIFIED_MEMORY = 0x1035,
    MAX_NUM_SUB_GROUPS = 0x105c,                 /* OpenCL 2.1 */
    PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x1067, /* OpenCL 3.0 */
    NV_COMPUTE_CAPABILITY_MAJOR = 0x4000,
    NV_COMPUTE_CAPABILITY_MINOR = 0x4001,
    NV_REGISTERS_PER_BLOCK = 0x4002,
    NV_WARP_SIZE = 0x4003,
    AMD_SIMD_PER_COMPUTE_UNIT = 0x4040,
    AMD_WAVEFRONT_WIDTH = 0x4043,
    AMD_LOCAL_MEM_SIZE_PER_COMPUTE_UNIT = 0x4047,
    INTEL_SUB_GROUP_SIZES = 0x4108
};

/* How OpenCL answers. The field is a uint32_t for UINT, a uint64_t for SIZE and ULONG, a bool for BOOL. */
enum kind { UINT, SIZE, ULONG, BOOL };

struct number_query {
    cl_device_info name;
    enum kind kind;
    size_t field;
    bool required; /* every OpenCL 1.2 device answers, and nothing can be planned without; else a failure means 0 */
};

#define FIELD(name) offsetof(struct clattn_capabilities, name)

static const struct number_query number_queries[] = {
    {CL_DEVICE_AVAILABLE, BOOL, FIELD(available), true},
    {CL_DEVICE_COMPILER_AVAILABLE, BOOL, FIELD(compiler_available), true},
    {CL_DEVICE_ADDRESS_BITS, UINT, FIELD(address_bits), true},
    {CL_DEVICE_MAX_COMPUTE_UNITS, UINT, FIELD(compute_units), true},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, SIZE, FIELD(max_work_group_size), true},
    {CL_DEVICE_GLOBAL_MEM_SIZE, ULONG, FIELD(global_memory_bytes), true},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ULONG, FIELD(max_allocation_bytes), true},
    {CL_DEVICE_LOCAL_MEM_SIZE, ULONG, FIELD(local_memory_bytes), true},
    {CL_DEVICE_VENDOR_ID, UINT, FIELD(vendor_id), false},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, UINT, FIELD(clock_mhz), false},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, UINT, FIELD(native_vector_width_float), false},
    {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, ULONG, FIELD(cache_bytes), false},
    {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, UINT, FIELD(cache_line_bytes), false},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, UINT, FIELD(base_address_align_bits), false},
    {HOST_UNIFIED_MEMORY, BOOL, FIELD(unified_memory), false},
    {MAX_NUM_SUB_GROUPS, UINT, FIELD(max_sub_groups), false},
};

static clattn_status query_number(cl_device_id device, const struct number_query *query,
                                  struct clattn_capabilities *result, struct cla_error *error)
{
    union {
        cl_uint uint;
        size_t size;
        cl_ulong ulong;
        cl_bool boolean;
    } answer = {0};
    const size_t sizes[] = {[UINT] = sizeof answer.uint,
                            [SIZE] = sizeof answer.size,
                            [ULONG] = sizeof answer.ulong,
                            [BOOL] = sizeof answer.boolean};
    const clattn_status status = cla_cl_device_info(device, query->name, sizes[query->kind], &answer, error);
    if (status)
        return query->required ? status : CLATTN_SUCCESS;
    void *field = (char *)result + query->field;
    if (query->kind == UINT)
        *(uint32_t *)field = answer.uint;
    else if (query->kind == BOOL)
        *(bool *)field = answer.boolean != CL_FALSE;
    else
        *(uint64_t *)field = query->kind == SIZE ? answer.size : answer.ulong;
    return CLATTN_SUCCESS;
}

static clattn_status query_numbers(cl_device_id device, struct clattn_capabilities *result, struct cla_error *error)
{
    for (size_t i = 0; i < sizeof number_queries / sizeof number_queries[0]; i++) {
        const clattn_status status = query_number(device, &number_queries[i], result, error);
        if (status)
            return status;
    }
    return CLATTN_SUCCESS;
}

static void cut_at_space(char *list, size_t size)
{
    if (strlen(list) < size - 1)
        return;
    char *space = strrchr(list, ' ');
    if (space)
        *space = '\0';
}

static clattn_status query_strings(cl_device_id device, struct clattn_capabilities *c, struct cla_error *error)
{
    cl_platform_id platform = NULL;
    clattn_status status = cla_cl_device_info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, error);
    if (!status)
        status = cla_cl_platform_string(platform, CL_PLATFORM_NAME, c->platform_name, sizeof c->platform_name, error);
    if (!status)
        status = cla_cl_platform_string(platform, CL_PLATFORM_VERSION, c->platform_version, sizeof c->platform_version,
                                        error);
    const struct {
        cl_device_info name;
        char *text;
        size_t size;
    } strings[] = {
        {CL_DEVICE_NAME, c->device_name, sizeof c->device_name},
        {CL_DEVICE_VENDOR, c->vendor, sizeof c->vendor},
        {CL_DEVICE_VERSION, c->device_version, sizeof c->device_version},
        {CL_DRIVER_VERSION, c->driver_version, sizeof c->driver_version},
        {CL_DEVICE_OPENCL_C_VERSION, c->opencl_c_version, sizeof c->opencl_c_version},
        {CL_DEVICE_EXTENSIONS, c->extensions, sizeof c->extensions},
    };
    for (size_t i = 0; !status && i < sizeof strings / sizeof strings[0]; i++)
        status = cla_cl_device_string(device, strings[i].name, strings[i].text, strings[i].size, error);
    cut_at_space(c->extensions, sizeof c->extensions);
    return status;
}

static clattn_status query_types(cl_device_id device, struct clattn_capabilities *result, struct cla_error *error)
{
    cl_device_type type = 0;
    cl_device_local_mem_type local = 0;
    clattn_status status = cla_cl_device_info(device, CL_DEVICE_TYPE, sizeof type, &type, error);
    if (!status)
        status = cla_cl_device_info(device, CL_DEVICE_LOCAL_MEM_TYPE, sizeof local, &local, error);
    if (status)
        return status;
    if (type & CL_DEVICE_TYPE_GPU)
        result->type = CLATTN_DEVICE_GPU;
    else if (type & CL_DEVICE_TYPE_CPU)
        result->type = CLATTN_DEVICE_CPU;
    else if (type & CL_DEVICE_TYPE_ACCELERATOR)
        result->type = CLATTN_DEVICE_ACCELERATOR;
    if (local == CL_LOCAL)
        result->local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL;
    else if (local == CL_GLOBAL)
        result->local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL;
    return CLATTN_SUCCESS;
}

static clattn_status query_work_item_size(cl_device_id device, struct clattn_capabilities *result,
                                          struct cla_error *error)
{
    size_t sizes[16] = {0}; /* the specification asks for 3 dimensions; no driver is known to have more */
    const clattn_status status = cla_cl_device_info(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, error);
    result->max_work_item_size = sizes[0];
    return status;
}

static uint32_t optional_uint(cl_device_id device, cl_device_info name)
{
    struct cla_error ignored;
    cl_uint value = 0;
    return cla_cl_device_info(device, name, sizeof value, &value, &ignored) ? 0 : value;
}

static uint32_t smallest_intel_sub_group(cl_device_id device)
{
    struct cla_error ignored;
    size_t sizes[64] = {0}, smallest = 0;
    if (cla_cl_device_info(device, INTEL_SUB_GROUP_SIZES, sizeof sizes, sizes, &ignored))
        return 0;
    for (size_t i = 0; i < 64; i++) {
        if (sizes[i] && (!smallest || sizes[i] < smallest))
            smallest = sizes[i];
    }
    return (uint32_t)smallest;
}

static void query_vendor(cl_device_id device, struct clattn_capabilities *result)
{
    if (cla_has_extension(result, "cl_nv_device_attribute_query")) {
        result->nv_compute_capability = 100 * optional_uint(device, NV_COMPUTE_CAPABILITY_MAJOR) +
                                        optional_uint(device, NV_COMPUTE_CAPABILITY_MINOR);
        result->nv_registers_per_group = optional_uint(device, NV_REGISTERS_PER_BLOCK);
        result->sub_group_size = optional_uint(device, NV_WARP_SIZE);
    }
    if (cla_has_extension(result, "cl_amd_device_attribute_query")) {
        result->amd_simd_per_compute_unit = optional_uint(device, AMD_SIMD_PER_COMPUTE_UNIT);
        result->amd_local_memory_per_compute_unit = optional_uint(device, AMD_LOCAL_MEM_SIZE_PER_COMPUTE_UNIT);
        result->sub_group_size = optional_uint(device, AMD_WAVEFRONT_WIDTH);
    }
    if (cla_has_extension(result, "cl_intel_required_subgroup_size"))
        result->sub_group_size = smallest_intel_sub_group(device);
}

/* What is still 0 afterwards is asked of a built kernel by the probe. */
static uint32_t query_multiple(cl_device_id device, const struct clattn_capabilities *result)
{
    struct cla_error ignored;
    size_t multiple = 0;
    if (!cla_cl_device_info(device, PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof multiple, &multiple, &ignored) &&
        multiple)
        return (uint32_t)multiple;
    return result->nv_compute_capability || result->amd_simd_per_compute_unit ? result->sub_group_size : 0;
}

clattn_status cla_query(cl_device_id device, struct clattn_capabilities *capabilities, struct cla_error *error)
{
    struct clattn_capabilities result = {0};
    clattn_status status = query_strings(device, &result, error);
    if (!status)
        status = query_types(device, &result, error);
    if (!status)
        status = query_work_item_size(device, &result, error);
    if (!status)
        status = query_numbers(device, &result, error);
    if (status)
        return status;
    query_vendor(device, &result);
    result.preferred_work_group_multiple = query_multiple(device, &result);
    *capabilities = result;
    return CLATTN_SUCCESS;
}

void cla_device_identity(const struct clattn_capabilities *capabilities, struct cla_text *text)
{
    cla_text_printf(text, "library %s\n", clattn_version());
    cla_text_printf(text, "platform %s, %s\n", capabilities->platform_name, capabilities->platform_version);
    cla_text_printf(text, "device %s, %s, %s, vendor 0x%" PRIx32 "\n", capabilities->device_name,
                    capabilities->device_version, capabilities->vendor, capabilities->vendor_id);
    cla_text_printf(text, "driver %s, %s, %" PRIu32 " address bits\n", capabilities->driver_version,
                    capabilities->opencl_c_version, capabilities->address_bits);
}
