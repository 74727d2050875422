/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_H
#define CLATTN_H
#include <clattn/attention.h>
#include <clattn/cache.h>
#include <clattn/device.h>
#include <clattn/host.h>
#include <clattn/log.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
#include <clattn/standard.h>
#include <clattn/state.h>
#include <clattn/status.h>
#include <clattn/traffic.h>
#include <clattn/tuning.h>
#include <clattn/version.h>
#endif
