/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/binary_format.h"
#include "plan/hash.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0, VERSION = 8, IDENTITY_LENGTH = 12, PAYLOAD_LENGTH = 16, CHECKSUM = 24, HEADER = 40 };

static const unsigned char magic[8] = {'c', 'l', 'a', 't', 't', 'n', 0x1a, '\n'};

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *at, int bytes)
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
    put(both, before.low, 8);
    put(both + 8, before.high, 8);
    put(both + 16, after.low, 8);
    put(both + 24, after.high, 8);
    const struct cla_hash whole = cla_hash_bytes(both, sizeof both);
    put(result, whole.low, 8);
    put(result + 8, whole.high, 8);
}

void *cla_binary_encode(const char *identity, const void *payload, size_t payload_size, size_t *size)
{
    const size_t identity_length = strlen(identity);
    if (identity_length > UINT32_MAX || payload_size > SIZE_MAX / 2)
        return NULL;
    *size = HEADER + identity_length + payload_size;
    unsigned char *file = malloc(*size);
    if (!file)
        return NULL;
    memcpy(file + MAGIC, magic, sizeof magic);
    put(file + VERSION, CLA_BINARY_VERSION, 4);
    put(file + IDENTITY_LENGTH, identity_length, 4);
    put(file + PAYLOAD_LENGTH, payload_size, 8);
    memcpy(file + HEADER, identity, identity_length);
    if (payload_size)
        memcpy(file + HEADER + identity_length, payload, payload_size);
    checksum(file, *size, file + CHECKSUM);
    return file;
}

bool cla_binary_decode(const void *data, size_t size, const char *identity, const void **payload, size_t *payload_size)
{
    const unsigned char *file = data;
    if (size < HEADER || memcmp(file + MAGIC, magic, sizeof magic) != 0 || get(file + VERSION, 4) != CLA_BINARY_VERSION)
        return false;
    const uint64_t identity_length = get(file + IDENTITY_LENGTH, 4), length = get(file + PAYLOAD_LENGTH, 8);
    if (identity_length > size - HEADER || length != size - HEADER - identity_length)
        return false;
    if (identity_length != strlen(identity) || memcmp(file + HEADER, identity, identity_length) != 0)
        return false;
    unsigned char expected[16];
    checksum(file, size, expected);
    if (memcmp(expected, file + CHECKSUM, sizeof expected) != 0)
        return false;
    *payload = file + HEADER + identity_length;
    *payload_size = (size_t)length;
    return true;
}
