/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_TYPES_H
#define CLATTN_TOOL_VERIFY_TYPES_H

#include "random.h"
#include "reference/reference.h"

/* Operands of a case that have types of their own. */

/* Any for each; `apart`: Q, K and V too, else these stay of one. */
void verify_types_draw(struct random *random, bool apart, struct reference_problem *problem);

/* Whether some operand's is not that of the others. */
bool verify_types_differ(const struct reference_problem *problem);

/* Tells the plan. */
void verify_types_say(const struct reference_problem *reference, struct clattn_problem *problem);

/* "fp16", or "fp16 (k bf16, o fp32)". */
void verify_types_text(const struct reference_problem *problem, char *text, size_t size);

#endif
