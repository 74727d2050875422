/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PLAN_WAYS_H
#define CLA_PLAN_WAYS_H

/* The ways of computing that CLATTN_DISABLE can turn off and that are no matrix unit of plan/matrix_units.h. */
#define CLA_WAY_WGMMA      "nvidia_wgmma"
#define CLA_WAY_BF16_PAIRS "avx512_bf16"
#define CLA_WAY_BF16_TILES "amx_bf16"

#endif
