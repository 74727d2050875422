/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_MUTANTS_H
#define TEST_FAULT_MUTANTS_H

/* Scenarios whose last step is wrong on purpose after a fault, one for each kind of complaint: that the sweep's checks
 * can fail. Answers how many were not seen; says which. */
int mutants_not_seen(void);

#endif
