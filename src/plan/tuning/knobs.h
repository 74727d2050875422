/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_KNOBS_H
#define CLA_KNOBS_H

#include "plan/skeleton.h"

/* A skeleton's knobs as text, "name=value name=value", and back. */

/* Sets what the text names; the rest of *config stays. CLATTN_INVALID_ARGUMENT where a name is not the skeleton's or
 * comes twice, or where a value is no number in its range. */
clattn_status cla_knobs_read(const struct cla_skeleton *skeleton, const char *text, struct cla_config *config,
                             struct cla_error *error);

/* All of them, in the table's order; cut where `size` is short. */
void cla_knobs_write(const struct cla_skeleton *skeleton, const struct cla_config *config, char *text, size_t size);

int cla_knob_get(const struct cla_knob *knob, const struct cla_config *config);
void cla_knob_set(const struct cla_knob *knob, struct cla_config *config, int value);

#endif
