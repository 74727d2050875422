/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_FLOW_H
#define CLATTN_TOOL_FLOW_H

#include <stdio.h>

/* Text that fits the terminal: what is wider is broken between words, and goes on below the text that the line's last
 * gap of two spaces or more, in its first half, stands before. A stream that is no terminal gets lines as they are. */

/* As fprintf(). A line may come in several calls, on one stream at a time; it is written when its line feed comes. */
void flow(FILE *stream, const char *format, ...);

/* A text whose lines but the first are indented so far, and a line feed. */
void flow_lines(FILE *stream, const char *text, int indent);

/* The same for prose: where the terminal is narrower than it is written, lines of a paragraph become one before that is
 * broken anew. */
void flow_text(FILE *stream, const char *text, int indent);

#endif
