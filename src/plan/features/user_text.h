/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_USER_TEXT_H
#define CLA_USER_TEXT_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/problem.h>

/* Adds the user's functions, which stand above a kernel's files, each text with lines and a name of its own in the
 * compiler's messages. Macros that they define or undefine are as before behind them: the kernels' text is full of
 * names that a macro might have. The other way round, the kernels' functions and types all begin with clattn_
 * (tools/embed.py sees to it). A function of another type than the kernels call is an error on its own line. */
void cla_user_texts(const struct clattn_problem *problem, struct cla_text *text);

/* Whether no text has a name that begins as the library's do, outside comments and strings, nor a comment that does not
 * end. Such texts could change what the kernels compute without a word. */
clattn_status cla_user_texts_check(const struct clattn_problem *problem, struct cla_error *error);

#endif
