/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TYPES_H
#define CLA_TYPES_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/problem.h>
#include <stdbool.h>

/* How operands are stored, each by itself (problem.q_type and its kind). A type is an enum clattn_dtype, or of K and V
 * a format behind these: the number that kernels know it by (cl/common/types.clh), one below that of enum
 * clattn_operand_type. */

/* A type: elements lie in blocks of `block`, which take `bytes`. */
struct cla_type {
    const char *name; /* "fp32", "q8_0" */
    int block, bytes;
    bool scaled;  /* its values are multiples of scales that come with the call */
    bool centred; /* and may be counted from zero points */
};

enum { CLA_TYPES = CLATTN_AS_Q4_0 };

/* That of a number from 0 to CLA_TYPES - 1. */
const struct cla_type *cla_type(int type);

/* Whether the problem's types are some. */
clattn_status cla_types_check(const struct clattn_problem *problem, struct cla_error *error);

/* Makes types that say what is so anyway CLATTN_AS_DTYPE. The one type of Q, K and V of a pass that reads nothing else
 * becomes the problem's. So problems that are the same have the same kernels. */
void cla_types_resolve(struct clattn_problem *problem);

/* How an operand is stored: CLA_Q, CLA_D_BIAS, ... (plan/operand.h). Gradients are as what they belong to. */
enum clattn_dtype cla_type_of(const struct clattn_problem *problem, int operand);

/* The size of one of its blocks in bytes, of elements but of formats; and of an element, which may be no whole number.
 */
int cla_size_of(const struct clattn_problem *problem, int operand);
double cla_element_bytes(const struct clattn_problem *problem, int operand);

/* The elements that have one scale: those of a row, at most. 0: it has no scales. */
int64_t cla_scale_group(const struct clattn_problem *problem, int operand);

/* Whether Q, K, V (and dO) are stored in one way. */
bool cla_types_are_one(const struct clattn_problem *problem);

/* The features (plan/features/feature.h) that come with them: which scales there are. */
unsigned cla_types_features(const struct clattn_problem *problem);

/* The constants of kernels for types that are not the problem's dtype. */
void cla_types_define(const struct clattn_problem *problem, struct cla_text *text);

/* Whether Q, K and V are of one type and K and V in no pages, in words of the skeleton that wants that. */
clattn_status cla_types_check_plain(const struct clattn_problem *problem, const char *name, struct cla_error *error);

/* Whether Q, K and V are of one type, in words of the skeleton that wants that. */
clattn_status cla_types_check_one(const struct clattn_problem *problem, const char *name, struct cla_error *error);

#endif
