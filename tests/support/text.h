/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_TEXT_H
#define TEST_TEXT_H

#include "support/device.h"

/* A kernel of a test's own: `text`, which stands below the library's `files` (up to NULL) with these constants. The
 * text names what is theirs as the library's users would meet it, with clattn_ in front. The caller's to release, as is
 * the program. */
cl_kernel test_build_text(const struct test_device *device, const char *defines, const char *const *files,
                          const char *text, const char *name, cl_program *program);

#endif
