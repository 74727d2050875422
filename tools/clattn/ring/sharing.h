/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_SHARING_H
#define CLATTN_TOOL_RING_SHARING_H

#include "options/options.h"

extern const struct option_word ring_sharings[]; /* even, zigzag -> enum clattn_ring_sharing */

#endif
