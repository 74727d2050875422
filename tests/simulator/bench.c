/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct chip bench_rdna3 = {"gfx1100", RDNA3, 32}, bench_cdna3 = {"gfx942", CDNA3, 64};

const uint32_t edges[EDGES] = {0,          1,          2,          31,         32,         0xff,       0x7fff,
                               0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0x80000001,
                               0x00800000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40490fdb, 0x7f7fffff, 0xff7fffff,
                               0x7f800000, 0xff800000, 0x7fc00000, 0x12345678, 0x0c0d0206, 0x4f7ffffe, 0x3c00bc00};

struct bench bench;

bool bench_prepare(const struct chip *chip, const char *text)
{
    char *listing = malloc(strlen(text) + 40), error[300];
    sprintf(listing, "\t%s // 000000001000: 0\n", text);
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
    bench.program.code[0].run(&bench.wave, &bench.program.code[0]);
}

static uint32_t one_nan(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : x;
}

bool same_number(uint32_t a, uint32_t b)
{
    return one_nan(a) == one_nan(b);
}
