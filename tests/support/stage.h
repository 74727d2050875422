/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include "support/guard.h"

/* The tensors of one call, each in guarded memory: inputs must come back unchanged, outputs begin as poison. */
enum { STAGE_MOST = 14 };

struct stage_tensor {
    const char *name;
    struct guard_view view;
    const float *input; /* NULL: an output */
    float *output;      /* NULL: an input, or what is not looked at */
    int memory;         /* whose memory it lies in: its own number, or that of an earlier tensor */
};

struct stage {
    int count;
    struct stage_tensor tensors[STAGE_MOST];
    struct guarded memory[STAGE_MOST];
};

/* Adds a tensor in memory of its own; answers its number. */
int stage_add(struct stage *stage, const char *name, const struct guard_view *view, const float *input, float *output);

bool stage_make(struct stage *stage);
bool stage_upload(struct stage *stage, const struct test_device *device);

/* Downloads where the memory is the device's, takes the outputs, and looks whether anything else has changed. */
bool stage_collect(struct stage *stage, const struct test_device *device);
void stage_free(struct stage *stage);

/* After it was collected: makes outputs poison once more; and, after another run on the same memory, whether all is as
 * it came before, to the bit. */
bool stage_poison(struct stage *stage, const struct test_device *device);
bool stage_same(struct stage *stage, const struct test_device *device);

struct clattn_tensor stage_at(const struct stage *stage, int which);
void *stage_array(const struct stage *stage, int which);

/* Waits on the call's own event and releases it, so that an event that does not complete with the work is found. */
bool stage_wait(cl_event event);

/* A workspace of exactly so many bytes, full of NaN; *workspace stays NULL for 0. */
bool stage_workspace(const struct test_device *device, size_t bytes, cl_mem *workspace);

#endif
