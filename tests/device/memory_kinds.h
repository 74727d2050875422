/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_MEMORY_KINDS_H
#define TEST_MEMORY_KINDS_H

#include "support/device.h"
#include <clattn/tensor.h>

/* Memory of each kind that an operand may lie in. Where the device has no USM, the functions of the loader that stand
 * in memory_kinds.c say that it has, and pass its calls on to SVM. */

enum { PLACE_BYTES = 1 << 16 }; /* of each */

/* How the operands of a call are given: the kinds in turn. */
enum way { BUFFERS, COARSE, FINE, UNIFIED, MIXED, WAYS };

struct place {
    enum clattn_memory memory;
    bool fine;
    cl_mem buffer; /* or the address */
    void *allocation;
    int kind;      /* enum way */
    unsigned from; /* of numbers() that it held at first */
};

/* False where the device has no SVM. */
bool places_open(const struct test_device *device);

/* Whether the device says that it has neither. */
void places_hide(bool hide);

/* Holds what `data` has. */
struct place *place_make(enum way way, const void *data);
void place_read(const struct place *place, void *data);
struct place *place_of(cl_mem buffer);
void places_release(void);

#endif
