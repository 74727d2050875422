/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/nvidia.h"
#include <string.h>

struct clattn_capabilities test_nvidia(uint32_t compute_capability, uint32_t compute_units)
{
    struct clattn_capabilities capabilities = {.vendor_id = 0x10de,
                                               .type = CLATTN_DEVICE_GPU,
                                               .available = true,
                                               .compiler_available = true,
                                               .address_bits = 64,
                                               .compute_units = compute_units,
                                               .max_work_group_size = 1024,
                                               .max_work_item_size = 1024,
                                               .preferred_work_group_multiple = 32,
                                               .native_vector_width_float = 1,
                                               .global_memory_bytes = UINT64_C(8) << 30,
                                               .max_allocation_bytes = UINT64_C(2) << 30,
                                               .cache_bytes = 1 << 20,
                                               .cache_line_bytes = 64,
                                               .local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL,
                                               .local_memory_bytes = 48 << 10,
                                               .half_loads = true,
                                               .nv_compute_capability = compute_capability,
                                               .nv_registers_per_group = 65536};
    strcpy(capabilities.device_name, "NVIDIA");
    strcpy(capabilities.extensions, "cl_khr_fp64 cl_nv_device_attribute_query cl_nv_copy_opts");
    clattn_capabilities_apply_known(&capabilities);
    return capabilities;
}

struct clattn_capabilities test_nvidia_without_warp_groups(uint32_t compute_capability, uint32_t compute_units)
{
    struct clattn_capabilities capabilities = test_nvidia(compute_capability, compute_units);
    capabilities.nv_wgmma = false;
    return capabilities;
}
