/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The header of a .npy file. */
#include "files/npy.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy_header header;
    struct failure failure;
    size_t offset = 0;
    char text[20]; /* too short on purpose for some */
    void *file = fuzz_exact(data, size);
    if (!npy_parse_header("f", file, size, &header, &offset, &failure)) {
        FUZZ_REQUIRE(offset <= size && npy_data_bytes(&header) <= size - offset);
        FUZZ_REQUIRE(header.dimensions >= 1 && header.dimensions <= NPY_MAX_DIMENSIONS);
        npy_shape_text(&header, text, sizeof text);
    }
    fuzz_release(file, size);
    return 0;
}
