/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* fdopen, dup */
#include "answers.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_BYTES = 4096 };

FILE *answers_open(void)
{
    const int out = dup(STDOUT_FILENO);
    return out >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? fdopen(out, "wb") : NULL;
}

bool answers_hear(char **line, size_t *capacity)
{
    size_t length = 0;
    do {
        if (*capacity < length + 2) {
            const size_t wanted = *capacity ? 2 * *capacity : FIRST_BYTES;
            char *grown = realloc(*line, wanted);
            if (!grown)
                return false;
            *line = grown;
            *capacity = wanted;
        }
        if (!fgets(*line + length, (int)(*capacity - length), stdin))
            return length > 0;
        length += strlen(*line + length);
    } while ((*line)[length - 1] != '\n');
    return true;
}
