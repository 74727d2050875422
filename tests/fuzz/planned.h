/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FUZZ_PLANNED_H
#define TEST_FUZZ_PLANNED_H

#include "fuzz/fuzz.h"
#include <clattn/device.h>
#include <clattn/problem.h>

/* Devices and problems out of a fuzzer's input: often like real ones, at times with any number in any field. */

void fuzz_capabilities(struct fuzz_bytes *bytes, struct clattn_capabilities *capabilities);

/* `knobs` holds the text that the problem points to. */
void fuzz_problem(struct fuzz_bytes *bytes, struct clattn_problem *problem, char knobs[128]);

#endif
