/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RECIPE_H
#define CLA_RECIPE_H

#include "plan/kernel_params.h"
#include "plan/operand.h"
#include "plan/skeleton.h"
#include <stdbool.h>
#include <stddef.h>

/* What one call of a variant runs: parts of the workspace, numbers in the kernels' argument block, and kernels, one
 * after the other. A skeleton's recipe() writes it; src/attention carries it out, whatever is in it
 * (attention/stages.h).
 *
 * A kernel that the recipe of any call may name is compiled with the plan. What all skeletons have in common is not in
 * it: a backward pass's statistics, a block mask that comes as CSR, the merging of splits. */
enum { CLA_MOST_REGIONS = 8, CLA_MOST_STAGES = 8, CLA_MOST_NUMBERS = 4 };

/* For `told_at`: the argument block does not say it. */
#define CLA_UNTOLD SIZE_MAX

/* A part of the workspace. It begins on a multiple of 128 bytes, so that none shares a cache line with another. */
struct cla_region {
    const char *name;
    int64_t bytes;
    bool zeroed;    /* before the first stage; such regions follow each other */
    size_t told_at; /* offset of the int64_t in the argument block that says which 4-byte word it begins at */
    int64_t first;  /* that word, of cla_recipe_place() */
};

/* One launch: work-groups for so many blocks of each head. Without any it is left out. */
struct cla_stage {
    int kernel; /* its number among the skeleton's */
    int64_t batch, heads, blocks;
    const char *counted;  /* what there are blocks of, "n_q / B_r" */
    int64_t most_groups;  /* of persistent work-groups no more are launched; 0: as many as there are blocks */
    const int *arguments; /* what it takes before the score modifications' arguments: see below */
    size_t groups;        /* of cla_stages_count() */
};

/* Arguments: the numbers of operands, whose buffers are passed; the argument block; the layout of an operand. */
enum { CLA_ARGUMENT_BLOCK = CLA_OPERANDS, CLA_LAYOUT_OF, CLA_ARGUMENTS_END = -1 };

/* An int32_t of the argument block that is the skeleton's own. */
struct cla_number {
    size_t at;
    int32_t value;
};

struct cla_recipe {
    struct cla_region regions[CLA_MOST_REGIONS];
    struct cla_stage stages[CLA_MOST_STAGES];
    struct cla_number numbers[CLA_MOST_NUMBERS];
    int region_count, stage_count, number_count;
    int splits;       /* of the keys; then states of so many lie from the workspace's beginning on */
    bool joins;       /* which the kernel itself makes results of */
    bool numbered;    /* counters in the workspace are told from those of other calls */
    int stuck_region; /* its word `stuck_word` is 1 once a work-group has given up waiting; -1: none waits */
    int stuck_word;
    bool too_large;  /* something is more than can be counted */
    size_t end_byte; /* of the regions, of cla_recipe_place() */
};

/* A call, as far as its recipe depends on it. */
struct cla_run {
    const struct clattn_problem *problem; /* resolved */
    const struct cla_config *config;
    const struct clattn_capabilities *capabilities;
    struct clattn_shape shape; /* resolved */
    int64_t keys;              /* of one sequence, that the call may have to do with */
    int splits;                /* of the keys */
    uint64_t outputs;          /* 1 << number of each operand that is wanted */
    struct cla_sizes d_bias;   /* those of CLA_BIAS_GRAD */
};

/* For the skeletons. Sizes are checked: what is too much sets too_large. */
int64_t cla_recipe_times(struct cla_recipe *recipe, int64_t a, int64_t b);
void cla_recipe_region(struct cla_recipe *recipe, const char *name, int64_t count, int64_t each_bytes, bool zeroed,
                       size_t told_at);
void cla_recipe_number(struct cla_recipe *recipe, size_t at, int32_t value);
void cla_recipe_stage(struct cla_recipe *recipe, struct cla_stage stage);

bool cla_run_wants(const struct cla_run *run, int operand);
bool cla_run_wants_keys(const struct cla_run *run);    /* dK or dV */
int64_t cla_run_row_blocks(const struct cla_run *run); /* of one head */
int64_t cla_run_key_blocks(const struct cla_run *run);

/* Tells a kernel of packed rows of them: of so many heads to a packed one. */
void cla_recipe_pack(struct cla_recipe *recipe, const struct cla_run *run, int pack);

/* The forward kernel, whole or of splits, with a region for their states; and where it makes results of them. */
void cla_recipe_forward(const struct cla_run *run, struct cla_recipe *recipe);
void cla_recipe_joined_forward(const struct cla_run *run, struct cla_recipe *recipe);

/* The forward kernel with a counter of tickets (cl/common/cpu_tickets.clh), unless it is of splits or states. Blocks
 * have so many sizes, each half of the one before. */
void cla_recipe_forward_by_tickets(const struct cla_run *run, int sizes, struct cla_recipe *recipe);

/* Launches of a backward pass: over blocks of rows where dQ is wanted, over blocks of keys in any case (each shared out
 * between so many work-groups; `groups` persistent ones, or 0), and over both where d_bias is wanted. */
void cla_recipe_dq(const struct cla_run *run, struct cla_recipe *recipe);
void cla_recipe_over_keys(const struct cla_run *run, int kernel, int64_t shares, int64_t groups,
                          struct cla_recipe *recipe);
void cla_recipe_d_bias(const struct cla_run *run, struct cla_recipe *recipe);

/* The three of them, of kernels that give each other nothing; and where that of dQ mends the rows' deltas for the
 * others (cl/common/delta.clh): it comes first, and also where dQ is not wanted, so that these do not depend on it. */
bool cla_run_wants_delta(const struct cla_run *run); /* beside dQ: gradients that a mended delta is in */
void cla_recipe_backward(const struct cla_run *run, struct cla_recipe *recipe);
void cla_recipe_mended_backward(const struct cla_run *run, struct cla_recipe *recipe);

/* Arguments of the forward kernels, and with the workspace among them; of a backward kernel without outputs, and with
 * dK and dV. */
extern const int cla_forward_list[], cla_forward_workspace_list[], cla_backward_inputs_list[], cla_backward_keys_list[];

/* For those who carry it out. */
struct cla_recipe cla_recipe_of(const struct cla_skeleton *skeleton, const struct cla_run *run);

/* The numbers, as bits, of the kernels that calls with so many splits may run. */
uint32_t cla_recipe_kernels(const struct cla_skeleton *skeleton, const struct cla_config *config,
                            const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            int splits);

/* Places the regions from byte `first` of the workspace on. */
void cla_recipe_place(struct cla_recipe *recipe, size_t first);

/* The words that are to be 0 before the first stage. */
struct cla_words {
    int64_t first, count;
};
struct cla_words cla_recipe_zeroed(const struct cla_recipe *recipe);

/* Writes into an argument block what the recipe says of it. */
void cla_recipe_tell(const struct cla_recipe *recipe, void *block);

#endif
