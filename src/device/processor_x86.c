/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/processor.h"

bool cla_processor_has_avx512_bf16(void)
{
    /* That the system keeps 512-bit registers is part of the answer. */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}
