/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_LAYOUT_H
#define CLA_LAYOUT_H

#include <stdint.h>

/* A tensor's logical sizes, outermost first. */
struct cla_sizes {
    int64_t batch, heads, rows, columns;
};

/* A struct clattn_layout with its defaults in place, as kernels get it: clattn_layout of cl/common/types.clh. It is a
 * type of its own since the public one may grow. */
struct cla_layout {
    int64_t offset, batch, head, row, column;
};

#endif
