/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan_kernels.h"
#include "flow.h"
#include <inttypes.h>
#include <stdio.h>

/* Each kernel of a pass: what its work-groups hold while the other side passes. */
struct kernel {
    const char *name;
    bool rows, keys; /* a block of B_r rows, of B_c keys */
    const char *passing;
};

enum { MOST_KERNELS = 3 };

static const struct kernel kernels[][MOST_KERNELS + 1] = {
    [CLATTN_FORWARD] = {{"forward", true, false, "keys"}, {NULL, false, false, NULL}},
    [CLATTN_BACKWARD] = {{"dq", true, false, "keys"},
                         {"dk_dv", false, true, "rows"},
                         {"d_bias", true, true, "the heads that share a bias, where there is one,"},
                         {NULL, false, false, NULL}},
    [CLATTN_ACCUMULATE] = {{"accumulate", true, false, "the chunk's keys"}, {NULL, false, false, NULL}},
    [CLATTN_BACKWARD_ACCUMULATE] = {{"dq", true, false, "the chunk's keys"},
                                    {"dk_dv", false, true, "rows"},
                                    {"d_bias", true, true, "the heads that share a bias, where there is one,"},
                                    {NULL, false, false, NULL}}};

/* Work-groups of a head; 0 where a length is not known. */
static int64_t groups(const struct kernel *kernel, const struct clattn_plan_info *info)
{
    return (kernel->rows ? info->t_r : 1) * (kernel->keys ? info->t_c : 1);
}

void plan_print_kernels(enum clattn_pass pass, const struct clattn_plan_info *info)
{
    for (const struct kernel *kernel = kernels[pass]; kernel->name; kernel++) {
        char held[64] = "";
        const bool ends = info->sums && kernel->rows && !kernel->keys; /* the kernel of dQ */
        if (kernel->rows)
            snprintf(held, sizeof held, "%d rows%s", info->b_r, kernel->keys ? " x " : "");
        flow(stdout, "%s  %-12s a work-group %s %s", kernel == kernels[pass] ? "kernels  " : "         ", kernel->name,
             ends ? "ends the sums of" : "holds", held);
        if (kernel->keys)
            flow(stdout, "%d keys", info->b_c);
        if (!ends)
            flow(stdout, ", %s pass", kernel->passing);
        if (info->sums && kernel->keys && !kernel->rows)
            flow(stdout, ", dQ is summed up in the workspace");
        if (groups(kernel, info))
            flow(stdout, "; %" PRId64 " a head", groups(kernel, info));
        flow(stdout, "\n");
    }
}

json_t *plan_json_kernels(enum clattn_pass pass, const struct clattn_plan_info *info)
{
    json_t *array = json_array();
    for (const struct kernel *kernel = kernels[pass]; kernel->name; kernel++) {
        json_t *rows = kernel->rows ? json_integer(info->b_r) : json_null();
        json_t *keys = kernel->keys ? json_integer(info->b_c) : json_null();
        const int64_t count = groups(kernel, info);
        json_array_append_new(array, json_pack("{s:s, s:o, s:o, s:o}", "name", kernel->name, "rows", rows, "keys", keys,
                                               "groups_per_head", count ? json_integer(count) : json_null()));
    }
    return array;
}
