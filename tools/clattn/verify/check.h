/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_CHECK_H
#define CLATTN_TOOL_VERIFY_CHECK_H

#include "verify/case.h"

/* Checks one case. */
struct verify_result verify_check(const struct session *session, const struct verify_case *item, uint64_t seed);

#endif
