/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What fuzz targets share. A target is a file with LLVMFuzzerTestOneInput(). It is linked twice: with libFuzzer
 * (-Dfuzz=true, clang), and with replay.c, which runs the committed corpus in any build. */

/* Returns 0. Must not keep anything. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of the input that ends where memory ends: at a guard page, or where the address sanitizer watches. A read of
 * one byte beyond it is seen. Released by fuzz_release() with the same size. */
void *fuzz_exact(const void *data, size_t size);
void fuzz_release(void *copy, size_t size);

/* The same with a 0 behind it, which is the last byte of memory; size + 1 to fuzz_release(). */
char *fuzz_terminated(const void *data, size_t size);

/* Ends the process where a property does not hold, with a message. */
#define FUZZ_REQUIRE(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(__FILE__, __LINE__, #condition);                                                                 \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* Input taken from the front. Behind its end there are zeros. */
struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};

void fuzz_take(struct fuzz_bytes *bytes, void *to, size_t count);
uint8_t fuzz_byte(struct fuzz_bytes *bytes);

/* Small numbers, powers of two and their neighbours, and any number: each is short to write, so that a mutation meets
 * it. */
uint64_t fuzz_number(struct fuzz_bytes *bytes);

#endif
