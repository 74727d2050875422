/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include "support/device.h"
#include <clattn/ring.h>

/* What tests of rings share: ranks, which are processes by MPI (ranks_mpi.c) or threads of one (ranks_threads.c), and a
 * device for each, which is the same one for all. */
enum { RANKS_MOST = 16 };

struct ranks {
    int rank, count;
    struct test_device device;
};

/* Runs a test on all ranks, with what the program's arguments have for it, and answers main's result: 0 where it was
 * true everywhere. Of threads the first argument says how many: 1,3 runs it with one, then with three. Ends the program
 * where there is no device, as test_device_open. */
int ranks_run(int argc, char **argv, bool (*test)(const struct ranks *ranks, int argc, char **argv));

/* A transport over all ranks; and another one, where messages have failed. */
const struct clattn_ring_transport *ranks_transport(const struct ranks *ranks);
void ranks_renew_transport(const struct ranks *ranks);

/* Bytes of all ranks as one: each wrote its own, and left 0 elsewhere. */
void ranks_unite(const struct ranks *ranks, void *data, size_t bytes);

/* Rank `from`'s number. */
int ranks_from(const struct ranks *ranks, int from, int number);

bool ranks_all(const struct ranks *ranks, bool mine);

#endif
