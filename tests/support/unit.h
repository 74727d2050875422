/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

/* cmocka wants these before itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EACH(index, array) for (size_t index = 0; index < sizeof array / sizeof *array; index++)

#endif
