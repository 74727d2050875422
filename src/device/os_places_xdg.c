/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os_system.h"

/* The XDG base directories, whose specification says to ignore relative ones. */
const struct cla_os_place cla_os_cache_places[] = {
    {"XDG_CACHE_HOME", "/clattn", true}, {"HOME", "/.cache/clattn", false}, {0}};
const struct cla_os_place cla_os_tuning_places[] = {
    {"XDG_CONFIG_HOME", "/clattn/tuning.json", true}, {"HOME", "/.config/clattn/tuning.json", false}, {0}};
