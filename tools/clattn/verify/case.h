/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_CASE_H
#define CLATTN_TOOL_VERIFY_CASE_H

#include "opencl_select.h"
#include "reference/reference.h"
#include "verify/formats.h"

/* One thing that `clattn verify` checks, and what is needed to check it. */

enum verify_layout {
    VERIFY_BHND,    /* dense */
    VERIFY_BNHD,    /* dense, heads inside rows */
    VERIFY_STRIDED, /* rows padded and columns apart */
    VERIFY_LAYOUTS
};

enum verify_kind {
    VERIFY_RULE,            /* against the float64 reference, by FlashAttention's rule */
    VERIFY_BACKWARD,        /* gradients, likewise */
    VERIFY_STATE,           /* the forward pass with keys in chunks, likewise */
    VERIFY_BACKWARD_CHUNKS, /* and gradients */
    VERIFY_CONSTANT_V,
    VERIFY_PERMUTED_KEYS,
    VERIFY_SHIFTED_LOGITS,
    VERIFY_SPLIT_KEYS,
    VERIFY_LINEAR_V,
    VERIFY_SEPARATE_BATCHES,
    VERIFY_BIT_EQUAL,
    VERIFY_HIDDEN_VALUES,
    VERIFY_KINDS
};

/* Inputs that are shared (stride 0), as bits of verify_case.shared: of Q, K, V and dO over batch elements, then over
 * heads. */
enum { VERIFY_SHARED = 4 };

/* Elements that each case's O and gradients of Q, K and V have at least, but where there are no rows or no keys. */
enum { VERIFY_FEWEST = 256 };

/* The user's functions that a case has. */
enum verify_mod { VERIFY_SCORE_MOD = 1, VERIFY_MASK_MOD = 2 };

struct verify_case {
    enum verify_kind kind;
    struct reference_problem
        problem;            /* of its score modifications features and block sizes; values are made up later */
    int mods;               /* enum verify_mod */
    bool csr;               /* a block mask is given as compressed rows */
    float expected_density; /* of a block mask, as far as plans are told; 0: unknown */
    enum verify_layout layout;
    double gain;          /* deviation of K: logits have this one too, so that softmax is neither flat nor one key */
    int kernel;           /* a number that cases of one kernel have in common */
    const char *skeleton; /* NULL: the planner's choice */
    int b_r, b_c, work_group_size; /* with `skeleton`; 0 and NULL: planned */
    const char *knobs;
    int splits;  /* of the keys, in a forward pass; 0: planned */
    bool packed; /* query heads that share a head of K and V go together, in forward passes */
    bool unordered;
    int runs;      /* how often, when bits are compared */
    int64_t chunk; /* where keys come in chunks: how many at a time */
    bool merged;   /* and every other chunk goes to a second state, which is merged at last */

    /* Cases that are drawn (verify/draw.h): the numbers of the score modifications (windows, softcap, dropout) are
     * given, and not made up from the seed; */
    bool given;
    bool p_is_known;     /* the plan is told how much dropout drops; */
    int kept;            /* per cent of a block mask; */
    int64_t expected[3]; /* n_q, n_kv and heads, as far as plans are told: 0: unknown; */
    bool aligned;        /* tensors begin on multiples of 64 elements, else on none of any vector; */
    bool mixed;          /* each tensor has another layout than the one before it; */
    unsigned shared;     /* inputs of stride 0 */
    int64_t page_keys;   /* K and V lie in pages of so many keys; 0: in none. In the plain forward pass alone */
    bool compressed;     /* their table is */
    struct verify_format formats[VERIFY_FORMATS]; /* of K and V; there, too */
};

/* "rule fp16 d 64/64 causal bottom-right 113x203 batch 2 heads 4/2 layout bnhd forward_simt" */
void verify_case_name(const struct verify_case *item, char *text, size_t size);

/* How it went. */
enum verify_outcome {
    VERIFY_PASS,
    VERIFY_FAIL,  /* an answer is wrong; text: why */
    VERIFY_ERROR, /* there is none: a call failed, or memory was short; text: why */
    VERIFY_SKIP   /* the named skeleton does not fit this device; text: why */
};

struct verify_result {
    enum verify_outcome outcome;
    double share; /* the largest error over what was allowed */
    char text[1024];
};

/* Elements of the arrays of the score modifications. */
struct verify_counts {
    size_t alibi, bias, mask, block_mask, lengths, sinks, data;
    size_t more[CLA_SCORE_TENSORS]; /* of later features */
};

/* A block mask as compressed rows; offsets NULL: it is given as bytes. */
struct verify_csr {
    int32_t *offsets, *columns;
    size_t offset_count, column_count;
    struct clattn_layout at; /* of the offsets */
};

/* Dense arrays of one pass. Those of a backward pass are NULL in others. */
struct verify_data {
    struct verify_counts counts;
    struct verify_csr csr; /* its arrays are not owned */
    float *q, *k, *v, *d_o;
    float *o, *lse, *m, *l; /* what the device answered */
    bool without_m;         /* a forward pass is not asked for m and l: kernels may then take another way */
    float *d_q, *d_k, *d_v, *d_bias, *d_sinks;
    struct verify_stored stored[VERIFY_FORMATS]; /* K and V, where they have formats */
};

/* As many batch elements as give O and each gradient of Q, K and V VERIFY_FEWEST elements: the rule compares largest
 * errors, and of a few elements all may be right by chance in the naive formula. */
void verify_enlarge(struct reference_problem *problem);

bool verify_data_create(const struct reference_problem *problem, bool backward, struct verify_data *data);
void verify_data_destroy(struct verify_data *data);

/* Random inputs, rounded to the problem's type, or to formats. False without memory. */
bool verify_data_fill(const struct verify_case *item, uint64_t seed, struct verify_data *data);

/* Runs `problem`, which may have other sizes than the case's, with the case's plan and layout. Every buffer is embedded
 * in guards and outputs are poisoned with NaN. False, with the result filled, where anything is wrong but the numbers.
 */
bool verify_forward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                    const struct reference_problem *problem, struct verify_data *data, struct verify_result *result);

/* Plans what the case says, for this pass. A skeleton that the case names is of its own pass: others are planned. */
clattn_status verify_plan(const struct session *session, const struct verify_case *item, enum clattn_pass pass,
                          clattn_plan **plan);
enum clattn_pass verify_pass(const struct verify_case *item);
bool verify_is_backward(const struct verify_case *item);

/* The buffer of a call's workspace; NULL where it needs none. */
clattn_status verify_workspace(const struct session *session, const clattn_plan *plan, const struct clattn_shape *shape,
                               cl_mem *workspace, size_t *bytes);

/* Runs the backward pass on what a forward pass left in `data`. */
bool verify_backward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                     struct verify_data *data, struct verify_result *result);

/* A case of that kind, whole; data is filled. */
bool verify_gradients(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                      struct verify_data *data, struct verify_result *result);

/* The forward pass through the streaming state, with O, LSE, m and l as that has them. */
bool verify_state(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                  struct verify_data *data, struct verify_result *result);

/* Whether `count` floats are the same to the bit; else the result is filled. */
bool verify_same_bits(const char *what, const float *first, const float *again, size_t count,
                      struct verify_result *result);

/* Fill the result, as wrong or as an error, and return false. */
__attribute__((format(printf, 2, 3))) bool verify_fail(struct verify_result *result, const char *format, ...);
__attribute__((format(printf, 2, 3))) bool verify_error(struct verify_result *result, const char *format, ...);

/* Whether `out`, named `what`, is close enough to `expected`; else the result is filled. naive NULL: within floor
 * alone. */
bool verify_close(const char *what, const float *out, const double *expected, const float *naive, size_t count,
                  size_t columns, double floor, struct verify_result *result);

/* The same for a gradient, whose rule is a little wider. */
bool verify_gradient_close(const char *what, const float *out, const double *expected, const float *naive, size_t count,
                           size_t columns, double floor, struct verify_result *result);

/* A law of attention (every kind from VERIFY_CONSTANT_V on); data is filled. */
bool verify_law(const struct session *session, const clattn_plan *plan, const struct verify_case *item, uint64_t seed,
                struct verify_data *data, struct verify_result *result);

#endif
