/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/turn.h"
#include "support/device.h"
#include <stdio.h>
#include <stdlib.h>

bool test_is_turn(int place, int of)
{
    static bool said;
    const char *wanted = getenv("CLATTN_TEST_TURN");
    char *end = NULL;
    if (!wanted || test_is_full())
        return true;
    const unsigned long turn = strtoul(wanted, &end, 10);
    if (end == wanted || *end) {
        fprintf(stderr, "CLATTN_TEST_TURN is '%s': a number is wanted\n", wanted);
        exit(1);
    }
    if (!said)
        fprintf(stderr, "CLATTN_TEST_TURN=%lu\n", turn);
    said = true;
    return (unsigned long)place % (unsigned long)of == turn % (unsigned long)of;
}
