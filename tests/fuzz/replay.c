/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs a target on inputs that are kept: TARGET FILE...
 *
 * A file whose name ends in .corpus holds many inputs, each behind its length in four little-endian bytes (pack.py
 * writes it); any other file is one input, as libFuzzer leaves it where it finds something. */
#define _GNU_SOURCE /* sigaction */
#include "fuzz/fuzz.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *current;
static size_t number;

/* Says which input it was, and lets the signal end the process. */
static void say_where(int signal_number)
{
    char text[300];
    const int length =
        snprintf(text, sizeof text, "signal %d at input %zu of %.200s\n", signal_number, number, current);
    if (write(2, text, (size_t)length) < 0)
        _exit(99);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], say_where);
}

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) || ftell(file) < 0) {
        perror(path);
        exit(2);
    }
    *size = (size_t)ftell(file);
    uint8_t *data = malloc(*size + 1);
    rewind(file);
    if (!data || fread(data, 1, *size, file) != *size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    fclose(file);
    return data;
}

static size_t length_at(const uint8_t *data)
{
    return data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
}

/* How many inputs there were; the file has to be whole. */
static size_t run_corpus(const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (number = 0; at + 4 <= size && length_at(data + at) <= size - at - 4; number++) {
        const size_t length = length_at(data + at);
        LLVMFuzzerTestOneInput(data + at + 4, length);
        at += 4 + length;
    }
    if (at != size || !number) {
        fprintf(stderr, "%s: is no whole corpus, or has no input\n", current);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    size_t inputs = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    watch_signals();
    for (int i = 1; i < argc; i++) {
        const size_t length = strlen(argv[i]);
        size_t size = 0;
        current = argv[i];
        uint8_t *data = read_all(current, &size);
        if (length > 7 && strcmp(current + length - 7, ".corpus") == 0)
            inputs += run_corpus(data, size);
        else
            inputs += LLVMFuzzerTestOneInput(data, size) == 0;
        free(data);
    }
    printf("%zu inputs\n", inputs);
    return 0;
}
