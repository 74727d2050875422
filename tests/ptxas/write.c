/* SPDX-License-Identifier: BSD-2-Clause */
#include "ptxas/write.h"
#include "plan/features/user_text.h"
#include "plan/recipe.h"
#include "plan/retarget.h"
#include "plan/source.h"
#include <stdio.h>
#include <string.h>

int texts_complain(const char *what, const struct cla_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    return 1;
}

static int write_program(const char *directory, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.cl", directory, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file)) {
        perror(path);
        return 1;
    }
    return 0;
}

/* One entry of the planned variant. */
int texts_write(const char *directory, const char *device, const char *prefix, const struct clattn_problem *problem,
                const struct cla_choice *choice, int number)
{
    struct cla_text defines = {0}, text = {0};
    struct cla_error error;
    char name[160], blocks[16] = "";
    const bool backward = choice->skeleton->backward;
    const struct cla_kernel_form form = cla_skeleton_form(choice->skeleton, &choice->config, number);
    struct cla_choice own = *choice;
    own.config.work_group_size = form.work_group_size;
    if (problem->block_q)
        snprintf(blocks, sizeof blocks, "-blocks%d", problem->block_q);
    snprintf(name, sizeof name, "%s%s-%s-%s-d%d-%dx%d%s-f%u%s%s%s%s%s%s%s", prefix, device, choice->skeleton->name,
             form.entry, problem->d, choice->config.b_r, choice->config.b_c, problem->causal ? "-causal" : "",
             problem->features, blocks,
             problem->unordered && (problem->block_q || problem->dtype == CLATTN_FP32) ? "-unordered" : "",
             problem->mask_mod ? "-user" : "", !backward && number == CLA_SPLIT ? "-split" : "",
             problem->dtype == CLATTN_BF16                          ? "-bf16"
             : problem->dtype == CLATTN_FP32 && choice->config.unit ? "-fp32"
                                                                    : "",
             problem->knobs ? "-" : "", problem->knobs ? problem->knobs : "");
    for (char *space = strchr(name, ' '); space; space = strchr(space, ' '))
        *space = ','; /* names are words */
    cla_plan_defines(problem, &own, &defines);
    cla_user_texts(problem, &defines);
    cla_text_printf(&defines, "#define CLATTN_%s %d\n", backward ? "KERNEL" : "SPLIT", number);
    int failed = defines.failed || cla_source_assemble(defines.data, form.files, &text, &error)
                     ? texts_complain(name, &error)
                     : write_program(directory, name, text.data);
    if (!failed)
        printf("%s %s %d %d %llu\n", name, device, form.work_group_size, cla_retarget_wanted(text.data),
               form.files == choice->skeleton->files && strcmp(choice->skeleton->name, "backward_simt") != 0
                   ? (unsigned long long)choice->skeleton->local_bytes(problem, &choice->config)
                   : 0);
    cla_text_free(&text);
    cla_text_free(&defines);
    return failed;
}
