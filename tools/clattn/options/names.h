/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_NAMES_H
#define CLATTN_TOOL_NAMES_H

#include <clattn/device.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
#include <stddef.h>
#include <stdint.h>

/* What things are called in text and in --json. */
const char *device_type_name(enum clattn_device_type type);        /* "GPU" */
const char *local_memory_name(enum clattn_local_memory_type type); /* "local" */
const char *causal_name(enum clattn_causal causal);                /* "off", "bottom-right", "top-left" */
const char *pass_name(enum clattn_pass pass);                      /* "forward", "backward", "accumulate", ... */

const char *plan_source_name(enum clattn_plan_source source); /* "the model" */

/* The score modifications of a problem, without causal: "window, alibi"; "" for none. A bit's name alone, of one bit.
 */
void features_text(unsigned features, char *text, size_t size);
void bytes_text(uint64_t bytes, char *text, size_t size); /* "226 KiB", "139.8 GiB" */

/* "fp16", "q8_0": of K or V. */
const char *format_name(int type);

#endif
