/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lists of candidates: on every kind of device each entry is a plan that its own choices reproduce. */
#include "plan/problem.h"
#include "plan/tuning/candidates.h"
#include "plan/tuning/knobs.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

enum { CAPACITY = 48 };
static struct cla_error error;

static struct clattn_capabilities device(bool gpu, uint64_t local, uint64_t items)
{
    return (struct clattn_capabilities){.platform_name = "P",
                                        .device_name = "D",
                                        .type = gpu ? CLATTN_DEVICE_GPU : CLATTN_DEVICE_CPU,
                                        .available = true,
                                        .compiler_available = true,
                                        .compute_units = 8,
                                        .max_work_group_size = items,
                                        .max_work_item_size = items,
                                        .native_vector_width_float = gpu ? 1 : 8,
                                        .local_memory_type =
                                            gpu ? CLATTN_LOCAL_MEMORY_LOCAL : CLATTN_LOCAL_MEMORY_GLOBAL,
                                        .local_memory_bytes = local};
}

static void check_entry(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct clattn_plan_info *info)
{
    struct clattn_problem forced = *problem;
    struct cla_choice choice;
    struct clattn_plan_info again;
    forced.skeleton = info->skeleton;
    forced.b_r = info->b_r;
    forced.b_c = info->b_c;
    forced.work_group_size = info->work_group_size;
    forced.knobs = info->knobs[0] ? info->knobs : NULL;
    if (cla_plan(capabilities, &forced, &choice, &again, &error))
        fail_msg("%s", error.text);
    assert_string_equal(again.constants, info->constants);
    assert_string_equal(again.knobs, info->knobs);
    assert_true(again.local_bytes <= cla_usable_local_bytes(capabilities) || again.local_bytes == 0);
    assert_true(info->estimate > 0 && info->step_count >= 2);
    assert_true((uint64_t)info->work_group_size <= capabilities->max_work_group_size);
}

static int check_list(const struct clattn_capabilities *capabilities, const struct clattn_problem *wanted)
{
    static struct clattn_plan_info infos[CAPACITY];
    struct clattn_problem problem;
    struct cla_choice choice;
    struct clattn_plan_info own;
    int count = -1;
    assert_int_equal(cla_problem_resolve(wanted, &problem, &error), CLATTN_SUCCESS);
    assert_int_equal(cla_candidates(capabilities, &problem, infos, CAPACITY, &count, &error), CLATTN_SUCCESS);
    assert_in_range(count, 1, CAPACITY);
    assert_int_equal(cla_plan(capabilities, &problem, &choice, &own, &error), CLATTN_SUCCESS);
    assert_string_equal(infos[0].constants, own.constants);
    assert_string_equal(infos[0].skeleton, own.skeleton);
    for (int i = 0; i < count; i++) {
        check_entry(capabilities, &problem, &infos[i]);
        for (int j = 0; j < i; j++)
            assert_false(strcmp(infos[i].constants, infos[j].constants) == 0 &&
                         strcmp(infos[i].skeleton, infos[j].skeleton) == 0);
        if (i >= 2 && strcmp(infos[i].skeleton, infos[i - 1].skeleton) == 0)
            assert_true(infos[i].estimate >= infos[i - 1].estimate);
    }
    return count;
}

static void lists_are_whole_on_every_device(void **state)
{
    (void)state;
    const struct clattn_capabilities devices[] = {device(false, 1 << 20, 4096), device(true, 48 << 10, 1024),
                                                  device(true, 4 << 10, 64), device(true, 32 << 10, 256),
                                                  test_nvidia(900, 132)};
    static const int dimensions[] = {40, 64, 128, 256};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
            for (int pass = CLATTN_FORWARD; pass <= CLATTN_BACKWARD; pass++) {
                const struct clattn_problem problem = {.pass = (enum clattn_pass)pass,
                                                       .dtype = d % 2 ? CLATTN_FP16 : CLATTN_FP32,
                                                       .d = dimensions[d],
                                                       .causal = CLATTN_CAUSAL_TOP_LEFT,
                                                       .expected_n_q = 2048,
                                                       .expected_n_kv = 2048};
                const int count = check_list(&devices[i], &problem);
                const bool has_one_tile = devices[i].nv_wgmma && pass == CLATTN_BACKWARD; /* backward_hopper */
                assert_true(count >= (devices[i].local_memory_bytes < 8192 || has_one_tile ? 3 : 10));
            }
}

/* Few rows of heads that share K and V are packed, and some take K and V straight from device memory: an entry's own
 * choices must find the same way there. */
static void lists_of_few_rows_are_whole(void **state)
{
    (void)state;
    const struct clattn_capabilities devices[] = {test_nvidia(900, 132), test_nvidia_without_warp_groups(800, 108)};
    static const int dimensions[] = {64, 96, 128}, rows[] = {1, 4, 8, 19, 33, 64};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
            for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
                for (int group = 1; group <= 4; group *= 2) {
                    const struct clattn_problem problem = {.dtype = n % 2 ? CLATTN_BF16 : CLATTN_FP16,
                                                           .d = dimensions[d],
                                                           .expected_heads = 8 * group,
                                                           .expected_kv_heads = 8,
                                                           .expected_n_q = rows[n],
                                                           .expected_n_kv = 4096};
                    const int count = check_list(&devices[i], &problem);
                    if (count < 3)
                        fail_msg("device %zu, d %d, %d rows, groups of %d: %d", i, dimensions[d], rows[n], group,
                                 count);
                }
}

/* A search gives up after some candidates that are no better: on tensor cores those that a model can tell to be worse,
 * since they spill registers or are mere slivers, must not come first. */
static void what_leads_a_list_is_worth_a_measurement(void **state)
{
    (void)state;
    enum { FIRST = 20, WORDS = 255 };
    static struct clattn_plan_info infos[CAPACITY];
    struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (int wgmma = 0; wgmma < 2; wgmma++)
        for (int d = 64; d <= 128; d += 64)
            for (int pass = CLATTN_FORWARD; pass <= (wgmma ? CLATTN_FORWARD : CLATTN_BACKWARD); pass++) {
                struct clattn_problem problem;
                const struct clattn_problem wanted = {.pass = (enum clattn_pass)pass,
                                                      .dtype = CLATTN_FP16,
                                                      .d = d,
                                                      .expected_n_q = 4096,
                                                      .expected_n_kv = 4096};
                int count = 0, sizes = 1, others = 0;
                capabilities.nv_wgmma = wgmma;
                assert_int_equal(cla_problem_resolve(&wanted, &problem, &error), CLATTN_SUCCESS);
                assert_int_equal(cla_candidates(&capabilities, &problem, infos, CAPACITY, &count, &error), 0);
                assert_true(count >= FIRST);
                for (int i = 0; i < FIRST; i++) {
                    if (infos[i].private_bytes > 4 * WORDS || infos[i].b_r < 32 || infos[i].b_c < 32)
                        fail_msg("d %d, %s: number %d is %d x %d of %d items with %s", d, infos[i].skeleton, i,
                                 infos[i].b_r, infos[i].b_c, infos[i].work_group_size, infos[i].knobs);
                    others += strcmp(infos[i].skeleton, infos[0].skeleton) != 0;
                    sizes += i && (infos[i].b_r != infos[i - 1].b_r || infos[i].b_c != infos[i - 1].b_c);
                }
                assert_true(sizes >= 5); /* different ones, too, */
                assert_int_equal(others,
                                 wgmma); /* and the kernel that comes next, but not the one that runs anywhere */
                assert_non_null(strstr(infos[count - 1].skeleton, "simt"));
                assert_true(infos[1].estimate > 0.85 * infos[0].estimate);
            }
}

static void forced_choices_are_in_every_entry(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = device(true, 48 << 10, 1024);
    struct clattn_problem problem;
    struct clattn_plan_info infos[CAPACITY];
    int count = 0;
    assert_int_equal(
        cla_problem_resolve(&(struct clattn_problem){.d = 64, .b_r = 32, .work_group_size = 64}, &problem, &error), 0);
    assert_int_equal(cla_candidates(&capabilities, &problem, infos, CAPACITY, &count, &error), CLATTN_SUCCESS);
    assert_true(count >= 3);
    for (int i = 0; i < count; i++)
        assert_true(infos[i].b_r == 32 && infos[i].work_group_size == 64);
    assert_int_equal(cla_candidates(&capabilities, &problem, infos, 1, &count, &error), CLATTN_SUCCESS);
    assert_int_equal(count, 1);
}

/* Any value in its range of any knob is planned or refused, never more. */
static void knobs_from_outside_are_checked(void **state)
{
    (void)state;
    static const int values[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 48, 64, 100, 128, 256, 512};
    const struct clattn_capabilities devices[] = {device(false, 1 << 20, 4096), device(true, 48 << 10, 1024),
                                                  test_nvidia(900, 132)};
    int planned = 0, refused = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton; skeleton++)
            for (const struct cla_knob *knob = (*skeleton)->knobs; knob && knob->name; knob++)
                for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                    char text[64];
                    struct clattn_problem problem;
                    struct cla_choice choice;
                    struct clattn_plan_info info;
                    snprintf(text, sizeof text, "%s=%d", knob->name, values[v]);
                    const struct clattn_problem wanted = {.pass =
                                                              (*skeleton)->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                                          .dtype = CLATTN_FP16,
                                                          .d = 64,
                                                          .skeleton = (*skeleton)->name,
                                                          .knobs = text};
                    assert_int_equal(cla_problem_resolve(&wanted, &problem, &error), 0);
                    if (cla_plan(&devices[i], &problem, &choice, &info, &error)) {
                        assert_true(error.status == CLATTN_NOTHING_FITS || error.status == CLATTN_INVALID_ARGUMENT);
                        refused++;
                        continue;
                    }
                    assert_int_equal(cla_knob_get(knob, &choice.config), values[v]);
                    assert_int_equal(info.source, CLATTN_PLAN_FORCED);
                    assert_true(info.local_bytes <= cla_usable_local_bytes(&devices[i]));
                    planned++;
                }
    assert_true(planned > 50 && refused > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_whole_on_every_device),          cmocka_unit_test(lists_of_few_rows_are_whole),
        cmocka_unit_test(what_leads_a_list_is_worth_a_measurement), cmocka_unit_test(forced_choices_are_in_every_entry),
        cmocka_unit_test(knobs_from_outside_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
