/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/run.h"
#include "child.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 30.0

static int run_with(const char *program, const char *option, struct clinfo_devices *devices, struct failure *failure)
{
    char *const argv[] = {(char *)program, (char *)option, NULL};
    struct child child;
    char *text = NULL;
    size_t size = 0;
    *devices = (struct clinfo_devices){.items = NULL};
    if (!child_start(&(struct process_spec){.argv = argv, .quiet = true}, &child))
        return fail(failure, STATUS_FILE, "'%s %s' cannot be started: %s", program, option, strerror(errno));
    const enum child_result result = child_read_all(&child, SECONDS, NULL, &text, &size, NULL);
    if (result == CHILD_TIMEOUT)
        return fail(failure, STATUS_FILE, "'%s %s' did not end within %.0f seconds", program, option, SECONDS);
    if (result != CHILD_OK)
        return fail(failure, STATUS_FILE, "'%s %s' ended with %s", program, option, child_death());
    char name[128];
    snprintf(name, sizeof name, "'%.80s %s'", program, option);
    const int status = clinfo_parse(name, text, size, devices, failure);
    free(text);
    return status;
}

int clinfo_run(const char *program, struct clinfo_devices *devices, struct failure *failure)
{
    struct failure first = {.command = NULL};
    if (!run_with(program, "--json", devices, &first) || !run_with(program, "--raw", devices, failure))
        return STATUS_OK;
    const struct failure second = *failure;
    return fail(failure, STATUS_FILE, "%.1500s; %.1500s", first.text, second.text);
}

static bool same(const struct clattn_capabilities *a, const struct clattn_capabilities *b)
{
    return strcmp(a->platform_name, b->platform_name) == 0 && strcmp(a->device_name, b->device_name) == 0 &&
           strcmp(a->driver_version, b->driver_version) == 0 &&
           (a->vendor_id == b->vendor_id || !a->vendor_id || !b->vendor_id);
}

int clinfo_match(const struct clinfo_devices *devices, const struct clinfo_devices *all, int wanted_index)
{
    const struct clattn_capabilities *wanted = &all->items[wanted_index].capabilities;
    int before = 0;
    for (int i = 0; i < wanted_index; i++)
        before += same(&all->items[i].capabilities, wanted);
    for (int i = 0; i < devices->count; i++)
        if (same(&devices->items[i].capabilities, wanted) && before-- == 0)
            return i;
    return -1;
}

void clinfo_differences(const struct clattn_capabilities *dumped, const struct clattn_capabilities *queried, char *text,
                        size_t size)
{
    const struct {
        const char *name;
        bool same;
    } facts[] = {
        {"local memory", dumped->local_memory_bytes == queried->local_memory_bytes},
        {"work-group limit", dumped->max_work_group_size == queried->max_work_group_size},
        {"compute units", dumped->compute_units == queried->compute_units},
        {"vector width", dumped->native_vector_width_float == queried->native_vector_width_float},
        {"kind", dumped->type == queried->type},
        {"compute capability", dumped->nv_compute_capability == queried->nv_compute_capability},
        {"registers", dumped->nv_registers_per_group == queried->nv_registers_per_group},
    };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof facts / sizeof *facts && used < size; i++)
        if (!facts[i].same)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", facts[i].name);
}
