/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Accesses to memory, and what counts those that are under way. */
#ifndef SIMULATED_ACCESS_H
#define SIMULATED_ACCESS_H

#include "lanes.h"

/* How an atomic operation changes its place. */
enum change {
    CHANGE_ADD,
    CHANGE_AND,
    CHANGE_OR,
    CHANGE_XOR,
    CHANGE_MAX_SIGNED,
    CHANGE_MIN_SIGNED,
    CHANGE_MAX,
    CHANGE_MIN,
    CHANGE_ADD_FLOAT,
    CHANGE_SWAP,
    CHANGES
};

run_function local_load, local_load_2, local_store, local_store_2, local_atomic, local_bpermute;
run_function global_load, global_store, scratch_load, scratch_store, scalar_load, buffer_load, buffer_store;

/* A register's word of what lies at `from`: narrower loads are widened by the instruction's part (`to.part`, its
 * sign), and those to half a register keep `old`'s other half. */
static inline uint32_t widened(const struct instruction *i, const uint8_t *from, uint32_t old)
{
    uint32_t x = 0;
    memcpy(&x, from, i->bytes < 4 ? (size_t)i->bytes : 4);
    if (i->to.sign_extended)
        x = i->bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
    if (!i->keeps_rest)
        return x;
    return i->high ? (old & 0xffff) | x << 16 : (old & 0xffff0000) | (x & 0xffff);
}

static inline void narrow(const struct instruction *i, uint32_t x, uint8_t *to)
{
    if (i->high)
        x >>= 16;
    memcpy(to, &x, i->bytes < 4 ? (size_t)i->bytes : 4);
}

/* One more operation is under way; the registers (NULL: none) are not to be touched until a wait covers it. */
void count_issued(struct wave *wave, enum counter counter, const struct source *registers);

/* Fails where the instruction names a register for which no wait has been. */
void check_arrived(struct wave *wave, const struct instruction *i);

#endif
