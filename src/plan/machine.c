/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/machine.h"
#include "plan/planner.h"
#include <string.h>

enum { AMD_ID = 0x1002, INTEL_ID = 0x8086, NARROW_LANES = 8, WIDE_LANES = 64, TURING = 705 };

static enum cla_family family_of(const struct clattn_capabilities *capabilities)
{
    if (capabilities->type == CLATTN_DEVICE_CPU)
        return CLA_CPU;
    if (capabilities->nv_compute_capability)
        return capabilities->nv_compute_capability == TURING ? CLA_NVIDIA_TURING : CLA_NVIDIA;
    if (capabilities->amd_simd_per_compute_unit || capabilities->vendor_id == AMD_ID)
        return capabilities->sub_group_size == WIDE_LANES ? CLA_AMD_WIDE : CLA_AMD;
    if (capabilities->vendor_id != INTEL_ID)
        return CLA_ANY_FAMILY;
    return capabilities->sub_group_size == NARROW_LANES ? CLA_INTEL_NARROW : CLA_INTEL;
}

/* More than any device has, so that what a dump says may be anything. */
enum { MOST_SIMDS = 64, MOST_UNITS = 1 << 20, MOST_REGISTERS = 1 << 24 };

static int at_most(uint32_t said, int most)
{
    return said < (uint32_t)most ? (int)said : most;
}

/* The second-level cache of a chip of NVIDIA's by what is published of it: TU102, A100, GA102, AD102 (RTX 4090), H100,
 * B200, GB202 (RTX 5090). OpenCL reports the first-level caches of all compute units there. */
static const struct known_cache {
    uint32_t capability;
    uint64_t bytes, units;
} nvidia_caches[] = {{705, 6 << 20, 72},   {800, 40 << 20, 108},   {806, 6 << 20, 84},   {809, 72 << 20, 128},
                     {900, 50 << 20, 132}, {1000, 126 << 20, 148}, {1200, 96 << 20, 170}};

/* A chip or a part of one (MIG) with fewer compute units has about as much less. */
static uint64_t nvidia_cache(const struct clattn_capabilities *capabilities, int units)
{
    for (size_t i = 0; i < sizeof nvidia_caches / sizeof *nvidia_caches; i++)
        if (capabilities->nv_compute_capability == nvidia_caches[i].capability)
            return nvidia_caches[i].bytes * (uint64_t)units / nvidia_caches[i].units;
    return capabilities->cache_bytes;
}

/* NVIDIA: the CUDA programming guide's table of compute capabilities. Of 255 registers 248 compile without spilling
 * (H200). Where nothing is known of a device it is taken for one of these with half the registers an item. */
static void take_nvidia(const struct clattn_capabilities *capabilities, struct cla_machine *machine)
{
    const uint32_t registers = capabilities->nv_registers_per_group;
    if (registers)
        machine->unit_registers = at_most(registers, MOST_REGISTERS);
    if (registers >= 65536)
        machine->item_words = 248;
    machine->cache_bytes = nvidia_cache(capabilities, machine->units);
}

bool cla_has_extension(const struct clattn_capabilities *capabilities, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = capabilities->extensions; (at = strstr(at, name)); at += length)
        if ((at == capabilities->extensions || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* RDNA 3's larger chips and RDNA 4 have half as many registers again. */
static bool has_more_registers(const char *name)
{
    static const char *const chips[] = {"gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strncmp(name, chips[i], strlen(chips[i])) == 0)
            return true;
    return false;
}

/* AMD: the ISA documents of RDNA and CDNA, and LLVM's guide to its AMDGPU back end. A SIMD has registers for 512 items
 * at 64 each, and holds 512. On RDNA a compute unit with four SIMDs is a pair of the hardware's, each with the local
 * memory of a work-group. clang 19 takes 226 to 256 registers of 256 where planners count 112 to 128 words, and spills
 * up to 17 with more than 112. */
static void take_amd(const struct clattn_capabilities *capabilities, struct cla_machine *machine)
{
    enum { ITEMS_A_SIMD = 512, REGISTERS_A_SIMD = 32768, MORE = 49152, RDNA_LANES = 32, PAIR = 4, WORDS = 112 };
    if (capabilities->amd_simd_per_compute_unit)
        machine->schedulers = at_most(capabilities->amd_simd_per_compute_unit, MOST_SIMDS);
    machine->unit_items = machine->schedulers * ITEMS_A_SIMD;
    machine->unit_registers =
        machine->schedulers * (has_more_registers(capabilities->device_name) ? MORE : REGISTERS_A_SIMD);
    machine->local_parts = machine->lanes == RDNA_LANES && machine->schedulers >= PAIR ? 2 : 1;
    machine->least_sub_groups = 2;
    machine->item_words = WORDS;
}

/* Intel: a compute unit of OpenCL's is a vector engine with 8 threads of 128 registers, as wide as the smallest
 * sub-group; engines of 128 lanes in all (16 of 8, 8 of 16) share local memory. In the smallest sub-group, which the
 * kernels ask for, an item has 128 words. Devices with matrix engines take programs with 256 registers a thread, and
 * half the threads. */
static void take_intel(const struct clattn_capabilities *capabilities, struct cla_machine *machine)
{
    enum { CORE_LANES = 128, THREADS = 8, REGISTERS = 128, WORDS = 112, LARGE_WORDS = 128, MOST_ITEMS = 256 };
    machine->schedulers = CORE_LANES / machine->lanes;
    machine->units = machine->units > machine->schedulers ? machine->units / machine->schedulers : 1;
    machine->unit_registers = CORE_LANES * THREADS * REGISTERS;
    machine->large_registers = cla_has_extension(capabilities, "cl_intel_subgroup_matrix_multiply_accumulate");
    machine->unit_items = CORE_LANES * THREADS / (machine->large_registers ? 2 : 1);
    machine->item_words = machine->large_registers ? LARGE_WORDS : WORDS;
    machine->group_items = machine->group_items < MOST_ITEMS ? machine->group_items : MOST_ITEMS;
    if (cla_has_extension(capabilities, "cl_intel_required_subgroup_size"))
        machine->sub_group_wanted = machine->lanes;
}

/* Of a GPU, what it says; CPUs have no sub-groups that planners could use. */
static int lanes_of(const struct clattn_capabilities *capabilities)
{
    enum { USUAL = 32, MOST = 128 };
    const uint32_t said =
        capabilities->sub_group_size ? capabilities->sub_group_size : capabilities->preferred_work_group_multiple;
    return capabilities->type != CLATTN_DEVICE_CPU && said >= 8 && said <= MOST ? (int)said : USUAL;
}

struct cla_machine cla_machine_of(const struct clattn_capabilities *capabilities)
{
    const int64_t items = (int64_t)capabilities->max_work_group_size, first = (int64_t)capabilities->max_work_item_size;
    struct cla_machine machine = {
        .family = family_of(capabilities),
        .lanes = lanes_of(capabilities),
        .schedulers = 4,
        .units = capabilities->compute_units ? at_most(capabilities->compute_units, MOST_UNITS) : 1,
        .unit_items = 2048,
        .unit_registers = 65536,
        .item_words = 128,
        .group_items = first && first < items ? first : items,
        .local_bytes = cla_usable_local_bytes(capabilities),
        .local_parts = 1,
        .cache_bytes = capabilities->cache_bytes,
        .least_sub_groups = 1};
    switch (machine.family) {
    case CLA_NVIDIA:
    case CLA_NVIDIA_TURING:
        take_nvidia(capabilities, &machine);
        break;
    case CLA_AMD:
    case CLA_AMD_WIDE:
        take_amd(capabilities, &machine);
        break;
    case CLA_INTEL:
    case CLA_INTEL_NARROW:
        take_intel(capabilities, &machine);
        break;
    case CLA_ANY_FAMILY:
    case CLA_CPU:
        break;
    }
    return machine;
}

const char *cla_machine_build_options(const struct cla_machine *machine)
{
    return machine->large_registers ? " -cl-intel-256-GRF-per-thread" : "";
}
