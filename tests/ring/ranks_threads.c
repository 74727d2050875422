/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "ring/ranks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What all ranks see. A meeting has two halves: all have come, all have looked. */
static struct {
    pthread_barrier_t barrier;
    clattn_ring_group *group;
    void *data[RANKS_MOST];
    int numbers[RANKS_MOST];
} shared;

struct thread {
    pthread_t id;
    struct ranks ranks;
    bool (*test)(const struct ranks *ranks, int argc, char **argv);
    int argc;
    char **argv;
    bool right;
};

static void *run(void *argument)
{
    struct thread *thread = argument;
    thread->right = thread->test(&thread->ranks, thread->argc, thread->argv);
    return NULL;
}

static bool run_threads(int count, const struct thread *pattern)
{
    struct thread threads[RANKS_MOST];
    bool right = !clattn_ring_group_create(&shared.group, count) && !pthread_barrier_init(&shared.barrier, NULL, count);
    for (int i = 0; i < count; i++) {
        threads[i] = *pattern;
        threads[i].ranks.rank = i;
        threads[i].ranks.count = count;
        test_device_open(&threads[i].ranks.device);
    }
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            exit(2);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        test_device_close(&threads[i].ranks.device);
        right = right && threads[i].right;
    }
    clattn_ring_group_destroy(&shared.group);
    pthread_barrier_destroy(&shared.barrier);
    printf("%d ranks of one process: %s\n", count, right ? "right" : "WRONG");
    return right;
}

int ranks_run(int argc, char **argv, bool (*test)(const struct ranks *ranks, int argc, char **argv))
{
    const struct thread pattern = {.test = test, .argc = argc - 1, .argv = argv + 1};
    bool right = argc > 1;
    for (const char *at = argc > 1 ? argv[1] : NULL; at && right; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const int count = atoi(at);
        right = count > 0 && count <= RANKS_MOST && run_threads(count, &pattern);
    }
    return !right;
}

const struct clattn_ring_transport *ranks_transport(const struct ranks *ranks)
{
    return clattn_ring_group_transport(shared.group, ranks->rank);
}

/* A group whose messages failed is left to those that still look at it. */
void ranks_renew_transport(const struct ranks *ranks)
{
    pthread_barrier_wait(&shared.barrier);
    if (!ranks->rank && clattn_ring_group_create(&shared.group, ranks->count))
        exit(2);
    pthread_barrier_wait(&shared.barrier);
}

void ranks_unite(const struct ranks *ranks, void *data, size_t bytes)
{
    unsigned char *const all = calloc(bytes + 1, 1);
    shared.data[ranks->rank] = data;
    pthread_barrier_wait(&shared.barrier);
    for (int i = 0; i < ranks->count; i++)
        for (size_t j = 0; j < bytes; j++)
            all[j] |= ((const unsigned char *)shared.data[i])[j];
    pthread_barrier_wait(&shared.barrier);
    memcpy(data, all, bytes);
    free(all);
}

int ranks_from(const struct ranks *ranks, int from, int number)
{
    shared.numbers[ranks->rank] = number;
    pthread_barrier_wait(&shared.barrier);
    const int of_from = shared.numbers[from];
    pthread_barrier_wait(&shared.barrier);
    return of_from;
}

bool ranks_all(const struct ranks *ranks, bool mine)
{
    bool all = true;
    shared.numbers[ranks->rank] = mine;
    pthread_barrier_wait(&shared.barrier);
    for (int i = 0; i < ranks->count; i++)
        all = all && shared.numbers[i];
    pthread_barrier_wait(&shared.barrier);
    return all;
}
