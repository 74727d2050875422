/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a system's scheduler costs whoever wakes two threads for a short piece of work, as a call of attention does on a
 * CPU: two threads sleep while a third works, are woken, and work as long each; the time until both have ended.
 *
 *     cc -O2 -pthread tests/peers/woken_threads.c && ./a.out MS BEFORE_MS [placed]
 *
 * MS: what each thread works; BEFORE_MS: what the third does before; placed: each thread has a processor of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 2, ROUNDS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static int round_number, done, processors[THREADS];
static double work_ms;
static bool placed;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void work(double ms)
{
    for (const double end = now(CLOCK_THREAD_CPUTIME_ID) + ms; now(CLOCK_THREAD_CPUTIME_ID) < end;) {
    }
}

static void *thread(void *argument)
{
    int *const processor = argument;
    if (placed) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((int)(processor - processors), &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    for (int seen = 0;; seen++) {
        pthread_mutex_lock(&mutex);
        while (round_number == seen)
            pthread_cond_wait(&begun, &mutex);
        pthread_mutex_unlock(&mutex);
        *processor = sched_getcpu();
        work(work_ms);
        pthread_mutex_lock(&mutex);
        done++;
        pthread_cond_signal(&ended);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static double one_round(void)
{
    const double start = now(CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    done = 0;
    round_number++;
    pthread_cond_broadcast(&begun);
    while (done < THREADS)
        pthread_cond_wait(&ended, &mutex);
    pthread_mutex_unlock(&mutex);
    return now(CLOCK_MONOTONIC) - start;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s MS BEFORE_MS [placed]\n", argv[0]);
        return 2;
    }
    double sum = 0.0;
    int together = 0;
    work_ms = atof(argv[1]);
    placed = argc > 3;
    for (int i = 0; i < THREADS; i++) {
        pthread_t made;
        if (pthread_create(&made, NULL, thread, &processors[i]))
            return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        work(atof(argv[2]));
        sum += one_round();
        together += processors[0] == processors[1];
    }
    printf("%g ms each took %.2f ms; in %d of %d rounds both began on one processor\n", work_ms, sum / ROUNDS, together,
           ROUNDS);
    return 0;
}
