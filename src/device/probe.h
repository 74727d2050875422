/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PROBE_H
#define CLA_PROBE_H

#include "plan/error.h"

struct clattn_context;

/* Finds static_local_memory_bytes and half_loads by building and running cl/probe.cl, and keeps the answer in the disk
 * cache. A probe that the device refuses is an answer (what it says holds), not an error; running out of resources for
 * other reasons is one. */
clattn_status cla_probe(struct clattn_context *context, struct cla_error *error);

#endif
