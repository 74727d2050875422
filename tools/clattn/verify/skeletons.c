/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/skeletons.h"
#include <clattn/plan.h>
#include <string.h>

enum { MOST = 64 };

static struct clattn_skeleton_info infos[MOST];
static struct verify_skeleton rows[MOST + 1]; /* ended by one without a name */
static int row_count;

static void add(int index)
{
    struct clattn_skeleton_info *info = &infos[row_count];
    if (row_count == MOST || clattn_skeleton_get_info(index, info) || info->emulated)
        return;
    const bool anywhere = !info->for_cpus && !info->declines;
    rows[row_count++] = (struct verify_skeleton){.name = info->name,
                                                 .backward = info->backward,
                                                 .suits_cpu = !info->declines,
                                                 .suits_others = !info->for_cpus,
                                                 .slow_to_compile_on_cpu = anywhere,
                                                 .declines = info->declines,
                                                 .takes_fp32 = !info->only_16_bits,
                                                 .any_order = info->any_order,
                                                 .chunks = info->chunks,
                                                 .packs = info->packs,
                                                 .largest_d = info->largest_d};
}

/* Forward passes first; of each direction the plainest first, which the planner asks last, and those of any order at
 * the end: seeds of earlier runs then mean the same cases. */
const struct verify_skeleton *verify_skeletons(void)
{
    struct clattn_skeleton_info info;
    for (int turn = 0; turn < 4 && !(turn == 0 && row_count); turn++)
        for (int i = clattn_skeleton_count() - 1; i >= 0; i--)
            if (!clattn_skeleton_get_info(i, &info) && info.backward == turn / 2 && info.any_order == turn % 2)
                add(i);
    return rows;
}

const struct verify_skeleton *verify_skeleton_of(const char *name)
{
    static const char suffix[] = "_emulated";
    const size_t end = sizeof suffix - 1;
    size_t length = name ? strlen(name) : 0;
    if (length > end && !strcmp(name + length - end, suffix))
        length -= end;
    for (const struct verify_skeleton *row = verify_skeletons(); row->name && name; row++)
        if (strlen(row->name) == length && !memcmp(row->name, name, length))
            return row;
    return NULL;
}
