/* SPDX-License-Identifier: BSD-2-Clause */
#include "lanes.h"

static uint32_t modified(const struct source *source, uint32_t x)
{
    if (source->part) {
        x = x >> source->shift & source->part;
        if (source->sign_extended && x > source->part / 2)
            x |= ~source->part;
    }
    if (source->absolute)
        x &= source->absolute;
    return x ^ source->negate;
}

static bool is_plain(const struct source *source)
{
    return !source->part && !source->absolute && !source->negate;
}

const uint32_t *lanes_of(const struct wave *wave, const struct source *source, int word, uint32_t *room)
{
    const int lanes = LANES(wave);
    if (source->place == VECTOR) {
        const uint32_t *from = wave->v[source->first + word];
        if (is_plain(source))
            return from;
        const struct source how = *source;
        for (int l = 0; l < lanes; l++)
            room[l] = modified(&how, from[l]);
        return room;
    }
    uint32_t x = word ? source->high : source->low;
    if (source->place == SCALAR)
        x = source->first == NULL_SCALAR ? 0 : source->first == SCC ? wave->scc : wave->s[source->first + word];
    x = modified(source, x);
    for (int l = 0; l < lanes; l++)
        room[l] = x;
    return room;
}

static uint32_t finished(const struct instruction *i, uint32_t x)
{
    if (i->scale != 0)
        x = as_bits(as_float(x) * i->scale);
    if (i->clamp) {
        const float f = as_float(x);
        x = as_bits(f > 0 ? f < 1 ? f : 1 : 0); /* a NaN is 0 */
    }
    return x;
}

void put_lanes(struct wave *wave, const struct instruction *i, int word, const uint32_t *values)
{
    const int lanes = LANES(wave);
    if (i->to.place != VECTOR) /* null */
        return;
    uint32_t *to = wave->v[i->to.first + word];
    const uint32_t *mask = wave->mask;
    uint32_t changed[MOST_LANES];
    if (i->clamp || i->scale != 0) {
        for (int l = 0; l < lanes; l++)
            changed[l] = finished(i, values[l]);
        values = changed;
    }
    if (i->has_select) {
        const uint32_t part = i->to.part << i->to.shift, rest = i->keeps_rest ? ~part : 0;
        for (int l = 0; l < lanes; l++)
            changed[l] = (values[l] << i->to.shift & part) | (to[l] & rest);
        values = changed;
    }
    for (int l = 0; l < lanes; l++)
        to[l] = (values[l] & mask[l]) | (to[l] & ~mask[l]);
}

uint32_t scalar_of(const struct wave *wave, const struct source *source)
{
    uint32_t x = source->low;
    if (source->place == SCALAR)
        x = source->first == NULL_SCALAR ? 0 : source->first == SCC ? wave->scc : wave->s[source->first];
    return modified(source, x);
}

uint64_t scalar_pair(const struct wave *wave, const struct source *source)
{
    if (source->place == CONSTANT)
        return source->low | (uint64_t)source->high << 32;
    return source->first == NULL_SCALAR ? 0 : wave->s[source->first] | (uint64_t)wave->s[source->first + 1] << 32;
}

void set_exec(struct wave *wave, uint64_t exec)
{
    wave->exec = wave->lanes == MOST_LANES ? exec : (uint32_t)exec;
    wave->s[EXEC] = (uint32_t)wave->exec;
    wave->s[EXEC + 1] = (uint32_t)(wave->exec >> 32);
    for (int l = 0; l < LANES(wave); l++)
        wave->mask[l] = -(uint32_t)(wave->exec >> l & 1);
}

void put_scalar(struct wave *wave, const struct source *to, uint32_t value)
{
    if (to->first == NULL_SCALAR)
        return;
    wave->s[to->first] = value;
    if (to->first == EXEC || to->first == EXEC + 1)
        set_exec(wave, wave->s[EXEC] | (uint64_t)wave->s[EXEC + 1] << 32);
}

void put_scalar_pair(struct wave *wave, const struct source *to, uint64_t value)
{
    if (to->first == NULL_SCALAR)
        return;
    wave->s[to->first] = (uint32_t)value;
    wave->s[to->first + 1] = (uint32_t)(value >> 32);
    if (to->first == EXEC)
        set_exec(wave, value);
}

uint64_t mask_of(const struct wave *wave, const struct source *source)
{
    return wave->lanes == MOST_LANES ? scalar_pair(wave, source) : scalar_of(wave, source);
}

void put_mask(struct wave *wave, const struct source *to, uint64_t mask)
{
    if (wave->lanes == MOST_LANES)
        put_scalar_pair(wave, to, mask);
    else
        put_scalar(wave, to, (uint32_t)mask);
}

uint64_t mask_from(const struct wave *wave, const uint32_t *lanes)
{
    uint64_t mask = 0;
    for (int l = 0; l < LANES(wave); l++)
        mask |= (uint64_t)(lanes[l] != 0) << l;
    return mask;
}
