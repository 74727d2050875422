/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/processor.h"
#include <cpuid.h>

bool cla_processor_has_avx512_bf16(void)
{
    /* That the system keeps 512-bit registers is part of the answer. Every processor with BF16 has VNNI, but a virtual
     * machine may hide it. */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Whether the system keeps tiles is not part of the answer: cla_os_allows_tiles() asks it. */
bool cla_processor_has_amx_bf16(void)
{
    enum { FEATURES = 7 };
    const unsigned bits = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE: of EDX */
    unsigned eax, ebx, ecx, edx;
    return cla_processor_has_avx512_bf16() && __get_cpuid_count(FEATURES, 0, &eax, &ebx, &ecx, &edx) &&
           (edx & bits) == bits;
}
