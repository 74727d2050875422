/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/failed_events.h"
#include <pthread.h>
#include <string.h>

enum { MOST_FAILED = 64 };
static cl_event failed_events[MOST_FAILED];
static pthread_mutex_t failed_lock = PTHREAD_MUTEX_INITIALIZER;

bool fault_failed_event(cl_event event, bool change, bool failed)
{
    bool was = false;
    int free_place = MOST_FAILED;
    pthread_mutex_lock(&failed_lock);
    for (int i = 0; i < MOST_FAILED; i++) {
        if (failed_events[i] == event)
            was = true;
        if (change && failed_events[i] == event)
            failed_events[i] = NULL;
        if (!failed_events[i] && free_place == MOST_FAILED)
            free_place = i;
    }
    if (change && failed && free_place < MOST_FAILED)
        failed_events[free_place] = event;
    pthread_mutex_unlock(&failed_lock);
    return was;
}

bool fault_waits_for_failed(cl_uint number, const cl_event *events)
{
    for (cl_uint i = 0; events && i < number; i++)
        if (fault_failed_event(events[i], false, false))
            return true;
    return false;
}

void fault_forget_events(void)
{
    pthread_mutex_lock(&failed_lock);
    memset(failed_events, 0, sizeof failed_events);
    pthread_mutex_unlock(&failed_lock);
}
