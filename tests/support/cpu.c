/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/cpu.h"

struct clattn_capabilities test_cpu(uint32_t width)
{
    return (struct clattn_capabilities){.device_name = "made up",
                                        .type = CLATTN_DEVICE_CPU,
                                        .available = true,
                                        .compiler_available = true,
                                        .compute_units = 2,
                                        .max_work_group_size = 4096,
                                        .max_work_item_size = 4096,
                                        .preferred_work_group_multiple = 8,
                                        .native_vector_width_float = width,
                                        .global_memory_bytes = UINT64_C(8) << 30,
                                        .max_allocation_bytes = UINT64_C(2) << 30,
                                        .cache_bytes = 1 << 20,
                                        .cache_line_bytes = 64,
                                        .local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL,
                                        .local_memory_bytes = 1 << 20,
                                        .half_loads = true};
}
