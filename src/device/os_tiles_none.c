/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"

bool cla_os_allows_tiles(void)
{
    return false;
}
