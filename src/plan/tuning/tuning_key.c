/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/planner.h"
#include "plan/tuning/tuning_db.h"
#include "plan/types.h"
#include <stdio.h>
#include <string.h>

/* What vendors add to names. */
static const char *const noise[] = {"(R)", "(r)", "(TM)", "(tm)", "CPU @"};

/* PoCL names a processor's driver before it: "pthread-", "basic-", "cpu-". */
static const char *const pocl_drivers[] = {"pthread-", "basic-", "cpu-minimal-", "cpu-"};

static void append(char *name, size_t size, char c)
{
    const size_t length = strlen(name);
    if (length + 1 < size && !(c == ' ' && (!length || name[length - 1] == ' '))) {
        name[length] = c;
        name[length + 1] = '\0';
    }
}

static size_t noise_at(const char *text)
{
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
        if (strncmp(text, noise[i], strlen(noise[i])) == 0)
            return strlen(noise[i]);
    const size_t digits = strspn(text, "0123456789.");
    return digits && strncmp(text + digits, "GHz", 3) == 0 ? digits + 3 : 0;
}

/* Without noise, with single spaces, of printable ASCII. */
static void append_clean(char *name, size_t size, const char *text)
{
    while (*text) {
        const size_t skipped = noise_at(text);
        text += skipped;
        if (skipped)
            continue;
        append(name, size, *text < ' ' || *text > '~' ? '?' : *text);
        text++;
    }
    while (*name && name[strlen(name) - 1] == ' ')
        name[strlen(name) - 1] = '\0';
}

void cla_tuning_device_name(const struct clattn_capabilities *capabilities, char *name, size_t size)
{
    const char *device = capabilities->device_name;
    char part[128] = "";
    if (strstr(capabilities->platform_name, "Portable Computing Language"))
        for (size_t i = 0; i < sizeof pocl_drivers / sizeof *pocl_drivers; i++)
            if (strncmp(device, pocl_drivers[i], strlen(pocl_drivers[i])) == 0) {
                device += strlen(pocl_drivers[i]);
                break;
            }
    append_clean(part, sizeof part, capabilities->platform_name);
    snprintf(name, size, "%s / ", part);
    part[0] = '\0';
    append_clean(part, sizeof part, device);
    strncat(name, part, size - strlen(name) - 1);
    /* A processor's name says nothing of how many of its cores there are, and block sizes depend on it. */
    if (capabilities->type == CLATTN_DEVICE_CPU) {
        snprintf(part, sizeof part, ", %u units", (unsigned)capabilities->compute_units);
        strncat(name, part, size - strlen(name) - 1);
    }
}

/* Features that leave the work of a tile as it is. */
enum { HARMLESS = CLATTN_KEY_LENGTHS | CLATTN_VARLEN | CLATTN_SINKS };

/* Heads of Q that share one of K and V; 0: not known, or no whole number. */
static int64_t group_of(const struct clattn_problem *problem)
{
    const int64_t heads = problem->expected_heads, kv_heads = problem->expected_kv_heads;
    return heads > 0 && kv_heads > 0 && heads % kv_heads == 0 ? heads / kv_heads : 0;
}

bool cla_tuning_key(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    struct clattn_tuning_record *key)
{
    if ((problem->features & ~(unsigned)HARMLESS) || problem->score_mod || problem->mask_mod ||
        !cla_types_are_one(problem))
        return false;
    *key = (struct clattn_tuning_record){.pass = problem->pass,
                                         .dtype = problem->dtype,
                                         .d = problem->d,
                                         .d_v = problem->d_v,
                                         .causal = problem->causal != CLATTN_FULL,
                                         .n_q_up_to = cla_tuning_length_class(problem->expected_n_q),
                                         .n_kv_up_to = cla_tuning_length_class(problem->expected_n_kv),
                                         .group = group_of(problem)};
    cla_tuning_device_name(capabilities, key->device, sizeof key->device);
    append_clean(key->driver, sizeof key->driver, capabilities->driver_version);
    if (!key->driver[0])
        strcpy(key->driver, "unknown");
    return true;
}
