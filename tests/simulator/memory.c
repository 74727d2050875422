/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Device memory, by vectors and by scalars, and each lane's own memory, to which registers spill. */
#include "access.h"

static const struct region *region_of(const struct launch *launch, uintptr_t from, uintptr_t to, bool writes)
{
    for (int n = 0; n < launch->regions_count; n++) {
        const struct region *region = &launch->regions[n];
        if (region->from <= from && to <= region->to && (region->writable || !writes))
            return region;
    }
    return NULL;
}

static void check_bounds(struct wave *wave, const struct instruction *i, uintptr_t at, int bytes, bool writes)
{
    const struct launch *launch = wave->group->launch;
    if (region_of(launch, at, at + (uintptr_t)bytes, writes))
        return;
    for (int n = 0; n < launch->regions_count; n++) {
        const struct region *region = &launch->regions[n];
        if (at + 4096 > region->from && at < region->to + 4096)
            fault(wave, i, "%d bytes are %s at %td of %s, which has %zu and is %s", bytes, writes ? "written" : "read",
                  (ptrdiff_t)(at - region->from), region->name, (size_t)(region->to - region->from),
                  region->writable ? "writable" : "not writable");
    }
    fault(wave, i, "%d bytes are %s in no buffer that the kernel has", bytes, writes ? "written" : "read");
}

/* Addresses of all lanes; those that are off have any. */
static void addresses(const struct wave *wave, const struct instruction *i, uintptr_t *at)
{
    uint32_t rooms[2][MOST_LANES];
    const struct source *base = &i->source[1], *address = &i->source[0];
    const uint32_t *low = lanes_of(wave, address, 0, rooms[0]);
    if (base->first != NULL_SCALAR) {
        const uintptr_t from = scalar_pair(wave, base) + (uintptr_t)(intptr_t)i->offset[0];
        for (int l = 0; l < LANES(wave); l++)
            at[l] = from + low[l];
        return;
    }
    const uint32_t *high = lanes_of(wave, address, 1, rooms[1]);
    for (int l = 0; l < LANES(wave); l++)
        at[l] = (low[l] | (uintptr_t)high[l] << 32) + (uintptr_t)(intptr_t)i->offset[0];
}

/* All lanes' bounds at once, where one buffer has them; else lane by lane. */
static void check_lanes(struct wave *wave, const struct instruction *i, const uintptr_t *at, bool writes)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int l = 0; l < wave->lanes; l++) {
        from = wave->mask[l] && at[l] < from ? at[l] : from;
        to = wave->mask[l] && at[l] > to ? at[l] : to;
    }
    if (!wave->exec || region_of(wave->group->launch, from, to + (uintptr_t)i->bytes, writes))
        return;
    for (int l = 0; l < wave->lanes; l++)
        if (wave->mask[l])
            check_bounds(wave, i, at[l], i->bytes, writes);
}

void global_load(struct wave *wave, const struct instruction *i)
{
    uintptr_t at[MOST_LANES];
    uint32_t words[4][MOST_LANES];
    addresses(wave, i, at);
    check_lanes(wave, i, at, false);
    const int each = i->bytes < 4 ? 1 : i->bytes / 4;
    for (int l = 0; l < wave->lanes; l++)
        for (int word = 0; wave->mask[l] && word < each; word++)
            words[word][l] = widened(i, (const uint8_t *)at[l] + 4 * word, wave->v[i->to.first][l]);
    for (int word = 0; word < each; word++)
        put_lanes(wave, i, word, words[word]);
    count_issued(wave, LOADS, &i->to);
}

void global_store(struct wave *wave, const struct instruction *i)
{
    uintptr_t at[MOST_LANES];
    uint32_t rooms[4][MOST_LANES];
    const uint32_t *words[4];
    addresses(wave, i, at);
    check_lanes(wave, i, at, true);
    const int each = i->bytes < 4 ? 1 : i->bytes / 4;
    for (int word = 0; word < each; word++)
        words[word] = lanes_of(wave, &i->source[2], word, rooms[word]);
    for (int l = 0; l < wave->lanes; l++)
        for (int word = 0; wave->mask[l] && word < each; word++)
            narrow(i, words[word][l], (uint8_t *)at[l] + 4 * word);
    count_issued(wave, STORES, NULL);
}

/* A lane's own memory: its offset, or a scalar's, and the instruction's. */
static uint32_t scratch_place(struct wave *wave, const struct instruction *i, uint32_t base)
{
    const uint32_t at = base + (uint32_t)i->offset[0], size = wave->group->launch->kernel->private_bytes;
    if (at > size || (uint32_t)i->bytes > size - at)
        fault(wave, i, "private memory at %u, of which the kernel has %u bytes", at, size);
    return at;
}

static void scratch(struct wave *wave, const struct instruction *i, bool writes)
{
    uint32_t rooms[4][MOST_LANES], room[MOST_LANES], words[4][MOST_LANES];
    const uint32_t size = wave->group->launch->kernel->private_bytes;
    const uint32_t *base = lanes_of(wave, &i->source[0], 0, room), *given[4];
    const int each = i->bytes < 4 ? 1 : i->bytes / 4;
    for (int word = 0; writes && word < each; word++)
        given[word] = lanes_of(wave, &i->source[2], word, rooms[word]);
    const uint32_t scalar = scalar_of(wave, &i->source[1]);
    for (int l = 0; l < wave->lanes; l++) {
        if (!wave->mask[l])
            continue;
        uint8_t *place = wave->scratch + (size_t)l * size + scratch_place(wave, i, base[l] + scalar);
        for (int word = 0; word < each; word++) {
            if (writes)
                narrow(i, given[word][l], place + 4 * word);
            else
                words[word][l] = widened(i, place + 4 * word, wave->v[i->to.first][l]);
        }
    }
    for (int word = 0; !writes && word < each; word++)
        put_lanes(wave, i, word, words[word]);
    count_issued(wave, writes ? STORES : LOADS, writes ? NULL : &i->to);
}

void scratch_load(struct wave *wave, const struct instruction *i)
{
    scratch(wave, i, false);
}

void scratch_store(struct wave *wave, const struct instruction *i)
{
    scratch(wave, i, true);
}

/* By the descriptor in four scalars, source 4: that of the wave's private memory. */
static void check_descriptor(struct wave *wave, const struct instruction *i)
{
    const uint32_t *is = &wave->s[i->source[4].first], low = PRIVATE_LOW + (uint32_t)wave->number * WAVE_PRIVATE;
    if (is[0] != low || is[1] != PRIVATE_HIGH || is[2] != PRIVATE_SIZE || is[3] != PRIVATE_FORMAT)
        fault(wave, i, "a descriptor that is not that of private memory");
}

void buffer_load(struct wave *wave, const struct instruction *i)
{
    check_descriptor(wave, i);
    scratch(wave, i, false);
}

void buffer_store(struct wave *wave, const struct instruction *i)
{
    check_descriptor(wave, i);
    scratch(wave, i, true);
}

void scalar_load(struct wave *wave, const struct instruction *i)
{
    const uintptr_t at =
        scalar_pair(wave, &i->source[0]) + scalar_of(wave, &i->source[1]) + (uintptr_t)(intptr_t)i->offset[0];
    check_bounds(wave, i, at, i->bytes, false);
    if (i->bytes < 4)
        wave->s[i->to.first] = widened(i, (const uint8_t *)at, 0);
    else
        memcpy(&wave->s[i->to.first], (const void *)at, (size_t)i->bytes);
    count_issued(wave, KERNEL, &i->to);
}
