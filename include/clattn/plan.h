/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_PLAN_H
#define CLATTN_PLAN_H

#include <clattn/device.h>
#include <clattn/problem.h>

CLATTN_BEGIN_DECLS

/* Planning: from a problem and a device's capabilities to the kernel and its block sizes.
 *
 * FlashAttention cuts Q into T_r blocks of B_r rows and K and V into T_c blocks of B_c rows. The paper
 * (arXiv:2205.14135, Algorithm 1) takes them from M, the on-chip memory counted in elements:
 *
 *     B_c = floor(M / 4d),  B_r = min(B_c, d)          (each at least 1)
 *
 * with d the larger of d and d_v. That says what fits. What is fast also depends on registers and on the limits of a
 * work-group, so the plan starts there and takes a few further steps, each with its reason. M is
 * static_local_memory_bytes (or, where that is unknown, local_memory_bytes) over the size of the type that the tiles
 * hold.
 *
 * A plan serves any shape. Few rows against many keys, as in decoding, want another kernel on some devices (on CPUs
 * decode_cpu, up to 8 rows to a head of K and V). A plan of CLATTN_FORWARD whose expected_n_q is 0 keeps a second
 * kernel for such calls. The first call that has so few rows, or asks for their workspace, compiles it, and may fail as
 * clattn_plan_create does; where this first call must not wait, make a plan with expected_n_q = 1. A call that asks for
 * m or l stays with the first kernel: gradients are most exact from the one that adds up scores as they do. So a plan
 * for training says nothing of few rows by expected_n_q. A plan has one kernel alone where expected_n_q says how many
 * rows there will be, where the choice is forced, or with texts of the caller's (score_mod, mask_mod). clattn_plan_info
 * tells of the first kernel. */

#define CLATTN_MAX_PLAN_STEPS 8

/* Who chose the skeleton and the block sizes. */
enum clattn_plan_source {
    CLATTN_PLAN_MODEL = 0,   /* the skeletons' models of cost */
    CLATTN_PLAN_FORCED = 1,  /* the problem, by its skeleton, b_r, b_c, work_group_size or knobs */
    CLATTN_PLAN_TUNED = 2,   /* a record of the caller's tuning records (clattn/tuning.h) */
    CLATTN_PLAN_BUILT_IN = 3 /* a record of the library's own table of measured devices */
};

/* One step of the way from the paper's block sizes to the chosen ones. */
struct clattn_plan_step {
    char name[24]; /* "paper", "registers", "work-group", "rows", ... */
    int b_r;
    int b_c;
    char reason[232];     /* one sentence, with its numbers */
    uint64_t reserved[2]; /* 0: clattn/version.h */
};

/* How one kernel meets device memory: a block of one side stays on the chip while the other side passes, tile by
 * tile. */
struct clattn_plan_stream {
    int block;    /* rows that stay together; keys in the kernel of dK and dV */
    int tile;     /* keys that pass at a time; rows in that kernel */
    int reads;    /* how often each element of K (of Q) is read while it passes, */
    int reads_v;  /* and of V (of dO) */
    int resident; /* 1: the block is read once; 2: once for each query head that shares it; 0: again with every tile */
    uint64_t reserved[4]; /* 0: clattn/version.h */
};

/* What was planned. */
struct clattn_plan_info {
    char skeleton[32];   /* the structure of the kernel: "forward_hopper", "forward_simt", ... */
    int b_r;             /* rows of a query block */
    int b_c;             /* keys of a key block */
    int work_group_size; /* work-items that share a query block */
    char knobs[256];     /* the skeleton's own choices, "name=value name=value"; "" where it has none */
    enum clattn_plan_source source;
    uint64_t m_elements; /* M */
    int paper_b_r;
    int paper_b_c;
    int64_t t_r; /* blocks at expected_n_q and expected_n_kv; 0 where these are unknown */
    int64_t t_c;
    int splits; /* parts that the keys are split into at the expected sizes; 1: not at all; 0: by each call's shape */
    uint64_t local_bytes;       /* local memory that one work-group uses */
    uint64_t local_bytes_limit; /* and what it may use */
    uint64_t private_bytes;     /* the model's estimate of private memory per work-item: registers, if they suffice */
    double estimate; /* the model's relative cost for one pair of row and key, to compare choices of one skeleton */
    struct clattn_plan_stream streams[2]; /* [0] rows stay: forward, and of dQ; [1] keys stay: of dK and dV */
    int sums; /* 1: the kernel of dK and dV adds up dQ, too, in fp32 in the workspace; that of dQ only ends the sums */
    int step_count;
    struct clattn_plan_step steps[CLATTN_MAX_PLAN_STEPS];
    char program_key[40];  /* hash of program text, options and device; "" where no program was made */
    char constants[1024];  /* the integers baked into the kernel, as "NAME=value NAME=value ..." */
    uint64_t reserved[64]; /* 0: clattn/version.h */
};

/* One structure of kernels, which problem.skeleton may name: facts that do not depend on a device. */
struct clattn_skeleton_info {
    char name[32];
    bool backward;  /* for CLATTN_BACKWARD and CLATTN_BACKWARD_ACCUMULATE; else for the other two passes */
    bool for_cpus;  /* without parallelism within a work-group: the planner takes it on CPUs alone */
    bool declines;  /* computes by matrix units, which do not serve every type, head dimension and device */
    bool any_order; /* of those, serves only problems with `unordered` */
    bool emulated;  /* computes on a CPU what matrix units would, for tests: the planner takes it only where asked to */
    bool chunks;    /* takes keys in chunks: CLATTN_ACCUMULATE, or CLATTN_BACKWARD_ACCUMULATE */
    int largest_d;  /* the largest head dimension, of Q and K or of V, that it serves on any device */
    int64_t packs;  /* 1: heads that share K and V can go together (problem.packing); else 0 */
    int64_t only_16_bits; /* 1: it serves CLATTN_FP16 and CLATTN_BF16 alone; else CLATTN_FP32, too */
    uint64_t reserved[6]; /* 0: clattn/version.h */
};

/* How many skeletons this library has, and what each one is: numbers from 0 on, in the order in which the planner asks
 * which one suits. A later library may have others. Any thread. Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API int clattn_skeleton_count(void);
CLATTN_API clattn_status clattn_skeleton_get_info(int index, struct clattn_skeleton_info *info);

/* Plans without a device: the answer that clattn_plan_create would plan on a device of these capabilities. Pure:
 * touches no OpenCL, no file, no global. Any thread.
 *
 * Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE (d or d_v out of range), CLATTN_INVALID_TYPE,
 * CLATTN_NOTHING_FITS. */
CLATTN_API clattn_status clattn_plan_preview(const struct clattn_capabilities *capabilities,
                                             const struct clattn_problem *problem, struct clattn_plan_info *info);

CLATTN_END_DECLS

#endif
