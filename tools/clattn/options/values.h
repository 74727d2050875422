/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_OPTION_VALUES_H
#define CLATTN_TOOL_OPTION_VALUES_H

#include "options/options.h"

/* Stores `text` as the value of `option` in the struct at `values`; STATUS_USAGE with a message naming option and
 * value. `text` is NULL for a flag. */
int option_store(const struct option_spec *option, const char *text, void *values, struct failure *failure);

#endif
