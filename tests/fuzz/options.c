/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The command line of `clattn run`: arguments with a 0 between them. Help, which prints, is left out. */
#include "run/options.h"
#include "fuzz/fuzz.h"
#include <math.h>
#include <string.h>

enum { MOST = 64 };

/* Names of options may be cut, and -h is one, alone or with others. */
static bool asks_for_help(const char *argument)
{
    return strncmp(argument, "--h", 3) == 0 || (argument[0] == '-' && argument[1] != '-');
}

static void check(const struct values *values)
{
    const struct score_options *score = &values->score;
    const struct option_number *numbers = score->features.numbers, *block = &score->features.settings[SCORE_BLOCK_SIZE];
    FUZZ_REQUIRE(isfinite(values->scale) && isfinite(numbers[SCORE_SOFTCAP].real) && numbers[SCORE_DROPOUT].real < 1);
    FUZZ_REQUIRE(values->kv_chunk >= 0 && numbers[SCORE_SOFTCAP].real >= 0);
    FUZZ_REQUIRE(!block->given || (block->whole[0] >= 16 && block->whole[1] <= 65536 && block->whole[1] % 16 == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char run[] = "run", *argv[MOST + 1] = {run}, *text = fuzz_terminated(data, size);
    int argc = 1;
    bool help = false;
    struct values values;
    struct failure failure;
    for (char *at = text; argc < MOST && at < text + size; at += strlen(at) + 1) {
        help = help || asks_for_help(at);
        argv[argc++] = at;
    }
    if (!help && !run_options_parse(argc, argv, NULL, &values, &failure) && !values.batch)
        check(&values);
    fuzz_release(text, size + 1);
    return 0;
}
