/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_CACHE_SCENE_H
#define TEST_FAULT_CACHE_SCENE_H

#include "fault/scenario.h"

/* Caches of keys: at the device level (clattn/append.h) and at the host level (clattn/host_cache.h). */
extern const struct scenario cache_scenarios[];
extern const int cache_scenario_count;

#endif
