/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_MACHINE_H
#define CLA_MACHINE_H

#include <clattn/device.h>
#include <stdint.h>

/* Kinds of devices that planners tell apart. */
enum cla_family {
    CLA_ANY_FAMILY, /* nothing further is known */
    CLA_CPU,
    CLA_NVIDIA,
    CLA_NVIDIA_TURING, /* whose work-groups have 63 KB of local memory */
    CLA_AMD,
    CLA_AMD_WIDE, /* whose sub-groups are of 64, with matrix units of their own */
    CLA_INTEL,
    CLA_INTEL_NARROW /* whose smallest sub-groups are of 8 */
};

/* What a device has, in the same words for every vendor: made from its capabilities, each vendor's from what it
 * reports, and from what is published where no query of OpenCL's says it. A compute unit here is what holds a
 * work-group with its local memory. */
struct cla_machine {
    enum cla_family family;
    int lanes;            /* items that go together: warp, wavefront, sub-group */
    int schedulers;       /* of a unit: each issues for one sub-group at a time */
    int units;            /* at least 1 */
    int unit_items;       /* that a unit holds */
    int unit_registers;   /* 32-bit ones that it has for them */
    int item_words;       /* of an item's, as planners count them, that compile without spilling */
    int64_t group_items;  /* of a work-group */
    uint64_t local_bytes; /* of a work-group */
    int local_parts;      /* how often a unit has that */
    uint64_t cache_bytes; /* that all units share, as far as is known */
    int least_sub_groups; /* that a scheduler wants, since one alone hides nothing of its own waits */
    int sub_group_wanted; /* the size to ask the compiler for; 0: it has no choice, or makes a good one */
    bool large_registers; /* programs are built for twice the registers an item, and half the sub-groups */
};

/* Whether the device says that it has an extension of that name. */
bool cla_has_extension(const struct clattn_capabilities *capabilities, const char *name);

struct cla_machine cla_machine_of(const struct clattn_capabilities *capabilities);

/* What programs are built with for the machine's registers: "" or options, each behind a space. */
const char *cla_machine_build_options(const struct cla_machine *machine);

#endif
