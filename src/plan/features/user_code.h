/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_USER_CODE_H
#define CLA_USER_CODE_H

#include <stdbool.h>
#include <stddef.h>

/* What the library must know of OpenCL C text that is not its own: which macros it defines, which names it has. */

/* The text as the preprocessor sees it: without a byte order mark and comments, lines that end in a backslash joined,
 * strings and characters emptied. malloc'ed; NULL where memory is short. */
char *cla_code_of(const char *source);

/* The line where a comment begins that does not end, and would go on in whatever text follows; 0: there is none. */
int cla_open_comment(const char *source);

/* The line of the text, from 1 on, that the code's character of this number comes from. */
int cla_code_line(const char *source, size_t number);

/* Where the text itself begins: behind a byte order mark. */
const char *cla_skip_byte_order_mark(const char *source);

/* A word of the code. */
struct cla_word {
    const char *start; /* NULL: there is none */
    size_t length;
};

/* The next word from *code on, and of it alone the next macro that a directive defines or undefines. *code is moved
 * behind it. */
struct cla_word cla_next_word(const char **code);
struct cla_word cla_next_macro(const char **code);

bool cla_word_begins(const struct cla_word *word, const char *text);

/* Where the function of this name is defined; NULL where it is not, as far as can be told without the preprocessor. */
const char *cla_find_function(const char *code, const char *name);

#endif
