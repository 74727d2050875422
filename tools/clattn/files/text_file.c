/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/text_file.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 20 };

int text_file_read(const char *option, const char *path, char **text, struct failure *failure)
{
    if (!path)
        return STATUS_OK;
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(errno));
    *text = malloc(MOST_TEXT + 1);
    const size_t length = *text ? fread(*text, 1, MOST_TEXT + 1, file) : 0;
    const bool failed = ferror(file);
    const int reason = errno;
    fclose(file);
    if (!*text)
        return fail(failure, STATUS_DEVICE, "%s: no memory for its text", path);
    if (failed)
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(reason));
    if (!length || length > MOST_TEXT || memchr(*text, '\0', length))
        return fail(failure, STATUS_FILE, "%s: --%s is OpenCL C text, but this is %s", path, option,
                    !length              ? "empty"
                    : length > MOST_TEXT ? "longer than 1 MiB"
                                         : "not text: it holds a zero byte");
    (*text)[length] = '\0';
    return STATUS_OK;
}
