/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BINARY_FORMAT_H
#define CLA_BINARY_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The format of a file in the program cache, and of a cache of keys, pure so that it can be tested byte by byte. All
 * integers are little-endian.
 *
 *     8 bytes   magic "clattn\x1a\n"
 *     4         format version (CLA_BINARY_VERSION)
 *     4         length of the identity
 *     8         length of the payload
 *     16        checksum: XXH3-128 of the hashes of what stands before and after these 16 bytes
 *     identity, payload
 *
 * The identity is the text whose hash names the file; a file is taken only if it is the same to the byte. OpenCL
 * drivers crash on damaged binaries, so nothing is handed to one that has not passed the checksum. */
#define CLA_BINARY_VERSION 1

/* Encodes into a malloc'ed block of *size bytes; NULL where memory is short. */
void *cla_binary_encode(const char *identity, const void *payload, size_t payload_size, size_t *size);

/* The same in two steps: the payload, of which *payload is the place, is written between them. */
void *cla_binary_begin(const char *identity, size_t payload_size, void **payload, size_t *size);
void cla_binary_seal(void *file, size_t size);

/* What a file is. `identity` and `payload` point into it, where it is whole. */
enum cla_binary_verdict {
    CLA_BINARY_WHOLE,
    CLA_BINARY_FOREIGN,       /* no such file at all */
    CLA_BINARY_VERSION_OTHER, /* of another version */
    CLA_BINARY_CUT,           /* longer or shorter than it says */
    CLA_BINARY_DAMAGED        /* the checksum is another */
};

struct cla_binary_parts {
    const char *identity; /* not ended by 0 */
    size_t identity_length;
    const void *payload;
    size_t payload_size;
};

enum cla_binary_verdict cla_binary_take_apart(const void *file, size_t size, struct cla_binary_parts *parts);

bool cla_binary_is_of(const struct cla_binary_parts *parts, const char *identity);

/* True, with *payload pointing into `file`, where the file is whole, of this version, and of this identity. */
bool cla_binary_decode(const void *file, size_t size, const char *identity, const void **payload, size_t *payload_size);

/* A number of so many bytes, the lowest first, as in all of the library's files. */
void cla_binary_put(unsigned char *at, uint64_t value, int bytes);
uint64_t cla_binary_get(const unsigned char *at, int bytes);

#endif
