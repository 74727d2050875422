/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of skeletons, for callers. */
#include "device/report.h"
#include "plan/skeleton.h"

int clattn_skeleton_count(void)
{
    int count = 0;
    while (cla_skeletons[count])
        count++;
    return count;
}

clattn_status clattn_skeleton_get_info(int index, struct clattn_skeleton_info *info)
{
    struct cla_error error = {0};
    const int count = clattn_skeleton_count();
    if (index < 0 || index >= count)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "index is %d: there are %d skeletons, counted from 0", index, count);
    else if (!info)
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "info is NULL: it must point to a struct clattn_skeleton_info");
    if (error.status)
        return cla_report(NULL, &error);
    *info = cla_skeleton_describe(cla_skeletons[index]);
    return CLATTN_SUCCESS;
}
