/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_WAYS_H
#define CLA_WAYS_H

#include <clattn/log.h>

/* The ways of computing that CLATTN_DISABLE can turn off and that are no matrix unit of plan/matrix_units.h. */
#define CLA_WAY_WGMMA      "nvidia_wgmma"
#define CLA_WAY_BF16_PAIRS "avx512_bf16"
#define CLA_WAY_BF16_TILES "amx_bf16"

/* Warns of each word of CLATTN_DISABLE that names none: what it was meant to turn off stays on. */
void cla_warn_of_unknown_ways(const struct clattn_log *log);

#endif
