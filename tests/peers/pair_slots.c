/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which instructions of an exponential take a slot of the unit that multiplies pairs of bf16, on processors with
 * AVX512-BF16: 64 `vdpbf16ps`, which is what a vector of 16 scores costs at d 64 (32 for the score, 32 for O), with
 * others spread among them, none of which waits for another. Prints the time beside that of the 64 alone.
 *
 *     cc -O2 -mavx512f -mavx512bf16 tests/peers/pair_slots.c -o pair_slots && ./pair_slots */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>

#define PAIRS(sum)  "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #sum "\n\tvdpbf16ps %%zmm30, %%zmm31, %%zmm1" #sum "\n\t"
#define EIGHT_PAIRS PAIRS(0) PAIRS(1) PAIRS(2) PAIRS(3)
#define FMA(n)      "vfmadd231ps %%zmm28, %%zmm29, %%zmm" #n "\n\t"
#define ADD(n)      "vaddps %%zmm28, %%zmm" #n ", %%zmm" #n "\n\t"
#define MAX(n)      "vmaxps %%zmm28, %%zmm" #n ", %%zmm" #n "\n\t"
#define SHIFT(n)    "vpslld $23, %%zmm" #n ", %%zmm" #n "\n\t"
#define ROUND(n)    "vcvtne2ps2bf16 %%zmm28, %%zmm" #n ", %%zmm" #n "\n\t"
#define COMPARE(n)  "vcmpnleps %%zmm28, %%zmm" #n ", %%k1\n\t"

/* 64 products, and after each eight of them one of a to h. */
#define SPREAD(name, a, b, c, d, e, f, g, h)                                                                           \
    static void name(long turns)                                                                                       \
    {                                                                                                                  \
        __asm__ volatile("1:\n\t" EIGHT_PAIRS a EIGHT_PAIRS b EIGHT_PAIRS c EIGHT_PAIRS d EIGHT_PAIRS e EIGHT_PAIRS f  \
                             EIGHT_PAIRS g EIGHT_PAIRS h "dec %0\n\tjnz 1b"                                            \
                         : "+r"(turns)                                                                                 \
                         :                                                                                             \
                         : "memory", "cc", "k1", "xmm0", "xmm1", "xmm2", "xmm3", "xmm10", "xmm11", "xmm12", "xmm13",   \
                           "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm28", "xmm29",   \
                           "xmm30", "xmm31");                                                                          \
    }
#define SEVEN(name, of) SPREAD(name, of(16), of(17), of(18), of(19), of(20), of(21), of(22), "")

SPREAD(alone, "", "", "", "", "", "", "", "")
SEVEN(multiply_adds, FMA)
SEVEN(adds, ADD)
SEVEN(maxima, MAX)
SEVEN(shifts, SHIFT)
SEVEN(roundings, ROUND)
SEVEN(compares, COMPARE)
/* exp2_scaled() of cl/common/cpu_vectors.clh for pairs: two to split, four of the polynomial, one by the power of two,
 * and a comparison; two adds, a shift, the row's maximum and sum, half a rounding. */
SPREAD(exponential, FMA(16) ADD(17), FMA(18) ADD(19), FMA(20) SHIFT(21), FMA(22) MAX(23), FMA(16) ADD(17),
       FMA(18) ADD(19), FMA(20), COMPARE(21) ROUND(23))

static double nanoseconds(void (*run)(long))
{
    enum { TRIES = 400, TURNS = 1000 };
    double least = 1e18;
    for (int i = 0; i < TRIES; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        run(TURNS);
        clock_gettime(CLOCK_MONOTONIC, &to);
        const double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
        if (ns < least)
            least = ns;
    }
    return least / TURNS;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(long);
    } cases[] = {{"7 multiply-adds", multiply_adds},
                 {"7 adds", adds},
                 {"7 maxima", maxima},
                 {"7 shifts", shifts},
                 {"7 roundings to pairs", roundings},
                 {"7 comparisons", compares},
                 {"an exponential", exponential}};
    if (!__builtin_cpu_supports("avx512bf16")) {
        puts("this processor has no AVX512-BF16");
        return 77;
    }
    const double pairs = nanoseconds(alone);
    printf("64 products of pairs: %.1f ns\n", pairs);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double ns = nanoseconds(cases[i].run);
        printf("with %-21s %.3f of that: the products have %.1f %% of their rate\n", cases[i].name, ns / pairs,
               100 * pairs / ns);
    }
    return 0;
}
