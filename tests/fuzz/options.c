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
    FUZZ_REQUIRE(isfinite(values->scale) && isfinite(score->features.numbers[SCORE_SOFTCAP]) && score->dropout < 1);
    FUZZ_REQUIRE(values->kv_chunk >= 0 && score->window.count >= 0 && score->window.count <= OPTION_LIST_MAX);
    FUZZ_REQUIRE(score->block_size.count >= 0 && score->block_size.count <= OPTION_LIST_MAX);
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
