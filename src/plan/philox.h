/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PHILOX_H
#define CLA_PHILOX_H

#include "plan/error.h"
#include <stdint.h>

/* Dropout's random numbers on the host; to the bit those of cl/common/philox.clh. */

/* Philox 4x32-7 in place. */
void cla_philox(uint32_t counter[4], uint32_t key_low, uint32_t key_high);

/* The binary digits of a pair's number: CLATTN_DROPOUT_DIGITS of cl/common/philox.clh. */
enum { CLA_DROPOUT_DIGITS = 12 };

/* Which pairs of block `block` (0 to 3) of a call are dropped, in bits: clattn_dropped_words of cl/common/philox.clh.
 */
void cla_dropped_words(const uint32_t call[4], int block, uint32_t threshold, uint32_t dropped[2]);

/* Numbers below it, of 2^CLA_DROPOUT_DIGITS, are dropped: p, which is in [0, 1), rounded, but never to 1; its digits,
 * each 32 times, the first first; and 1 / (1 - p), of p as it is rounded. */
uint32_t cla_dropout_threshold(float p);
void cla_dropout_digits(uint32_t threshold, uint32_t digits[CLA_DROPOUT_DIGITS]);
float cla_dropout_scale(uint32_t threshold);

/* Whether p is in [0, 1), and not so small that it is rounded to 0: who asks for dropout must not get none. `name` is
 * for the message. */
clattn_status cla_dropout_check(const char *name, float p, struct cla_error *error);

/* mask[c] = 1 where row i keeps key first_key + c, else 0. head_number is b * heads + h. */
void cla_dropout_row(uint32_t threshold, uint64_t seed, uint32_t offset, uint32_t head_number, uint32_t i,
                     int64_t first_key, int64_t key_count, uint8_t *mask);

#endif
