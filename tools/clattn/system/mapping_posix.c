/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "system/mapping.h"
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 32 };

/* What the handler knows of the mappings. */
static struct {
    volatile uintptr_t start, end; /* end 0: the slot is free */
    volatile sig_atomic_t lost;
} slots[SLOTS];
static uintptr_t page_bytes;

/* A page of zeros takes the place of the one that is gone, and the read goes on. */
static void put_zeros(int number, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr, page = at - at % page_bytes;
    (void)context;
    for (int i = 0; i < SLOTS; i++) {
        if (at < slots[i].start || at >= slots[i].end)
            continue;
        slots[i].lost = 1;
        if (mmap((void *)page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            return;
    }
    signal(number, SIG_DFL); /* and the read that caused it is tried once more */
}

static void install(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    if (page_bytes)
        return;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    action.sa_sigaction = put_zeros;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

static int take_slot(const void *start, size_t bytes)
{
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].end)
            continue;
        slots[i].start = (uintptr_t)start;
        slots[i].lost = 0;
        slots[i].end = (uintptr_t)start + bytes;
        return i;
    }
    return -1;
}

bool mapping_make(int descriptor, size_t bytes, struct mapping *mapping)
{
    struct stat status;
    *mapping = (struct mapping){.start = NULL};
    install();
    if (fstat(descriptor, &status) != 0)
        return false;
    void *start = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int slot = start == MAP_FAILED ? -1 : take_slot(start, bytes);
    if (slot < 0) {
        const int reason = start == MAP_FAILED ? errno : EMFILE;
        if (start != MAP_FAILED)
            munmap(start, bytes);
        errno = reason;
        return false;
    }
    *mapping = (struct mapping){start, bytes, descriptor, slot, status.st_mtim};
    return true;
}

bool mapping_changed(const struct mapping *mapping)
{
    struct stat status;
    if (!mapping->start)
        return false;
    return slots[mapping->slot].lost || fstat(mapping->descriptor, &status) != 0 ||
           (uintmax_t)status.st_size < mapping->bytes || status.st_mtim.tv_sec != mapping->modified.tv_sec ||
           status.st_mtim.tv_nsec != mapping->modified.tv_nsec;
}

void mapping_end(struct mapping *mapping)
{
    if (!mapping->start)
        return;
    munmap(mapping->start, mapping->bytes);
    slots[mapping->slot].end = 0;
    close(mapping->descriptor);
    *mapping = (struct mapping){.start = NULL};
}
