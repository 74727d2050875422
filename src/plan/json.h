/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_JSON_H
#define CLA_JSON_H

#include "plan/text.h"
#include <stdint.h>

/* As much of JSON as tuning files have. Whoever reads asks for what has to come next. Texts are printable ASCII. The
 * locale has no say. Reading takes no memory: jansson 2.14 ends the process, or loses characters and says nothing,
 * where memory runs out in the middle of a text. */

/* Zero-initialised but for the text. */
struct cla_json {
    const char *at, *end;
    int line;          /* how many line feeds have passed */
    const char *wrong; /* what the first thing is that is not JSON, or not such; NULL: nothing */
};

/* Whether the next thing is this mark, which is passed then. */
bool cla_json_mark(struct cla_json *json, char mark);

/* Behind an opening mark or a member or element: whether another follows. At the end the closing mark is passed. */
bool cla_json_more(struct cla_json *json, bool first, char close);

/* The next value. False where it is another one than asked for, or does not fit into `size` bytes; where it is no JSON,
 * `wrong` says so, too. */
bool cla_json_text(struct cla_json *json, char *text, size_t size);
bool cla_json_number(struct cla_json *json, double *value);
bool cla_json_integer(struct cla_json *json, int64_t *value);
bool cla_json_boolean(struct cla_json *json, bool *value);

/* Whether all is read; else `wrong` is set. */
bool cla_json_end(struct cla_json *json);

void cla_json_put_text(struct cla_text *text, const char *value);
void cla_json_put_number(struct cla_text *text, double value); /* to six digits */

#endif
