/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined __SANITIZE_ADDRESS__
enum { WATCHED = 1 };
#elif defined __has_feature
#if __has_feature(address_sanitizer)
enum { WATCHED = 1 };
#else
enum { WATCHED = 0 };
#endif
#else
enum { WATCHED = 0 };
#endif

enum { PAGE = 4096 };

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static size_t pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

/* `size` bytes in front of a page that nobody may touch. */
static unsigned char *before_guard(size_t size)
{
    const size_t body = pages(size);
    unsigned char *map = mmap(NULL, body + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_REQUIRE(map != MAP_FAILED);
    FUZZ_REQUIRE(mprotect(map + body, PAGE, PROT_NONE) == 0);
    return map + body - size;
}

void *fuzz_exact(const void *data, size_t size)
{
    unsigned char *copy = WATCHED ? malloc(size ? size : 1) : before_guard(size);
    FUZZ_REQUIRE(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

void fuzz_release(void *copy, size_t size)
{
    if (WATCHED)
        free(copy);
    else if (copy)
        munmap((unsigned char *)copy + size - pages(size), pages(size) + PAGE);
}

char *fuzz_terminated(const void *data, size_t size)
{
    char *copy = WATCHED ? malloc(size + 1) : (char *)before_guard(size + 1);
    FUZZ_REQUIRE(copy);
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

void fuzz_take(struct fuzz_bytes *bytes, void *to, size_t count)
{
    const size_t taken = count < bytes->left ? count : bytes->left;
    memset(to, 0, count);
    if (taken)
        memcpy(to, bytes->at, taken);
    bytes->at += taken;
    bytes->left -= taken;
}

uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    uint8_t byte;
    fuzz_take(bytes, &byte, 1);
    return byte;
}

uint64_t fuzz_number(struct fuzz_bytes *bytes)
{
    const uint8_t kind = fuzz_byte(bytes);
    uint64_t value = 0;
    if (kind < 64)
        return kind;
    if (kind < 128)
        return UINT64_C(1) << (kind - 64);
    if (kind < 192)
        return (UINT64_C(1) << (kind - 128)) - 1;
    fuzz_take(bytes, &value, kind < 208 ? 1 : kind < 224 ? 2 : kind < 240 ? 4 : 8);
    return value;
}
