/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "device/os.h"
#include <sys/syscall.h>
#include <unistd.h>

/* Linux on x86-64, from 5.16 on: Documentation/arch/x86/xstate.rst. An older one does not know the request, and one
 * thread's signal stack may be too small for what a signal would then leave there: both are refusals. */
bool cla_os_allows_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}
