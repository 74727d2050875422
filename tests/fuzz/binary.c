/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file of the binary cache. The first byte says whether the checksum is mended, so that what lies behind it is met.
 */
#include "fuzz/fuzz.h"
#include "plan/binary_format.h"
#include "plan/hash.h"
#include <string.h>

enum { CHECKSUM_AT = 24, HEADER = 40 };

static void put_checksum(unsigned char *file, size_t size)
{
    const struct cla_hash before = cla_hash_bytes(file, CHECKSUM_AT),
                          behind = cla_hash_bytes(file + HEADER, size - HEADER);
    const uint64_t both[4] = {before.low, before.high, behind.low, behind.high};
    const struct cla_hash sum = cla_hash_bytes(both, sizeof both);
    memcpy(file + CHECKSUM_AT, &sum.low, 8);
    memcpy(file + CHECKSUM_AT + 8, &sum.high, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const bool mend = data[0] & 1;
    const void *payload = NULL;
    size_t bytes = 0;
    unsigned char *file = fuzz_exact(data + 1, --size);
    if (mend && size >= HEADER)
        put_checksum(file, size);
    if (cla_binary_decode(file, size, "id", &payload, &bytes)) {
        const unsigned char *first = payload;
        FUZZ_REQUIRE(first >= file + HEADER && bytes <= size && first + bytes == file + size);
    }
    fuzz_release(file, size);
    return 0;
}
