/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "files/npy.h"
#include "system/files.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_file(const char *path, int descriptor, struct npy_file *file, struct failure *failure)
{
    struct stat status;
    if (fstat(descriptor, &status))
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(failure, STATUS_FILE,
                    "%s: not a regular file; arrays are mapped, so pipes and directories cannot be read", path);
    if (status.st_size <= 0)
        return fail(failure, STATUS_FILE, "%s: empty; a .npy file is needed", path);
    if (!mapping_make(descriptor, (size_t)status.st_size, &file->mapping))
        return fail(failure, STATUS_FILE, "%s: cannot be mapped: %s", path, strerror(errno));
    return STATUS_OK;
}

/* NumPy pads headers so that the data is aligned; other writers may not. */
static int align_data(const char *path, struct npy_file *file, struct failure *failure)
{
    const size_t bytes = npy_data_bytes(&file->header);
    if ((uintptr_t)file->data % npy_type_size(file->header.type) == 0)
        return STATUS_OK;
    file->copy = malloc(bytes ? bytes : 1);
    if (!file->copy)
        return fail(failure, STATUS_FILE, "%s: no memory for %zu bytes of unaligned data", path, bytes);
    memcpy(file->copy, file->data, bytes);
    file->data = file->copy;
    return STATUS_OK;
}

int npy_open(const char *path, struct npy_file *file, struct failure *failure)
{
    *file = (struct npy_file){.data = NULL};
    const int descriptor = files_open_read(path);
    if (descriptor < 0)
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(errno));
    int status = map_file(path, descriptor, file, failure);
    size_t offset = 0;
    if (status)
        close(descriptor);
    else
        status = npy_parse_header(path, file->mapping.start, file->mapping.bytes, &file->header, &offset, failure);
    if (!status) {
        file->data = (const char *)file->mapping.start + offset;
        status = align_data(path, file, failure);
    }
    if (status)
        npy_close(file);
    return status;
}

int npy_check(const char *path, const struct npy_file *file, struct failure *failure)
{
    if (!mapping_changed(&file->mapping))
        return STATUS_OK;
    return fail(failure, STATUS_FILE, "%s: was shrunk or written to while it was read", path);
}

void npy_close(struct npy_file *file)
{
    mapping_end(&file->mapping);
    free(file->copy);
    *file = (struct npy_file){.data = NULL};
}
