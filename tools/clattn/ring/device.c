/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/device.h"

int ring_open_device(const struct ring_ranks *ranks, const struct option_device *wanted, bool quiet,
                     struct session *session, struct failure *failure)
{
    struct opencl_platforms platforms;
    int status = session_open(session, wanted, quiet || ranks->rank, failure);
    if (status || !ranks->on_host)
        return status;
    struct option_device next = {true, session->platform, session->device};
    status = opencl_list(&platforms, failure);
    if (status)
        return status;
    const int count = platforms.items[next.platform].device_count;
    next.device = (next.device + ranks->on_host) % count;
    opencl_list_free(&platforms);
    if (count == 1)
        return STATUS_OK;
    session_close(session);
    return session_open(session, &next, true, failure);
}
