/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The user's OpenCL C: score_mod up to the first 0, mask_mod behind it, or none. */
#include "plan/features/user_text.h"
#include "fuzz/fuzz.h"
#include <clattn/problem.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *first = fuzz_terminated(data, size);
    const size_t length = strlen(first), rest = length < size ? size - length - 1 : 0;
    char *second = length < size ? fuzz_terminated(data + length + 1, rest) : NULL;
    const struct clattn_problem problem = {.score_mod = first, .mask_mod = second};
    struct cla_text text = {0};
    cla_user_texts(&problem, &text);
    FUZZ_REQUIRE(!text.failed);
    struct cla_error error;
    const clattn_status status = cla_user_texts_check(&problem, &error);
    FUZZ_REQUIRE(!status || (status == CLATTN_INVALID_ARGUMENT && error.text[0]));
    cla_text_free(&text);
    fuzz_release(second, rest + 1);
    fuzz_release(first, size + 1);
    return 0;
}
