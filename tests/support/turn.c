/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/turn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The turn that is asked for; -1: all. */
static long wanted_turn(void)
{
    static bool said;
    const char *wanted = getenv("CLATTN_TEST_TURN");
    char *end = NULL;
    if (test_is_full() || (wanted ? !strcmp(wanted, "all") : !test_is_on_cpu()))
        return -1;
    const long turn = wanted ? strtol(wanted, &end, 10) : 0;
    if (wanted && (end == wanted || *end || turn < 0)) {
        fprintf(stderr, "CLATTN_TEST_TURN is '%s': a number from 0 on is wanted, or 'all'\n", wanted);
        exit(1);
    }
    if (!said)
        fprintf(stderr, "CLATTN_TEST_TURN=%ld\n", turn);
    said = true;
    return turn;
}

bool test_is_turn(int place, int of)
{
    const long turn = wanted_turn();
    return turn < 0 || place % of == turn % of;
}

/* How many skeletons of its direction that are for GPUs stand before one. */
static int place_of(const struct cla_skeleton *skeleton)
{
    int place = 0;
    for (const struct cla_skeleton *const *next = cla_skeletons; *next != skeleton; next++)
        place += (*next)->backward == skeleton->backward && !(*next)->for_cpus && test_is_for(*next);
    return place;
}

bool test_is_turn_of(const struct cla_skeleton *skeleton, const char *scene)
{
    int place = place_of(skeleton);
    for (const char *letter = scene; *letter; letter++)
        place += (unsigned char)*letter;
    return skeleton->for_cpus || getenv("CLATTN_TEST_SKELETON") || test_is_turn(place, 2);
}
