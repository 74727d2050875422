/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/processor.h"

bool cla_processor_has_avx512_bf16(void)
{
    return false;
}

bool cla_processor_has_amx_bf16(void)
{
    return false;
}
