/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SIMT_H
#define CLA_SIMT_H

#include "plan/machine.h"
#include "plan/operand.h"
#include "plan/planner.h"
#include "plan/types.h"

/* What the planners of forward_simt and backward_simt share: limits of devices, how slices pass
 * (cl/common/simt_tiles.clh), and the model of time. */

/* What a device lets a configuration use. */
struct cla_simt_limits {
    struct cla_machine machine;
    uint64_t local_bytes; /* what drivers add to it taken off */
    int64_t items;
};

struct cla_simt_limits cla_simt_limits_of(const struct clattn_capabilities *capabilities);

/* Registers that each of so many items may have: an item's own limit, or its part of the compute unit's. */
int cla_simt_words_of(const struct cla_simt_limits *limits, int items);

/* What one kernel does with one tile of pairs. */
struct cla_simt_work {
    double arithmetic; /* multiply-adds of an item */
    double loads;      /* vector reads of an item from local memory */
    double words;      /* these in words */
    double pairs;      /* an item's */
    double written;    /* words of weights that it writes */
    double copies;     /* blocks of four elements that it carries */
    double other;      /* slots for each pair beside products */
    int slices;        /* barriers, but for `exchanges` */
    int exchanges;
    int block_slices; /* slices of the block that are read again */
    double bytes;     /* of device memory, that the work-group reads */
    int64_t private_words;
    uint64_t local_bytes;
};

/* Slots for a tile of pairs; smaller is better. */
typedef double (*cla_simt_slots_function)(const struct cla_simt_limits *limits, const struct cla_config *config,
                                          const struct cla_simt_work *work);
double cla_simt_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                      const struct cla_simt_work *work);

/* Helpers of both. */
static inline int cla_simt_round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline int cla_simt_ceil_div(int value, int divisor)
{
    return (value + divisor - 1) / divisor;
}

/* Words of four elements that an item carries: as they lie in memory, or, of operands of several types, as floats. */
int cla_simt_carried_words(const struct clattn_problem *problem);

/* Floats of so many transposed rows of n floats each (SIMT_ROW_AT). */
static inline int64_t cla_simt_transposed(int64_t rows, int64_t n)
{
    return rows * n + rows / 4 * 4;
}

/* The widest vector that n elements divide into. */
static inline int cla_simt_width_of(int n)
{
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
}

struct cla_simt_search;

/* What a skeleton brings to the search for the cheapest configuration. */
struct cla_simt_model {
    /* Tries what the problem allows of a grid of tx by ty items: cla_simt_try(). */
    void (*consider)(struct cla_simt_search *search, int tx, int ty);

    /* Of a pair of row and key, where a tile takes so many slots. */
    double (*cost)(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                   const struct cla_config *config, cla_simt_slots_function slots);

    /* 4-column blocks of the next slice that an item carries in registers. */
    int (*carried)(const struct clattn_problem *problem, const struct cla_config *config);

    uint64_t (*local_bytes)(const struct clattn_problem *problem, const struct cla_config *config);

    /* Where nothing fits: an error that says what the problem and the device leave. */
    clattn_status (*nothing_fits)(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                                  struct cla_error *error);

    /* The estimate and the steps of a plan. */
    void (*explain)(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info);
};

/* A skeleton's choose(). */
clattn_status cla_simt_choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                              const struct cla_simt_model *model, struct cla_config *config,
                              struct clattn_plan_info *info, struct cla_error *error);

struct cla_simt_search {
    const struct cla_simt_model *model;
    const struct cla_simt_limits *limits;
    const struct clattn_problem *problem;
    struct cla_config best;
    double cost; /* negative: none */
};
struct cla_simt_search cla_simt_find(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                                     const struct cla_simt_model *model);

/* Tries every passage of a tile whose sizes and grid stand, with products over at most d columns and slices of rows
 * that divide `rows`: the cheapest of all that fit, so that more local memory can only lower the estimate. */
void cla_simt_try(struct cla_simt_search *search, int d, int rows, struct cla_config *config);

/* The device refused a configuration with so much local memory: plans for half the items and less of it. */
bool cla_simt_step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct cla_simt_model *model, struct cla_config *config);

/* They run on every device. */
bool cla_simt_prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem);

/* CPU drivers turn a work-group into loops around each stretch between barriers, and their optimiser takes up to a
 * minute over these kernels, to run them no faster than a tenth of those for CPUs. There they are run to be checked, so
 * they are compiled quickly. For Intel's: the registers that the planner counts on. */
const char *cla_simt_build_options(const struct clattn_capabilities *capabilities, const struct cla_config *config);

/* The knobs that both have; none is tried, since choose() finds the best of them for given block sizes by itself. */
extern const struct cla_knob cla_simt_knobs[];

/* Whether slices and items of a configuration whose knobs may come from outside are such as the kernels take, for
 * products over d columns and tiles of so many rows; numbers the items. */
bool cla_simt_is_whole(const struct cla_simt_limits *limits, int d, int rows, struct cla_config *config);

/* Sets what follows from the grid of items and the device: the order in which items are numbered, and the sub-group. */
void cla_simt_number_items(const struct cla_machine *machine, struct cla_config *config);

/* How much more a tile costs since a block mask's blocks do not coincide with it: 1 where tiles divide blocks. */
double cla_simt_mask_factor(const struct clattn_problem *problem, const struct cla_config *config);

/* The #define lines of config->simt. */
void cla_simt_define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text);

#endif
