/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SOURCE_H
#define CLA_SOURCE_H

#include "plan/error.h"
#include "plan/hash.h"
#include "plan/text.h"

/* The files under cl/, which the build turned into bytes (tools/embed.py). */
struct cla_embedded_file {
    const char *name; /* relative to cl/, such as "common/types.clh" */
    const unsigned char *data;
    size_t size;
    const unsigned short *parts; /* what it needs, each before whoever needs it, and itself: indices of this table */
    size_t part_count;
};

extern const struct cla_embedded_file cla_embedded_files[];
extern const size_t cla_embedded_file_count;

/* A program is named by a few files, ended by NULL: a unit's header, where it needs one, and the kernel. It consists of
 * these and of all that they include, each once.
 *
 * The hash of its bytes names what a skeleton's kernels are made of. */
struct cla_hash cla_source_hash(const char *const *files);

/* Appends `defines` and then each file under a #line with its name, so that a compiler's messages point into cl/. */
clattn_status cla_source_assemble(const char *defines, const char *const *files, struct cla_text *text,
                                  struct cla_error *error);

#endif
