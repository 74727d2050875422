/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_WAYS_H
#define CLA_WAYS_H

#include <clattn/log.h>

/* Warns of each word of CLATTN_DISABLE that names none: what it was meant to turn off stays on. */
void cla_warn_of_unknown_ways(const struct clattn_log *log);

#endif
