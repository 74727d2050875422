/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/guard.h"
#include <stdlib.h>
#include <string.h>

static size_t element_bytes(const struct guarded *guarded)
{
    return (size_t)(guarded->raw_bytes ? guarded->raw_bytes : clattn_dtype_size(guarded->dtype));
}

/* Raw elements are dense. */
static void put(struct guarded *guarded)
{
    const int64_t *n = guarded->sizes;
    if (!guarded->raw_bytes)
        reference_scatter(guarded->dtype, n, &guarded->layout, guarded->input, guarded->before);
    else
        memcpy(guarded->before + (size_t)guarded->layout.offset * element_bytes(guarded), guarded->input,
               (size_t)(n[0] * n[1] * n[2] * n[3]) * element_bytes(guarded));
}

bool guarded_upload(const struct session *session, struct guarded *guarded, struct verify_result *result)
{
    guarded->bytes = (reference_extent(guarded->sizes, &guarded->layout) + GUARD) * element_bytes(guarded);
    guarded->before = malloc(guarded->bytes);
    guarded->after = malloc(guarded->bytes);
    if (!guarded->before || !guarded->after)
        return verify_error(result, "no memory for %zu bytes", guarded->bytes);
    memset(guarded->before, 0xff, guarded->bytes);
    if (guarded->input)
        put(guarded);
    cl_int code;
    guarded->buffer = clCreateBuffer(session->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, guarded->bytes,
                                     guarded->before, &code);
    if (guarded->input && guarded->output) /* as it is compared with */
        reference_erase(guarded->dtype, guarded->sizes, &guarded->layout, guarded->before);
    return code ? verify_error(result, "clCreateBuffer of %zu bytes: %s", guarded->bytes, clattn_status_name(code))
                : true;
}

/* What lies outside the elements, and every input as a whole, must be as it was. */
static bool untouched(const struct guarded *guarded, struct verify_result *result)
{
    if (guarded->output)
        reference_erase(guarded->dtype, guarded->sizes, &guarded->layout, guarded->after);
    if (!memcmp(guarded->before, guarded->after, guarded->bytes))
        return true;
    size_t at = 0;
    while (guarded->before[at] == guarded->after[at])
        at++;
    return verify_fail(result,
                       guarded->output ? "%s: byte %zu of its buffer, outside the tensor, was written"
                                       : "%s: byte %zu of this input was changed",
                       guarded->name, at);
}

bool guarded_download(const struct session *session, struct guarded *guarded, struct verify_result *result)
{
    const cl_int code =
        clEnqueueReadBuffer(session->queue, guarded->buffer, CL_TRUE, 0, guarded->bytes, guarded->after, 0, NULL, NULL);
    if (code)
        return verify_error(result, "clEnqueueReadBuffer: %s", clattn_status_name(code));
    if (guarded->output)
        reference_gather(guarded->dtype, guarded->sizes, &guarded->layout, guarded->after, guarded->output);
    return untouched(guarded, result);
}

void guarded_free(struct guarded *guarded)
{
    if (guarded->buffer)
        clReleaseMemObject(guarded->buffer);
    free(guarded->before);
    free(guarded->after);
    *guarded = (struct guarded){.bytes = 0};
}
