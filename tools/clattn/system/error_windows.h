/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_ERROR_WINDOWS_H
#define CLATTN_TOOL_ERROR_WINDOWS_H

/* errno's value for one of Windows' errors, as GetLastError() has it. */
int error_number(unsigned long error);

#endif
