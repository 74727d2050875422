/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_WIRE_H
#define CLATTN_TOOL_TUNE_WIRE_H

#include "tune/measure.h"
#include <jansson.h>

/* What the two ends of `clattn tune` say to each other, as JSON. Both are the same program. */

json_t *wire_error(const char *text);

/* The struct's bytes as hexadecimal digits: both ends are one executable. */
json_t *wire_capabilities(const struct clattn_capabilities *capabilities);
bool wire_read_capabilities(const json_t *value, struct clattn_capabilities *capabilities);

json_t *wire_open(const struct option_device *device, uint64_t memory_bytes);

/* `base` is that of a paired request; else it may be NULL, and is read as zeros. To build is asked for in the same way,
 * of the candidate alone. */
json_t *wire_measure(const struct tune_problem *problem, const struct tune_candidate *candidate,
                     const struct tune_candidate *base, const struct tune_request *request);
json_t *wire_build(const struct tune_problem *problem, const struct tune_candidate *candidate);
bool wire_read_measure(const json_t *value, struct tune_problem *problem, struct tune_candidate *candidate,
                       struct tune_candidate *base, struct tune_request *request);

json_t *wire_measured(const struct tune_measured *measured);
bool wire_read_measured(const json_t *value, struct tune_measured *measured);

#endif
