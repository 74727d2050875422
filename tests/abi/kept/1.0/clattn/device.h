/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_DEVICE_H
#define CLATTN_DEVICE_H
#include <clattn/export.h>
#include <clattn/log.h>
#include <clattn/opencl.h>
#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
CLATTN_BEGIN_DECLS
enum clattn_device_type {
    CLATTN_DEVICE_OTHER = 0,
    CLATTN_DEVICE_CPU = 1,
    CLATTN_DEVICE_GPU = 2,
    CLATTN_DEVICE_ACCELERATOR = 3
};
enum clattn_local_memory_type {
    CLATTN_LOCAL_MEMORY_NONE = 0,
    CLATTN_LOCAL_MEMORY_LOCAL = 1,
    CLATTN_LOCAL_MEMORY_GLOBAL = 2
};
struct clattn_capabilities {
    char platform_name[64];
    char platform_version[128];
    char device_name[128];
    char vendor[64];
    char device_version[128];
    char driver_version[64];
    char opencl_c_version[64];
    char extensions[4096];
    uint32_t vendor_id;
    enum clattn_device_type type;
    bool available;
    bool compiler_available;
    bool unified_memory;
    uint32_t address_bits;
    uint32_t compute_units;
    uint32_t clock_mhz;
    uint64_t max_work_group_size;
    uint64_t max_work_item_size;
    uint32_t preferred_work_group_multiple;
    uint32_t native_vector_width_float;
    uint32_t max_sub_groups;
    uint32_t sub_group_size;
    uint64_t global_memory_bytes;
    uint64_t max_allocation_bytes;
    uint64_t cache_bytes;
    uint32_t cache_line_bytes;
    uint32_t base_address_align_bits;
    enum clattn_local_memory_type local_memory_type;
    uint64_t local_memory_bytes;
    uint32_t nv_compute_capability;
    uint32_t nv_registers_per_group;
    uint32_t amd_simd_per_compute_unit;
    uint64_t amd_local_memory_per_compute_unit;
    uint64_t static_local_memory_bytes;
    bool half_loads;
    bool nv_wgmma;
    uint64_t reserved[64];
};
CLATTN_API void clattn_capabilities_apply_known(struct clattn_capabilities *capabilities);
typedef struct clattn_context clattn_context;
struct clattn_tuning;
struct clattn_context_params {
    cl_context context;
    cl_device_id device;
    struct clattn_log log;
    const char *cache_directory;
    const struct clattn_tuning *tuning;
    uint64_t reserved[16];
};
CLATTN_API clattn_status clattn_context_create(clattn_context **context, const struct clattn_context_params *params);
CLATTN_API void clattn_context_destroy(clattn_context **context);
CLATTN_API const struct clattn_capabilities *clattn_context_capabilities(const clattn_context *context);
CLATTN_API clattn_status clattn_query_device(cl_device_id device, struct clattn_capabilities *capabilities);
CLATTN_END_DECLS
#endif
