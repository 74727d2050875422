/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/npy.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A .npy file is "\x93NUMPY", two bytes of version, the header's length (two bytes in version 1, four after), and a
 * header that is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [NPY_FLOAT32] = {"<f4", 4}, [NPY_FLOAT16] = {"<f2", 2}, [NPY_UINT16] = {"<u2", 2}, [NPY_BOOL] = {"|b1", 1},
    [NPY_UINT8] = {"|u1", 1},   [NPY_INT32] = {"<i4", 4},   [NPY_INT64] = {"<i8", 8},  [NPY_INT8] = {"|i1", 1}};

const char *npy_type_name(enum npy_type type)
{
    return types[type].name;
}

size_t npy_type_size(enum npy_type type)
{
    return types[type].size;
}

void npy_shape_text(const struct npy_header *header, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < header->dimensions && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, i ? ", " : "", header->shape[i]);
    if (length < size)
        snprintf(text + length, size - length, header->dimensions == 1 ? ",)" : ")");
}

size_t npy_data_bytes(const struct npy_header *header)
{
    size_t bytes = npy_type_size(header->type);
    for (int i = 0; i < header->dimensions; i++)
        bytes *= (size_t)header->shape[i];
    return bytes;
}

/* Where the parser stands in the dictionary, and for whom it speaks. */
struct parser {
    const char *name, *at, *end;
    struct failure *failure;
};

static void skip_space(struct parser *parser)
{
    while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\n' || *parser->at == '\t'))
        parser->at++;
}

static bool take(struct parser *parser, char wanted)
{
    skip_space(parser);
    if (parser->at == parser->end || *parser->at != wanted)
        return false;
    parser->at++;
    return true;
}

static int malformed(struct parser *parser, const char *expected)
{
    return fail(parser->failure, STATUS_FILE, "%s: not a .npy header: expected %s", parser->name, expected);
}

static int parse_string(struct parser *parser, char *text, size_t size)
{
    skip_space(parser);
    const char quote = parser->at < parser->end ? *parser->at : '\0';
    if (quote != '\'' && quote != '"')
        return malformed(parser, "a string in quotes");
    const char *start = ++parser->at;
    const char *close = memchr(start, quote, (size_t)(parser->end - start));
    if (!close || (size_t)(close - start) >= size)
        return malformed(parser, "a short string in quotes");
    memcpy(text, start, (size_t)(close - start));
    text[close - start] = '\0';
    parser->at = close + 1;
    return STATUS_OK;
}

static int parse_type(struct parser *parser, enum npy_type *type)
{
    char text[64];
    skip_space(parser);
    if (parser->at < parser->end && *parser->at == '[')
        return fail(parser->failure, STATUS_FILE,
                    "%s: holds records of several fields; save a plain array of '<f4', '<f2' or '<u2'", parser->name);
    const int status = parse_string(parser, text, sizeof text);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!strcmp(text, types[i].name)) {
            *type = (enum npy_type)i;
            return STATUS_OK;
        }
    }
    const char *hint = text[0] == '>' ? "it is big-endian; " : strchr(text, 'O') ? "it holds Python objects; " : "";
    return fail(parser->failure, STATUS_FILE,
                "%s: element type '%s': %sconvert it to '<f4' (fp32), '<f2' (fp16) or '<u2' (bf16); masks to '|b1', "
                "lengths to '<i4'",
                parser->name, text, hint);
}

static int parse_order(struct parser *parser)
{
    skip_space(parser);
    const size_t left = (size_t)(parser->end - parser->at);
    if (left >= 5 && !memcmp(parser->at, "False", 5)) {
        parser->at += 5;
        return STATUS_OK;
    }
    if (left >= 4 && !memcmp(parser->at, "True", 4))
        return fail(parser->failure, STATUS_FILE,
                    "%s: in Fortran order; save numpy.ascontiguousarray(a), which is in C order", parser->name);
    return malformed(parser, "True or False");
}

static int parse_length(struct parser *parser, int64_t *length)
{
    skip_space(parser);
    int64_t value = 0;
    const char *start = parser->at;
    for (; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9'; parser->at++) {
        if (value > (INT64_MAX - 9) / 10)
            return malformed(parser, "lengths below 2^63");
        value = value * 10 + (*parser->at - '0');
    }
    if (parser->at == start)
        return malformed(parser, "a shape of lengths such as (8, 1024, 64)");
    if (parser->at < parser->end && *parser->at == 'L') /* Python 2 wrote long integers so */
        parser->at++;
    *length = value;
    return STATUS_OK;
}

static int parse_shape(struct parser *parser, struct npy_header *header)
{
    if (!take(parser, '('))
        return malformed(parser, "a shape in parentheses");
    header->dimensions = 0;
    while (!take(parser, ')')) {
        int64_t length = 0;
        const int status = parse_length(parser, &length);
        if (status)
            return status;
        if (header->dimensions == NPY_MAX_DIMENSIONS)
            return fail(parser->failure, STATUS_FILE, "%s: has more than %d dimensions; at most [batch, heads, n, d]",
                        parser->name, NPY_MAX_DIMENSIONS);
        header->shape[header->dimensions++] = length;
        if (!take(parser, ',') && !(parser->at < parser->end && *parser->at == ')'))
            return malformed(parser, "',' or ')' in the shape");
    }
    if (!header->dimensions)
        return fail(parser->failure, STATUS_FILE, "%s: is a single number; at least [n, d] is needed", parser->name);
    return STATUS_OK;
}

enum { HAS_TYPE = 1, HAS_ORDER = 2, HAS_SHAPE = 4 };

static int parse_entry(struct parser *parser, struct npy_header *header, int *seen)
{
    char key[32];
    int status = parse_string(parser, key, sizeof key);
    if (!status && !take(parser, ':'))
        status = malformed(parser, "':' after a key");
    if (status)
        return status;
    if (!strcmp(key, "descr")) {
        *seen |= HAS_TYPE;
        return parse_type(parser, &header->type);
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= HAS_ORDER;
        return parse_order(parser);
    }
    if (!strcmp(key, "shape")) {
        *seen |= HAS_SHAPE;
        return parse_shape(parser, header);
    }
    return malformed(parser, "the keys 'descr', 'fortran_order' and 'shape'");
}

static int parse_dictionary(struct parser *parser, struct npy_header *header)
{
    int seen = 0;
    if (!take(parser, '{'))
        return malformed(parser, "'{'");
    while (!take(parser, '}')) {
        const int status = parse_entry(parser, header, &seen);
        if (status)
            return status;
        if (!take(parser, ',') && !(parser->at < parser->end && *parser->at == '}'))
            return malformed(parser, "',' or '}'");
    }
    if (seen != (HAS_TYPE | HAS_ORDER | HAS_SHAPE))
        return malformed(parser, "all of the keys 'descr', 'fortran_order' and 'shape'");
    return STATUS_OK;
}

/* Whether the data's size in bytes, and the strides of the tensor, stay below 2^63. */
static bool size_fits(const struct npy_header *header)
{
    int64_t bytes = (int64_t)npy_type_size(header->type);
    for (int i = 0; i < header->dimensions; i++) {
        const int64_t length = header->shape[i] ? header->shape[i] : 1;
        if (bytes > INT64_MAX / length)
            return false;
        bytes *= length;
    }
    return true;
}

static int check_size(const char *name, const struct npy_header *header, size_t available, struct failure *failure)
{
    char shape[128];
    npy_shape_text(header, shape, sizeof shape);
    if (!size_fits(header))
        return fail(failure, STATUS_FILE, "%s: shape %s: too large to address", name, shape);
    const size_t needed = npy_data_bytes(header);
    if (needed > available)
        return fail(failure, STATUS_FILE, "%s: truncated: shape %s of '%s' needs %zu bytes of data, the file has %zu",
                    name, shape, npy_type_name(header->type), needed, available);
    return STATUS_OK;
}

static size_t little_endian(const unsigned char *bytes, size_t count)
{
    size_t value = 0;
    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

int npy_parse_header(const char *name, const void *file, size_t size, struct npy_header *header, size_t *data_offset,
                     struct failure *failure)
{
    const unsigned char *bytes = file;
    if (size < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return fail(failure, STATUS_FILE, "%s: not a .npy file (numpy.save writes them)", name);
    if (size < 8)
        return fail(failure, STATUS_FILE, "%s: truncated: ends in its header", name);
    if (bytes[6] < 1 || bytes[6] > 3)
        return fail(failure, STATUS_FILE, "%s: .npy version %d.%d: versions 1 to 3 are known", name, bytes[6],
                    bytes[7]);
    const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
    if (size < 8 + length_bytes)
        return fail(failure, STATUS_FILE, "%s: truncated: ends in its header", name);
    const size_t length = little_endian(bytes + 8, length_bytes), start = 8 + length_bytes;
    if (length > size - start)
        return fail(failure, STATUS_FILE, "%s: truncated: a header of %zu bytes, the file has %zu", name, length,
                    size - start);
    const char *text = (const char *)bytes + start;
    struct parser parser = {.name = name, .at = text, .end = text + length, .failure = failure};
    const int status = parse_dictionary(&parser, header);
    if (status)
        return status;
    *data_offset = start + length;
    return check_size(name, header, size - *data_offset, failure);
}
