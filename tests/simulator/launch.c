/* SPDX-License-Identifier: BSD-2-Clause */
#include "launch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

struct work {
    const struct launch *launch;
    atomic_uint next;
    struct executed executed;
    atomic_bool failed;
    pthread_mutex_t lock;
    char *fault;
    size_t fault_bytes;
};

static void add(struct executed *sum, const struct executed *more)
{
    for (int unit = 0; unit < UNITS; unit++)
        sum->of[unit] += more->of[unit];
    sum->local_words += more->local_words;
}

static void *take_groups(void *data)
{
    struct work *work = data;
    const uint32_t *groups = work->launch->groups, count = groups[0] * groups[1] * groups[2];
    struct group group = {.launch = work->launch};
    for (uint32_t n; !atomic_load(&work->failed) && (n = atomic_fetch_add(&work->next, 1)) < count;) {
        if (group_run(&group, n % groups[0], n / groups[0] % groups[1], n / groups[0] / groups[1]))
            continue;
        pthread_mutex_lock(&work->lock);
        if (!atomic_exchange(&work->failed, true))
            snprintf(work->fault, work->fault_bytes, "%s, group %u", group.fault, n);
        pthread_mutex_unlock(&work->lock);
    }
    pthread_mutex_lock(&work->lock);
    add(&work->executed, &group.executed);
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

bool launch_run(const struct launch *launch, char *fault, size_t fault_bytes, struct executed *executed)
{
    struct work work = {.launch = launch, .fault = fault, .fault_bytes = fault_bytes};
    pthread_t threads[MOST_THREADS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t groups = launch->groups[0] * launch->groups[1] * launch->groups[2];
    int started = 0;
    pthread_mutex_init(&work.lock, NULL);
    while (started < MOST_THREADS && started + 1 < cores && (uint32_t)started + 1 < groups &&
           pthread_create(&threads[started], NULL, take_groups, &work) == 0)
        started++;
    take_groups(&work);
    for (int n = 0; n < started; n++)
        pthread_join(threads[n], NULL);
    pthread_mutex_destroy(&work.lock);
    *executed = work.executed;
    return !atomic_load(&work.failed);
}
