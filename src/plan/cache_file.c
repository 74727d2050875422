/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/cache_file.h"
#include "plan/binary_format.h"
#include "plan/checked.h"
#include "plan/problem.h"
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, NUMBER = 4, HEAD = 2 * WORD };

static int64_t pages_of(const struct cla_cache_pages *pages, int64_t sequence)
{
    return cla_ceil_div(cla_cache_longest(pages, sequence), pages->page_keys);
}

bool cla_cache_file_bytes(const struct cla_cache_pages *pages, size_t page_bytes, size_t *table, size_t *elements)
{
    int64_t listed = 0, bytes = (int64_t)page_bytes;
    for (int64_t i = 0; i < pages->sequences; i++)
        listed += pages_of(pages, i);
    *table = (size_t)(HEAD + pages->layers * pages->sequences * WORD + listed * NUMBER);
    if (!cla_multiply(bytes, pages->pages, &bytes) || !cla_multiply(bytes, pages->layers, &bytes))
        return false;
    *elements = (size_t)bytes;
    return *elements <= SIZE_MAX / 2;
}

void cla_cache_file_put_table(const struct cla_cache_pages *pages, unsigned char *at)
{
    const int64_t lengths = pages->layers * pages->sequences;
    cla_binary_put(at, (uint64_t)pages->sequences, WORD);
    cla_binary_put(at + WORD, (uint64_t)pages->pages, WORD);
    at += HEAD;
    for (int64_t i = 0; i < lengths; i++, at += WORD)
        cla_binary_put(at, (uint64_t)pages->lengths[i], WORD);
    for (int64_t i = 0; i < pages->sequences; i++)
        for (int64_t place = 0; place < pages_of(pages, i); place++, at += NUMBER)
            cla_binary_put(at, (uint64_t)pages->lists[i].numbers[place], NUMBER);
}

/* A file on its way in. */
struct reader {
    const char *name;
    const unsigned char *at;
    size_t left;
    struct cla_error *error;
};

static clattn_status fail(const struct reader *reader, const char *what)
{
    return cla_fail(reader->error, CLATTN_FILE_DAMAGED, "%s: %s", reader->name, what);
}

/* Words that are shown as they are. */
static int shown(const struct cla_binary_parts *parts)
{
    size_t length = 0;
    while (length < parts->identity_length && length < 256 && parts->identity[length] >= ' ' &&
           parts->identity[length] <= '~')
        length++;
    return (int)length;
}

static clattn_status open_file(struct reader *reader, const void *file, size_t size, const char *identity)
{
    struct cla_binary_parts parts;
    switch (cla_binary_take_apart(file, size, &parts)) {
    case CLA_BINARY_FOREIGN:
        return fail(reader, "is no file that clattn_host_cache_save has written");
    case CLA_BINARY_VERSION_OTHER:
        return fail(reader, "is of another version of the format than this library reads");
    case CLA_BINARY_CUT:
        return fail(reader, "is longer or shorter than it says: it was cut, or written in part");
    case CLA_BINARY_DAMAGED:
        return fail(reader, "has another checksum than it says: it is damaged");
    case CLA_BINARY_WHOLE:
        break;
    }
    if (!cla_binary_is_of(&parts, identity))
        return cla_fail(reader->error, CLATTN_INVALID_ARGUMENT,
                        "%s is of another cache: it says \"%.*s\", and this is \"%s\"", reader->name, shown(&parts),
                        parts.identity, identity);
    reader->at = parts.payload;
    reader->left = parts.payload_size;
    return CLATTN_SUCCESS;
}

/* The next number, where there is one and it is at most `limit`. */
static bool next(struct reader *reader, int bytes, int64_t limit, int64_t *number)
{
    if (reader->left < (size_t)bytes)
        return false;
    const uint64_t value = cla_binary_get(reader->at, bytes);
    reader->at += bytes;
    reader->left -= (size_t)bytes;
    *number = (int64_t)value;
    return value <= (uint64_t)limit;
}

static clattn_status take_head(struct reader *reader, const struct cla_cache_pages *pages, int64_t *sequences,
                               int64_t *count)
{
    if (!next(reader, WORD, INT32_MAX, sequences) || !next(reader, WORD, INT32_MAX, count))
        return fail(reader, "has no number of sequences or pages that can be");
    if (*sequences > pages->sequences)
        return cla_fail(reader->error, CLATTN_TOO_LARGE, "%s has %lld sequences, and this cache %lld", reader->name,
                        (long long)*sequences, (long long)pages->sequences);
    if (*count > pages->most)
        return cla_fail(reader->error, CLATTN_TOO_LARGE,
                        "%s has %lld pages: max_bytes or one allocation of the device allows %lld", reader->name,
                        (long long)*count, (long long)pages->most);
    return CLATTN_SUCCESS;
}

static clattn_status take_lengths(struct reader *reader, struct cla_cache_pages *pages, int64_t sequences)
{
    for (int64_t layer = 0; layer < pages->layers; layer++)
        for (int64_t i = 0; i < sequences; i++)
            if (!next(reader, WORD, CLA_MAX_LENGTH, cla_cache_length(pages, layer, i)))
                return fail(reader, "has a length that cannot be, or lacks one");
    return CLATTN_SUCCESS;
}

static clattn_status take_lists(struct reader *reader, struct cla_cache_pages *pages, int64_t sequences, int64_t count)
{
    for (int64_t i = 0; i < sequences; i++) {
        const int64_t wanted = pages_of(pages, i);
        if ((uint64_t)wanted > reader->left / NUMBER)
            return fail(reader, "lacks the numbers of pages");
        for (int64_t place = 0, number; place < wanted; place++) {
            if (!next(reader, NUMBER, INT32_MAX, &number) || number >= count)
                return fail(reader, "has the number of a page that is not in it");
            if (!cla_cache_pages_share(pages, i, (int32_t)number))
                return cla_fail(reader->error, CL_OUT_OF_HOST_MEMORY, "no host memory for the pages of %s",
                                reader->name);
        }
    }
    return CLATTN_SUCCESS;
}

clattn_status cla_cache_file_take(const char *name, const void *file, size_t size, const char *identity,
                                  size_t page_bytes, struct cla_cache_pages *pages, const unsigned char **elements,
                                  struct cla_error *error)
{
    struct reader reader = {.name = name, .error = error};
    int64_t sequences = 0, count = 0, bytes = (int64_t)page_bytes;
    clattn_status status = open_file(&reader, file, size, identity);
    if (!status)
        status = take_head(&reader, pages, &sequences, &count);
    if (status)
        return status;
    /* Before room is made for so many: the file has the elements of each. */
    if (!cla_multiply(bytes, count, &bytes) || !cla_multiply(bytes, pages->layers, &bytes) ||
        (uint64_t)bytes > reader.left)
        return fail(&reader, "lacks the elements of its pages");
    if (!cla_cache_pages_know(pages, count))
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the pages of %s", name);
    status = take_lengths(&reader, pages, sequences);
    if (!status)
        status = take_lists(&reader, pages, sequences, count);
    if (!status && (uint64_t)bytes != reader.left)
        status = fail(&reader, "has more or fewer elements than its pages take");
    if (!status)
        *elements = reader.at;
    return status;
}
