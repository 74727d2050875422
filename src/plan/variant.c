/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeleton.h"
#include <string.h>

/* Every kernel structure the library has. The planner takes the first that prefers the device; tests run all of them.
 */
const struct cla_skeleton *const cla_skeletons[] = {&cla_forward_hopper,
                                                    &cla_forward_matrix,
                                                    &cla_forward_cpu,
                                                    &cla_forward_simt,
                                                    &cla_forward_matrix_emulated,
                                                    &cla_backward_hopper,
                                                    &cla_backward_fused,
                                                    &cla_backward_matrix,
                                                    &cla_backward_cpu,
                                                    &cla_backward_simt,
                                                    &cla_backward_matrix_emulated,
                                                    &cla_backward_fused_emulated,
                                                    NULL};

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

struct cla_kernel_form cla_skeleton_form(const struct cla_skeleton *skeleton, const struct cla_config *config,
                                         int number)
{
    struct cla_kernel_form form = {skeleton->files, config->work_group_size, skeleton->retargeted};
    if (!skeleton->forms)
        return form;
    form = skeleton->forms[number];
    if (!form.work_group_size)
        form.work_group_size = config->work_group_size;
    return form;
}
