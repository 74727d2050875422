/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fuzz/device_memory.h"
#include "fuzz/fuzz.h"
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PATTERN = 0xa5, MOST_BYTES = 64 << 20 };

void dice_seed(struct dice *dice, uint64_t seed, uint64_t stream)
{
    dice->state = (seed * UINT64_C(0x9e3779b97f4a7c15) ^ (stream + 1) * UINT64_C(0xbf58476d1ce4e5b9)) | 1;
    for (int i = 0; i < 8; i++)
        dice_roll(dice);
}

uint64_t dice_roll(struct dice *dice)
{
    uint64_t x = dice->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    dice->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d) >> 11;
}

int64_t dice(struct dice *dice, int64_t below)
{
    return (int64_t)(dice_roll(dice) % (uint64_t)below);
}

static int32_t index_value(struct dice *from)
{
    switch (dice(from, 8)) {
    case 0:
        return (int32_t)(uint32_t)dice_roll(from);
    case 1:
        return INT32_MAX - (int32_t)dice(from, 3);
    case 2:
        return -1 - (int32_t)dice(from, 5);
    default:
        return (int32_t)dice(from, 20);
    }
}

static void fill(struct memory *memory, struct dice *from)
{
    if (memory->role == MEMORY_OUTPUT) {
        memset(memory->first, PATTERN, memory->bytes);
        return;
    }
    for (size_t i = 0; i + 4 <= memory->bytes; i += 4) {
        const int32_t index = index_value(from);
        const float number = (float)dice(from, 2001) / 1000 - 1;
        memcpy(memory->first + i, memory->role == MEMORY_INDEX ? (const void *)&index : (const void *)&number, 4);
    }
}

static void map(struct memory *memory, bool at_start, size_t unit)
{
    const size_t body = (memory->bytes + PAGE - 1) / PAGE * PAGE;
    memory->map_bytes = body + 2 * (size_t)PAGE;
    memory->map = mmap(NULL, memory->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_REQUIRE(memory->map != MAP_FAILED);
    FUZZ_REQUIRE(mprotect(memory->map, PAGE, PROT_NONE) == 0);
    FUZZ_REQUIRE(mprotect(memory->map + PAGE + body, PAGE, PROT_NONE) == 0);
    memory->first = memory->map + PAGE + (at_start ? 0 : (body - memory->bytes) / unit * unit);
}

cl_mem memory_make(struct memories *memories, struct dice *from, const char *name, size_t bytes, size_t unit,
                   enum memory_role role)
{
    FUZZ_REQUIRE(memories->count < MEMORY_MOST);
    struct memory *memory = &memories->items[memories->count];
    cl_int code = CL_SUCCESS;
    /* OpenCL has no buffers of 0 bytes. */
    *memory = (struct memory){.name = name, .bytes = bytes && bytes <= MOST_BYTES ? bytes : unit, .role = role};
    map(memory, dice(from, 2), unit);
    fill(memory, from);
    const bool read_only = role == MEMORY_INPUT || role == MEMORY_INDEX;
    if (read_only)
        FUZZ_REQUIRE(mprotect(memory->map + PAGE, memory->map_bytes - 2 * (size_t)PAGE, PROT_READ) == 0);
    memory->buffer = clCreateBuffer(memories->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                    memory->bytes + memories->lies, memory->first, &code);
    FUZZ_REQUIRE(code == CL_SUCCESS);
    memories->count++;
    return memory->buffer;
}

void memory_free(struct memories *memories)
{
    for (int i = 0; i < memories->count; i++) {
        clReleaseMemObject(memories->items[i].buffer);
        munmap(memories->items[i].map, memories->items[i].map_bytes);
    }
    memories->count = 0;
}

bool memory_untouched(const struct memories *memories)
{
    for (int i = 0; i < memories->count; i++)
        for (size_t at = 0; memories->items[i].role == MEMORY_OUTPUT && at < memories->items[i].bytes; at++)
            if (memories->items[i].first[at] != PATTERN)
                return false;
    return true;
}

const struct memory *memory_at(const struct memories *memories, const void *address)
{
    const unsigned char *at = address;
    for (int i = 0; i < memories->count; i++)
        if (at >= memories->items[i].map && at < memories->items[i].map + memories->items[i].map_bytes)
            return &memories->items[i];
    return NULL;
}
