/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/binary_format.h"
#include "plan/hash.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0, VERSION = 8, IDENTITY_LENGTH = 12, PAYLOAD_LENGTH = 16, CHECKSUM = 24, HEADER = 40 };

static const unsigned char magic[8] = {'c', 'l', 'a', 't', 't', 'n', 0x1a, '\n'};

void cla_binary_put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

uint64_t cla_binary_get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* The hash of the file around its checksum field: what is before it and what is after it, hashed apart and then
 * together. */
static void checksum(const unsigned char *file, size_t size, unsigned char result[16])
{
    const struct cla_hash before = cla_hash_bytes(file, CHECKSUM);
    const struct cla_hash after = cla_hash_bytes(file + HEADER, size - HEADER);
    unsigned char both[32];
    cla_binary_put(both, before.low, 8);
    cla_binary_put(both + 8, before.high, 8);
    cla_binary_put(both + 16, after.low, 8);
    cla_binary_put(both + 24, after.high, 8);
    const struct cla_hash whole = cla_hash_bytes(both, sizeof both);
    cla_binary_put(result, whole.low, 8);
    cla_binary_put(result + 8, whole.high, 8);
}

void *cla_binary_begin(const char *identity, size_t payload_size, void **payload, size_t *size)
{
    const size_t identity_length = strlen(identity);
    if (identity_length > UINT32_MAX || payload_size > SIZE_MAX / 2)
        return NULL;
    *size = HEADER + identity_length + payload_size;
    unsigned char *file = malloc(*size);
    if (!file)
        return NULL;
    memcpy(file + MAGIC, magic, sizeof magic);
    cla_binary_put(file + VERSION, CLA_BINARY_VERSION, 4);
    cla_binary_put(file + IDENTITY_LENGTH, identity_length, 4);
    cla_binary_put(file + PAYLOAD_LENGTH, payload_size, 8);
    memcpy(file + HEADER, identity, identity_length);
    *payload = file + HEADER + identity_length;
    return file;
}

void cla_binary_seal(void *file, size_t size)
{
    checksum(file, size, (unsigned char *)file + CHECKSUM);
}

void *cla_binary_encode(const char *identity, const void *payload, size_t payload_size, size_t *size)
{
    void *place = NULL, *file = cla_binary_begin(identity, payload_size, &place, size);
    if (!file)
        return NULL;
    if (payload_size)
        memcpy(place, payload, payload_size);
    cla_binary_seal(file, *size);
    return file;
}

enum cla_binary_verdict cla_binary_take_apart(const void *data, size_t size, struct cla_binary_parts *parts)
{
    const unsigned char *file = data;
    unsigned char expected[16];
    if (size < HEADER || memcmp(file + MAGIC, magic, sizeof magic) != 0)
        return CLA_BINARY_FOREIGN;
    if (cla_binary_get(file + VERSION, 4) != CLA_BINARY_VERSION)
        return CLA_BINARY_VERSION_OTHER;
    const uint64_t identity_length = cla_binary_get(file + IDENTITY_LENGTH, 4),
                   length = cla_binary_get(file + PAYLOAD_LENGTH, 8);
    if (identity_length > size - HEADER || length != size - HEADER - identity_length)
        return CLA_BINARY_CUT;
    checksum(file, size, expected);
    if (memcmp(expected, file + CHECKSUM, sizeof expected) != 0)
        return CLA_BINARY_DAMAGED;
    *parts = (struct cla_binary_parts){.identity = (const char *)file + HEADER,
                                       .identity_length = (size_t)identity_length,
                                       .payload = file + HEADER + identity_length,
                                       .payload_size = (size_t)length};
    return CLA_BINARY_WHOLE;
}

bool cla_binary_is_of(const struct cla_binary_parts *parts, const char *identity)
{
    return parts->identity_length == strlen(identity) && memcmp(parts->identity, identity, parts->identity_length) == 0;
}

bool cla_binary_decode(const void *file, size_t size, const char *identity, const void **payload, size_t *payload_size)
{
    struct cla_binary_parts parts;
    if (cla_binary_take_apart(file, size, &parts) != CLA_BINARY_WHOLE || !cla_binary_is_of(&parts, identity))
        return false;
    *payload = parts.payload;
    *payload_size = parts.payload_size;
    return true;
}
