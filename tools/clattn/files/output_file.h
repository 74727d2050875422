/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_OUTPUT_FILE_H
#define CLATTN_TOOL_OUTPUT_FILE_H

#include "failure.h"
#include <stddef.h>

/* A file being written. Its bytes go to a temporary file beside it, which takes its name in output_commit(): readers
 * never see half a file, and what stood there before stays until then. A name that is no regular file (/dev/null) is
 * written to as it is, and so is the standard output, which - names. A signal that ends the command removes the
 * temporary file; what a killed one has left beside the same name is removed here. */
struct output_file {
    char *path, *temporary; /* temporary NULL: written to directly */
    int descriptor, lock, cleanup;
};

/* Makes the temporary file, so that a directory that is missing or not writable is found before the work is done. */
int output_create(const char *path, struct output_file *output, struct failure *failure);

int output_write(struct output_file *output, const void *bytes, size_t count, struct failure *failure);

/* Closes the file after its last byte; a full disk shows here at the latest. */
int output_finish(struct output_file *output, struct failure *failure);

/* Gives the finished file its name. */
int output_commit(struct output_file *output, struct failure *failure);

/* All of that at once. */
int output_write_whole(const char *path, const void *bytes, size_t count, struct failure *failure);

/* Whether a file of this name could be written: nothing stays of the attempt. For what is written only after much else.
 */
int output_try(const char *path, struct failure *failure);

/* Leaves no trace. For zero-initialised, committed and discarded outputs too. */
void output_discard(struct output_file *output);

#endif
