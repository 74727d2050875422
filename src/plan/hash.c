/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/hash.h"
#include <stdio.h>
#include <xxhash.h>

struct cla_hash cla_hash_bytes(const void *data, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(data, size);
    return (struct cla_hash){.low = hash.low64, .high = hash.high64};
}

void cla_hash_hex(struct cla_hash hash, char hex[CLA_HASH_HEX])
{
    snprintf(hex, CLA_HASH_HEX, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}
