/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/matrix_units.h"
#include "plan/skeleton.h"
#include <stdio.h>
#include <string.h>

#define ADDRESS(name) &cla_##name,
const struct cla_skeleton *const cla_skeletons[] = {CLA_EACH_SKELETON(ADDRESS) NULL};

const struct cla_skeleton *cla_skeleton_find(const char *name)
{
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton; skeleton++)
        if (strcmp((*skeleton)->name, name) == 0)
            return *skeleton;
    return NULL;
}

bool cla_skeleton_serves(const struct cla_skeleton *skeleton, enum clattn_pass pass)
{
    return skeleton->backward == (pass == CLATTN_BACKWARD || pass == CLATTN_BACKWARD_ACCUMULATE);
}

const struct cla_kernel_form cla_forward_kernels[CLA_SPLIT + 2] = {
    [CLA_WHOLE] = {.entry = "clattn_forward"}, [CLA_SPLIT] = {.entry = "clattn_forward"}};
const struct cla_kernel_form cla_backward_kernels[CLA_MOST_KERNELS + 1] = {[CLA_DQ] = {.entry = "clattn_dq"},
                                                                           [CLA_DK_DV] = {.entry = "clattn_dk_dv"},
                                                                           [CLA_D_BIAS] = {.entry = "clattn_d_bias"}};

int cla_joins(const struct cla_skeleton *skeleton, const struct cla_config *config)
{
    return skeleton->joins ? skeleton->joins(config) : 0;
}

struct cla_kernel_form cla_skeleton_form(const struct cla_skeleton *skeleton, const struct cla_config *config,
                                         int number)
{
    struct cla_kernel_form form = skeleton->kernels[number];
    if (!form.files)
        form.files = config->unit ? config->unit->files[skeleton->backward] : skeleton->files;
    if (!form.work_group_size)
        form.work_group_size = config->work_group_size;
    return form;
}

int cla_skeleton_element_bytes(const struct cla_skeleton *skeleton, const struct clattn_problem *problem)
{
    return skeleton->tile_element_bytes ? skeleton->tile_element_bytes : (int)clattn_dtype_size(problem->dtype);
}

/* Whether a kernel of it serves only what lets dQ be added up in any order. */
static bool adds_in_any_order(const struct cla_skeleton *skeleton)
{
    for (const struct cla_kernel_form *form = skeleton->kernels; form->entry; form++)
        if (form->any_order)
            return true;
    return false;
}

struct clattn_skeleton_info cla_skeleton_describe(const struct cla_skeleton *skeleton)
{
    struct clattn_skeleton_info info = {.backward = skeleton->backward,
                                        .for_cpus = skeleton->for_cpus,
                                        .emulated = skeleton->emulated,
                                        .declines = skeleton->declines,
                                        .any_order = adds_in_any_order(skeleton),
                                        .chunks = !skeleton->no_chunks,
                                        .largest_d = skeleton->largest_d ? skeleton->largest_d : CLATTN_MAX_D,
                                        .packs = skeleton->packs,
                                        .only_16_bits = skeleton->tile_element_bytes == 2};
    snprintf(info.name, sizeof info.name, "%s", skeleton->name);
    return info;
}
