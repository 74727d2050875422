/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of skeletons, as callers see it. Takes the names that tests/meson.build reads from the sources. */
#include "options/options.h"
#include "plan/skeleton.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <string.h>

static char **names;
static int name_count;

static void the_build_knows_all_skeletons(void **state)
{
    (void)state;
    assert_int_equal(clattn_skeleton_count(), name_count);
    assert_true(name_count >= 2);
    for (int i = 0; i < name_count; i++) {
        struct clattn_skeleton_info info;
        assert_int_equal(clattn_skeleton_get_info(i, &info), CLATTN_SUCCESS);
        assert_string_equal(info.name, names[i]);
        assert_ptr_equal(cla_skeleton_find(info.name), cla_skeletons[i]);
    }
}

static void facts_go_together(void **state)
{
    (void)state;
    for (int i = 0; i < clattn_skeleton_count(); i++) {
        struct clattn_skeleton_info info;
        assert_int_equal(clattn_skeleton_get_info(i, &info), CLATTN_SUCCESS);
        const bool says_backward = !strncmp(info.name, "backward_", 9);
        assert_int_equal(info.backward, says_backward);
        assert_int_equal(info.emulated, strstr(info.name, "_emulated") != NULL);
        assert_int_equal(info.for_cpus, strstr(info.name, "_cpu") != NULL);
        assert_true(!info.emulated || info.declines);
        assert_true(!info.any_order || (info.declines && info.backward));
        assert_false(info.for_cpus && info.declines);
    }
}

static clattn_status preview(const struct clattn_skeleton_info *info, int d, bool chunks)
{
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    const struct clattn_problem problem = {.pass = info->backward
                                                       ? chunks ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD
                                                   : chunks ? CLATTN_ACCUMULATE
                                                            : CLATTN_FORWARD,
                                           .dtype = CLATTN_FP16,
                                           .d = d,
                                           .d_v = 1,
                                           .unordered = info->any_order,
                                           .skeleton = info->name};
    struct clattn_plan_info plan;
    return clattn_plan_preview(&capabilities, &problem, &plan);
}

/* By the planner's own answer for a device that has all matrix units. */
static void facts_are_what_the_planner_does(void **state)
{
    (void)state;
    for (int i = 0; i < clattn_skeleton_count(); i++) {
        struct clattn_skeleton_info info;
        assert_int_equal(clattn_skeleton_get_info(i, &info), CLATTN_SUCCESS);
        if (info.emulated) /* on CPUs: it says the same as what it stands for */
            continue;
        assert_int_equal(preview(&info, 64, false), CLATTN_SUCCESS);
        assert_int_equal(preview(&info, info.largest_d, false), CLATTN_SUCCESS);
        if (info.largest_d < CLATTN_MAX_D)
            assert_int_equal(preview(&info, info.largest_d + 1, false), CLATTN_NOTHING_FITS);
        assert_int_equal(preview(&info, 64, true), info.chunks ? CLATTN_SUCCESS : CLATTN_NOTHING_FITS);
    }
}

/* What help and completion list: all of the asked direction but emulations, each once. */
static void options_offer_them(void **state)
{
    (void)state;
    for (int passes = OPTION_FORWARD; passes <= (OPTION_FORWARD | OPTION_BACKWARD); passes++) {
        const struct option_spec option = {.kind = OPTION_SKELETON, .maximum = passes};
        struct clattn_skeleton_info info;
        int offered = 0, expected = 0;
        for (int i = 0; i < clattn_skeleton_count(); i++) {
            assert_int_equal(clattn_skeleton_get_info(i, &info), CLATTN_SUCCESS);
            expected += !info.emulated && (passes & (info.backward ? OPTION_BACKWARD : OPTION_FORWARD));
        }
        while (option_skeleton(&option, offered, &info)) {
            assert_false(info.emulated);
            assert_true(passes & (info.backward ? OPTION_BACKWARD : OPTION_FORWARD));
            offered++;
        }
        assert_int_equal(offered, expected);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_build_knows_all_skeletons), cmocka_unit_test(facts_go_together),
        cmocka_unit_test(facts_are_what_the_planner_does), cmocka_unit_test(options_offer_them)};
    names = argv + 1;
    name_count = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
