/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why plans take a device's matrix unit, or do not, in words. */
#include "plan/machine.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include <stdbool.h>
#include <stdio.h>

static const char *without(const struct clattn_capabilities *capabilities, const char *const *extensions)
{
    while (*extensions && cla_has_extension(capabilities, *extensions))
        extensions++;
    return *extensions;
}

/* OpenCL does not say what hardware has, but for extensions: a driver that is not the vendor's own, as Mesa's rusticl,
 * does not say these, nor does its compiler know the vendor's built-in functions. */
static void why_none(const struct clattn_capabilities *capabilities, char *text, size_t size)
{
    static const char *const amd[] = {"cl_amd_device_attribute_query", NULL},
                             *const intel[] = {"cl_intel_subgroup_matrix_multiply_accumulate",
                                               "cl_intel_required_subgroup_size", "cl_intel_subgroup_local_block_io",
                                               NULL};
    const enum cla_family family = cla_machine_of(capabilities).family;
    const bool is_amd = family == CLA_AMD || family == CLA_AMD_WIDE;
    const bool is_intel = family == CLA_INTEL || family == CLA_INTEL_NARROW;
    const char *lacks = is_amd ? without(capabilities, amd) : is_intel ? without(capabilities, intel) : NULL;
    if (lacks)
        snprintf(text, size, "the driver has no %s", lacks);
    else if (is_amd)
        snprintf(text, size,
                 "there are kernels for gfx1100, gfx1101, gfx1102, gfx1200, gfx1201 (sub-groups of 32), gfx90a and "
                 "gfx942 (64)");
    else if (is_intel)
        snprintf(text, size, "the smallest sub-group has %u items, where kernels want 8 or 16",
                 (unsigned)capabilities->sub_group_size);
    else if (family == CLA_NVIDIA)
        snprintf(text, size, "compute capability %u.%u, where tensor cores come with 7.5",
                 (unsigned)capabilities->nv_compute_capability / 100,
                 (unsigned)capabilities->nv_compute_capability % 100);
    else
        snprintf(text, size, "there are no kernels for one of this device");
}

void cla_matrix_trust_text(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype, char *text,
                           size_t size)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, dtype);
    if (!unit)
        why_none(capabilities, text, size);
    else
        snprintf(text, size, "%s",
                 unit->trust == CLA_UNIT_BY_REQUEST ? unit->why_not
                 : unit->trust == CLA_UNIT_PROVEN   ? "hardware has run its kernels"
                 : capabilities->matrix_unit_right  ? "a tile came out right"
                                                    : "no tile came out right, or CLATTN_DISABLE names it");
}

static int most_of(const struct cla_matrix_unit *unit)
{
    return unit->most_d ? unit->most_d : CLA_MATRIX_LARGEST_D;
}

/* Beyond, registers go to memory, with dropout sooner: what it takes is kept beside the outputs. */
int cla_matrix_planned_d(const struct cla_matrix_unit *unit, const struct clattn_problem *problem)
{
    const bool forward = problem->pass == CLATTN_FORWARD || problem->pass == CLATTN_ACCUMULATE;
    const bool drops = forward && problem->features & CLATTN_DROPOUT && unit->planned_d_dropout;
    if (unit->forward_alone && !forward)
        return 0;
    return drops ? unit->planned_d_dropout : unit->planned_d ? unit->planned_d : most_of(unit);
}

void cla_matrix_why_not(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        char *text, size_t size)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, problem->dtype);
    char why[160];
    cla_matrix_trust_text(capabilities, problem->dtype, why, sizeof why);
    if (!unit)
        snprintf(text, size, "none: %s", why);
    else if (!unit->takes(capabilities, problem->dtype))
        snprintf(text, size, "%s takes %s", unit->name, unit->takes_text);
    else if (cla_widest(problem) > most_of(unit))
        snprintf(text, size, "%s takes head dimensions up to %d", unit->name, most_of(unit));
    else if (!cla_matrix_is_trusted(capabilities, problem->dtype))
        snprintf(text, size, "%s is taken by problem.skeleton alone: %s", unit->name, why);
    else if (!cla_matrix_planned_d(unit, problem))
        snprintf(text, size,
                 "%s is taken in backward passes by problem.skeleton alone: its registers go to memory there",
                 unit->name);
    else if (cla_widest(problem) > cla_matrix_planned_d(unit, problem))
        snprintf(text, size,
                 "%s is taken for head dimensions up to %d%s, by problem.skeleton alone up to %d: its registers go to "
                 "memory there",
                 unit->name, cla_matrix_planned_d(unit, problem),
                 problem->features & CLATTN_DROPOUT ? " with dropout" : "", most_of(unit));
    else
        snprintf(text, size,
                 "%s is not taken: with these sizes, types and features its tiles do not fit, or leave a compute unit "
                 "too few sub-groups",
                 unit->name);
}
