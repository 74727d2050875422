/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os_system.h"

/* Apple's folders; before them, for who sets them, the XDG base directories. */
const struct cla_os_place cla_os_cache_places[] = {
    {"XDG_CACHE_HOME", "/clattn", true}, {"HOME", "/Library/Caches/clattn", false}, {0}};
const struct cla_os_place cla_os_tuning_places[] = {{"XDG_CONFIG_HOME", "/clattn/tuning.json", true},
                                                    {"HOME", "/Library/Application Support/clattn/tuning.json", false},
                                                    {0}};
