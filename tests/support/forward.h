/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FORWARD_H
#define TEST_FORWARD_H

#include "reference/reference.h"
#include "support/score.h"
#include "support/stage.h"

/* The ways from plain arrays to attention and back. */
enum forward_path {
    PATH_DEVICE = 0, /* plan and enqueue on guarded buffers */
    PATH_HOST,       /* clattn_host_forward on guarded arrays */
    PATH_STANDARD    /* the three steps, through CLBlast */
};

/* A forward pass to try: what to compute, where its tensors lie, and with which data. Zero means the default. */
struct forward_case {
    struct clattn_problem problem;
    struct clattn_shape shape;
    struct clattn_layout q, k, v, o; /* strides 0: dense */
    struct clattn_layout rows;       /* of lse, m and l, each; on PATH_HOST they are dense */
    bool packed;                     /* q, k and v lie in one buffer */
    double spread;                   /* deviation of the scores; 0: 4 */
    struct score_case score;         /* values of the problem's features; not on PATH_STANDARD */
    int64_t kv_chunk;                /* keys of a piece, on PATH_HOST and in backward passes; 0: as a whole */
    uint64_t seed;
    enum forward_path path;
};

/* Its tensors, dense and widened to float. */
struct forward_arrays {
    float *q, *k, *v, *o, *lse, *m, *l;
    bool without_m; /* m and l are not asked for, on PATH_DEVICE: kernels may then take another way */
    struct score_arrays score;
};

/* What the reference is to compute; without `arrays` only for a case without features. */
struct reference_problem forward_reference(const struct forward_case *forward);
struct reference_problem forward_reference_of(const struct forward_case *forward, const struct forward_arrays *arrays);

/* How the case's tensors lie: sizes are batch, heads, n and d. With variable lengths the batch is 1, and n the total.
 */
enum forward_tensor { FORWARD_Q, FORWARD_K, FORWARD_V, FORWARD_O, FORWARD_ROWS, FORWARD_D_O };
struct guard_view forward_view(const struct forward_case *forward, const struct forward_arrays *arrays,
                               enum forward_tensor which, const struct clattn_layout *layout);

/* Allocates, and generates the inputs. False where memory is short. */
bool forward_arrays_make(const struct forward_case *forward, struct forward_arrays *arrays);
void forward_arrays_free(struct forward_arrays *arrays);

/* Runs the case on inputs that lie in `arrays`, checks the guards, and puts the outputs there. `plan` is for
 * PATH_DEVICE; NULL: one is made. */
bool forward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                 struct forward_arrays *arrays);

/* The same so many times, on the same memory: whether all give the same bits. More than once on PATH_DEVICE alone. */
bool forward_repeats(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                     struct forward_arrays *arrays, int runs);

/* As forward_run, and compares with the reference; on PATH_DEVICE also without m and l. */
bool forward_holds(const struct test_device *device, const struct forward_case *forward, struct forward_arrays *arrays);

/* All of it: generates, runs, and compares with the reference. Says which case failed. */
bool forward_check(const struct test_device *device, const struct forward_case *forward);

/* "forward_simt fp16 d 64 d_v 32 causal 1 ..." */
void forward_describe(const struct forward_case *forward, char *text, size_t size);

#endif
