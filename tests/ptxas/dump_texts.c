/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes the texts of the kernels that run on any GPU, as planned for the devices of clinfo dumps: forward and
 * backward, d = 64 and 128 (32 where plans take a matrix unit no further), plain and with features. Names and lines as
 * kernel_texts has them; a device's name is its dump's.
 *
 *     dump_texts DIRECTORY DUMP... */
#include "clinfo/clinfo.h"
#include "plan/machine.h"
#include "plan/matrix_units.h"
#include "plan/problem.h"
#include "plan/recipe.h"
#include "ptxas/write.h"
#include <stdio.h>
#include <string.h>

/* Bits of features, up to one that is not there. */
enum { NO_MORE = ~0 };
static const unsigned pairs[] = {0, CLATTN_SOFTCAP | CLATTN_ALIBI, CLATTN_DROPOUT | CLATTN_BIAS, (unsigned)NO_MORE},
                      each[] = {0, CLATTN_SOFTCAP, CLATTN_ALIBI, CLATTN_BIAS, CLATTN_DROPOUT, (unsigned)NO_MORE};

static int write_problem(const char *directory, const char *device, const struct clattn_capabilities *capabilities,
                         const struct clattn_problem *problem)
{
    struct clattn_problem resolved;
    struct clattn_plan_info info;
    struct cla_choice choice;
    struct cla_error error;
    if (cla_problem_resolve(problem, &resolved, &error) || cla_plan(capabilities, &resolved, &choice, &info, &error))
        return texts_complain(device, &error);
    const uint32_t kernels = cla_recipe_kernels(choice.skeleton, &choice.config, capabilities, &resolved, 1);
    int failed = 0;
    for (int number = 0; number < CLA_MOST_KERNELS; number++)
        if (kernels >> number & 1)
            failed += texts_write(directory, device, "", &resolved, &choice, number);
    return failed;
}

/* Beyond some head dimensions matrix units are taken by name alone. */
static bool is_planned(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, problem->dtype);
    return !strstr(problem->skeleton, "_matrix") || problem->d <= cla_matrix_planned_d(unit, problem);
}

/* The skeletons of one kind, forward and backward. */
static int write_skeletons(const char *directory, const char *device, const struct clattn_capabilities *capabilities,
                           const char *const skeletons[2], int least_d, enum clattn_dtype dtype,
                           const unsigned *features)
{
    int failed = 0;
    for (int d = least_d; d <= 128; d *= 2)
        for (size_t i = 0; features[i] != (unsigned)NO_MORE; i++)
            for (int backward = 0; backward < 2; backward++) {
                const struct clattn_problem problem = {.d = d,
                                                       .dtype = dtype,
                                                       .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                                       .pass = backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                                       .skeleton = skeletons[backward],
                                                       .features = features[i],
                                                       .dropout_p = features[i] & CLATTN_DROPOUT ? 0.1f : 0.0f};
                if (is_planned(capabilities, &problem))
                    failed += write_problem(directory, device, capabilities, &problem);
            }
    return failed;
}

/* On matrix units, too, where the device has one; AMD's with each feature. */
static int write_device(const char *directory, const char *device, const struct clattn_capabilities *capabilities)
{
    static const char *const simt[] = {"forward_simt", "backward_simt"}, *const matrix[] = {"forward_matrix",
                                                                                            "backward_matrix"};
    int failed = write_skeletons(directory, device, capabilities, simt, 64, CLATTN_FP16, pairs);
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, CLATTN_FP16);
    const int least_d = unit && unit->planned_d ? unit->planned_d : 64;
    const enum cla_family family = cla_machine_of(capabilities).family;
    const unsigned *const features = family == CLA_AMD || family == CLA_AMD_WIDE ? each : pairs;
    if (unit)
        failed += write_skeletons(directory, device, capabilities, matrix, least_d, CLATTN_FP16, features) +
                  write_skeletons(directory, device, capabilities, matrix, least_d, CLATTN_BF16, features);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 3;
    for (int i = 2; i < argc; i++) {
        struct clinfo_devices devices;
        struct failure failure = {.text = ""};
        char device[64];
        const char *name = strrchr(argv[i], '/');
        if (clinfo_read(argv[i], &devices, &failure)) {
            fprintf(stderr, "%s\n", failure.text);
            return 1;
        }
        snprintf(device, sizeof device, "%s", name ? name + 1 : argv[i]);
        device[strcspn(device, ".")] = '\0';
        clattn_capabilities_apply_known(&devices.items[0].capabilities);
        failed += write_device(argv[1], device, &devices.items[0].capabilities);
        clinfo_free(&devices);
    }
    return failed != 0;
}
