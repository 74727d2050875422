/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A target that is wrong: it reads the byte behind its input. The replay of it has to fail, in each build. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile uint8_t *copy = fuzz_exact(data, size);
    volatile uint8_t beyond = copy[size];
    (void)beyond;
    fuzz_release((void *)copy, size);
    return 0;
}
