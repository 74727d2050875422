/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RING_H
#define CLA_RING_H

#include "attention/staging.h"
#include "ring/job.h"
#include "ring/lane.h"
#include "ring/round.h"
#include "ring/sums.h"
#include <clattn/state.h>

/* Two parts of the keys are here at a time. */
enum { CLA_TURNS = 2, CLA_OF_KV = 2, CLA_RING_EVENTS = 1024 };

/* Commands that are under way. */
struct cla_events {
    cl_event items[CLA_RING_EVENTS];
    cl_uint count;
};

/* A run of this rank's rows on the device: a call of its own each time that it meets keys. */
struct cla_run {
    int64_t first, count, at;  /* rows of the whole; where they begin in arrays of the part */
    struct clattn_shape shape; /* of the run, with all keys */
    int32_t *numbers;          /* shifts, lengths and where packed sequences begin, for this run */
    struct cla_device_block blocks[CLA_OPERANDS];
    struct cla_device_block rounded[CLA_OPERANDS]; /* sums, in the type of the caller's array */
    struct cla_pinned_block results[CLA_OPERANDS];
    struct clattn_tensor tensors[CLA_OPERANDS];
    struct cla_device_block state;
    struct clattn_score_args score;
    struct clattn_score_more more;                  /* which `score` points to */
    int64_t dropout_row;                            /* which row of the sequence the first one is */
    bool has_sinks;                                 /* d_sinks have been computed, or are elsewhere */
    struct cla_device_block returned;               /* a state of these rows, from another rank */
    struct cla_host_block gathered;                 /* d_bias of columns whose keys other ranks have (returns.c) */
    struct cla_host_block wide[CLA_BLOCK_MASK + 1]; /* a guest's bias and masks, of all keys */
};

/* Where a run's arrays go to the device, and the events of that. */
struct cla_way {
    cl_command_queue queue;
    struct cla_events *events;
};

/* What a run has of an array: sizes, and where it begins there. */
struct cla_slice {
    struct cla_sizes sizes;
    struct cla_layout layout;
    size_t elements;
};

/* Which pairs of runs a turn is for: own keys have two turns in a backward pass. */
enum cla_turn_pairs { CLA_ALL_PAIRS, CLA_FIRST_PAIRS, CLA_LAST_PAIR };

/* What is here of one part of the keys while its turn lasts. */
struct cla_turn {
    struct cla_pinned_block keys;          /* the messages of its runs, one behind the other */
    const void *keys_at[CLA_RUNS];         /* where these lie: there, or where another rank, or this one, has them */
    struct cla_device_block kv[CLA_OF_KV]; /* K and V on the device (keys.c) */
    struct cla_device_block d_kv[CLA_RUNS][CLA_OF_KV]; /* dK and dV of each run's rows */
    struct cla_pinned_block given;                     /* the same for the rank whose keys they are: the message */
    struct cla_pinned_block gift;                      /* what another rank gives for the own keys */
    struct cla_message keys_sent[CLA_RUNS], keys_come[CLA_RUNS], given_sent, gift_come;
    struct cla_events events;
    int64_t part;                    /* whose keys they are, or rows where these pass; -1: none */
    struct cla_run guests[CLA_RUNS]; /* another rank's rows */
    struct cla_pinned_block out;     /* the messages of the own rows */
    enum cla_turn_pairs pairs;
};

/* Runs that meet as a problem of their own (pairs.c); CLA_PAIR_KINDS: as a part of the whole. */
enum cla_pair_kind { CLA_WHOLE, CLA_DIAGONAL, CLA_PAIR_KINDS };

struct clattn_ring {
    struct cla_wire wire;
    struct cla_round round;
    int64_t passing;                   /* as the caller said */
    bool rows_pass;                    /* in this call */
    uint8_t (*given)[CLA_GIVEN];       /* of all ranks: struct cla_report */
    struct cla_host_block guest_sinks; /* d_sinks of other ranks' rows */
    clattn_context *context;
    cl_context cl;
    cl_command_queue queue, copy_queue;                       /* kernels; keys on their way in */
    cl_command_queue back_queue;                              /* gradients of keys */
    struct clattn_problem problem;                            /* the caller's, resolved; its texts are not kept */
    clattn_plan *plan;                                        /* that takes keys in pieces */
    clattn_plan *plain[CLA_PAIR_KINDS];                       /* NULL where features forbid */
    struct cla_device_block pair_o, pair_m, pair_l, pair_d_q; /* what these give */
    struct clattn_ring_part *rows, *keys;                     /* of all ranks */
    int64_t (*hops)[CLA_RUNS];                                /* how far each run of the keys goes */
    struct cla_run runs[CLA_RUNS];
    struct cla_turn turns[CLA_TURNS];
    struct cla_events events; /* of what precedes and follows the turns */
    struct cla_lane lane;
    struct cla_device_block workspace;
    struct cla_pinned_block own;   /* the messages of the own keys */
    struct cla_message *keys_lent; /* of each run, to each rank further on */
    struct cla_sums sums;
    struct cla_device_block d_kv[CLA_OF_KV]; /* dK and dV of the own keys, in fp32 */
    struct cla_device_block gift;            /* a turn's, on the device */
    struct cla_pinned_block results;         /* dK, then dV, in the type of K and V */
    struct cla_host_block sinks;             /* sums of all ranks */
    struct cla_message *sinks_sent, *sinks_come;
    double idle_since, waited;
    bool succeeded;
    struct clattn_ring_info info;
};

/* Room for one more event; it counts once it is not NULL. */
cl_event *cla_events_next(struct cla_events *events);
bool cla_events_are_done(const struct cla_events *events);

/* Waits for them, while messages go on, and releases them. The first error is answered. */
clattn_status cla_events_wait(struct cla_events *events, struct cla_wire *wire, struct cla_error *error);

/* The run's arrays: room on the device and in host memory, inputs on their way, outputs 0. */
struct clattn_shape cla_run_shape(const struct cla_job *job, int64_t rows);
void cla_run_place(struct cla_run *run, const struct cla_job *job, const struct clattn_ring_part *rows, int number);
clattn_status cla_run_open(clattn_ring *ring, const struct cla_job *job, struct cla_run *run, int number,
                           const struct cla_way *way, struct cla_error *error);
clattn_status cla_run_slice(const struct cla_run *run, const struct cla_job *job, int which,
                            const struct cla_array *array, struct cla_slice *slice, struct cla_error *error);

/* A sum in fp32 as what the caller's array holds: *buffer has that. */
clattn_status cla_run_round(clattn_ring *ring, struct cla_run *run, const struct cla_job *job, int which,
                            size_t elements, const struct cla_way *way, cl_mem *buffer, struct cla_error *error);

/* Brings outputs to host memory; after the events, hands them over to the caller's arrays. */
clattn_status cla_run_collect(clattn_ring *ring, const struct cla_job *job, int run, struct cla_error *error);
void cla_run_deliver(clattn_ring *ring, const struct cla_job *job, int run);
void cla_run_free(struct cla_run *run);

/* The keys. Of a part, K, V, dK and dV lie on the device as its first run, then its second one, each dense
 * [batch, kv_heads, keys of the run, columns]. A run of keys is one message: the sizes of K (0) and V (1) in it, and
 * where V begins; where a run's message begins within those of its part, and its elements on the device. */
struct cla_sizes cla_keys_sizes(const struct cla_job *job, int which, int64_t count);
uint64_t cla_keys_bytes(const struct cla_job *job, int which, int64_t count);
uint64_t cla_keys_at(const struct cla_job *job, const struct clattn_ring_part *part, int run);
uint64_t cla_keys_elements_at(const struct cla_job *job, const struct clattn_ring_part *part, int which, int run);
clattn_status cla_keys_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);
clattn_status cla_keys_upload(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run,
                              cl_event copied[2], struct cla_error *error);
struct clattn_tensor cla_keys_tensor(const struct cla_job *job, cl_mem buffer, const struct clattn_ring_part *part,
                                     int which, int run);

/* Gradients of keys (gradients.c). What a rank's rows give for a part of them is one message: for each run of rows and
 * run of keys that meet dK, then dV, dense [batch, kv_heads, keys of the run, columns]. */
uint64_t cla_gift_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t rank, int64_t part);
uint64_t cla_gradients_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t rank, int64_t part);
clattn_status cla_gifts_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);
clattn_status cla_gradients_open(clattn_ring *ring, const struct cla_job *job, int64_t most_keys,
                                 struct cla_error *error);

/* Once a turn's kernels have run, and no earlier, as a queue of its own has what follows other turns: adds what they
 * gave to the own sums, or brings it to host memory as `given`. */
clattn_status cla_gradients_take(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                                 struct cla_error *error);

/* A gift, or some of it, on its way to the device; and the wait for all that has been enqueued of it. */
clattn_status cla_gift_upload(clattn_ring *ring, cl_mem buffer, size_t offset, const void *gift, size_t bytes,
                              struct cla_events *events, struct cla_error *error);
clattn_status cla_gift_wait(clattn_ring *ring, struct cla_events *events, clattn_status status,
                            struct cla_error *error);

/* Adds what rank `rank` gave, and waits until that is done. */
clattn_status cla_gradients_add(clattn_ring *ring, const struct cla_job *job, int64_t rank, const void *gift,
                                struct cla_error *error);
clattn_status cla_gradients_collect(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);
void cla_gradients_deliver(clattn_ring *ring, const struct cla_job *job);

/* A run of the own keys' K, V, dK or dV between the caller's array and a dense one. */
clattn_status cla_keys_copy(const struct cla_job *job, int operand, int which, int run, void *dense,
                            struct cla_error *error);

/* One run of rows and one of keys. */
struct cla_pair {
    const struct cla_job *job;
    struct cla_turn *turn;
    struct cla_run *run;
    enum cla_pair_kind kind;
    int64_t first_key, key_count;
    struct clattn_tensor k, v, d_k, d_v;
};

/* Plans for pairs by themselves; room for what a run of rows meets; calls. */
clattn_status cla_pairs_make(clattn_ring *ring, const struct clattn_problem *problem, struct cla_error *error);
void cla_pairs_free(clattn_ring *ring);
enum cla_pair_kind cla_pair_kind(const clattn_ring *ring, const struct cla_job *job, const struct cla_run *run,
                                 int64_t first_key, int64_t keys);
clattn_status cla_pairs_open(clattn_ring *ring, const struct cla_job *job, const struct cla_run *run,
                             struct cla_error *error);
clattn_status cla_pair_forward(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                               struct cla_error *error);
clattn_status cla_pair_backward(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                                struct cla_error *error);

/* What is alike in all backward calls for a pair. */
struct clattn_backward_args cla_pair_arguments(const clattn_ring *ring, const struct cla_pair *pair);

/* Rows that pass: a message for each run that sees keys of another rank (visits.c). */
bool cla_rows_visit(const clattn_ring *ring, const struct cla_job *job, int64_t from, int run, int64_t to);
uint64_t cla_rows_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t from, int run, int64_t to);
void cla_given_of_job(const struct cla_job *job, uint8_t given[CLA_GIVEN]);

/* Of both runs: what goes from a rank to another one, or comes home. */
uint64_t cla_visits_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t from, int64_t to, bool home);

/* Room for all visits (guests.c). */
clattn_status cla_visits_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);

/* The message of a run of the own rows for a rank. */
const void *cla_rows_message(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run, int64_t to);

/* A message has come: the run is on its way to the device, where it is once `there`. */
clattn_status cla_guest_open(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run,
                             const void *message, cl_event *there, struct cla_error *error);

/* What comes of another rank's rows, and goes home (returns.c): it is brought to host memory, and once that is done
 * made a message of. Gifts that come are added to what the own rows have. */
uint64_t cla_returns_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t by, int64_t owner);
clattn_status cla_returns_take(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                               struct cla_error *error);
void cla_returns_pack(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn);
clattn_status cla_returns_add(clattn_ring *ring, const struct cla_job *job, int64_t by, const void *gift,
                              struct cla_error *error);
void cla_returns_deliver(clattn_ring *ring, const struct cla_job *job);

/* What passes in this call, and the bytes of both ways (passing.c). */
void cla_passing_choose(clattn_ring *ring, const struct cla_job *job);

/* Whose rows, and whose keys, a turn has. */
int64_t cla_turn_rows(const clattn_ring *ring, const struct cla_turn *turn);
int64_t cla_turn_keys(const clattn_ring *ring, const struct cla_turn *turn);

/* Whether a run of rows and one of keys, by their numbers, meet in that turn. */
bool cla_turn_has(const clattn_ring *ring, const struct cla_job *job, const struct cla_turn *turn, int rows, int keys);

/* Runs of rows meet a run of a turn's keys: enqueues what is to be computed. */
clattn_status cla_turn_compute(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int keys,
                               struct cla_error *error);

/* The own keys go to the device, for all turns; a guest's run meets them, once `there`. */
clattn_status cla_turn_bring_keys(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                                  struct cla_error *error);
clattn_status cla_turn_compute_guest(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int rows,
                                     cl_event there, struct cla_error *error);

/* All turns: keys go round, and sums come home. A failure of this rank's own work is answered at the end. */
clattn_status cla_ring_turn_round(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);

/* d_sinks of all ranks come here, and their sum, in the order of ranks, goes to the caller's array. */
clattn_status cla_sinks_exchange(clattn_ring *ring, const struct cla_job *job, struct cla_error *error);
void cla_sinks_deliver(clattn_ring *ring, const struct cla_job *job);

/* A state of no keys, for the run. */
clattn_status cla_open_state(clattn_ring *ring, struct cla_run *run, struct cla_events *events,
                             struct cla_error *error);

/* One pass. */
clattn_status cla_ring_call(clattn_ring *ring, const struct cla_job *job, clattn_status status,
                            struct cla_error *error);

#endif
