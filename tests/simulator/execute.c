/* SPDX-License-Identifier: BSD-2-Clause */
#include "access.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Registers that nobody has written: a NaN, and an address in no buffer. */
enum { UNSET = 0x7fc0dead };

void fault(struct wave *wave, const struct instruction *i, const char *format, ...)
{
    struct group *group = wave->group;
    const struct launch *launch = group->launch;
    va_list arguments;
    va_start(arguments, format);
    int used = snprintf(group->fault, sizeof group->fault, "%s on %s, wave %d: ", launch->kernel->name,
                        launch->program->chip->name, wave->number);
    used += vsnprintf(group->fault + used, sizeof group->fault - (size_t)used, format, arguments);
    va_end(arguments);
    if (i && (size_t)used < sizeof group->fault)
        snprintf(group->fault + used, sizeof group->fault - (size_t)used, " (0x%llx: %s)",
                 (unsigned long long)i->address, i->text);
    longjmp(group->ended, 1);
}

/* Registers as the hardware leaves them for a kernel: what user registers hold, by the descriptor's properties. */
static void set_user_registers(struct wave *wave)
{
    const struct launch *launch = wave->group->launch;
    const struct {
        int bit, words;
        uint64_t value;
    } users[] = {{0, 4, PRIVATE_LOW | (uint64_t)PRIVATE_HIGH << 32},
                 {1, 2, (uintptr_t)launch->packet},
                 {2, 2, 0},
                 {3, 2, (uintptr_t)launch->arguments},
                 {4, 2, 0},
                 {5, 2, 0},
                 {6, 1, 0}};
    int next = 0;
    for (size_t n = 0; n < sizeof users / sizeof *users; n++) {
        if (!(launch->kernel->properties >> users[n].bit & 1))
            continue;
        for (int word = 0; word < users[n].words; word++)
            wave->s[next++] = word < 2    ? (uint32_t)(users[n].value >> 32 * word)
                              : word == 2 ? PRIVATE_SIZE
                                          : PRIVATE_FORMAT;
    }
}

/* The group's number behind them, and where the wave's private memory lies; on RDNA 4 the number in trap registers. */
static void set_group(struct wave *wave, const uint32_t *place)
{
    const struct launch *launch = wave->group->launch;
    if (launch->program->chip->generation == RDNA4) {
        wave->s[TTMP + 9] = place[0];
        wave->s[TTMP + 7] = (place[1] & 0xffff) | place[2] << 16;
        return;
    }
    int next = (int)(launch->kernel->rsrc2 >> 1 & 31);
    for (int dimension = 0; dimension < 3; dimension++)
        if (launch->kernel->rsrc2 >> (7 + dimension) & 1)
            wave->s[next++] = place[dimension];
    next += launch->kernel->rsrc2 >> 10 & 1; /* the group's size */
    if (launch->program->chip->generation == CDNA2 && launch->kernel->rsrc2 & 1)
        wave->s[next] = (uint32_t)wave->number * WAVE_PRIVATE;
}

static void start_wave(struct wave *wave, struct group *group, int number, const uint32_t *place)
{
    const struct launch *launch = group->launch;
    const int lanes = launch->program->chip->lanes, first = number * lanes;
    const int active = (int)launch->items - first < lanes ? (int)launch->items - first : lanes;
    wave->group = group;
    wave->number = number;
    wave->lanes = lanes;
    wave->pc = 0;
    for (int n = 0; n < SCALARS; n++)
        wave->s[n] = UNSET;
    for (int n = 0; n < VECTORS; n++)
        for (int l = 0; l < MOST_LANES; l++)
            wave->v[n][l] = UNSET;
    set_user_registers(wave);
    set_group(wave, place);
    for (int l = 0; l < lanes; l++)
        wave->v[0][l] = (uint32_t)(first + l);
    set_exec(wave, active == MOST_LANES ? UINT64_MAX : (1ull << active) - 1);
}

/* Until it comes to a barrier, or to its end. */
static void run_wave(struct wave *wave)
{
    const struct instruction *code = wave->group->launch->program->code;
    const int count = wave->group->launch->program->count;
    struct executed *executed = &wave->group->executed;
    wave->at_barrier = false;
    while (!wave->at_barrier && !wave->done) {
        if (wave->pc >= count)
            fault(wave, NULL, "the code ends without an end");
        const struct instruction *i = &code[wave->pc++];
        if (wave->outstanding)
            check_arrived(wave, i);
        i->run(wave, i);
        executed->of[i->unit]++;
        executed->local_words += (uint64_t)i->local_words;
    }
}

static bool all_done(const struct wave *waves, int count)
{
    for (int n = 0; n < count; n++)
        if (!waves[n].done)
            return false;
    return true;
}

/* Barriers meet where each wave is at one or at its end; a wave that ended beside others at a barrier is no fault on
 * this hardware, but in OpenCL it is. */
static void run_waves(struct group *group, struct wave *waves, int count)
{
    while (!all_done(waves, count)) {
        for (int n = 0; n < count; n++)
            if (!waves[n].done)
                run_wave(&waves[n]);
        for (int n = 1; n < count; n++)
            if (waves[n].done != waves[0].done)
                fault(&waves[n], NULL, "it %s where wave 0 %s", waves[n].done ? "ends" : "waits at a barrier",
                      waves[0].done ? "ends" : "waits at a barrier");
        group->stretch++;
    }
}

/* Room of one group, and of its waves' registers. */
struct rooms {
    struct wave *waves;
    uint32_t (*registers)[MOST_LANES];
    uint8_t *scratch;
};

static bool make_rooms(struct group *group, int waves, struct rooms *rooms)
{
    const struct launch *launch = group->launch;
    const size_t granules = launch->local_bytes / GRANULE + 8, scratch = launch->kernel->private_bytes;
    *rooms = (struct rooms){.waves = calloc((size_t)waves, sizeof *rooms->waves),
                            .registers = malloc((size_t)waves * VECTORS * sizeof *rooms->registers),
                            .scratch = malloc((size_t)waves * MOST_LANES * scratch + 1)};
    group->local = malloc(launch->local_bytes + 16);
    group->writer = calloc(granules, sizeof *group->writer);
    group->reader = calloc(granules, sizeof *group->reader);
    return rooms->waves && rooms->registers && rooms->scratch && group->local && group->writer && group->reader;
}

static void free_rooms(struct group *group, struct rooms *rooms)
{
    free(rooms->waves);
    free(rooms->registers);
    free(rooms->scratch);
    free(group->local);
    free(group->writer);
    free(group->reader);
}

bool group_run(struct group *group, uint32_t x, uint32_t y, uint32_t z)
{
    const struct launch *launch = group->launch;
    const int lanes = launch->program->chip->lanes, waves = ((int)launch->items + lanes - 1) / lanes;
    const uint32_t place[3] = {x, y, z};
    struct rooms rooms;
    group->fault[0] = '\0';
    group->stretch = 1;
    if (!make_rooms(group, waves, &rooms))
        snprintf(group->fault, sizeof group->fault, "no host memory for a group");
    else if (!setjmp(group->ended)) {
        for (int n = 0; n < waves; n++) {
            rooms.waves[n].v = rooms.registers + (size_t)n * VECTORS;
            rooms.waves[n].scratch = rooms.scratch + (size_t)n * MOST_LANES * launch->kernel->private_bytes;
            start_wave(&rooms.waves[n], group, n, place);
        }
        run_waves(group, rooms.waves, waves);
    }
    free_rooms(group, &rooms);
    return !group->fault[0];
}
