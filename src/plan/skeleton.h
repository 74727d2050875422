/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SKELETON_H
#define CLA_SKELETON_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/plan.h>

/* How the side that passes the fixed one is cut, in a backward kernel on matrix units: see cl/backward_matrix.cl. */
struct cla_backward_side {
    int moving, slice, fixed_registers, stages, split;
};

/* The constants of backward_matrix's kernels, of dq (and d_bias) and of dk_dv. */
struct cla_backward_units {
    struct cla_backward_side side[2];
    int adds; /* the second one adds up dQ, in any order, and the first one takes the sums */
};

/* Leaves a text unoptimised: with calls, too, for PoCL takes time with the square of a function's variables, which
 * inlining multiplies. */
#define CLA_UNOPTIMISED " -cl-opt-disable -DCLATTN_INLINE=static"

/* The constants that turn a skeleton into a variant: those that all have, and each skeleton's own, which mean what the
 * head of its .cl file says. */
struct cla_config {
    int b_r, b_c, work_group_size;
    const struct cla_matrix_unit *unit; /* of a skeleton that runs over any (plan/matrix_units.h); else NULL */
    int lanes;                          /* items of a sub-group, of a skeleton on matrix units */
    int emulation; /* which of the emulations with so many lanes; 0: the only one (cla_matrix_emulation) */
    int level;     /* ten times NVIDIA's compute capability, or another unit's level; 0: none, as the emulations */
    int pipelines; /* blocks of rows that a work-group works on side by side; 0 as 1 */
    int packs;     /* heads that share K and V go together (plan/packing.h) */
    union {
        struct {
            int tx, lanes_x, lanes_y, d_slice, row_slice, resident, buffers, prefetch;
            int sub_group; /* items of a sub-group, as the compiler is told; 0: it is told nothing */
        } simt;            /* forward_simt and backward_simt */
        struct {
            int vector_width, row_vectors, micro, fetch;
            int dot;     /* enum cla_cpu_dot (plan/skeletons/cpu_dot.h) */
            int stream;  /* backward_cpu */
            int fused;   /* backward_cpu: one kernel forms all gradients */
            int tickets; /* forward_cpu: blocks go to whoever is free */
        } cpu;           /* forward_cpu and backward_cpu */
        struct {
            int vector_width, rows, columns, ahead;
            int pairs; /* O by integers of 16 bits: 1 by vpdpwssd, 2 emulated */
            int words; /* the same of many rows, where K and V have 16 bits */
        } decode;      /* decode_cpu */
        struct {
            int row_tiles, keys, q_registers;
            int stale_max; /* tries bounds before it looks for them */
            int streams;   /* K and V do not pass through local memory */
            int sharers;   /* then so many sub-groups share a row's keys (cl/common/matrix_join.clh), */
            int registers; /* and an item has no more than so many; 0: as compiled */
        } matrix;
        struct {
            int stages, q_stages, ping_pong, tma;
            int producer_registers, consumer_registers; /* 0: as compiled */
            int stale_max;                              /* tries bounds before it looks for them */
            int alibi_linear;                           /* ALiBi's penalties by products, from a panel of their own */
        } hopper;
        struct cla_backward_units backward_matrix;
        struct {
            struct cla_backward_units ending; /* the kernels that end its work */
            int tile_rows;                    /* that pass at a time: a multiple of 16 */
            int late_d_v;                     /* dV begins behind dS, for want of registers */
            int stages, kv_stages, d_o_stages;
            int sum_stages; /* of what is to be added to sums of dQ */
            int dq_sums;    /* sums of each tile that it adds to */
            int shares;     /* work-groups that a block of keys is shared out between; 0: as many as the shape wants */
            int producer_registers, consumer_registers; /* of an item */
        } backward_hopper;
        struct {
            struct cla_backward_units ending;
            int own_keys;     /* warps have keys of their own */
            int dropout_once; /* they draw for each other what dropout takes */
        } backward_fused;
    };
};

/* One of a skeleton's own constants that may be chosen: from `least` to `most`. Values beside the model's own that are
 * worth a measurement are `tried`. Everything else in a config follows from these and the block sizes. */
struct cla_knob {
    const char *name; /* NULL ends a table */
    size_t offset;    /* of an int in struct cla_config */
    int least, most;
    int tried[6];
    int tried_count;
};

/* The kernels of a backward skeleton: gradients of Q, of K and V, and of the bias; those of keys and values again for
 * which the second has left a flag; the order of blocks of keys, which runs first; and what adds up the gradients of
 * keys that several work-groups have had a share of. Each is a program of its own, CLATTN_KERNEL its number.
 * CLATTN_STATE makes them accumulate. */
enum { CLA_DQ, CLA_DK_DV, CLA_D_BIAS, CLA_DK_DV_AGAIN, CLA_ORDER, CLA_SHARES, CLA_MOST_KERNELS };

/* The kernels of a forward skeleton: one text, whose constant CLATTN_SPLIT is the number. */
enum { CLA_WHOLE, CLA_SPLIT };

/* One kernel of a skeleton. */
struct cla_kernel_form {
    const char *entry;        /* the kernel function; NULL ends a table */
    const char *const *files; /* program text, ended by NULL; NULL: the skeleton's */
    int work_group_size;      /* 0: the configuration's */

    /* It is built from retargeted PTX (plan/retarget.h), of whose work-groups the driver only knows what holds for any
     * program's. */
    bool retargeted;

    bool any_order; /* it adds to sums in an order of its own: it serves problem.unordered alone */

    /* What its compiled form may keep of an item in memory, of CL_KERNEL_PRIVATE_MEM_SIZE: with more it does not fit
     * (0: with any it does). */
    uint64_t most_spilled_bytes;
};

struct cla_run;
struct cla_recipe;

/* A kernel's structure: which text it is, when it applies, what a configuration costs, and which one to take. The
 * planner loops over a table of these (src/plan/variant.c); a new kernel is its .cl file and a row there.
 *
 * The functions are pure. `problem` is resolved (see problem.h). */
struct cla_skeleton {
    const char *name;
    bool backward;            /* it serves CLATTN_BACKWARD and _ACCUMULATE; else CLATTN_FORWARD and CLATTN_ACCUMULATE */
    const char *const *files; /* program text: files under cl/, in order, ended by NULL; a configuration with a unit
                               * has that unit's in their place */
    const struct cla_kernel_form *kernels; /* by their numbers */
    int tile_element_bytes;                /* of what its tiles of Q, K and V hold: the paper's M counts these; 0: they
                                            * hold these as they are stored */

    bool declines;  /* problems and devices that its matrix units do not serve; others serve whatever fits */
    bool emulated;  /* it stands in, on CPUs, for one whose matrix units no CPU has */
    bool packs;     /* its rows may be packed ones (plan/packing.h) */
    bool row_views; /* it looks at each row's head by itself: that rows are packed is a number of the call alone */
    bool no_chunks; /* it serves neither CLATTN_ACCUMULATE nor CLATTN_BACKWARD_ACCUMULATE */
    int largest_d;  /* larger head dimensions, of d and d_v, it does not serve; 0: all */
    bool for_cpus;  /* without parallelism within a work-group: no other device is asked to run it */

    /* Its work-groups take one block of rows after the other: there need not be more of them than compute units. */
    bool persistent;

    /* Whether the planner should take this skeleton for the device when the caller names none. */
    bool (*prefers)(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem);

    /* Chooses a configuration that fits, honouring the choices forced by `problem`; adds its steps to `info` with
     * cla_plan_step(). CLATTN_NOTHING_FITS with the numbers where there is none. */
    clattn_status (*choose)(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error);

    /* What may be chosen beside the block sizes (NULL: nothing). Then `adopt` takes a configuration of which every knob
     * may have been set from outside: it checks all of it, as nothing else does after it, and fills `info` as choose()
     * would. CLATTN_NOTHING_FITS with the numbers where it does not fit. */
    const struct cla_knob *knobs;
    clattn_status (*adopt)(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error);

    /* Makes *config the next smaller one, for when the device's compiler shows that it does not fit after all. False:
     * none. NULL: what a device refuses it refuses in any size. */
    bool (*step_down)(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config);

    uint64_t (*local_bytes)(const struct clattn_problem *problem, const struct cla_config *config);
    uint64_t (*private_bytes)(const struct clattn_problem *problem, const struct cla_config *config);

    /* Sub-groups of a work-group that share a row's keys, and whose kernel makes results of the states of splits, too;
     * 0: none do, and another kernel follows that does. NULL: as 0. */
    int (*joins)(const struct cla_config *config);
    int (*held)(const struct cla_config *config); /* of these sub-groups, how many a compute unit has registers for */

    /* How its kernels meet device memory (NULL: as cla_streams_plain() says). */
    void (*streams)(const struct cla_config *config, struct clattn_plan_stream streams[2]);

    /* What the device's compiler is to be told beside what all texts want: " -option"... or "" (NULL: nothing). */
    const char *(*build_options)(const struct clattn_capabilities *capabilities, const struct cla_config *config);

    /* What a call runs (plan/recipe.h). */
    void (*recipe)(const struct cla_run *run, struct cla_recipe *recipe);

    /* Writes the skeleton's own #define lines; those every kernel has (type, d, d_v, b_r, b_c, causal) are written for
     * it. */
    void (*define)(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text);
};

/* Every skeleton that the library has, in order of preference: the planner takes the first that prefers the device. A
 * new one is a row here; tests, tools, their help and completion go through this table (clattn_skeleton_get_info, and
 * tests/meson.build, which reads these lines). */
#define CLA_EACH_SKELETON(ROW)                                                                                         \
    ROW(forward_hopper)                                                                                                \
    ROW(forward_matrix)                                                                                                \
    ROW(decode_cpu)                                                                                                    \
    ROW(forward_cpu)                                                                                                   \
    ROW(forward_simt)                                                                                                  \
    ROW(forward_matrix_emulated)                                                                                       \
    ROW(backward_hopper)                                                                                               \
    ROW(backward_fused)                                                                                                \
    ROW(backward_matrix)                                                                                               \
    ROW(backward_cpu)                                                                                                  \
    ROW(backward_simt)                                                                                                 \
    ROW(backward_matrix_emulated)                                                                                      \
    ROW(backward_fused_emulated)

#define CLA_DECLARE_SKELETON(name) extern const struct cla_skeleton cla_##name;
CLA_EACH_SKELETON(CLA_DECLARE_SKELETON)

/* Whether the skeleton serves the pass. */
bool cla_skeleton_serves(const struct cla_skeleton *skeleton, enum clattn_pass pass);

/* As `joins` says. */
int cla_joins(const struct cla_skeleton *skeleton, const struct cla_config *config);

/* The kernels that most skeletons have: one text each, in work-groups as configured. */
extern const struct cla_kernel_form cla_forward_kernels[], cla_backward_kernels[];

/* One of its kernels, with the skeleton's files and the configuration's work-group size in place. */
struct cla_kernel_form cla_skeleton_form(const struct cla_skeleton *skeleton, const struct cla_config *config,
                                         int number);

/* Of an element of its tiles. */
int cla_skeleton_element_bytes(const struct cla_skeleton *skeleton, const struct clattn_problem *problem);

/* Every skeleton, in that order, ended by NULL. */
extern const struct cla_skeleton *const cla_skeletons[];

const struct cla_skeleton *cla_skeleton_find(const char *name); /* NULL where there is none of that name */

/* What clattn_skeleton_get_info() says of it. */
struct clattn_skeleton_info cla_skeleton_describe(const struct cla_skeleton *skeleton);

#endif
