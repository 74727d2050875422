/* SPDX-License-Identifier: BSD-2-Clause */
#include "notes.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

enum kind { NUMBER, TEXT, LIST, MAP, OTHER };

struct reader {
    const uint8_t *at, *end;
    bool failed;
};

/* One value, or how many follow. */
struct value {
    enum kind kind;
    uint64_t number; /* bytes of a text, elements of a list, pairs of a map */
    const char *text;
};

static uint64_t big_endian(struct reader *reader, int bytes)
{
    uint64_t number = 0;
    if (reader->end - reader->at < bytes) {
        reader->failed = true;
        return 0;
    }
    while (bytes--)
        number = number << 8 | *reader->at++;
    return number;
}

static struct value text_of(struct reader *reader, uint64_t bytes)
{
    const char *text = (const char *)reader->at;
    if ((uint64_t)(reader->end - reader->at) < bytes) {
        reader->failed = true;
        return (struct value){OTHER, 0, NULL};
    }
    reader->at += bytes;
    return (struct value){TEXT, bytes, text};
}

static struct value next(struct reader *reader)
{
    const uint8_t byte = (uint8_t)big_endian(reader, 1);
    if (byte < 0x80 || byte >= 0xe0)
        return (struct value){NUMBER, byte, NULL};
    if (byte < 0x90)
        return (struct value){MAP, byte & 15u, NULL};
    if (byte < 0xa0)
        return (struct value){LIST, byte & 15u, NULL};
    if (byte < 0xc0)
        return text_of(reader, byte & 31u);
    if (byte >= 0xcc && byte <= 0xd3)
        return (struct value){NUMBER, big_endian(reader, 1 << (byte & 3)), NULL};
    if (byte >= 0xd9 && byte <= 0xdb)
        return text_of(reader, big_endian(reader, 1 << (byte - 0xd9)));
    if (byte == 0xdc || byte == 0xdd)
        return (struct value){LIST, big_endian(reader, byte == 0xdc ? 2 : 4), NULL};
    if (byte == 0xde || byte == 0xdf)
        return (struct value){MAP, big_endian(reader, byte == 0xde ? 2 : 4), NULL};
    reader->failed |= byte != 0xc0 && byte != 0xc2 && byte != 0xc3;
    return (struct value){OTHER, byte == 0xc3, NULL};
}

/* Passes over what follows a value that was read. */
static void pass(struct reader *reader, struct value value)
{
    const uint64_t left = value.kind == LIST ? value.number : value.kind == MAP ? 2 * value.number : 0;
    for (uint64_t n = 0; n < left && !reader->failed; n++)
        pass(reader, next(reader));
}

static bool is(struct value key, const char *name)
{
    return key.kind == TEXT && key.number == strlen(name) && memcmp(key.text, name, strlen(name)) == 0;
}

static void copy_text(char *to, size_t size, struct value value)
{
    snprintf(to, size, "%.*s", value.kind == TEXT ? (int)value.number : 0, value.kind == TEXT ? value.text : "");
}

static void read_argument(struct reader *reader, struct argument *argument)
{
    const struct value map = next(reader);
    for (uint64_t n = 0; map.kind == MAP && n < map.number && !reader->failed; n++) {
        const struct value key = next(reader), value = next(reader);
        if (is(key, ".offset"))
            argument->offset = (uint32_t)value.number;
        else if (is(key, ".size"))
            argument->bytes = (uint32_t)value.number;
        else if (is(key, ".value_kind"))
            copy_text(argument->kind, sizeof argument->kind, value);
        else
            pass(reader, value);
    }
}

static void read_kernel(struct reader *reader, struct object_kernel *kernel)
{
    const struct value map = next(reader);
    for (uint64_t n = 0; map.kind == MAP && n < map.number && !reader->failed; n++) {
        const struct value key = next(reader), value = next(reader);
        if (is(key, ".name")) {
            copy_text(kernel->name, sizeof kernel->name, value);
        } else if (is(key, ".max_flat_workgroup_size")) {
            kernel->most_items = (uint32_t)value.number;
        } else if (is(key, ".reqd_workgroup_size") && value.number == 3) {
            for (int d = 0; d < 3; d++)
                kernel->required_group[d] = (uint32_t)next(reader).number;
        } else if (is(key, ".args") && value.number <= MOST_ARGUMENTS) {
            for (uint64_t a = 0; a < value.number; a++)
                read_argument(reader, &kernel->arguments[kernel->arguments_count++]);
        } else {
            pass(reader, value);
        }
    }
}

static bool read_metadata(struct reader *reader, struct object *object)
{
    const struct value map = next(reader);
    bool found = false;
    for (uint64_t n = 0; map.kind == MAP && n < map.number && !reader->failed; n++) {
        const struct value key = next(reader), value = next(reader);
        if (is(key, "amdhsa.kernels") && value.kind == LIST && value.number <= MOST_KERNELS) {
            for (uint64_t k = 0; k < value.number; k++)
                read_kernel(reader, &object->kernels[object->kernels_count++]);
            found = true;
        } else {
            pass(reader, value);
        }
    }
    return found && !reader->failed;
}

bool notes_read(const uint8_t *notes, size_t bytes, struct object *object)
{
    enum { METADATA = 32 };
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
        const Elf64_Nhdr *header = (const Elf64_Nhdr *)(notes + at);
        const size_t name = (header->n_namesz + 3u) & ~3u, text = at + sizeof *header + name;
        if (text > bytes || header->n_descsz > bytes - text)
            return false;
        struct reader reader = {notes + text, notes + text + header->n_descsz, false};
        if (header->n_type == METADATA)
            return read_metadata(&reader, object);
        at = text + ((header->n_descsz + 3u) & ~3u);
    }
    return false;
}
