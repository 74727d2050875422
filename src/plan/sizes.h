/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SIZES_H
#define CLA_SIZES_H

#include "plan/machine.h"
#include "plan/matrix_cost.h"
#include "plan/skeleton.h"

/* Every size and ratio that planners and kernels take from a measurement (sizes.c), with the device that it was made on
 * and where it is written down. What a device has is in plan/machine.h. */

/* A configuration that was the fastest of those timed. Fields that are not the measurement's are 0. */
struct cla_size {
    const char *kernel;     /* the skeleton; an emulation takes those of what it stands for */
    enum cla_family family; /* devices that it is for; CLA_ANY_FAMILY: all */
    int most_d;             /* up to this d and d_v; of forward_hopper d_v alone */
    unsigned situations;    /* enum cla_hopper_situation, or CLA_BACKWARD_.., or-ed together; 0: any */
    bool fp32;              /* of elements of 32 bits; else 16 */
    struct cla_config config;
    const char *source; /* device; file */
};
extern const struct cla_size cla_sizes[]; /* ended by one without a kernel */

/* The first that applies; NULL where there is none. */
struct cla_size_wish {
    unsigned situations; /* one of them is enough */
    int b_r, b_c;        /* 0: any */
    bool fp32;
};
const struct cla_size *cla_size_find(const char *kernel, enum cla_family family, int d,
                                     const struct cla_size_wish *wish);

/* Where forward_matrix gains by bounds of the tile before (CLATTN_STALE_MAX): up to most_d, with fewer keys than
 * few_keys up to narrow_d alone. Where the bounds do not hold, it is faster to form the scores once more than to have
 * kept them up to formed_again_d, and with a mask_mod. */
struct cla_stale_max_sizes {
    int most_d, narrow_d, few_keys, formed_again_d;
};
extern const struct cla_stale_max_sizes cla_stale_max_sizes;

/* Rows of a sequence up to which forward_hopper's smaller blocks are worth more than its fast ones: where d_v is wide
 * or narrow, where half of the pairs are hidden, and so where four consumers have causal rows; and from which on its
 * widest tiles gain more than they lose at the diagonal or a change of rows. And tiles of a work-group up to which
 * TMA's descriptors cost more than they gain. Then for pipelines of few tiles: rows up to which a consumer by itself
 * is slower than forward_matrix, and keys up to which it is faster than two; rows and keys of causal sequences up to
 * which pairs of consumers are faster than four together; by how much they are slower, in hundredths, where nothing
 * is hidden; blocks of rows for each pipeline below which a compute unit has too few for several; and rows and keys up
 * to which backward_matrix is faster than backward_hopper, in order, where a device computes all blocks at once. */
struct cla_hopper_lengths {
    int wide, narrow, causal, four_causal, longest, few_tiles;
    int single_rows, single_keys, paired_causal, paired_cost, pipeline_blocks, short_backward;
};
extern const struct cla_hopper_lengths cla_hopper_lengths;

/* What backward_hopper asks for: sizes that leave no registers for what modifies scores, or others. */
enum { CLA_BACKWARD_LIGHT = 1, CLA_BACKWARD_OTHER = 2 };

/* Values of b_c that the tuner tries for a kernel, ended by 0: its own, or those that serve most. */
const int *cla_sizes_tried(const char *kernel);

/* TFLOP/s that a matrix unit reached, by what feeds it: products of one kind cost as much as those of another times
 * their ratio. */
struct cla_rates {
    double mma;          /* mma.sync, two row tiles a sub-group */
    double mma_one_tile; /* one row tile a sub-group: operands come in for each product */
    double wgmma;
    const char *source;
};
extern const struct cla_rates cla_rates;

/* What forward_matrix and backward_matrix take of each unit (plan/matrix_cost.h); the last row is for all other
 * families. */
extern const struct cla_matrix_rates cla_matrix_rates[];

/* How much is worked on at a time, so that a cache holds it. OpenCL does not say how large that is: NVIDIA reports 32
 * KB a compute unit, AMD the first level. */
struct cla_together_sizes {
    int64_t forward_matrix_bytes;  /* K and V of the heads whose causal blocks are worked on together */
    int64_t forward_hopper_bytes;  /* K and V of a call whose causal blocks all go together, the longest first, */
    int forward_hopper_rounds;     /* if there are up to so many for each work-group */
    int64_t backward_hopper_bytes; /* Q, dO and sums of dQ of the heads that take turns: */
    int backward_hopper_heads;     /* so many at least, or as keep the device busy twice over */
};
extern const struct cla_together_sizes cla_together_sizes;

/* Between how many work-groups a block of keys of a backward pass is shared out (plan/skeletons/shares.h). */
struct cla_share_sizes {
    double start;            /* what a share takes beside its tiles of rows, in tiles */
    double launch;           /* the kernel that adds shares up, in tiles, */
    double products_of_byte; /* and multiply-adds that the device does in the time of a byte of them */
    double worth;            /* blocks are shared out where that takes less than so much of the time */
    double crowd, crowding;  /* more work-groups than that add to the same sums at once: a tile takes so much longer */
    int most;
};
extern const struct cla_share_sizes cla_share_sizes;

/* The model of forward_simt's and backward_simt's time (plan/skeletons/simt.h), in issue slots of a compute unit. */
struct cla_simt_weights {
    double overlap; /* exponent of the norm that joins arithmetic and local memory: 1 none overlaps, large all does */
    double loop;    /* further instructions for each multiply-add */
    double copy;    /* slots to carry a block of four elements */
    double slice;   /* slots for a slice's addresses and counters */
    double barrier; /* for each barrier that no other work-group hides */
    double exposed_load; /* a slice that is not prefetched */
    double block_slice;  /* a slice of the block that comes again with each tile */
    double spilled;      /* slots for each word that registers do not hold: out and back once a tile */
    double latency;      /* items that it takes to hide latencies by half, of four schedulers with 32 lanes each */
    double traffic;      /* bytes of device memory a slot, for each compute unit */
    double word;         /* slots a word of each lane through local memory */
    const char *source;
};
extern const struct cla_simt_weights cla_simt_weights;

/* Rows (keys) of a block of forward_cpu's and backward_cpu's, where the blocks of the larger size of so many heads (0:
 * of one) are enough for the cores or not; of the smallest to which blocks that go by tickets shrink, as each reads K
 * and V; and of what streams past them, past few rows, too. */
struct cla_cpu_sizes {
    int block, large_block, least_rows, heads, stream, few_rows, few_stream;
    const char *source;
};
extern const struct cla_cpu_sizes cla_forward_cpu_sizes, cla_backward_cpu_sizes;
/* Of forward_cpu, where blocks go by tickets, which they do where a device has more than few_units. */
extern const struct cla_cpu_sizes cla_forward_tickets_sizes;
extern const uint32_t cla_forward_cpu_few_units;
/* What streams past blocks, where AMX multiplies. */
extern const struct cla_cpu_sizes cla_forward_amx_sizes, cla_backward_amx_sizes;

/* Up to so many compute units one kernel of backward_cpu forms all gradients. Each needs sums of dQ of its own. */
extern const int cla_backward_cpu_fused_units;

/* And a unit is to have so many heads of K and V, or shares of these, to take when it is free. */
extern const int cla_backward_cpu_rounds;

/* decode_cpu: most rows of a block, and those of one where no number is expected; bytes of K that are a tile, and
 * its most keys; rows up to which it is the faster kernel; rows of a panel, at most; sums that registers hold, with
 * vectors of 16 floats and with narrower ones; keys that are fetched ahead of their use where they lie in pages, where
 * vectors are narrow, and where these are wide, keys follow each other and the bytes of one, times the panels of rows
 * that it meets, are long_row or more; keys of a tile where O is summed by integers, and those that are fetched ahead
 * there where V lies in blocks. */
struct cla_decode_sizes {
    int block, usual_block, tile_bytes, most_keys, pair_keys, pair_ahead, word_keys, few_rows, rows, wide_sums, sums,
        ahead_in_pages, narrow_ahead, ahead, long_row;
    const char *source;
};
extern const struct cla_decode_sizes cla_decode_cpu_sizes;

/* Their model of time: the share of the multiply-add peak that is lost. */
struct cla_cpu_weights {
    double block, tile,
        columns;             /* work per block that its rows share, per tile that its keys, per key that its columns */
    double load, step;       /* a load in multiply-adds; and what any step of the innermost loop takes, in loads */
    int least_sums;          /* accumulators, of which fewer wait for each other */
    double free_registers;   /* share of the registers beyond which compilers move values about, */
    double crowded, spilled; /* for each register beyond that, and for each that there is not */
    const char *source;
};
extern const struct cla_cpu_weights cla_cpu_weights;

/* Rows of a head up to which heads that share K and V go together. */
struct cla_packing_sizes {
    int64_t most_rows;
};
extern const struct cla_packing_sizes cla_packing_sizes;

/* Rows up to which forward_matrix takes K and V without local memory (cl/common/matrix_stream.clh); sub-groups of a
 * work-group then, and where there is no more than one for a compute unit, and it has more than a few rows or most of
 * them have one. Registers of a compute unit of NVIDIA's for a lane of all its sub-groups. */
struct cla_stream_sizes {
    int most_rows, sub_groups, more, few_rows, unit_registers;
    int cached_hundredths; /* of the second-level cache: K and V of a call in so much of it come from it, and fewer rows
                            * are faster, */
    int block_elements;    /* and more sub-groups where each block of rows has so many of them to each of its splits */
};
extern const struct cla_stream_sizes cla_stream_sizes;

/* The model of splits (plan/splits.h), in keys that a block of rows meets. Beside each other work-groups of a compute
 * unit take longer for a key each. */
struct cla_split_weights {
    double start;       /* what a work-group costs beside its keys: its rows come in, its results go out; */
    double split_start; /* and where keys are split */
    double merge;       /* each row of each split, written and read in float, in keys of that row */
    double launch;      /* of the merging kernel, */
    double key_bytes;   /* in keys of so many bytes (K and V), so that shorter ones are more; 0: in keys of any */
    double alone;       /* of a key's time, that of one where no compute unit has two work-groups; 0: was not timed */
};
extern const struct cla_split_weights cla_split_weights, cla_tiled_split_weights, cla_persistent_split_weights,
    cla_joined_split_weights;

#endif
