/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/formats.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
    [CLATTN_AS_INT8] = "int8",         [CLATTN_AS_INT4] = "int4", [CLATTN_AS_FP8_E4M3] = "fp8_e4m3",
    [CLATTN_AS_FP8_E5M2] = "fp8_e5m2", [CLATTN_AS_Q8_0] = "q8_0", [CLATTN_AS_Q4_0] = "q4_0"};

void verify_formats_draw(struct random *random, struct verify_format formats[VERIFY_FORMATS])
{
    static const int groups[] = {0, 0, 32, 16, 5, 1};
    for (int i = 0; i < VERIFY_FORMATS; i++) {
        const int type = (int)random_below(random, 7), group = groups[random_below(random, 6)];
        const bool zeros = random_below(random, 2);
        formats[i] = (struct verify_format){.type = type ? CLATTN_AS_BF16 + type : 0};
        if (formats[i].type && formats[i].type <= CLATTN_AS_FP8_E5M2)
            formats[i].group = group;
        formats[i].zeros = zeros && (formats[i].type == CLATTN_AS_INT8 || formats[i].type == CLATTN_AS_INT4);
    }
}

bool verify_formats_any(const struct verify_format formats[VERIFY_FORMATS])
{
    return formats[0].type || formats[1].type;
}

void verify_formats_say(const struct verify_format formats[VERIFY_FORMATS], struct clattn_problem *problem)
{
    if (formats[0].type)
        problem->k_type = formats[0].type;
    if (formats[1].type)
        problem->v_type = formats[1].type;
    problem->k_scale_group = formats[0].group;
    problem->v_scale_group = formats[1].group;
    problem->zero_points = (formats[0].zeros ? CLATTN_K_ZEROS : 0) | (formats[1].zeros ? CLATTN_V_ZEROS : 0);
}

void verify_formats_text(const struct verify_format formats[VERIFY_FORMATS], char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < VERIFY_FORMATS && used < size; i++) {
        if (!formats[i].type)
            continue;
        used += (size_t)snprintf(text + used, size - used, ", %c %s", i ? 'v' : 'k', names[formats[i].type]);
        if (formats[i].group && used < size)
            used += (size_t)snprintf(text + used, size - used, " by %d", formats[i].group);
        if (formats[i].zeros && used < size)
            used += (size_t)snprintf(text + used, size - used, " with zeros");
    }
}

bool verify_formats_store(const struct verify_format *format, int columns, size_t count, float *values,
                          struct verify_stored *stored)
{
    const bool ggml = format->type >= CLATTN_AS_Q8_0;
    *stored = (struct verify_stored){.way = {format->type, columns, format->group, format->zeros}};
    if (!format->type)
        return true;
    stored->block = ggml ? 32 : format->type == CLATTN_AS_INT4 ? 2 : 1;
    stored->block_bytes = (int)formats_row_bytes(format->type, stored->block);
    stored->row_bytes = formats_row_bytes(format->type, columns);
    stored->groups = formats_groups(&stored->way);
    const size_t groups = (size_t)stored->groups;
    stored->rows = malloc(count * stored->row_bytes + 1);
    stored->scales = calloc(count * groups + 1, sizeof *stored->scales);
    stored->zeros = calloc(count * groups + 1, sizeof *stored->zeros);
    if (!stored->rows || !stored->scales || !stored->zeros)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint8_t *const row = stored->rows + i * stored->row_bytes;
        float *const of_row = values + i * (size_t)columns;
        formats_quantise(&stored->way, of_row, row, stored->scales + i * groups, stored->zeros + i * groups);
        formats_expand(&stored->way, row, stored->scales + i * groups, stored->zeros + i * groups, of_row);
    }
    return true;
}

void verify_formats_free(struct verify_stored *stored)
{
    free(stored->rows);
    free(stored->scales);
    free(stored->zeros);
    *stored = (struct verify_stored){.rows = NULL};
}
