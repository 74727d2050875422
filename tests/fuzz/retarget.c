/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NVIDIA's PTX, as text with a length and as a terminated string. */
#include "plan/retarget.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cla_text out = {0};
    struct cla_error error = {0};
    char *exact = fuzz_exact(data, size), *text = fuzz_terminated(data, size);
    cla_retarget_ptx(exact, size, &out, &error);
    FUZZ_REQUIRE(!out.failed);
    cla_retarget_wanted(text);
    cla_text_free(&out);
    fuzz_release(text, size + 1);
    fuzz_release(exact, size);
    return 0;
}
