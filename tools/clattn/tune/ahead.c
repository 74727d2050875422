/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/ahead.h"
#include "system/system.h"
#include "tune/wire.h"
#include <clattn/cache.h>
#include <stdlib.h>

enum { DEFAULT_MOST = 8 };

bool tune_ahead_is_possible(void)
{
    char directory[4096];
    return !clattn_cache_default_directory(directory, sizeof directory) && directory[0];
}

int tune_ahead_default(bool cpu)
{
    const int processors = system_processors();
    return cpu || processors < 2 ? 0 : processors / 2 < DEFAULT_MOST ? processors / 2 : DEFAULT_MOST;
}

static bool tell_builder(struct tune_ahead *ahead, int index, json_t *request)
{
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    const bool told = text && child_tell(&ahead->builders[index].child, text);
    free(text);
    ahead->builders[index].expected += told;
    ahead->builders[index].since = system_clock();
    return told;
}

/* Whether the process has nothing to do. One that has died is started again with the next candidate, and so is one that
 * has taken longer than a measurement may. */
static bool is_idle(struct tune_ahead *ahead, int index)
{
    struct child *child = &ahead->builders[index].child;
    if (!child_is_there(child))
        return true;
    const int heard = child_hear(child);
    if (heard < 0)
        return true;
    ahead->builders[index].expected -= heard;
    if (ahead->builders[index].expected <= 0)
        return true;
    if (system_clock() - ahead->builders[index].since <= ahead->deadline)
        return false;
    child_end(child);
    return true;
}

bool tune_ahead_build(struct tune_ahead *ahead, const struct tune_remote *remote, const struct tune_problem *problem,
                      const struct tune_candidate *candidate)
{
    for (int i = 0; i < ahead->count; i++) {
        if (!is_idle(ahead, i))
            continue;
        struct child *child = &ahead->builders[i].child;
        if (!child_is_there(child)) {
            ahead->builders[i].expected = 0;
            if (!tune_worker_start(child) || !tell_builder(ahead, i, wire_open(&remote->device, remote->memory_bytes)))
                continue;
        }
        if (tell_builder(ahead, i, wire_build(problem, candidate)))
            return true;
    }
    return false;
}

void tune_ahead_close(struct tune_ahead *ahead)
{
    for (int i = 0; i < ahead->count; i++)
        child_end(&ahead->builders[i].child);
}
