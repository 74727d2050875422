/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_USER_TEXT_H
#define CLA_USER_TEXT_H

#include "plan/text.h"
#include <clattn/problem.h>

/* Adds the user's functions, which stand above a kernel's files, each text with lines and a name of its own in the
 * compiler's messages. Their macros end with them: the kernels' text is full of names that a macro might have. The
 * other way round, the kernels' functions and types all begin with clattn_ (tools/embed.py sees to it). */
void cla_user_texts(const struct clattn_problem *problem, struct cla_text *text);

/* The first word of the user's texts that begins as the library's names do, for a message: where such a text does not
 * compile, that may be why. */
struct cla_reserved_word {
    const char *field; /* whose text; NULL: there is no such word */
    int line, length;
    const char *word;
};
struct cla_reserved_word cla_user_texts_reserved(const struct clattn_problem *problem);

#endif
