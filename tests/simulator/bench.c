/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct chip bench_rdna3 = {"gfx1100", RDNA3, 32}, bench_rdna4 = {"gfx1201", RDNA4, 32},
                  bench_cdna2 = {"gfx90a", CDNA2, 64}, bench_cdna3 = {"gfx942", CDNA3, 64};

const uint32_t edges[EDGES] = {0,          1,          2,          31,         32,         0xff,       0x7fff,
                               0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0x80000001,
                               0x00800000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40490fdb, 0x7f7fffff, 0xff7fffff,
                               0x7f800000, 0xff800000, 0x7fc00000, 0x12345678, 0x0c0d0206, 0x4f7ffffe, 0x3c00bc00,
                               0x007fffff, 0x00400000, 0x7f800001, 0xffa00000, 0x7e800000, 0x7f000000, 0x0b800000,
                               0x0c000000, 0x5f800000, 0x00007c00, 0xfc007bff, 0x04000001, 0x83ff7e00, 0x9e3779b9,
                               0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f, 0x165667b1, 0xd3a2646c, 0x40000000, 0x0014001a};

struct bench bench;

bool bench_prepare(const struct chip *chip, const char *text)
{
    int lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    char *listing = malloc(strlen(text) + 40 * (size_t)lines), error[300], *to = listing;
    for (int n = 0; n < lines; n++, text += strcspn(text, "\n") + (n < lines))
        to += sprintf(to, "\t%.*s // %012x: 0\n", (int)strcspn(text, "\n"), text, 0x1000 + 4 * n);
    memset(&bench, 0, sizeof bench);
    bench.kernel.name = "bench";
    const bool ok = program_decode(chip, listing, &bench.program, error, sizeof error);
    bench.launch = (struct launch){.program = &bench.program, .kernel = &bench.kernel};
    bench.group.launch = &bench.launch;
    bench.wave.group = &bench.group;
    bench.wave.lanes = chip->lanes;
    bench.wave.v = bench.registers;
    set_exec(&bench.wave, UINT64_MAX);
    return ok;
}

void bench_run(void)
{
    for (int n = 0; n < bench.program.count; n++)
        bench.program.code[n].run(&bench.wave, &bench.program.code[n]);
}

static uint32_t one_nan(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : x;
}

bool same_number(uint32_t a, uint32_t b)
{
    return one_nan(a) == one_nan(b);
}
