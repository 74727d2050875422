/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/judged.h"
#include <stdlib.h>

bool judged_create(struct judged *all, int count)
{
    bool enough = true;
    for (int i = 0; i < count; i++) {
        all[i].expected = all[i].answer ? calloc(all[i].count + 1, sizeof *all[i].expected) : NULL;
        all[i].naive = all[i].answer && all[i].has_naive ? calloc(all[i].count + 1, sizeof *all[i].naive) : NULL;
        enough = enough && (!all[i].answer || (all[i].expected && (all[i].naive || !all[i].has_naive)));
    }
    return enough;
}

void judged_free(struct judged *all, int count)
{
    for (int i = 0; i < count; i++) {
        free(all[i].expected);
        free(all[i].naive);
        all[i].expected = NULL;
        all[i].naive = NULL;
    }
}

bool judged_close(const struct judged *all, int count, struct verify_result *result)
{
    bool good = true;
    for (int i = 0; good && i < count; i++) {
        const struct judged *one = &all[i];
        if (one->answer)
            good = (one->is_gradient ? verify_gradient_close : verify_close)(
                one->name, one->answer, one->expected, one->naive, one->count, one->columns, one->floor, result);
    }
    return good;
}
