/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include "support/device.h"
#include <clattn/mpi.h>

/* What tests of rings share: MPI, and a device for each rank, which is the same one for all. */
enum { RANKS_MOST = 16 };

struct ranks {
    int rank, count;
    struct test_device device;
};

/* Ends the program where there is no device, as test_device_open. */
void ranks_open(struct ranks *ranks, int *argc, char ***argv);
void ranks_close(struct ranks *ranks);

/* A transport over all ranks; and another one, where messages have failed. */
const struct clattn_ring_transport *ranks_transport(void);
void ranks_renew_transport(void);

/* Bytes of all ranks as one: each wrote its own, and left 0 elsewhere. */
void ranks_unite(const struct ranks *ranks, void *data, size_t bytes);

/* Rank `from`'s number. */
int ranks_from(const struct ranks *ranks, int from, int number);

bool ranks_all(const struct ranks *ranks, bool mine);

#endif
