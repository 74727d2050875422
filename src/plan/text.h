/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TEXT_H
#define CLA_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A string that grows. Zero-initialised it is empty. After an allocation has failed, `failed` stays set and further
 * additions do nothing, so a chain of them needs one check at its end. */
struct cla_text {
    char *data; /* terminated; NULL while empty */
    size_t length, capacity;
    bool failed;
};

void cla_text_add(struct cla_text *text, const char *data, size_t length);

/* Integers and strings only: floating-point output would depend on the locale. */
__attribute__((format(printf, 2, 3))) void cla_text_printf(struct cla_text *text, const char *format, ...);

/* A constant of a kernel's text: #define CLATTN_name value. */
struct cla_define {
    const char *name;
    int value;
};
void cla_text_define(struct cla_text *text, const struct cla_define *defines, size_t count);

void cla_text_free(struct cla_text *text);

#endif
