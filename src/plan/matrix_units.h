/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_MATRIX_UNITS_H
#define CLA_MATRIX_UNITS_H

#include "plan/error.h"
#include <clattn/device.h>
#include <clattn/problem.h>
#include <stdbool.h>

/* What the skeletons on matrix units have in common: which problems and devices these take, and how their tiles lie. */
enum { CLA_ADDED_BYTES = 128 }; /* of local memory: NVIDIA's driver adds them to a kernel's array */

/* Local memory with which a compute unit holds several work-groups of small tiles, or one of large ones: A100 and
 * Hopper have it, 162 and 226 KB; consumer devices have 98 KB. */
enum { CLA_MUCH_LOCAL_BYTES = 160 << 10 };

enum {
    CLA_PIECE = 16,             /* rows and columns of what a matrix instruction takes */
    CLA_MATRIX_LARGEST_D = 256, /* beyond, a sub-group's results do not fit its registers */
    CLA_PANEL = 64,             /* columns of a tile for warp groups that lie together, 128 bytes a row */
    CLA_NVIDIA_LANES = 32,      /* items of a sub-group, */
    CLA_EMULATED_LANES = 1      /* and in the emulation */
};

/* The 16 x 16 pieces that so many rows or columns take. */
int cla_pieces(int elements);

/* Bytes of a tile's row: an odd number of 16-byte chunks. */
int cla_matrix_pitch(int columns);

/* What no device can make up for: the type, the head dimensions, the scale. `name` is the skeleton's. */
clattn_status cla_matrix_check_problem(const struct clattn_problem *problem, const char *name, struct cla_error *error);

/* cla_matrix_check_problem, and whether the device has tensor cores that take the problem's type. */
clattn_status cla_matrix_check_nvidia(const struct clattn_capabilities *capabilities,
                                      const struct clattn_problem *problem, const char *name, struct cla_error *error);

/* cla_matrix_check_problem, and whether the device multiplies by warp groups (NVIDIA's Hopper, by retargeted PTX). */
clattn_status cla_matrix_check_warp_groups(const struct clattn_capabilities *capabilities,
                                           const struct clattn_problem *problem, const char *name,
                                           struct cla_error *error);

/* The larger of d and d_v. */
int cla_widest(const struct clattn_problem *problem);

/* The panels of CLA_PANEL columns that a tile for warp groups consists of. */
int cla_panels(int columns);

/* Ten times the compute capability, as the kernels' constant has it. */
int cla_matrix_capability(const struct clattn_capabilities *capabilities);

/* What a device lets a configuration use. */
struct cla_matrix_limits {
    uint64_t local_bytes;
    int64_t items;
};
struct cla_matrix_limits cla_matrix_limits_of(const struct clattn_capabilities *capabilities);

/* How much longer a compute unit takes since its sub-groups are few, or all of one group, whose barriers they wait at
 * together; and since registers spill. An item takes `words` of them; local memory lets a unit hold `most_groups`. */
double cla_matrix_waiting(int words, int items, int most_groups);

enum {
    CLA_UNIT_ITEMS = 2048 /* that a compute unit holds: as most_groups where local memory is not asked */
};

/* The emulations': they are for tests alone; and CPU drivers take long over these kernels, or crash, and they run there
 * to be checked. */
bool cla_matrix_emulation_preferred(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem);
bool cla_matrix_unoptimised(const struct clattn_capabilities *capabilities);

#endif
