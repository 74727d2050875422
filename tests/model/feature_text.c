/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Prints what the library puts above the files of a program with these features (src/plan/features/feature.h).
 *
 *     feature_text NUMBER */
#include "plan/features/feature.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct cla_text text = {0};
    if (argc != 2)
        return 2;
    cla_features_define((unsigned)strtoul(argv[1], NULL, 10), &text);
    const int failed = text.failed || fputs(text.data, stdout) < 0;
    cla_text_free(&text);
    return failed;
}
