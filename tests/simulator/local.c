/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Local memory: every access lies within what the kernel declares, reads what was written, and meets no other wave's
 * access to the same place since the last barrier, unless both read or both are atomic. */
#include "access.h"

enum { SHUFFLE_LANES = 63 };

/* Granules of an access: what is known of them is checked, and becomes what this access makes of it. */
static void check_read(struct wave *wave, const struct instruction *i, uint32_t at, uint32_t bytes)
{
    struct group *group = wave->group;
    const uint32_t me = group->stretch << WAVE_BITS | (uint32_t)(wave->number + 1);
    for (uint32_t g = at / GRANULE; g <= (at + bytes - 1) / GRANULE; g++) {
        const uint32_t writer = group->writer[g], reader = group->reader[g];
        if (!writer)
            fault(wave, i, "local memory at %u is read before it was written", at);
        if (writer != me && writer >> WAVE_BITS == group->stretch && (writer & SEVERAL) != SEVERAL)
            fault(wave, i, "local memory at %u is read, which wave %u wrote since the last barrier", at,
                  (writer & SEVERAL) - 1);
        group->reader[g] = reader >> WAVE_BITS == group->stretch && reader != me ? me | SEVERAL : me;
    }
}

static void check_write(struct wave *wave, const struct instruction *i, uint32_t at, uint32_t bytes)
{
    struct group *group = wave->group;
    const uint32_t me = group->stretch << WAVE_BITS | (uint32_t)(wave->number + 1);
    for (uint32_t g = at / GRANULE; g <= (at + bytes - 1) / GRANULE; g++) {
        const uint32_t writer = group->writer[g], reader = group->reader[g];
        if (writer && writer != me && writer >> WAVE_BITS == group->stretch)
            fault(wave, i, "local memory at %u is written, which another wave wrote since the last barrier", at);
        if (reader && reader != me && reader >> WAVE_BITS == group->stretch)
            fault(wave, i, "local memory at %u is written, which another wave read since the last barrier", at);
        group->writer[g] = me;
    }
}

/* Atomic accesses go with each other: a granule that they touched counts as written by several, if the group has
 * several waves. A group of one has no barriers in its machine code. */
static void check_atomic(struct wave *wave, const struct instruction *i, uint32_t at, uint32_t bytes)
{
    struct group *group = wave->group;
    const uint32_t me = group->stretch << WAVE_BITS | (uint32_t)(wave->number + 1);
    const bool alone = group->launch->items <= (uint32_t)group->launch->program->chip->lanes;
    for (uint32_t g = at / GRANULE; g <= (at + bytes - 1) / GRANULE; g++) {
        const uint32_t writer = group->writer[g];
        if (!writer)
            fault(wave, i, "local memory at %u is read before it was written", at);
        if (writer != me && writer >> WAVE_BITS == group->stretch && (writer & SEVERAL) != SEVERAL)
            fault(wave, i, "local memory at %u is changed, which another wave wrote since the last barrier", at);
        group->writer[g] = alone ? me : me | SEVERAL;
    }
}

static uint32_t place_of(struct wave *wave, const struct instruction *i, uint32_t base, int offset)
{
    const uint32_t at = base + (uint32_t)offset, size = wave->group->launch->local_bytes;
    if (at > size || (uint32_t)i->bytes > size - at)
        fault(wave, i, "local memory at %u, of which the kernel has %u bytes", at, size);
    if (at % (uint32_t)(i->bytes < 4 ? i->bytes : 4))
        fault(wave, i, "local memory at %u is not aligned", at);
    return at;
}

/* `places` reads, each of `bytes`, into registers behind each other. */
static void load(struct wave *wave, const struct instruction *i, int places)
{
    uint32_t room[MOST_LANES], words[8][MOST_LANES];
    const uint32_t *base = lanes_of(wave, &i->source[0], 0, room);
    const int each = i->bytes < 4 ? 1 : i->bytes / 4;
    for (int l = 0; l < wave->lanes; l++)
        for (int place = 0; wave->mask[l] && place < places; place++) {
            const uint32_t at = place_of(wave, i, base[l], i->offset[place]);
            check_read(wave, i, at, (uint32_t)i->bytes);
            for (int word = 0; word < each; word++)
                words[each * place + word][l] = widened(i, wave->group->local + at + 4 * word, wave->v[i->to.first][l]);
        }
    for (int word = 0; word < each * places; word++)
        put_lanes(wave, i, word, words[word]);
    count_issued(wave, LOCALS, &i->to);
}

void local_load(struct wave *wave, const struct instruction *i)
{
    load(wave, i, 1);
}

void local_load_2(struct wave *wave, const struct instruction *i)
{
    load(wave, i, 2);
}

static void store(struct wave *wave, const struct instruction *i, int places)
{
    uint32_t room[MOST_LANES], rooms[4][MOST_LANES];
    const uint32_t *base = lanes_of(wave, &i->source[0], 0, room);
    const int each = i->bytes < 4 ? 1 : i->bytes / 4;
    for (int place = 0; place < places; place++) {
        const uint32_t *words[4];
        for (int word = 0; word < each; word++)
            words[word] = lanes_of(wave, &i->source[1 + place], word, rooms[word]);
        for (int l = 0; l < wave->lanes; l++) {
            if (!wave->mask[l])
                continue;
            const uint32_t at = place_of(wave, i, base[l], i->offset[place]);
            check_write(wave, i, at, (uint32_t)i->bytes);
            for (int word = 0; word < each; word++)
                narrow(i, words[word][l], wave->group->local + at + 4 * word);
        }
    }
    count_issued(wave, LOCALS, NULL);
    wave->last_write[LOCALS] = wave->issued[LOCALS];
}

void local_store(struct wave *wave, const struct instruction *i)
{
    store(wave, i, 1);
}

void local_store_2(struct wave *wave, const struct instruction *i)
{
    store(wave, i, 2);
}

static uint32_t changed(enum change change, uint32_t old, uint32_t x)
{
    switch (change) {
    case CHANGE_ADD:
        return old + x;
    case CHANGE_AND:
        return old & x;
    case CHANGE_OR:
        return old | x;
    case CHANGE_XOR:
        return old ^ x;
    case CHANGE_MAX_SIGNED:
        return (int32_t)old > (int32_t)x ? old : x;
    case CHANGE_MIN_SIGNED:
        return (int32_t)old < (int32_t)x ? old : x;
    case CHANGE_MAX:
        return old > x ? old : x;
    case CHANGE_MIN:
        return old < x ? old : x;
    case CHANGE_ADD_FLOAT:
        return as_bits(as_float(old) + as_float(x));
    default:
        return x; /* CHANGE_SWAP */
    }
}

void local_atomic(struct wave *wave, const struct instruction *i)
{
    uint32_t rooms[2][MOST_LANES], old[MOST_LANES];
    const uint32_t *base = lanes_of(wave, &i->source[0], 0, rooms[0]), *x = lanes_of(wave, &i->source[1], 0, rooms[1]);
    for (int l = 0; l < wave->lanes; l++) {
        if (!wave->mask[l])
            continue;
        const uint32_t at = place_of(wave, i, base[l], i->offset[0]);
        check_atomic(wave, i, at, 4);
        memcpy(&old[l], wave->group->local + at, 4);
        const uint32_t value = changed((enum change)i->target, old[l], x[l]);
        memcpy(wave->group->local + at, &value, 4);
    }
    if (i->to.words)
        put_lanes(wave, i, 0, old);
    count_issued(wave, LOCALS, i->to.words ? &i->to : NULL);
    wave->last_write[LOCALS] = wave->issued[LOCALS];
}

/* What another lane has, by its number times four: local memory's wires, not its cells. From a lane that is off comes
 * nothing that could be relied on. */
void local_bpermute(struct wave *wave, const struct instruction *i)
{
    uint32_t rooms[2][MOST_LANES], result[MOST_LANES] = {0};
    const uint32_t *from = lanes_of(wave, &i->source[0], 0, rooms[0]), *x = lanes_of(wave, &i->source[1], 0, rooms[1]);
    for (int l = 0; l < wave->lanes; l++) {
        const int lane = (int)((from[l] + (uint32_t)i->offset[0]) / 4 & SHUFFLE_LANES) % wave->lanes;
        if (wave->mask[l] && !wave->mask[lane])
            fault(wave, i, "lane %d takes what lane %d has, which is off", l, lane);
        result[l] = x[lane];
    }
    put_lanes(wave, i, 0, result);
    count_issued(wave, LOCALS, &i->to);
}
