/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan_traffic.h"
#include "flow.h"
#include "json_out.h"
#include "options/names.h"
#include <stdio.h>

/* Of one head, where the lengths are known; false where they are not, or are more than a call may have. */
static bool traffic_of(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                       struct clattn_traffic *traffic)
{
    const struct clattn_traffic_params params = {
        .shape = {.batch = 1, .heads = 1, .n_q = problem->expected_n_q, .n_kv = problem->expected_n_kv}};
    return problem->expected_n_q && problem->expected_n_kv && !clattn_plan_traffic(problem, info, &params, traffic);
}

void plan_print_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    struct clattn_traffic traffic;
    char flash[32], standard[32], paper[32], least[32];
    if (!traffic_of(problem, info, &traffic))
        return;
    bytes_text((uint64_t)traffic.flash, flash, sizeof flash);
    bytes_text((uint64_t)traffic.standard, standard, sizeof standard);
    bytes_text((uint64_t)traffic.paper, paper, sizeof paper);
    bytes_text((uint64_t)traffic.least, least, sizeof least);
    flow(stdout,
         "traffic    %s of device memory a head; standard attention %s (%.1f times), the paper's N^2 d^2 / M %s, at "
         "least %s\n",
         flash, standard, traffic.standard / traffic.flash, paper, least);
}

json_t *plan_json_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    struct clattn_traffic traffic;
    return traffic_of(problem, info, &traffic) ? json_traffic(&traffic) : json_null();
}
