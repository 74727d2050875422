/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "model/schedules.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int schedules_main(int argc, char **argv, enum machine_end (*run)(uint64_t seed), const char *(*said)(void))
{
    const char *const asked = argc > 1 ? argv[1] : getenv("CLATTN_TEST_SCHEDULES");
    const long schedules = asked ? strtol(asked, NULL, 10) : -1;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const double start = seconds();
    long done = 0;
    for (; schedules < 0 ? done < 20 || seconds() - start < 0.5 : done < schedules; done++) {
        const uint64_t seed = first + (uint64_t)done;
        const enum machine_end end = run(seed);
        if (end != MACHINE_ENDED) {
            fprintf(stderr, "seed %llu %s: %s\n", (unsigned long long)seed, end == MACHINE_STUCK ? "hangs" : "fails",
                    said());
            return 1;
        }
    }
    printf("%ld schedules from seed %llu end\n", done, (unsigned long long)first);
    return 0;
}
