/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PROCESSOR_H
#define CLA_PROCESSOR_H

#include <stdbool.h>

/* What the processor that runs this program has, as it says itself (CPUID on x86): names of OpenCL's CPU devices are of
 * the compiler's target and may be of an older processor. One source file for each kind of processor. */
bool cla_processor_has_avx512_bf16(void); /* and AVX512-VNNI */
bool cla_processor_has_amx_bf16(void);

#endif
