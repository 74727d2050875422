/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What tuning asks of the planner. */
#include "device/report.h"
#include "device/tuning.h"
#include "plan/matrix_units.h"
#include "plan/problem.h"
#include "plan/reserved.h"
#include "plan/source.h"
#include "plan/tuning/candidates.h"
#include <stdio.h>

/* A skeleton over any matrix unit is made of all devices' units. */
static struct cla_hash with_units(const struct cla_skeleton *skeleton, struct cla_hash hash)
{
    for (const struct cla_matrix_unit *unit = cla_matrix_units + 1; unit->name; unit++)
        if (unit->devices && skeleton->files == cla_nvidia_mma_files[skeleton->backward]) {
            const struct cla_hash both[2] = {hash, cla_source_hash(unit->files[skeleton->backward])};
            hash = cla_hash_bytes(both, sizeof both);
        }
    return hash;
}

const char *cla_kernels_hash(const char *skeleton, char hex[40])
{
    const struct cla_skeleton *found = cla_skeleton_find(skeleton);
    if (!found)
        return NULL;
    struct cla_hash hash = cla_source_hash(found->files);
    bool differ = false;
    for (const struct cla_kernel_form *form = found->kernels; form->entry; form++)
        differ = differ || form->files;
    for (const struct cla_kernel_form *form = found->kernels; differ && form->entry; form++) {
        const struct cla_hash both[2] = {hash, cla_source_hash(form->files ? form->files : found->files)};
        hash = cla_hash_bytes(both, sizeof both);
    }
    cla_hash_hex(with_units(found, hash), hex);
    return hex;
}

static clattn_status resolve(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             const void *out, const char *name, struct clattn_problem *resolved,
                             struct cla_error *error)
{
    if (!capabilities)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "capabilities is NULL: it must point to a struct clattn_capabilities");
    if (!out)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is NULL: it must point to what is filled", name);
    const clattn_status status = cla_check_reserved(&cla_struct_capabilities, "capabilities", capabilities, error);
    return status ? status : cla_problem_resolve(problem, resolved, error);
}

static clattn_status describe(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                              const struct clattn_plan_info *info, struct clattn_tuning_record *record,
                              struct cla_error *error)
{
    struct clattn_problem resolved;
    struct clattn_tuning_record made;
    clattn_status status = resolve(capabilities, problem, record, "record", &resolved, error);
    if (!status)
        status = cla_check_reserved(&cla_struct_plan_info, "info", info, error);
    if (status)
        return status;
    if (!info || !cla_skeleton_find(info->skeleton))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "info is NULL or names no skeleton: it must be that of a plan");
    if (!cla_tuning_key(capabilities, &resolved, &made))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features is 0x%x: only problems without features, or with CLATTN_KEY_LENGTHS, "
                        "CLATTN_VARLEN and CLATTN_SINKS, and without functions of the user's, have records",
                        resolved.features);
    cla_kernels_hash(info->skeleton, made.kernels);
    snprintf(made.skeleton, sizeof made.skeleton, "%s", info->skeleton);
    snprintf(made.knobs, sizeof made.knobs, "%s", info->knobs);
    made.b_r = info->b_r;
    made.b_c = info->b_c;
    made.work_group_size = info->work_group_size;
    *record = made;
    return CLATTN_SUCCESS;
}

clattn_status clattn_tuning_describe(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, const struct clattn_plan_info *info,
                                     struct clattn_tuning_record *record)
{
    struct cla_error error;
    return describe(capabilities, problem, info, record, &error) ? cla_report(NULL, &error) : CLATTN_SUCCESS;
}

clattn_status clattn_tuning_candidates(const struct clattn_capabilities *capabilities,
                                       const struct clattn_problem *problem, struct clattn_plan_info *candidates,
                                       int capacity, int *count)
{
    struct cla_error error;
    struct clattn_problem resolved;
    clattn_status status =
        resolve(capabilities, problem, candidates && count ? count : NULL, "candidates or count", &resolved, &error);
    if (!status && capacity < 1)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "capacity is %d: it must be at least 1", capacity);
    int found = 0;
    if (!status)
        status = cla_candidates(capabilities, &resolved, candidates, capacity, &found, &error);
    if (status)
        return cla_report(NULL, &error);
    *count = found;
    return CLATTN_SUCCESS;
}
