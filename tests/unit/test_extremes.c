/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Problems, devices and shapes at the ends of what their types hold: whatever comes, the planner, the candidates and
 * the model answer or refuse. A sum or product that overflows on the way is found by the undefined-behaviour sanitizer,
 * under which tools/check.sh runs this. */
#include "plan/problem.h"
#include "plan/splits.h"
#include "plan/tuning/candidates.h"
#include "plan/tuning/knobs.h"
#include "random.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <clattn/clattn.h>
#include <float.h>
#include <stdio.h>
#include <string.h>

enum { PROBLEMS = 15000, EACH_LISTED = 40 };

static struct random chance = {.state = 73};

static int64_t pick(const int64_t *values, int count)
{
    return values[random_below(&chance, count)];
}
#define PICK(...) pick((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Of what is allowed, for the most part. */
static int64_t any_length(void)
{
    if (random_below(&chance, 12))
        return PICK(0, 0, 1, 2, 15, 17, 64, 1000, 65536, CLA_MAX_LENGTH / 2, CLA_MAX_LENGTH - 1, CLA_MAX_LENGTH);
    return PICK(CLA_MAX_LENGTH + 1, INT32_MAX, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MAX / 2 + 1, INT64_MAX, -1,
                INT64_MIN);
}

static int any_block(void)
{
    return (int)PICK(0, 0, 0, 0, 0, 0, 1, 2, 15, 16, 48, 64, 128, 1024, 4096, 65535, 65536);
}

static struct clattn_capabilities any_device(void)
{
    static const uint32_t generations[] = {500, 700, 705, 800, 900, 1000};
    const uint64_t ends[] = {0, 1, 1 << 10, 48 << 10, 226 << 10, UINT64_C(1) << 40, UINT64_MAX};
    if (random_below(&chance, 2))
        return test_nvidia(generations[random_below(&chance, 6)], (uint32_t)PICK(1, 2, 132, INT32_MAX, UINT32_MAX));
    struct clattn_capabilities made = {.device_name = "made up",
                                       .type = random_below(&chance, 2) ? CLATTN_DEVICE_CPU : CLATTN_DEVICE_GPU,
                                       .available = true,
                                       .compiler_available = true,
                                       .half_loads = true,
                                       .compute_units = (uint32_t)PICK(0, 1, 2, 128, INT32_MAX, UINT32_MAX),
                                       .native_vector_width_float = (uint32_t)PICK(0, 1, 4, 16, UINT32_MAX)};
    made.max_work_group_size = ends[random_below(&chance, 7)];
    made.max_work_item_size = ends[random_below(&chance, 7)];
    made.preferred_work_group_multiple = (uint32_t)PICK(0, 1, 32, UINT32_MAX);
    made.local_memory_type = CLATTN_LOCAL_MEMORY_LOCAL;
    made.local_memory_bytes = ends[random_below(&chance, 7)];
    made.global_memory_bytes = ends[random_below(&chance, 7)];
    made.max_allocation_bytes = ends[random_below(&chance, 7)];
    made.cache_bytes = ends[random_below(&chance, 7)];
    made.cache_line_bytes = (uint32_t)PICK(0, 64, UINT32_MAX);
    return made;
}

static struct clattn_problem any_problem(char *knobs, size_t size)
{
    int skeletons = 0;
    while (cla_skeletons[skeletons])
        skeletons++;
    const struct cla_skeleton *skeleton = cla_skeletons[random_below(&chance, skeletons)];
    struct clattn_problem made = {.pass = (enum clattn_pass)random_below(&chance, 4),
                                  .dtype = (enum clattn_dtype)random_below(&chance, 3),
                                  .causal = (enum clattn_causal)random_below(&chance, 3),
                                  .features =
                                      (unsigned)random_below(&chance, 1024) & (unsigned)random_below(&chance, 1024),
                                  .unordered = (int)random_below(&chance, 2)};
    made.d = (int)PICK(1, 3, 16, 64, 100, 128, 256, 511, 512);
    made.d_v = (int)PICK(0, 0, 1, 64, 128, 512);
    made.b_r = any_block();
    made.b_c = any_block();
    made.work_group_size = (int)PICK(0, 0, 0, 0, 0, 0, 0, 1, 32, 128, 384, 1024, 65536);
    made.expected_n_q = any_length();
    made.expected_n_kv = any_length();
    made.expected_heads = any_length();
    made.splits = made.pass == CLATTN_FORWARD ? (int)PICK(0, -1, 1, 2, 256) : 0;
    if (made.features & CLATTN_BLOCK_MASK) {
        made.block_q = (int)PICK(16, 64, 80, 65536);
        made.block_kv = (int)PICK(16, 64, 80, 65536);
        made.expected_density = (float)PICK(0, 1);
    }
    made.scale = (float)PICK(0, 1, -7);
    knobs[0] = '\0';
    if (random_below(&chance, 2))
        return made;
    made.skeleton = skeleton->name;
    if (random_below(&chance, 4))
        made.pass = skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD;
    for (const struct cla_knob *knob = skeleton->knobs; knob && knob->name; knob++)
        if (random_below(&chance, 2) && strlen(knobs) + 40 < size)
            sprintf(knobs + strlen(knobs), "%s=%d ", knob->name, random_below(&chance, 2) ? knob->least : knob->most);
    made.knobs = knobs[0] ? knobs : NULL;
    return made;
}

static void look_at_shapes(const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    const struct clattn_traffic_params params = {.shape = {.batch = any_length(),
                                                           .heads = any_length(),
                                                           .kv_heads = any_length(),
                                                           .n_q = any_length(),
                                                           .n_kv = any_length()},
                                                 .window_left = any_length(),
                                                 .window_right = any_length(),
                                                 .block_share = (double)PICK(0, 1)};
    const struct cla_split_rule rule = {.splits = CLATTN_SPLITS_BY_SHAPE,
                                        .slots = PICK(1, 2, 132, INT32_MAX),
                                        .b_r = info->b_r,
                                        .b_c = info->b_c,
                                        .causal = problem->causal,
                                        .persistent = random_below(&chance, 2) != 0,
                                        .key_bytes = PICK(2, 256, 8192)};
    struct clattn_traffic traffic;
    struct clattn_shape shape;
    struct cla_error error;
    clattn_plan_traffic(problem, info, &params, &traffic);
    if (cla_shape_resolve(&params.shape, &shape, &error))
        return;
    cla_would_split(&rule, &shape);
    assert_in_range(cla_splits_of(&rule, shape.batch * shape.heads, shape.n_q, shape.n_kv), 1, CLATTN_MAX_SPLITS);
}

static void plans_and_candidates_survive(void **state)
{
    (void)state;
    int planned = 0, listed = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        char knobs[512];
        const struct clattn_capabilities device = any_device();
        const struct clattn_problem problem = any_problem(knobs, sizeof knobs);
        struct clattn_plan_info info;
        if (clattn_plan_preview(&device, &problem, &info) == CLATTN_SUCCESS) {
            assert_true(info.b_r >= 1 && info.b_c >= 1 && info.work_group_size >= 1);
            look_at_shapes(&problem, &info);
            planned++;
        }
        struct clattn_plan_info candidates[8];
        int count = 0;
        if (i % EACH_LISTED == 0 &&
            clattn_tuning_candidates(&device, &problem, candidates, 8, &count) == CLATTN_SUCCESS)
            listed += count;
    }
    print_message("%d planned, %d candidates\n", planned, listed);
    assert_true(planned > PROBLEMS / 20 && listed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_and_candidates_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
