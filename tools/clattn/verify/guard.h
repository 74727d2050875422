/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_GUARD_H
#define CLATTN_TOOL_VERIFY_GUARD_H

#include "verify/case.h"

/* Tensors in guarded buffers. Around and between the elements of every one lie bytes 0xff: NaN in every type, so that
 * reading them shows in the outputs, and writing them shows afterwards. */

enum {
    GUARD = 67,        /* elements on each side; odd, so that nothing is aligned by accident */
    ALIGNED_GUARD = 64 /* those before, where everything is to be aligned */
};

struct guarded {
    const char *name; /* NULL: there is none */
    enum clattn_dtype dtype;
    int raw_bytes; /* of an element that is no number of that type: of a mask, a length; 0: it is one */
    int64_t sizes[4];
    struct clattn_layout layout; /* of the elements in the buffer; its offset is what lies before them */
    const void *input;           /* dense: floats, or raw; NULL for an output, unless it is added to */
    float *output;               /* dense */
    size_t bytes;
    unsigned char *before, *after; /* host copies */
    cl_mem buffer;
};

bool guarded_upload(const struct session *session, struct guarded *guarded, struct verify_result *result);

/* Takes the output, and finds out whether anything else was changed. */
bool guarded_download(const struct session *session, struct guarded *guarded, struct verify_result *result);

void guarded_free(struct guarded *guarded);

#endif
