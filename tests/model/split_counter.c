/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which work-group of a block's splits is the last (cl/common/split_counter.clh): the text of it, as C, in random
 * orders, whatever the workspace held before. One work-group alone is told that it is the last, when all others have
 * written their states; and the next call finds 0.
 *
 *     model_split_counter [SEEDS] */
#include "model/opencl_c.h"
#include <stdio.h>

#ifdef MODEL_MUTANT /* an exchange that does not look at what is there */
#undef atom_cmpxchg
#define atom_cmpxchg(at, is, becomes) (machine_maybe_pause(), *(at) = (becomes), is)
#endif
#define CLATTN_SPLIT        1
#define unit_device_fence() machine_maybe_pause()
#include "split_counter_text.h"

enum { SPLITS = MACHINE_MOST_GROUPS };
static const ulong call = (ulong)7 << 16;

static struct {
    volatile ulong counter;
    bool written[SPLITS];
    int lasts, missing;
} workspace;

static void do_split(void)
{
    split_begin(&workspace.counter, call);
    machine_maybe_pause();
    workspace.written[machine_group()] = true;
    if (split_count(&workspace.counter, call) != machine_groups() - 1)
        return;
    machine_maybe_pause();
    workspace.lasts++;
    for (int i = 0; i < machine_groups(); i++)
        workspace.missing += !workspace.written[i];
    workspace.counter = 0;
}

static bool check(int splits, ulong before, uint64_t seed)
{
    static const struct machine_warp warp = {0, 1, 1};
    const struct machine_run run = {
        .warps = &warp, .warp_count = 1, .groups = splits, .resident = splits, .entry = do_split, .seed = seed};
    memset(&workspace, 0, sizeof workspace);
    workspace.counter = before;
    const bool ended = machine_run(&run) == MACHINE_ENDED;
    if (ended && workspace.lasts == 1 && !workspace.missing && !workspace.counter)
        return true;
    printf("%d splits, %llx before, seed %llu: %s, %d last, %d missing, %llx left\n", splits,
           (unsigned long long)before, (unsigned long long)seed, ended ? "ended" : machine_said(), workspace.lasts,
           workspace.missing, (unsigned long long)workspace.counter);
    return false;
}

int main(int argc, char **argv)
{
    /* What a call before left, nothing known, and what counts up to 0 or to the call's own number. */
    static const ulong before[] = {0,
                                   1,
                                   3,
                                   call - 1,
                                   call - 2,
                                   call - 3,
                                   call - 4,
                                   ~(ulong)0,
                                   ~(ulong)0 - 1,
                                   ~(ulong)2,
                                   ~(ulong)3,
                                   (ulong)9 << 16,
                                   0x7fc000007fc00000ul};
    const int seeds = argc > 1 ? atoi(argv[1]) : 400;
    int failures = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        for (int splits = 1; splits <= SPLITS; splits++)
            for (int seed = 0; seed < seeds && failures < 10; seed++)
                failures += !check(splits, before[i], (uint64_t)seed);
    printf("%d failures\n", failures);
    return failures != 0;
}
