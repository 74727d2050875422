/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/threads.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct gang {
    int (*work)(void *user, int number, struct failure *failure);
    void *user;
    const struct command_spec *command; /* for messages */
    pthread_mutex_t gate;               /* where threads wait until all are there */
    bool whole;                         /* all are */
};

struct thread {
    struct gang *gang;
    int number, status;
    struct failure failure;
    pthread_t id;
};

static void *begin(void *argument)
{
    struct thread *thread = argument;
    struct gang *gang = thread->gang;
    pthread_mutex_lock(&gang->gate);
    pthread_mutex_unlock(&gang->gate);
    if (gang->whole)
        thread->status = gang->work(gang->user, thread->number, &thread->failure);
    return NULL;
}

static int start(struct gang *gang, struct thread *threads, int count)
{
    int started = 0;
    pthread_mutex_lock(&gang->gate);
    for (; started < count; started++) {
        threads[started] = (struct thread){.gang = gang, .number = started, .failure = {.command = gang->command}};
        if (pthread_create(&threads[started].id, NULL, begin, &threads[started]) != 0)
            break;
    }
    gang->whole = started == count;
    pthread_mutex_unlock(&gang->gate);
    return started;
}

int threads_run(int count, int (*work)(void *user, int number, struct failure *failure), void *user,
                struct failure *failure)
{
    struct gang gang = {.work = work, .user = user, .command = failure->command, .gate = PTHREAD_MUTEX_INITIALIZER};
    struct thread *threads = calloc((size_t)count, sizeof *threads);
    int status = STATUS_OK;
    if (!threads)
        return fail(failure, STATUS_DEVICE, "no memory for %d threads", count);
    const int started = start(&gang, threads, count);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i].id, NULL);
        if (threads[i].status && !status) {
            status = threads[i].status;
            *failure = threads[i].failure;
        }
    }
    free(threads);
    return gang.whole ? status : fail(failure, STATUS_DEVICE, "no thread for number %d of %d", started + 1, count);
}
