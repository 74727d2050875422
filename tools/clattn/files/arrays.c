/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/arrays.h"
#include "options/names.h"
#include "reference/formats.h"
#include <inttypes.h>
#include <stdio.h>

static const char *const letters[] = {"Q", "K", "V", "dO"};

/* One array's sizes, whatever the order they are stored in. Those that it lacks are 1. */
struct sizes {
    int64_t batch, heads, n, d;
};

static struct sizes sizes_of(const struct npy_header *header, bool bnhd)
{
    const int64_t *last = header->shape + header->dimensions - 1;
    struct sizes sizes = {.batch = 1, .heads = 1, .n = last[-1], .d = last[0]};
    if (header->dimensions >= 3) {
        sizes.heads = bnhd ? last[-1] : last[-2];
        sizes.n = bnhd ? last[-2] : last[-1];
    }
    if (header->dimensions == 4)
        sizes.batch = last[-3];
    return sizes;
}

static struct clattn_layout layout_of(const struct sizes *sizes, bool bnhd)
{
    return bnhd ? clattn_layout_bnhd(sizes->heads, sizes->n, sizes->d)
                : clattn_layout_bhnd(sizes->heads, sizes->n, sizes->d);
}

static bool is_format(int type)
{
    return type >= CLATTN_AS_INT8 - CLATTN_AS_FP32;
}

/* What --k-format or --v-format say; -1: nothing. */
static int format_of(const struct arrays_request *request, int index)
{
    return index == ARRAYS_K ? request->k_format : index == ARRAYS_V ? request->v_format : -1;
}

/* The type of elements that an operand of this type has in a file. */
static enum npy_type stored_as(int type)
{
    return type < CLATTN_AS_BF16 ? (enum npy_type)type : type == CLATTN_AS_INT8 - CLATTN_AS_FP32 ? NPY_INT8 : NPY_UINT8;
}

static int check_unsaid(const struct arrays_request *request, int index, const char *option, struct failure *failure)
{
    const enum npy_type type = request->headers[index]->type;
    const char *name = request->names[index];
    if (type > NPY_UINT16)
        return fail(failure, STATUS_FILE, "%s: element type '%s': %s is '<f4' (fp32), '<f2' (fp16) or '<u2' (bf16)%s",
                    name, npy_type_name(type), letters[index],
                    index == ARRAYS_K || index == ARRAYS_V ? ", or what --k-format and --v-format say" : "");
    if (type == NPY_UINT16 && request->dtype != CLATTN_BF16)
        return fail(failure, STATUS_FILE, "%s: '<u2': say %s bf16 if these are bf16 numbers; else save '<f4' or '<f2'",
                    name, option);
    return STATUS_OK;
}

static int check_type(const struct arrays_request *request, int index, struct failure *failure)
{
    static const char *const options[] = {"--dtype", "--k-format", "--v-format", "--dtype"};
    const enum npy_type type = request->headers[index]->type;
    const char *name = request->names[index];
    const bool own = index == ARRAYS_K || index == ARRAYS_V; /* may have another than Q */
    const int said = own ? format_of(request, index) : request->dtype;
    if (said < 0 || (!own && type > NPY_UINT16)) {
        const int status = check_unsaid(request, index, options[index], failure);
        if (status)
            return status;
    } else if (type != stored_as(said))
        return fail(failure, STATUS_FILE, "%s: element type '%s', but %s %s needs '%s'", name, npy_type_name(type),
                    options[index], format_name(said), npy_type_name(stored_as(said)));
    if (index == ARRAYS_D_O && type != request->headers[0]->type)
        return fail(failure, STATUS_FILE, "%s: element type '%s', but Q (%s) has '%s': dO must have the same", name,
                    npy_type_name(type), request->names[0], npy_type_name(request->headers[0]->type));
    return STATUS_OK;
}

/* Elements of a row that a file has as bytes, and those that its blocks have room for. Of K, whose d is that of Q, the
 * last block may have fewer. */
static int count_elements(const struct arrays_request *request, int index, int64_t d_q, struct sizes *sizes,
                          int64_t *whole, struct failure *failure)
{
    const int type = format_of(request, index) + CLATTN_AS_FP32;
    const int64_t block = type >= CLATTN_AS_Q8_0 ? 32 : type == CLATTN_AS_INT4 ? 2 : 1;
    *whole = sizes->d;
    if (!is_format(format_of(request, index)))
        return STATUS_OK;
    const int64_t bytes = (int64_t)formats_row_bytes(type, block);
    if (sizes->d % bytes)
        return fail(failure, STATUS_FILE, "%s: its rows have %" PRId64 " bytes: %s has blocks of %" PRId64,
                    request->names[index], sizes->d, format_name(type - CLATTN_AS_FP32), bytes);
    *whole = sizes->d / bytes * block;
    sizes->d = index == ARRAYS_K && d_q <= *whole && *whole - d_q < block ? d_q : *whole;
    return STATUS_OK;
}

static int check_dimensions(const struct arrays_request *request, int index, struct failure *failure)
{
    char shape[128];
    const struct npy_header *header = request->headers[index];
    npy_shape_text(header, shape, sizeof shape);
    if (header->dimensions < 2)
        return fail(failure, STATUS_FILE,
                    "%s: %s has shape %s: [n, d], [heads, n, d] or [batch, heads, n, d] is needed",
                    request->names[index], letters[index], shape);
    if (request->pages && (index == ARRAYS_K || index == ARRAYS_V)) {
        if (header->dimensions == 4)
            return STATUS_OK;
        return fail(failure, STATUS_FILE, "%s: %s has shape %s: with --kv-pages it is %s", request->names[index],
                    letters[index], shape,
                    request->bnhd ? "[pages, keys of a page, heads, d]" : "[pages, heads, keys of a page, d]");
    }
    if (request->packed && header->dimensions > 3)
        return fail(failure, STATUS_FILE,
                    "%s: %s has shape %s: packed sequences (--cu-seqlens-q) are [total, d] or [heads, total, d]",
                    request->names[index], letters[index], shape);
    if (header->dimensions != request->headers[0]->dimensions)
        return fail(failure, STATUS_FILE, "%s: %s has shape %s, of %d dimensions, but Q has %d: all must have as many",
                    request->names[index], letters[index], shape, header->dimensions, request->headers[0]->dimensions);
    return STATUS_OK;
}

/* Says that a size of one array is not what the others ask for. */
static int mismatch(const struct arrays_request *request, int index, const char *what, int64_t value,
                    const char *wanted, int64_t right, struct failure *failure)
{
    char shape[128];
    npy_shape_text(request->headers[index], shape, sizeof shape);
    return fail(failure, STATUS_FILE, "%s: %s has shape %s: %s is %" PRId64 ", but must be %s, %" PRId64,
                request->names[index], letters[index], shape, what, value, wanted, right);
}

static int check_range(const struct arrays_request *request, int index, int64_t d, struct failure *failure)
{
    const int most = index == ARRAYS_Q && !request->headers[ARRAYS_D_O] ? CLATTN_MAX_LATENT_D : CLATTN_MAX_D;
    if (d >= 1 && d <= most)
        return STATUS_OK;
    char shape[128];
    npy_shape_text(request->headers[index], shape, sizeof shape);
    return fail(failure, STATUS_FILE,
                "%s: %s has shape %s: the head dimension (the last) is %" PRId64 ", but must be 1 to %d",
                request->names[index], letters[index], shape, d, most);
}

static int check_heads(const struct arrays_request *request, const struct sizes *q, const struct sizes *k,
                       struct failure *failure)
{
    if (q->heads == k->heads || (k->heads > 0 && q->heads % k->heads == 0))
        return STATUS_OK;
    char shape[128];
    npy_shape_text(request->headers[1], shape, sizeof shape);
    return fail(failure, STATUS_FILE, "%s: K has shape %s: its %" PRId64 " heads must divide the %" PRId64 " of Q",
                request->names[1], shape, k->heads, q->heads);
}

/* dO has the shape of O. */
static int check_d_o(const struct arrays_request *request, const struct sizes s[ARRAYS_MOST], struct failure *failure)
{
    const struct sizes *d_o = &s[ARRAYS_D_O];
    if (d_o->batch != s[0].batch)
        return mismatch(request, ARRAYS_D_O, "batch", d_o->batch, "that of Q", s[0].batch, failure);
    if (d_o->heads != s[0].heads)
        return mismatch(request, ARRAYS_D_O, "heads", d_o->heads, "that of Q", s[0].heads, failure);
    if (d_o->n != s[0].n)
        return mismatch(request, ARRAYS_D_O, "n", d_o->n, "that of Q", s[0].n, failure);
    if (d_o->d != s[2].d)
        return mismatch(request, ARRAYS_D_O, "d", d_o->d, "that of V", s[2].d, failure);
    return STATUS_OK;
}

static int check_sizes(const struct arrays_request *request, const struct sizes s[ARRAYS_MOST], struct failure *failure)
{
    int status = check_range(request, 0, s[0].d, failure);
    if (!status)
        status = check_range(request, 2, s[2].d, failure);
    if (!status && s[1].d != s[0].d)
        status = mismatch(request, 1, "d", s[1].d, "that of Q", s[0].d, failure);
    for (int i = 1; !status && i < 3 && !request->pages; i++)
        if (s[i].batch != s[0].batch)
            status = mismatch(request, i, "batch", s[i].batch, "that of Q", s[0].batch, failure);
    if (!status && s[2].batch != s[1].batch)
        status = mismatch(request, 2, "pages", s[2].batch, "that of K", s[1].batch, failure);
    if (!status && s[2].n != s[1].n)
        status = mismatch(request, 2, "n", s[2].n, "that of K", s[1].n, failure);
    if (!status && s[2].heads != s[1].heads)
        status = mismatch(request, 2, "heads", s[2].heads, "that of K", s[1].heads, failure);
    if (!status)
        status = check_heads(request, &s[0], &s[1], failure);
    return status || !request->headers[ARRAYS_D_O] ? status : check_d_o(request, s, failure);
}

/* Q's shape with one change for O; without d, and heads before rows, for the softmax vectors. */
static void describe_outputs(const struct arrays_request *request, const struct sizes *q, struct arrays *arrays)
{
    arrays->o_header = *request->headers[0];
    arrays->o_header.shape[arrays->o_header.dimensions - 1] = arrays->d_v;
    const int64_t rows[] = {q->batch, q->heads, q->n};
    arrays->row_header = (struct npy_header){.type = NPY_FLOAT32, .dimensions = arrays->o_header.dimensions - 1};
    for (int i = 0; i < arrays->row_header.dimensions; i++)
        arrays->row_header.shape[i] = rows[3 - arrays->row_header.dimensions + i];
}

static int type_of(const struct arrays_request *request, int index)
{
    const int format = format_of(request, index);
    return is_format(format) ? format : (int)request->headers[index]->type;
}

int arrays_match(const struct arrays_request *request, struct arrays *arrays, struct failure *failure)
{
    struct sizes s[ARRAYS_MOST], places[ARRAYS_MOST]; /* with whole blocks in the place of d */
    for (int i = 0; i < ARRAYS_MOST && request->headers[i]; i++) {
        int status = check_type(request, i, failure);
        if (!status)
            status = check_dimensions(request, i, failure);
        if (status)
            return status;
        s[i] = sizes_of(request->headers[i], request->bnhd);
        places[i] = s[i];
        status = count_elements(request, i, s[0].d, &s[i], &places[i].d, failure);
        if (status)
            return status;
    }
    const int status = check_sizes(request, s, failure);
    if (status)
        return status;
    const struct sizes o = {.batch = s[0].batch, .heads = s[0].heads, .n = s[0].n, .d = s[2].d};
    *arrays = (struct arrays){
        .shape = {.batch = o.batch, .heads = o.heads, .kv_heads = s[1].heads, .n_q = o.n, .n_kv = s[1].n},
        .dtype = (enum clattn_dtype)request->headers[ARRAYS_Q]->type, /* npy_type has the same order */
        .k_type = type_of(request, ARRAYS_K),
        .v_type = type_of(request, ARRAYS_V),
        .d = (int)s[0].d,
        .d_v = (int)s[2].d,
        .q = layout_of(&s[0], request->bnhd),
        .k = layout_of(&places[1], request->bnhd),
        .v = layout_of(&places[2], request->bnhd),
        .keys = {s[1].batch, s[1].heads, s[1].n},
        .o = layout_of(&o, request->bnhd)};
    if (request->pages) { /* the table of pages says how many keys there are */
        arrays->pool_pages = s[1].batch;
        arrays->page_keys = s[1].n;
        arrays->shape.n_kv = 0;
    }
    describe_outputs(request, &s[0], arrays);
    return STATUS_OK;
}
