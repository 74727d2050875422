/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_REPORT_H
#define CLA_REPORT_H

#include "plan/error.h"
#include <clattn/log.h>

/* What a public entry point does with an error before it returns: keeps the text for clattn_error_message(), hands it
 * to the logger (log may be NULL) at level ERROR, and answers the status. */
clattn_status cla_report(const struct clattn_log *log, const struct cla_error *error);

/* Says something to the logger, if there is one and the level is wanted. */
__attribute__((format(printf, 3, 4))) void cla_say(const struct clattn_log *log, enum clattn_log_level level,
                                                   const char *format, ...);

#endif
