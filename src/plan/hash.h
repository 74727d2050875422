/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HASH_H
#define CLA_HASH_H

#include <stddef.h>
#include <stdint.h>

/* 128 bits of XXH3, for keys and checksums. Not cryptographic: it guards against damage and mix-ups, not against
 * malice. */
struct cla_hash {
    uint64_t low, high;
};

struct cla_hash cla_hash_bytes(const void *data, size_t size);

/* 32 lower-case hexadecimal digits and the terminating 0. */
#define CLA_HASH_HEX 33
void cla_hash_hex(struct cla_hash hash, char hex[CLA_HASH_HEX]);

#endif
