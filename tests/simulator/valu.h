/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Functions of one lane made into functions of all: A, B and C are the sources' words of a lane. */
#ifndef SIMULATED_VALU_H
#define SIMULATED_VALU_H

#include "lanes.h"
#include "operations.h"

#define ONE(name, expression)                                                                                          \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        uint32_t room[MOST_LANES], result[MOST_LANES];                                                                 \
        const uint32_t *a = lanes_of(wave, &i->source[0], 0, room);                                                    \
        for (int l = 0; l < LANES(wave); l++) {                                                                        \
            const uint32_t A = a[l];                                                                                   \
            result[l] = (expression);                                                                                  \
        }                                                                                                              \
        put_lanes(wave, i, 0, result);                                                                                 \
    }

#define TWO(name, expression)                                                                                          \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        uint32_t room[2][MOST_LANES], result[MOST_LANES];                                                              \
        const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]);                                                 \
        const uint32_t *b = lanes_of(wave, &i->source[1], 0, room[1]);                                                 \
        for (int l = 0; l < LANES(wave); l++) {                                                                        \
            const uint32_t A = a[l], B = b[l];                                                                         \
            result[l] = (expression);                                                                                  \
        }                                                                                                              \
        put_lanes(wave, i, 0, result);                                                                                 \
    }

#define THREE(name, expression)                                                                                        \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        uint32_t room[3][MOST_LANES], result[MOST_LANES];                                                              \
        const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]);                                                 \
        const uint32_t *b = lanes_of(wave, &i->source[1], 0, room[1]);                                                 \
        const uint32_t *c = lanes_of(wave, &i->source[2], 0, room[2]);                                                 \
        for (int l = 0; l < LANES(wave); l++) {                                                                        \
            const uint32_t A = a[l], B = b[l], C = c[l];                                                               \
            result[l] = (expression);                                                                                  \
        }                                                                                                              \
        put_lanes(wave, i, 0, result);                                                                                 \
    }

#define FA as_float(A)
#define FB as_float(B)
#define FC as_float(C)

#endif
