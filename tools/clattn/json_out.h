/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_JSON_OUT_H
#define CLATTN_TOOL_JSON_OUT_H

#include "failure.h"
#include <clattn/device.h>
#include <clattn/traffic.h>
#include <jansson.h>

/* The pieces of --json output that several subcommands share. Each returns a new reference, NULL without memory. */
json_t *json_text(const char *text); /* bytes that are not UTF-8 become '?' */
json_t *json_capabilities(const struct clattn_capabilities *capabilities);
json_t *json_plan(const struct clattn_plan_info *info);
json_t *json_traffic(const struct clattn_traffic *traffic);

/* A number, or null where it is not finite. Rounded to six digits, as no time is measured better. */
json_t *json_measure(double value);

/* Prints `value`, takes over the reference. `path` NULL or "-": the standard output. Else the file, replaced as a
 * whole. */
int json_print(json_t *value, const char *path, struct failure *failure);

/* The names of score features, without causal, as an array. */
json_t *json_features_of(unsigned features);

#endif
