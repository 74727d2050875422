/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_RECORDS_SCENE_H
#define TEST_FAULT_RECORDS_SCENE_H

#include "fault/scenario.h"

extern const struct step records_steps[];
bool records_open(struct scene *scene);
void records_close(struct scene *scene);
bool records_right(struct scene *scene);

#endif
