/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file of the binary cache. The first byte says whether the checksum is mended, so that what lies behind it is met.
 */
#include "fuzz/fuzz.h"
#include "plan/binary_format.h"

enum { HEADER = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const bool mend = data[0] & 1;
    const void *payload = NULL;
    size_t bytes = 0;
    unsigned char *file = fuzz_exact(data + 1, --size);
    if (mend && size >= HEADER)
        cla_binary_seal(file, size);
    if (cla_binary_decode(file, size, "id", &payload, &bytes)) {
        const unsigned char *first = payload;
        FUZZ_REQUIRE(first >= file + HEADER && bytes <= size && first + bytes == file + size);
    }
    fuzz_release(file, size);
    return 0;
}
