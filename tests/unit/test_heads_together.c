/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How many heads of a backward pass take turns: 132 work-groups unless said, rows of d = 64 take 512 bytes, of 128
 * twice. */
#include "plan/skeletons/heads_together.h"
#include "support/unit.h"

static void heads_go_together_in_equal_numbers(void **state)
{
    (void)state;
    static const struct {
        struct cla_together work;
        int expected;
    } rows[] = {
        {{64, 32, 132, 4096 * 512}, 8},       /* 9 keep the device busy twice over: 7 times 9 and one were left */
        {{60, 32, 132, 4096 * 512}, 9},       /* 7 times, the last of 6 */
        {{64, 32, 132, 4096 * 1024}, 8},      /* the cache keeps 9 */
        {{64, 128, 132, 16384 * 1024}, 2},    /* and here 2, */
        {{64, 16, 132, (int64_t)1 << 40}, 8}, /* none: but 9 times 16 blocks keep the device busy once: 8 times 8 */
        {{128, 4, 132, 512 * 512}, 64},       /* 66 do twice over */
        {{3, 32, 132, 4096 * 512}, 3},        /* all there are */
        {{64, 1024, 132, 512}, 8},
        {{1, 1, 1, 1}, 1},
        {{0, 32, 132, 4096 * 512}, 0},
        /* Uneven blocks: */
        {{64, 32, 132, 4096 * 1024, true}, 8},     /* as many as the cache keeps */
        {{8, 64, 132, 4 * 8192 * 1024, true}, 4},  /* it keeps one: 4 keep the device busy twice over */
        {{8, 64, 132, 4 * 8192 * 1024, false}, 3}, /* 3 do once */
        {{7, 48, 132, 5 * 3000 * 1024, true}, 7},  /* 6 do twice over, and one were left */
        {{5, 0, 0, 0}, 5},
        {{5, 0, 0, 0, true}, 5}};
    EACH (i, rows)
        assert_int_equal(cla_heads_together(&rows[i].work), rows[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_go_together_in_equal_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
