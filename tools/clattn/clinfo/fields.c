/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/fields.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct clattn_capabilities, name)
#define ROOM(name)  sizeof((struct clattn_capabilities *)NULL)->name

static const struct {
    const char *name;
    size_t field, size;
} texts[] = {
    {"CL_PLATFORM_NAME", FIELD(platform_name), ROOM(platform_name)},
    {"CL_PLATFORM_VERSION", FIELD(platform_version), ROOM(platform_version)},
    {"CL_DEVICE_NAME", FIELD(device_name), ROOM(device_name)},
    {"CL_DEVICE_VENDOR", FIELD(vendor), ROOM(vendor)},
    {"CL_DEVICE_VERSION", FIELD(device_version), ROOM(device_version)},
    {"CL_DRIVER_VERSION", FIELD(driver_version), ROOM(driver_version)},
    {"CL_DEVICE_OPENCL_C_VERSION", FIELD(opencl_c_version), ROOM(opencl_c_version)},
    {"CL_DEVICE_EXTENSIONS", FIELD(extensions), ROOM(extensions)},
};

/* `size` is that of the field. Of a list the first number counts: CL_DEVICE_MAX_WORK_ITEM_SIZES. */
static const struct {
    const char *name;
    size_t field, size;
} numbers[] = {
    {"CL_DEVICE_VENDOR_ID", FIELD(vendor_id), ROOM(vendor_id)},
    {"CL_DEVICE_ADDRESS_BITS", FIELD(address_bits), ROOM(address_bits)},
    {"CL_DEVICE_MAX_COMPUTE_UNITS", FIELD(compute_units), ROOM(compute_units)},
    {"CL_DEVICE_MAX_CLOCK_FREQUENCY", FIELD(clock_mhz), ROOM(clock_mhz)},
    {"CL_DEVICE_MAX_WORK_GROUP_SIZE", FIELD(max_work_group_size), ROOM(max_work_group_size)},
    {"CL_DEVICE_MAX_WORK_ITEM_SIZES", FIELD(max_work_item_size), ROOM(max_work_item_size)},
    /* The first is OpenCL 3.0's answer for the device, the second clinfo's own question to a kernel. */
    {"CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE", FIELD(preferred_work_group_multiple), 4},
    {"CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE", FIELD(preferred_work_group_multiple), 4},
    {"CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT", FIELD(native_vector_width_float), ROOM(native_vector_width_float)},
    {"CL_DEVICE_MAX_NUM_SUB_GROUPS", FIELD(max_sub_groups), ROOM(max_sub_groups)},
    {"CL_DEVICE_WARP_SIZE_NV", FIELD(sub_group_size), ROOM(sub_group_size)},
    {"CL_DEVICE_WAVEFRONT_WIDTH_AMD", FIELD(sub_group_size), ROOM(sub_group_size)},
    {"CL_DEVICE_GLOBAL_MEM_SIZE", FIELD(global_memory_bytes), ROOM(global_memory_bytes)},
    {"CL_DEVICE_MAX_MEM_ALLOC_SIZE", FIELD(max_allocation_bytes), ROOM(max_allocation_bytes)},
    {"CL_DEVICE_GLOBAL_MEM_CACHE_SIZE", FIELD(cache_bytes), ROOM(cache_bytes)},
    {"CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE", FIELD(cache_line_bytes), ROOM(cache_line_bytes)},
    {"CL_DEVICE_MEM_BASE_ADDR_ALIGN", FIELD(base_address_align_bits), ROOM(base_address_align_bits)},
    {"CL_DEVICE_LOCAL_MEM_SIZE", FIELD(local_memory_bytes), ROOM(local_memory_bytes)},
    {"CL_DEVICE_REGISTERS_PER_BLOCK_NV", FIELD(nv_registers_per_group), ROOM(nv_registers_per_group)},
    {"CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD", FIELD(amd_simd_per_compute_unit), ROOM(amd_simd_per_compute_unit)},
    {"CL_DEVICE_LOCAL_MEM_SIZE_PER_COMPUTE_UNIT_AMD", FIELD(amd_local_memory_per_compute_unit),
     ROOM(amd_local_memory_per_compute_unit)},
};

static const struct {
    const char *name;
    size_t field;
} booleans[] = {
    {"CL_DEVICE_AVAILABLE", FIELD(available)},
    {"CL_DEVICE_COMPILER_AVAILABLE", FIELD(compiler_available)},
    {"CL_DEVICE_HOST_UNIFIED_MEMORY", FIELD(unified_memory)},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct clinfo_device *clinfo_append(struct clinfo_devices *devices, int platform, int device)
{
    struct clinfo_device *items = realloc(devices->items, (size_t)(devices->count + 1) * sizeof *items);
    if (!items)
        return NULL;
    devices->items = items;
    struct clinfo_device *added = &items[devices->count++];
    /* clinfo lists what is online: a dump that does not say more means yes. */
    *added = (struct clinfo_device){.platform = platform, .device = device};
    added->capabilities.available = added->capabilities.compiler_available = true;
    return added;
}

void clinfo_free(struct clinfo_devices *devices)
{
    free(devices->items);
    *devices = (struct clinfo_devices){.items = NULL};
}

static bool parse_number(const char *text, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
    return !errno && (*end == '\0' || *end == ' ' || *end == ',');
}

static void set_text(char *field, size_t size, const char *text)
{
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        length--;
    if (length >= size) {
        length = size - 1;
        while (length && text[length] != ' ')
            length--;
        if (!length)
            length = size - 1;
    }
    memcpy(field, text, length);
    field[length] = '\0';
}

static void set_number(struct clattn_capabilities *capabilities, size_t field, size_t size, uint64_t value)
{
    void *target = (char *)capabilities + field;
    if (size == sizeof(uint64_t))
        *(uint64_t *)target = value;
    else if (value <= UINT32_MAX)
        *(uint32_t *)target = (uint32_t)value;
}

static void set_type(struct clattn_capabilities *capabilities, const char *text)
{
    uint64_t bits = 0;
    parse_number(text, &bits);
    if (strstr(text, "_GPU") || bits & 4)
        capabilities->type = CLATTN_DEVICE_GPU;
    else if (strstr(text, "_CPU") || bits & 2)
        capabilities->type = CLATTN_DEVICE_CPU;
    else if (strstr(text, "_ACCELERATOR") || bits & 8)
        capabilities->type = CLATTN_DEVICE_ACCELERATOR;
}

static void set_local_type(struct clattn_capabilities *capabilities, const char *text)
{
    uint64_t value = 0;
    parse_number(text, &value);
    if (!strcmp(text, "CL_LOCAL") || value == 1)
        capabilities->local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL;
    else if (!strcmp(text, "CL_GLOBAL") || value == 2)
        capabilities->local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL;
}

/* The smallest of a list, or of another list of the same device. */
static void set_sub_group_sizes(struct clattn_capabilities *capabilities, const char *text)
{
    uint64_t smallest = 0, value;
    for (; *text; text += strcspn(text, " ,"), text += strspn(text, " ,"))
        if (parse_number(text, &value) && value && (!smallest || value < smallest))
            smallest = value;
    if (smallest && smallest <= UINT32_MAX)
        capabilities->sub_group_size = (uint32_t)smallest;
}

static void set_from_tables(struct clattn_capabilities *capabilities, const char *name, const char *text)
{
    uint64_t value;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!strcmp(name, texts[i].name))
            set_text((char *)capabilities + texts[i].field, texts[i].size, text);
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (!strcmp(name, numbers[i].name) && parse_number(text, &value))
            set_number(capabilities, numbers[i].field, numbers[i].size, value);
    for (size_t i = 0; i < COUNT(booleans); i++)
        if (!strcmp(name, booleans[i].name))
            *(bool *)((char *)capabilities + booleans[i].field) = !strcmp(text, "CL_TRUE") || !strcmp(text, "1");
}

void clinfo_set(struct clattn_capabilities *capabilities, const char *name, const char *text)
{
    uint64_t value;
    if (text[0] == '<') /* clinfo's report of a query that failed */
        return;
    /* OpenCL 3.0 answers 0 for a device that does not say, and the kernel's answer may have come before. */
    if (strstr(name, "PREFERRED_WORK_GROUP_SIZE_MULTIPLE") && parse_number(text, &value) && !value)
        return;
    if (!strcmp(name, "CL_DEVICE_TYPE"))
        set_type(capabilities, text);
    else if (!strcmp(name, "CL_DEVICE_LOCAL_MEM_TYPE"))
        set_local_type(capabilities, text);
    else if (!strcmp(name, "CL_DEVICE_SUB_GROUP_SIZES_INTEL"))
        set_sub_group_sizes(capabilities, text);
    else if (!strcmp(name, "CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV") && parse_number(text, &value) && value < 1000)
        capabilities->nv_compute_capability = (uint32_t)value * 100 + capabilities->nv_compute_capability % 100;
    else if (!strcmp(name, "CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV") && parse_number(text, &value) && value < 100)
        capabilities->nv_compute_capability = capabilities->nv_compute_capability / 100 * 100 + (uint32_t)value;
    else
        set_from_tables(capabilities, name, text);
}

void clinfo_finish(struct clattn_capabilities *capabilities)
{
    const bool vendor = capabilities->nv_compute_capability || capabilities->amd_simd_per_compute_unit;
    if (!capabilities->preferred_work_group_multiple && vendor)
        capabilities->preferred_work_group_multiple = capabilities->sub_group_size;
}
