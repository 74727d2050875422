/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TYPES_H
#define CLA_TYPES_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/problem.h>
#include <stdbool.h>

/* How operands are stored, each by itself (problem.q_type and its kind). */

/* Whether the problem's types are some. */
clattn_status cla_types_check(const struct clattn_problem *problem, struct cla_error *error);

/* Makes types that say what is so anyway CLATTN_AS_DTYPE. The one type of Q, K and V of a pass that reads nothing else
 * becomes the problem's. So problems that are the same have the same kernels. */
void cla_types_resolve(struct clattn_problem *problem);

/* How an operand is stored: CLA_Q, CLA_D_BIAS, ... (plan/operand.h). Gradients are as what they belong to. */
enum clattn_dtype cla_type_of(const struct clattn_problem *problem, int operand);

/* The size of one of its elements, in bytes. */
int cla_size_of(const struct clattn_problem *problem, int operand);

/* Whether Q, K, V (and dO) are stored in one way. */
bool cla_types_are_one(const struct clattn_problem *problem);

/* The constants of kernels for types that are not the problem's dtype. */
void cla_types_define(const struct clattn_problem *problem, struct cla_text *text);

/* Whether Q, K and V are of one type and K and V in no pages, in words of the skeleton that wants that. */
clattn_status cla_types_check_plain(const struct clattn_problem *problem, const char *name, struct cla_error *error);

/* Whether Q, K and V are of one type, in words of the skeleton that wants that. */
clattn_status cla_types_check_one(const struct clattn_problem *problem, const char *name, struct cla_error *error);

#endif
