/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PROBLEM_MEMBERS_H
#define CLA_PROBLEM_MEMBERS_H

#include <clattn/problem.h>
#include <stdbool.h>
#include <stddef.h>

/* A number of struct clattn_problem; what compares two problems goes through all of them. Its texts are no numbers. */
struct cla_problem_member {
    const char *path; /* "problem.d" */
    size_t at, bytes;
    bool real; /* a float, else an integer of 4 or 8 bytes */
    bool own;  /* how the problem is computed, not what its results are: it may differ between ranks */
};

extern const struct cla_problem_member cla_problem_members[];
enum { CLA_PROBLEM_MEMBERS = 34 };

bool cla_problem_same_numbers(const struct clattn_problem *a, const struct clattn_problem *b);

/* Its value; of a float its bits. */
int64_t cla_problem_member_of(const struct clattn_problem *problem, const struct cla_problem_member *member);

#endif
