/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include <string.h>

/* What devices give beyond what they say, for planning from a dump of a device that is not here; on a device that is,
 * the probes ask it. One row a fact, with its reason. */
struct known_local_memory {
    uint32_t nv_compute_capability;
    uint64_t bytes; /* the largest static __local array of one work-group */
};

enum { ALIGNMENT = 1 << 10 };

/* NVIDIA's OpenCL reports 48 KB on every chip, but its assembler accepts static arrays up to the hardware's limit for a
 * block, which the CUDA programming guide tables by compute capability ("maximum amount of shared memory per thread
 * block"): here less ALIGNMENT, which an array's may cost. src/device/probe.c tries the same sizes. */
static const struct known_local_memory nvidia[] = {
    {700, 95 << 10},  {705, 63 << 10},   {800, 162 << 10},  {806, 98 << 10},  {807, 162 << 10}, {809, 98 << 10},
    {900, 226 << 10}, {1000, 226 << 10}, {1003, 226 << 10}, {1200, 98 << 10}, {1201, 98 << 10},
};

static uint64_t known_static_local_memory(const struct clattn_capabilities *capabilities)
{
    for (size_t i = 0; i < sizeof nvidia / sizeof *nvidia; i++)
        if (capabilities->nv_compute_capability == nvidia[i].nv_compute_capability)
            return nvidia[i].bytes;
    return capabilities->local_memory_bytes;
}

void cla_apply_known(struct clattn_capabilities *capabilities)
{
    if (!capabilities->static_local_memory_bytes)
        capabilities->static_local_memory_bytes = known_static_local_memory(capabilities);
    /* vload_half and vstore_half are core OpenCL C 1.0; the probe exists for drivers that get them wrong. */
    capabilities->half_loads = true;
    capabilities->nv_wgmma = capabilities->nv_compute_capability == 900;
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, CLATTN_FP16);
    capabilities->matrix_unit_right = unit && unit->trust != CLA_UNIT_BY_REQUEST;
}

uint64_t cla_usable_local_bytes(const struct clattn_capabilities *capabilities)
{
    return capabilities->static_local_memory_bytes ? capabilities->static_local_memory_bytes
                                                   : capabilities->local_memory_bytes;
}

uint64_t cla_most_compiled_local_bytes(const struct clattn_capabilities *capabilities)
{
    const bool may_align = capabilities->nv_compute_capability && capabilities->static_local_memory_bytes;
    return cla_usable_local_bytes(capabilities) + (may_align ? ALIGNMENT : 0);
}
