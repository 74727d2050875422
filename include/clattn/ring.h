/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_RING_H
#define CLATTN_RING_H

#include <clattn/host.h>

CLATTN_BEGIN_DECLS

/* Attention of sequences that several devices share: the devices of one process (clattn_ring_group_create), or of
 * processes and hosts, on MPI (<clattn/mpi.h>, a library of its own).
 *
 * Each rank has a device, some of the rows of Q and O, and some of the keys, with their V. Rows stay, and meet the keys
 * of all ranks, part after part (clattn/state.h): ring attention (Liu et al., arXiv:2310.01889). Or rows pass, where
 * that is fewer bytes (enum clattn_ring_passing). Between processes K and V pass from rank to rank, from each to the
 * next one, the last one's next being rank 0. Within a process nothing is passed: each rank reads the others' keys
 * where they lie. In a backward pass each rank sends what its rows give for dK and dV straight to the rank that has the
 * keys. While a device computes on some keys, the next ones arrive: there are two buffers of them, and messages do not
 * block.
 *
 * Each run of keys goes no further than to the last rank that needs it: with a window, from rank to rank as far as it
 * reaches; and what no row of a rank sees is not computed there (struct clattn_ring_part). A window or a causal mask
 * counts there, with key lengths and packed sequences; what masks and functions of the user's hide does not.
 *
 * Results are those of one device up to rounding, by the same error rule. The keys come in an order that ranks, parts
 * and the kind of transport alone decide, and are added up in that order: the same parts on the same number of ranks of
 * equal devices give the same bits. dK and dV are summed in fp32, of what kernels give for each run of rows in the type
 * of K and V.
 *
 * Threads: the functions that take a ring are collective: all ranks call them, in the same order, and each waits for
 * the others; within a process, each rank from a thread of its own. One call at a time on a ring, with MPI from a
 * thread that MPI lets call it.
 *
 * Errors: where a rank fails, all ranks return its status, and their messages begin with its number: "rank 2: ...".
 * Where several do, that of the lowest. A rank that fails goes on passing keys, so that none waits for it. Outputs are
 * untouched then, on all ranks. */
typedef struct clattn_ring clattn_ring;

/* What carries messages between ranks: one of a group's, or MPI's. Functions return 0, or a clattn_status, of which
 * `why` then has the text, until the next call. Each rank calls its own, from one thread at a time.
 *
 * A message is begun by `send` or `receive`, which put a handle into *message; `test` says whether it is complete, and
 * `end` lets go of it, once. The bytes stay as they are, or are not looked at, until then. Messages between two ranks
 * with the same tag, from 0 to 15, arrive in their order. */
struct clattn_ring_transport {
    void *user;
    int64_t rank, ranks;

    /* 1: ranks see each other's memory. A receive whose data is NULL is lent the sender's bytes: `test` says where they
     * lie, and the sending is complete once the receiver has ended its message. */
    int64_t lends;

    int (*send)(void *user, const void *data, size_t bytes, int to, int tag, void **message);
    int (*receive)(void *user, void *data, size_t bytes, int from, int tag, void **message);
    int (*test)(void *user, void *message, int *complete, const void **lent); /* lent: set where bytes are lent */
    void (*end)(void *user, void *message);                                   /* gives it up if it is not complete */

    int (*all)(void *user, int mine, int *all); /* blocks until all ranks have called it; whether all gave 1 */
    void (*give_up)(void *user);                /* a message failed or did not come: no ring uses it any more */
    void (*pause)(void *user);                  /* waits a moment, and lets messages go on */
    const char *(*why)(void *user);

    uint64_t reserved[8]; /* 0: clattn/version.h */
};

/* Ranks of one process, 1 to 1024. Rank r's transport lives as long as the group, which must outlive all rings on it.
 * Where a ring's communication failed (after its timeout), the group is of no more use. Transports and group: any
 * thread; destroyed by one. Errors: CLATTN_INVALID_ARGUMENT, CL_OUT_OF_HOST_MEMORY. */
typedef struct clattn_ring_group clattn_ring_group;
CLATTN_API clattn_status clattn_ring_group_create(clattn_ring_group **group, int ranks);
CLATTN_API const struct clattn_ring_transport *clattn_ring_group_transport(const clattn_ring_group *group, int rank);
CLATTN_API void clattn_ring_group_destroy(clattn_ring_group **group); /* accepts NULL, and a handle that is NULL */

/* What passes from rank to rank: K and V, or Q, whose rows meet the keys where these are (pass-KV and pass-Q of
 * arXiv:2411.01783). Then each rank's rows go straight to each rank whose keys they see, with what of bias and masks is
 * about these; what comes back is the state of these rows (m, l and O, not normalised, in fp32). In a backward pass O,
 * dO and LSE (or m and l) go along, dQ comes back, in its type, and the bias's gradient; dK and dV stay where they are.
 * States and sums are joined in the order of steps. The bits are others than where K and V pass. */
enum clattn_ring_passing {
    CLATTN_RING_PASS_AUTO = 0, /* each call takes what is fewer bytes of all ranks together, K and V where equal */
    CLATTN_RING_PASS_KV = 1,
    CLATTN_RING_PASS_Q = 2
};

struct clattn_ring_params {
    const struct clattn_ring_transport *transport; /* this rank's; must outlive the ring */
    clattn_context *context;                       /* must outlive the ring */
    cl_command_queue queue;                        /* in order; retained */

    /* How long a rank waits for another one's message, in milliseconds; 0: as long as it takes. Where none comes, the
     * call fails with CLATTN_COMMUNICATION_FAILED on all ranks that can be told, and the ring is of no more use. It has
     * to be longer than the slowest rank takes for a call, at most 2^31 - 1. */
    int64_t timeout_ms;

    int64_t passing; /* enum clattn_ring_passing, the same on all ranks */

    uint64_t reserved[7]; /* 0: clattn/version.h */
};

/* Rows, or keys, of one rank: count[0] of them from first[0] on, then count[1] from first[1] on, counted in the whole
 * (with CLATTN_VARLEN in the packed rows or keys). The parts of all ranks together are the whole, each row and key
 * once. A part may be empty. */
struct clattn_ring_part {
    int64_t first[2];
    int64_t count[2];
    uint64_t reserved[4]; /* 0: clattn/version.h */
};

enum clattn_ring_sharing {
    CLATTN_RING_EVEN = 0,  /* rank r has the r-th of as many pieces as there are ranks */
    CLATTN_RING_ZIGZAG = 1 /* rank r has pieces r and 2 ranks - 1 - r of twice as many: the same work for all under a
                            * causal mask */
};

/* A usual part: pieces are of equal lengths, all multiples of `grain` (1 or more) but the last one that is not empty,
 * so that later ones may be empty. With CLATTN_BLOCK_MASK the grain of rows is a multiple of block_q, with
 * CLATTN_DROPOUT of 16.
 *
 * `weights` is NULL, or one for each rank: lengths are as these (work, too, without a causal mask or by zigzag, where
 * each rank's second piece is as far from the end as its first one is from the beginning). They are how fast ranks are,
 * for ranks whose devices differ; each is 0 or more and finite, one at least not 0.
 *
 * Errors: CLATTN_INVALID_ARGUMENT. Any thread; not collective. */
CLATTN_API clattn_status clattn_ring_share(enum clattn_ring_sharing sharing, int64_t count, int64_t grain, int ranks,
                                           int rank, const double *weights, struct clattn_ring_part *part);

/* Plans. problem.pass is CLATTN_FORWARD, for clattn_ring_forward, or CLATTN_BACKWARD, for clattn_ring_backward;
 * problem.splits and split_keys are 0. All ranks give the same problem, but for the choices taken out of the planner's
 * hands and what is expected. *ring is set on success alone, which is all ranks' or none's. Collective.
 *
 * Not with CLATTN_PAGES, quantised K and V, score_mod, mask_mod or rng_state: CLATTN_INVALID_ARGUMENT. A window_corner
 * other than the causal mask's is allowed where there is neither a causal mask nor ALiBi. With CLATTN_VARLEN not
 * CLATTN_BIAS, CLATTN_MASK, CLATTN_BLOCK_MASK and CLATTN_TREE_MASK, whose rows are counted in each sequence. With
 * CLATTN_DROPOUT what is dropped is what one device drops: its numbers are of the rows and keys of the whole.
 *
 * Errors: CLATTN_INVALID_ARGUMENT; CLATTN_COMMUNICATION_FAILED; those of clattn_plan_create. Where params or
 * params->transport is NULL the call is not collective. */
CLATTN_API clattn_status clattn_ring_create(clattn_ring **ring, const struct clattn_ring_params *params,
                                            const struct clattn_problem *problem);

/* Sets *ring to NULL; accepts NULL and a handle that is NULL. Collective, but for a ring whose communication failed: of
 * that, memory that other ranks may still use is not given back. */
CLATTN_API void clattn_ring_destroy(clattn_ring **ring);

/* One forward pass. `arrays` is as for clattn_host_forward, with these differences:
 *
 *     shape            of the whole. n_q and n_kv (with CLATTN_VARLEN score.total_q and total_kv) are what the parts
 *                      share out
 *     q, o, lse, m, l  of this rank's rows: [batch, heads, rows of the part, ...], the second run of a part behind the
 *                      first one
 *     k, v             of this rank's keys, likewise
 *     score            what has rows is of this rank's, of all keys: bias, mask [batch, heads, rows of the part, n_kv],
 *                      block mask (its blocks of rows; as bytes alone), tree mask. All else is that of the whole, and
 *                      the same on all ranks: alibi, key_lengths, query_lengths, row_shifts, cu_seqlens, sinks, numbers
 *     kv_chunk         0
 *     progress         called as keys are done that this rank's rows have seen or skipped
 *
 * With `whole` 1, arrays that have rows or keys are of all of them, and the rank reads and writes its own alone: such
 * as files that are mapped. With CLATTN_BLOCK_MASK runs of rows begin at multiples of block_q, with CLATTN_DROPOUT at
 * multiples of 16 rows (with CLATTN_VARLEN of their sequence's). Rows beyond query_lengths become 0. */
struct clattn_ring_forward_args {
    struct clattn_host_forward_args arrays;
    struct clattn_ring_part rows, keys;
    int64_t whole;
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Returns when the outputs are in the arrays of all ranks. Errors: CLATTN_INVALID_ARGUMENT, also where ranks do not
 * agree on what they give; CLATTN_INVALID_SHAPE, also of parts that are not the whole; CLATTN_COMMUNICATION_FAILED;
 * those of clattn_host_forward. */
CLATTN_API clattn_status clattn_ring_forward(clattn_ring *ring, const struct clattn_ring_forward_args *args);

/* One backward pass, likewise: o, d_o, lse, m, l, d_q and score.d_lse are of this rank's rows, d_k and d_v of its keys,
 * d_bias as the bias. A d_bias that is a sum over batch or heads is one over this rank's rows; none is one over rows
 * (d_bias_layout.row 0). d_sinks is the sum over all rows, on each rank. Which of d_k, d_v and d_sinks are NULL is the
 * same on all ranks. */
struct clattn_ring_backward_args {
    struct clattn_host_backward_args arrays;
    struct clattn_ring_part rows, keys;
    int64_t whole;
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Errors: as clattn_ring_forward. */
CLATTN_API clattn_status clattn_ring_backward(clattn_ring *ring, const struct clattn_ring_backward_args *args);

/* What the last successful call on this ring took, on this rank. */
struct clattn_ring_info {
    int64_t rank, ranks;
    int64_t steps;         /* parts of keys that were here, the own one among them; with some of which no row met a key.
                          * Where Q passes, parts of rows */
    uint64_t bytes_sent;   /* of K, V (those, too, that others read here) and their gradients; or of rows, and what came
                            * of other ranks' rows */
    uint64_t device_bytes; /* device memory held */
    double call_ms;        /* the whole call, by the host's clock */
    double waited_ms;      /* of it, waiting for messages while the device had nothing to do */
    int64_t passing;       /* what passed: CLATTN_RING_PASS_KV or CLATTN_RING_PASS_Q */
    uint64_t kv_bytes, q_bytes; /* bytes_sent of all ranks together if K and V pass; if Q does */
    uint64_t reserved[13];      /* 0: clattn/version.h */
};

/* Not collective. Errors: CLATTN_INVALID_ARGUMENT where a pointer is NULL or no call has succeeded. */
CLATTN_API clattn_status clattn_ring_last(const clattn_ring *ring, struct clattn_ring_info *info);

CLATTN_END_DECLS

#endif
