/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_MATRIX_UNITS_H
#define CLA_MATRIX_UNITS_H

#include "plan/error.h"
#include "plan/machine.h"
#include "plan/matrix_cost.h"
#include "plan/skeleton.h"
#include "plan/text.h"
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

/* The kernels that are written over any unit: a program is its header and one of them. */
enum cla_unit_kernel { CLA_UNIT_FORWARD, CLA_UNIT_BACKWARD, CLA_UNIT_PEAK, CLA_UNIT_PROBE, CLA_UNIT_KERNELS };
enum { CLA_UNIT_FILES = 4 }; /* of such a program at most, with the NULL that ends them */

/* When plans take a unit by themselves, and not only where problem.skeleton has them. */
enum cla_unit_trust {
    CLA_UNIT_PROVEN = 0, /* always: hardware has run its kernels */
    CLA_UNIT_PROBED,     /* where the device's probe was right: no hardware has run its kernels yet */
    CLA_UNIT_BY_REQUEST  /* never: `why_not` */
};

/* A matrix unit: a header of cl/unit (contract.clh says what it has to define), and what planners know of it. */
struct cla_matrix_unit {
    const char *name;
    const char *const (*files)[CLA_UNIT_FILES]; /* the programs, by enum cla_unit_kernel */
    int lanes, slots, operand_words; /* UNIT_LANES, UNIT_SLOTS, and the 32-bit words that a lane has of an operand */
    int most_d;                      /* head dimensions up to which its registers suffice; 0: as other units' */
    int planned_d;                   /* those up to which plans take it by themselves; 0: all of these */
    int planned_d_dropout;           /* and with dropout, in forward passes; 0: as without */
    bool forward_alone;              /* plans of backward passes do not */
    int scratch_bytes;               /* UNIT_SCRATCH_BYTES */
    int most_words;                  /* of an item's registers, as planners count them, that compile without spilling */
    bool stores_philox;              /* UNIT_OWN_PHILOX, or unit_meet serves it */
    int stream_rows;                 /* with UNIT_STREAMS the least UNIT_ROWS; 0: without */
    bool fetches;                    /* UNIT_FETCHES */
    bool adds;                       /* UNIT_ADDS, in fp32 */
    bool one_sub_group;              /* a work-group has one sub-group, no more */
    const char *level_name;          /* the constant that its header wants, NULL: none; and its value, for a device */
    int (*level)(const struct clattn_capabilities *capabilities);
    const char *devices; /* which have it, in words; NULL: it is an emulation, for tests alone */
    enum cla_unit_trust trust;
    const char *why_not; /* of CLA_UNIT_BY_REQUEST */
    bool (*is_there)(const struct clattn_capabilities *capabilities);
    bool (*takes)(const struct clattn_capabilities *capabilities,
                  enum clattn_dtype dtype); /* an emulation's: of NULL */
    const char *takes_text;                 /* what takes() says, for a message */
};

/* All units, ended by one without a name; the first two are named by skeletons that are written for them. Of those that
 * a device has, plans take the first that takes the problem's type. */
enum { CLA_NVIDIA_MMA, CLA_EMULATED };
extern const struct cla_matrix_unit cla_matrix_units[];

/* The files of NVIDIA's and of the first emulation, which tables of skeletons name. */
extern const char *const cla_nvidia_mma_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES],
    *const cla_emulated_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES];

/* The device's unit for elements of a type; where none takes it, the first that it has. NULL: there is none. */
const struct cla_matrix_unit *cla_matrix_unit_of(const struct clattn_capabilities *capabilities,
                                                 enum clattn_dtype dtype);

/* The emulation of this number, from 1 on, among those with so many lanes; 0: the only one. NULL: there is none, or for
 * 0 there are several. And the number of one. */
const struct cla_matrix_unit *cla_matrix_emulation(int lanes, int number);
int cla_matrix_emulation_number(const struct cla_matrix_unit *emulation);

/* Whether plans take the device's unit by themselves; and why, or why not, in words; and why a plan of the problem that
 * does not take it does not. */
bool cla_matrix_is_trusted(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype);
void cla_matrix_trust_text(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype, char *text,
                           size_t size);
void cla_matrix_why_not(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        char *text, size_t size);

/* The head dimension up to which plans take the unit by themselves; 0: in this pass for none. */
int cla_matrix_planned_d(const struct cla_matrix_unit *unit, const struct clattn_problem *problem);

/* Its level on a device; 0 where it has none. And its constants. */
int cla_matrix_level(const struct cla_matrix_unit *unit, const struct clattn_capabilities *capabilities);
void cla_matrix_unit_define(const struct cla_matrix_unit *unit, int level, struct cla_text *text);

/* cla_matrix_check_problem, and whether the device has a unit that takes the problem's type. */
clattn_status cla_matrix_check(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               const char *name, struct cla_error *error);

/* A configuration of the device's unit, which has to be there, without sizes; one that is to keep another's unit. */
struct cla_config cla_matrix_config(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype);
void cla_matrix_keep_unit(struct cla_config *config, const struct cla_config *from);

/* For skeletons that run over any unit: a skeleton's choose() of the device's unit, and that of the emulation, where
 * `take` finds the sizes. */
typedef clattn_status cla_matrix_take(const struct clattn_capabilities *capabilities,
                                      const struct clattn_problem *problem, struct cla_config *config,
                                      struct clattn_plan_info *info, struct cla_error *error);
clattn_status cla_matrix_choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const char *name, cla_matrix_take *take, struct cla_config *config,
                                struct clattn_plan_info *info, struct cla_error *error);
clattn_status cla_matrix_choose_emulated(const struct clattn_capabilities *capabilities,
                                         const struct clattn_problem *problem, const char *name, cla_matrix_take *take,
                                         struct cla_config *config, struct clattn_plan_info *info,
                                         struct cla_error *error);

/* Knobs of an emulated skeleton, which say on which emulation it runs. */
#define CLA_EMULATION_KNOBS                                                                                            \
    {"lanes", offsetof(struct cla_config, lanes), 1, 64, {0}, 0},                                                      \
    {                                                                                                                  \
        "emulation", offsetof(struct cla_config, emulation), 0, 9, {0}, 0                                              \
    }

/* Gives an emulated skeleton's configuration the emulation that its knobs `lanes` and `emulation` name, and a
 * work-group of as many sub-groups as were planned, where it may have more than one; a device's unit stays. */
clattn_status cla_matrix_take_emulation(const struct clattn_problem *problem, const char *name,
                                        struct cla_config *config, struct cla_error *error);

/* The 16 x 16 pieces that so many rows or columns take. */
int cla_pieces(int elements);

/* Bytes of a tile's row: an odd number of 16-byte chunks. */
int cla_matrix_pitch(const struct clattn_problem *problem, int columns);

/* What no device can make up for: types, the head dimensions, the scale. `name` is the skeleton's. And whether elements
 * have 16 bits, too. */
clattn_status cla_matrix_check_problem(const struct clattn_problem *problem, const char *name, struct cla_error *error);
clattn_status cla_matrix_check_16_bits(const struct clattn_problem *problem, const char *name, struct cla_error *error);

/* cla_matrix_check_16_bits, and whether the device multiplies by warp groups (NVIDIA's Hopper, by retargeted PTX). */
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

/* Whether work-groups of so many bytes of local memory and so many sub-groups leave each scheduler of a compute unit
 * the sub-groups that it wants (plan/machine.h). Always on a unit that hardware has run: its sizes were measured. */
bool cla_matrix_hides_waits(const struct clattn_capabilities *capabilities, const struct cla_config *config,
                            uint64_t local_bytes, int sub_groups);

/* What the work of 16 x 16 pairs costs a configuration, in products of 16 x 16 pieces. An item takes so many words of
 * registers, a work-group so much local memory: they say how many sub-groups a scheduler has, which hide what each
 * waits for. Of the emulation it says what the work costs as if nothing waited. */
double cla_matrix_cost(const struct clattn_capabilities *capabilities, const struct cla_config *config,
                       const struct cla_matrix_work *work, int words, uint64_t local_bytes);

/* Words that a lane has of an operand, and lanes of a sub-group: an emulation counts as what it stands for. */
int cla_matrix_operand_words(const struct cla_config *config);
int cla_matrix_lanes(const struct cla_config *config);

/* Whose sizes a configuration takes (plan/sizes.h): an emulation those of any. */
enum cla_family cla_matrix_family(const struct clattn_capabilities *capabilities, const struct cla_config *config);

/* The emulations': they are for tests alone. */
bool cla_matrix_emulation_preferred(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem);

/* What all of these are built with: CPU drivers take long over them, or crash, and they run there to be checked. */
const char *cla_matrix_build_options(const struct clattn_capabilities *capabilities, const struct cla_config *config);

#endif
