/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_SHARE_H
#define TEST_FAULT_SHARE_H

#include <stdbool.h>

/* Which part of a full sweep's calls this process takes. */
struct sweep_share {
    int number, of;
};

/* As CLATTN_TEST_SHARE=NUMBER/OF says; without it as it was. A share that is none is no reason to take all calls, or
 * none: it says so, and false. */
bool sweep_take_share(struct sweep_share *share);

#endif
