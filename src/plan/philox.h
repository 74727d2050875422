/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PHILOX_H
#define CLA_PHILOX_H

#include <stdint.h>

/* Dropout's random numbers on the host; to the bit those of cl/common/philox.clh. */

/* Philox 4x32-7 in place. */
void cla_philox(uint32_t counter[4], uint32_t key_low, uint32_t key_high);

/* Word `word` (0 to 3) of piece `piece` (0 to 7) of block `block` (0 to 3) of a call's numbers: clattn_block_words and
 * clattn_piece_word of cl/common/philox.clh. */
uint32_t cla_dropout_word(const uint32_t call[4], int block, int piece, int word);

/* Numbers of 15 bits that are not below 32768 less it are dropped. p is in [0, 1). */
uint32_t cla_dropout_threshold(float p);

/* mask[c] = 1 where row i keeps key first_key + c, else 0. head_number is b * heads + h. */
void cla_dropout_row(uint32_t threshold, uint64_t seed, uint32_t offset, uint32_t head_number, uint32_t i,
                     int64_t first_key, int64_t key_count, uint8_t *mask);

#endif
