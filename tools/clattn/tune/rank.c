/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"
#include "json_out.h"
#include "tune/tune.h"

enum { SHOWN = 12 };

static void print_candidate(const struct clattn_plan_info *info, int rank, double base)
{
    flow(stdout, "  %2d  %-16s B_r %3d  B_c %3d  %4d items  cost %.3f  %s\n", rank, info->skeleton, info->b_r,
         info->b_c, info->work_group_size, info->estimate / base, info->knobs);
    for (int i = 1; i < info->step_count; i++)
        flow(stdout, "      %s: %s\n", info->steps[i].name, info->steps[i].reason);
}

static void print_ranked(const struct tune_problem *problem, const struct clattn_plan_info *infos, int count)
{
    char name[96];
    tune_problem_name(problem, name, sizeof name);
    flow(stdout,
         "%s: the planner's choice first, then by the model's cost (1 is that of the choice; costs of different "
         "kernels do not compare)\n",
         name);
    for (int i = 0; i < count && i < SHOWN; i++)
        print_candidate(&infos[i], i + 1, infos[0].estimate);
    if (count > SHOWN)
        flow(stdout, "      and %d more (--json lists them)\n", count - SHOWN);
}

static json_t *json_ranked(const char *title, const struct tune_problem *problem, const struct clattn_plan_info *infos,
                           int count)
{
    char name[96];
    json_t *list = json_array();
    tune_problem_name(problem, name, sizeof name);
    for (int i = 0; i < count; i++) {
        json_t *plan = json_plan(&infos[i]);
        json_object_set_new(plan, "estimate", json_real(infos[i].estimate));
        json_array_append_new(list, plan);
    }
    return json_pack("{s:o, s:s, s:o}", "device", json_text(title), "problem", name, "candidates", list);
}

int tune_rank(const struct values *values, struct clinfo_device *item, json_t *rows, struct failure *failure)
{
    struct tune_list list;
    char title[256];
    int status = STATUS_OK;
    clattn_capabilities_apply_known(&item->capabilities);
    snprintf(title, sizeof title, "%d:%d %s (%s)", item->platform, item->device, item->capabilities.device_name,
             item->capabilities.platform_name);
    if (!tune_list_create(&list, values, &item->capabilities))
        return fail(failure, STATUS_DEVICE, "no memory for a list of problems");
    if (!rows)
        flow(stdout, "%s: not here, so planned only\n", title);
    for (int i = 0; i < list.count && !status; i++) {
        static struct clattn_plan_info infos[TUNE_MOST];
        int count = 0;
        const struct clattn_problem problem = tune_library_problem(&list.items[i]);
        const clattn_status code = clattn_tuning_candidates(&item->capabilities, &problem, infos, TUNE_MOST, &count);
        if (code)
            status = fail_library(failure, title, code);
        else if (rows)
            json_array_append_new(rows, json_ranked(title, &list.items[i], infos, count));
        else
            print_ranked(&list.items[i], infos, count);
    }
    tune_list_destroy(&list);
    return status;
}
