/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/share.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>

bool sweep_take_share(struct sweep_share *share)
{
    const char *wanted = getenv("CLATTN_TEST_SHARE");
    struct sweep_share given;
    char rest;
    if (!wanted)
        return true;
    if (sscanf(wanted, "%d/%d%c", &given.number, &given.of, &rest) == 2 && given.number >= 0 &&
        given.number < given.of) {
        *share = given;
        return true;
    }
    print_error("CLATTN_TEST_SHARE is \"%s\": wanted is K/N, 0 <= K < N\n", wanted);
    return false;
}
