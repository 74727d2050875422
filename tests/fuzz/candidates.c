/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The candidates of a search on any device, and that a plan which forces one says the same of it; a preview. */
#include "plan/tuning/candidates.h"
#include "fuzz/planned.h"
#include "plan/problem.h"
#include <clattn/plan.h>
#include <string.h>

enum { CAPACITY = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct clattn_capabilities capabilities;
    static struct clattn_plan_info infos[CAPACITY];
    struct fuzz_bytes bytes = {data, size};
    struct clattn_problem problem, resolved;
    struct cla_error error = {0};
    char knobs[128];
    int count = 0;
    fuzz_capabilities(&bytes, &capabilities);
    fuzz_problem(&bytes, &problem, knobs);
    clattn_plan_preview(&capabilities, &problem, &infos[0]);
    const int capacity = 1 + fuzz_byte(&bytes) % CAPACITY;
    if (cla_problem_resolve(&problem, &resolved, &error))
        return 0;
    if (!cla_candidates(&capabilities, &resolved, infos, capacity, &count, &error))
        FUZZ_REQUIRE(count >= 1 && count <= capacity);
    for (int i = 0; i < count; i++)
        FUZZ_REQUIRE(infos[i].b_r >= 1 && infos[i].b_c >= 1 && infos[i].local_bytes <= infos[i].local_bytes_limit);
    return 0;
}
