/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_FEATURE_H
#define CLA_FEATURE_H

#include "plan/error.h"
#include "plan/layout.h"
#include "plan/text.h"
#include <clattn/problem.h>
#include <clattn/score.h>
#include <stdbool.h>

/* The score features: one table, from which come what kernels get (their parameters, their views of a head, the order
 * of their hooks), what the host checks and stages, the options of `clattn run`, and what `clattn verify` draws.
 *
 * Feature NAME has its kernel text in cl/score/NAME.clh. The row says which of these hooks that defines: */
enum cla_hook {
    CLA_MODIFIES = 1,      /* clattn_NAME_modify: the score */
    CLA_SLOPES = 2,        /* clattn_NAME_gradient: the derivative of that by the score; without it 1 */
    CLA_HIDES = 4,         /* clattn_NAME_hides: whether a pair is hidden */
    CLA_BEGINS = 8,        /* clattn_NAME_first_key, _last_row: rows do not see all keys before their own place */
    CLA_ENDS = 16,         /* clattn_NAME_last_key, _first_row: nor all behind it */
    CLA_FINISHES = 32,     /* clattn_NAME_finish: results are not O / l */
    CLA_FAST_MODIFY = 64,  /* kernels on matrix units have their own form of `modify` */
    CLA_FAST_HIDES = 128,  /* and of `hides` */
    CLA_OF_GRADIENTS = 256 /* no hook of kernels: backward passes alone have the feature */
};

/* Which elements a tensor has. */
enum cla_extent {
    CLA_OF_PAIRS = 1,  /* [batch, heads, n_q, n_kv] */
    CLA_OF_BLOCKS,     /* [batch, heads, blocks of rows, blocks of keys] of the problem's block_q and block_kv */
    CLA_OF_BLOCK_ROWS, /* [batch, heads, blocks of rows + 1] */
    CLA_OF_ROWS,       /* [batch, heads, n_q] */
    CLA_OF_EACH_KEY,   /* [batch, heads, n_kv] */
    CLA_OF_HEADS,      /* [batch, heads] */
    CLA_OF_HEAD,       /* [heads] */
    CLA_OF_BATCH,      /* [batch], dense */
    CLA_OF_TREE,       /* [batch, heads, n_q, words of tree_keys bits] */
    CLA_OF_SEQUENCES,  /* [batch + 1], dense */
    CLA_OF_PAGES,      /* [batch, pages of a sequence], or all pages of all sequences */
    CLA_OF_KEYS,       /* of K or V: a row's groups of elements, for each of its rows */
    CLA_BESIDE_KEYS,   /* the same in the places of the tensor before it, from an offset of its own on */
    CLA_OF_DROPOUT,    /* [2]: its seed and offset */
    CLA_LOOSE          /* a bare cl_mem: block_columns and data alone, whose sizes other code knows */
};

enum cla_element { CLA_FLOAT = 1, CLA_AS_BIAS, CLA_BYTE, CLA_INT, CLA_WORD };

/* Which struct has it: struct clattn_score_args, or one that this points to and that need not be there. */
enum cla_home { CLA_IN_SCORE, CLA_IN_MORE, CLA_IN_SCALES };

/* What numbers count, those of CLA_OF_BATCH as lengths, those of CLA_OF_SEQUENCES from the first sequence on. */
enum cla_counted { CLA_COUNTS_ROWS = 1, CLA_COUNTS_KEYS };

/* An option of `clattn run`: --NAME FILE.npy of a tensor, --NAME ARGUMENT of a number. */
struct cla_feature_option {
    const char *name; /* NULL: none */
    const char *help;
    const char *needs; /* other options without which it says nothing, a line each: "tree-keys N" */
    /* Of numbers alone. */
    const char *argument, *example;
    int64_t least, most;      /* of whole ones */
    int multiple;             /* they are multiples of; 0: any */
    bool share, above_0, two; /* 0 <= x < 1; above 0; two numbers, this row's and the next one's */
    bool corner;              /* bottom-right or top-left, as enum clattn_causal counts them */
};

/* A tensor of struct clattn_score_args, which struct clattn_host_score_args has as an array and a layout. */
struct cla_feature_tensor {
    const char *name; /* the field, */
    const char *path; /* as messages have it: "score.bias" */
    const char
        *kernel; /* score_KERNEL is the kernels' parameter, view->KERNEL its value; NULL: as the field; "": none */
    enum cla_extent extent;
    int each; /* of heads: so many numbers each, along a last dimension; 0: one, without such a dimension */
    int keys; /* of keys: the operand whose they are, CLA_K or CLA_V (plan/operand.h) */
    enum cla_element element;
    enum cla_counted counts; /* 0: nothing */
    enum cla_home home;      /* arrays of CLA_IN_SCALES are in struct clattn_host_kv_scales, too */
    size_t given;            /* where that has it */
    size_t offset;           /* of a bare cl_mem, where the number of its first element is; 0: a clattn_tensor has it */
    size_t memory;           /* of a bare cl_mem, where its enum clattn_memory is; 0: there is none of its own */
    size_t array, layout;    /* where struct clattn_host_score_args has it; layout 0: it has none */
    const char *layout_name;
    size_t params; /* 1 + where struct cla_score_params has its place; 0: behind what that names */
    struct cla_feature_option option;
    float drawn_from, drawn_to; /* the values that verify takes; both 0: it makes them in its own way */
};

enum cla_number_type { CLA_NUMBER_FLOAT = 1, CLA_NUMBER_INT64, CLA_NUMBER_UINT64, CLA_NUMBER_UINT32, CLA_NUMBER_INT };

/* A number of both structs; a setting of struct clattn_problem alone, in the place of `array`. */
struct cla_feature_number {
    const char *name;
    enum cla_number_type type;
    enum cla_home home;
    size_t given, array;
    /* Of a float that kernels get as it is, as view->NAME: what it may be, and words that say so. NULL: the number has
     * a check of its own (plan/features/feature_check.h). */
    const char *range;
    float least, most;
    struct cla_feature_option option; /* without a name: none, or that of the row before */
    float drawn_from, drawn_to;
};

/* The most of a feature, and of all together. */
enum {
    CLA_FEATURE_TENSORS = 3,
    CLA_FEATURE_NUMBERS = 3,
    CLA_FEATURE_SETTINGS = 2,
    CLA_SCORE_TENSORS = 32,
    CLA_SCORE_NUMBERS = 32,
    CLA_SCORE_SETTINGS = 8
};

/* What a call gives its features, and where what kernels get of it goes (plan/kernel_params.h). */
struct cla_score_params;
struct cla_feature_call {
    const struct clattn_problem *problem; /* resolved */
    unsigned features;
    struct clattn_shape shape;
    const struct clattn_score_args *args;
    struct cla_score_params *params;
};

struct cla_feature {
    const char *name;     /* "alibi" */
    const char *constant; /* "CLATTN_ALIBI", for messages */
    unsigned bit;
    unsigned of;                                            /* a feature without which it is nothing; 0: none */
    unsigned hooks;                                         /* enum cla_hook */
    struct cla_feature_tensor tensors[CLA_FEATURE_TENSORS]; /* until one without a name */
    struct cla_feature_number numbers[CLA_FEATURE_NUMBERS];
    struct cla_feature_number settings[CLA_FEATURE_SETTINGS]; /* of struct clattn_problem */
    /* What has to be right about them that the rows above do not say, and about what a problem says of the feature,
     * whether it has it or not; NULL: nothing (plan/features/feature_check.h). */
    clattn_status (*check)(const struct cla_feature_call *call, struct cla_error *error);
    clattn_status (*check_problem)(const struct clattn_problem *problem, bool there, struct cla_error *error);
};

extern const struct cla_feature cla_features[];
extern const int cla_feature_count;

/* Bits beside those of enum clattn_feature: whether dropout's seed is in device memory, what scales of K and V there
 * are, and text of the user's. */
#define CLA_FEATURE_RNG_STATE (1u << 24)
#define CLA_FEATURE_K_SCALES  (1u << 25)
#define CLA_FEATURE_K_ZEROS   (1u << 26)
#define CLA_FEATURE_V_SCALES  (1u << 27)
#define CLA_FEATURE_V_ZEROS   (1u << 28)
#define CLA_FEATURE_SCALES    (15u << 25) /* all four */
#define CLA_FEATURE_SCORE_MOD (1u << 29)
#define CLA_FEATURE_MASK_MOD  (1u << 30)

/* Of features, those that are of none that is not there; and all that they are of, too. */
unsigned cla_features_that_stand(unsigned features);
unsigned cla_features_with_their_own(unsigned features);

/* The bits of enum clattn_feature that there are. */
unsigned cla_features_known(void);

/* Which of them have one of the hooks. */
unsigned cla_features_with(unsigned hooks);

/* `features`, of a forward pass without those of gradients alone. */
unsigned cla_features_of_pass(unsigned features, bool backward);

/* The tensors of all features, numbered in the table's order (attention/operands.h); NULL behind the last. Whoever
 * looks at all of them, as each call does, takes the one after the `last`, whose feature *of is; NULL: the first. */
const struct cla_feature_tensor *cla_feature_tensor(int number, const struct cla_feature **of);
const struct cla_feature_tensor *cla_feature_tensor_after(const struct cla_feature_tensor *last,
                                                          const struct cla_feature **of);

/* Whether kernels have a parameter for it. */
bool cla_feature_tensor_is_argument(int number);

/* A tensor as the caller gives it, whatever struct clattn_score_args has it as. */
struct clattn_tensor cla_feature_given(const struct cla_feature_tensor *tensor, const struct clattn_score_args *args);

/* Where a number is; NULL where its struct is not there. */
const void *cla_feature_number_given(const struct cla_feature_number *row, const struct clattn_score_args *args);

/* The reverse, for those who make the arguments and own what these point to. What has no struct is not written. */
void cla_feature_give(const struct cla_feature_tensor *tensor, struct clattn_tensor given,
                      struct clattn_score_args *args);
void cla_feature_give_number(const struct cla_feature_number *row, int64_t whole, double real,
                             struct clattn_score_args *args);

/* All numbers that the host's struct has. */
void cla_feature_give_numbers(const struct clattn_host_score_args *given, struct clattn_score_args *args);

/* What arguments that are made point to. */
struct cla_score_room {
    struct clattn_score_more more;
    struct clattn_kv_scales scales;
};

/* Sizes of a tensor that the shape alone says, [batch, heads, rows, columns]; false of others. */
bool cla_feature_sizes(const struct cla_feature_tensor *row, const struct clattn_shape *shape, struct cla_sizes *sizes);

/* Whether that is a bare cl_mem. */
static inline bool cla_feature_is_bare(const struct cla_feature_tensor *tensor)
{
    return tensor->extent == CLA_LOOSE || tensor->offset;
}

/* The numbers of all features, and their settings, likewise. */
const struct cla_feature_number *cla_feature_number(int number, const struct cla_feature **of);
const struct cla_feature_number *cla_feature_number_after(const struct cla_feature_number *last,
                                                          const struct cla_feature **of);
const struct cla_feature_number *cla_feature_setting(int number, const struct cla_feature **of);

/* Sets a number of the row's type, whole or not. */
void cla_feature_number_set(const struct cla_feature_number *row, int64_t whole, double real, void *number);

/* The number of bytes of struct cla_score_params that kernels take. */
size_t cla_score_params_bytes(void);

/* Where in that a tensor's place begins, and the bytes of it: the offset of its layout, and as many strides as its
 * extent asks for (plan/features/feature_text.c). And where a number begins. */
size_t cla_feature_tensor_at(int number);
size_t cla_feature_tensor_bytes(int number);
size_t cla_feature_number_at(int number);

/* Appends what a program with these features has above its files. */
void cla_features_define(unsigned features, struct cla_text *text);

#endif
