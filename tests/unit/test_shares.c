/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Between how many work-groups blocks of keys are shared out: 132 at once, shares of 128 KB unless said. */
#include "plan/skeletons/shares.h"
#include "support/unit.h"

enum { TILE = 64 * 128 * 5 * 128, SHARE = 128 * 1024 };

static void blocks_are_shared_out_where_that_pays(void **state)
{
    (void)state;
    static const struct {
        struct cla_share_work work;
        int least, most;
    } rows[] = {
        {{512, 8, 132, SHARE, 512, 512 * 512, TILE}, 1, 1},            /* 4 rounds of 512 tiles */
        {{512, 8, 132, SHARE, 512, 512 * 260, TILE}, 1, 1},            /* 4 rounds of all lengths, that come out even */
        {{64, 1, 132, SHARE, 4096, 64 * 4096, TILE}, 4, 8},            /* half of the device has nothing to do */
        {{64, 1, 132, SHARE, 4096, 64 * 2080, TILE}, 4, 8},            /* the longest is four times what each has */
        {{32, 4, 132, SHARE, 112, 32 * 60, TILE}, 4, 8},               /* a few short ones */
        {{128, 8, 132, SHARE, 32, 128 * 16.5, TILE}, 1, 1},            /* a round of short ones */
        {{1, 1, 132, SHARE, 1, 1, TILE}, 1, 1},                        /* no tile is shared out */
        {{1, 1, 132, SHARE, 1000000, 1000000, TILE}, 32, 32},          /* no more than the most */
        {{133, 19, 132, SHARE, 16, 133 * 16, TILE}, 1, 4},             /* one block too many */
        {{0, 0, 132, SHARE, 16, 0, TILE}, 1, 1},                       /* none */
        {{64, 8, 132, (int64_t)SHARE << 12, 64, 64 * 64, TILE}, 1, 1}, /* to add them up would take too long */
    };
    EACH (i, rows)
        assert_in_range(cla_shares(&rows[i].work), rows[i].least, rows[i].most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_shared_out_where_that_pays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
