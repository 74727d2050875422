/* SPDX-License-Identifier: BSD-2-Clause */
#include "control.h"
#include "access.h"
#include <stdio.h>

#define BRANCH(name, condition)                                                                                        \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        if (condition)                                                                                                 \
            wave->pc = i->target;                                                                                      \
    }
static uint64_t vcc(const struct wave *wave)
{
    return wave->s[VCC] | (wave->lanes == MOST_LANES ? (uint64_t)wave->s[VCC + 1] << 32 : 0);
}
BRANCH(always, true)
BRANCH(if_scc_0, !wave->scc)
BRANCH(if_scc_1, wave->scc)
BRANCH(if_exec_0, !wave->exec)
BRANCH(if_exec, wave->exec)
BRANCH(if_vcc_0, !vcc(wave))
BRANCH(if_vcc, vcc(wave))

static void stop_at_barrier(struct wave *wave, const struct instruction *i)
{
    if (wave->last_write[LOCALS] > wave->covered[LOCALS])
        fault(wave, i, "writes to local memory are under way at a barrier");
    wave->at_barrier = true;
}

static void end(struct wave *wave, const struct instruction *i)
{
    (void)i;
    wave->done = true;
}

void do_nothing(struct wave *wave, const struct instruction *i)
{
    (void)wave;
    (void)i;
}

static const struct {
    const char *name;
    run_function *run;
} rows[] = {
    {"s_branch", always},
    {"s_cbranch_scc0", if_scc_0},
    {"s_cbranch_scc1", if_scc_1},
    {"s_cbranch_execz", if_exec_0},
    {"s_cbranch_execnz", if_exec},
    {"s_cbranch_vccz", if_vcc_0},
    {"s_cbranch_vccnz", if_vcc},
    {"s_barrier", stop_at_barrier},
    {"s_barrier_wait", stop_at_barrier},
    {"s_endpgm", end},
};

const char *control_name(int n)
{
    return (size_t)n < sizeof rows / sizeof *rows ? rows[n].name : NULL;
}

run_function *control_find(const char *name)
{
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(rows[n].name, name) == 0)
            return rows[n].run;
    return NULL;
}

bool is_hint(const char *name)
{
    static const char *const names[] = {
        "s_nop",      "s_waitcnt_depctr", "s_delay_alu",    "s_clause",    "s_set_inst_prefetch_distance",
        "s_sendmsg",  "s_code_end",       "s_setprio",      "s_sleep",     "s_barrier_signal",
        "buffer_inv", "buffer_gl0_inv",   "buffer_gl1_inv", "buffer_wbl2", "global_inv",
        "global_wb",  "s_wait_alu",       "s_icache_inv",   "s_wait_idle",
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(names[n], name) == 0)
            return true;
    return false;
}

void count_issued(struct wave *wave, enum counter counter, const struct source *registers)
{
    /* CDNA counts loads and stores of device memory together, and all but RDNA 4 local memory and scalar loads. */
    const enum generation generation = wave->group->launch->program->chip->generation;
    if (counter == STORES && generation <= CDNA3)
        counter = LOADS;
    const uint32_t number = ++wave->issued[counter];
    wave->outstanding++;
    if (!registers)
        return;
    struct pending *waits = registers->place == VECTOR ? wave->vector_waits : wave->scalar_waits;
    for (int n = 0; n < registers->words; n++)
        waits[registers->first + n] = (struct pending){number, counter};
}

static bool is_pending(const struct wave *wave, const struct pending *pending)
{
    return pending->number > wave->covered[pending->counter];
}

/* Loads come back in the order of their counter, so that one may follow another into the same register. */
static enum counter counter_of(const struct instruction *i)
{
    return i->run == global_load || i->run == scratch_load || i->run == buffer_load     ? LOADS
           : i->run == local_load || i->run == local_load_2 || i->run == local_bpermute ? LOCALS
                                                                                        : COUNTERS;
}

void check_arrived(struct wave *wave, const struct instruction *i)
{
    for (int n = 0; n < i->touches; n++) {
        const struct touched *touched = &i->touched[n];
        const struct pending *waits = touched->place == VECTOR ? wave->vector_waits : wave->scalar_waits;
        for (int word = 0; word < touched->words; word++) {
            const struct pending *pending = &waits[touched->first + word];
            if (!is_pending(wave, pending) || (touched->written && pending->counter == counter_of(i)))
                continue;
            fault(wave, i, "%c%d is %s, and nothing waited for what is under way to it",
                  touched->place == VECTOR ? 'v' : 's', touched->first + word, touched->written ? "written" : "read");
        }
    }
}

void wait_for(struct wave *wave, const struct instruction *i)
{
    for (int counter = 0; counter < COUNTERS; counter++) {
        const int left = i->counts[counter];
        if (left < 0 || wave->issued[counter] < (uint32_t)left)
            continue;
        /* Scalar loads come back in any order: less than all says nothing. */
        const uint32_t covered = wave->issued[counter] - (uint32_t)left;
        if (covered > wave->covered[counter] && (counter != KERNEL || left == 0))
            wave->covered[counter] = covered;
    }
    wave->outstanding = 0;
    for (int counter = 0; counter < COUNTERS; counter++)
        wave->outstanding += (int)(wave->issued[counter] - wave->covered[counter]);
}

/* "vmcnt(0)" in a list of such; -1: it is not there. */
static int count_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    int count = -1;
    return at && sscanf(at + strlen(name), "(%d)", &count) == 1 ? count : -1;
}

static int number_behind_comma(const char *text)
{
    const char *comma = strchr(text, ',');
    int count = -1;
    return sscanf(comma ? comma + 1 : text, "%i", &count) == 1 ? count : -1;
}

static const struct {
    const char *name;
    int counters[2];
} waits[] = {
    {"s_waitcnt_vscnt", {STORES, -1}},
    {"s_wait_loadcnt", {LOADS, -1}},
    {"s_wait_storecnt", {STORES, -1}},
    {"s_wait_dscnt", {LOCALS, -1}},
    {"s_wait_kmcnt", {KERNEL, -1}},
    {"s_wait_loadcnt_dscnt", {LOADS, LOCALS}},
    {"s_wait_storecnt_dscnt", {STORES, LOCALS}},
};

const char *wait_name(int n)
{
    return (size_t)n < sizeof waits / sizeof *waits ? waits[n].name : NULL;
}

bool wait_counts(const char *name, const char *operands, int counts[COUNTERS])
{
    for (int counter = 0; counter < COUNTERS; counter++)
        counts[counter] = -1;
    if (strcmp(name, "s_waitcnt") == 0) {
        counts[LOADS] = count_in(operands, "vmcnt");
        counts[LOCALS] = count_in(operands, "lgkmcnt");
        counts[KERNEL] = counts[LOCALS];
        return counts[LOADS] >= 0 || counts[LOCALS] >= 0 || count_in(operands, "expcnt") >= 0;
    }
    for (size_t n = 0; n < sizeof waits / sizeof *waits; n++)
        if (strcmp(waits[n].name, name) == 0) {
            const int count = number_behind_comma(operands);
            /* two counters in one number: loads above, local memory's below */
            counts[waits[n].counters[0]] = waits[n].counters[1] < 0 ? count : count >> 8 & 63;
            if (waits[n].counters[1] >= 0)
                counts[waits[n].counters[1]] = count & 63;
            return count >= 0;
        }
    return false;
}
