/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HALF_H
#define CLA_HALF_H

#include <stdint.h>

/* Conversions between fp32 and the 16-bit types: round to nearest even, subnormals kept, NaN stays NaN (quiet). */
uint16_t cla_half_from_float(float value);
float cla_half_to_float(uint16_t bits);
uint16_t cla_bf16_from_float(float value);
float cla_bf16_to_float(uint16_t bits);

#endif
