/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "compile_watch.h"
#include "system/terminal.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct compile_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    char kernel[64]; /* "" while none is compiled */
    int seconds;     /* since it began, as far as they were told */
    int count;
    bool shown, running, ended, moves;
};

static void tell(const struct compile_watch *watch)
{
    if (watch->moves)
        fprintf(stderr, "\r\033[Kcompiling %s, %d s", watch->kernel, watch->seconds);
    else if (watch->seconds == 1)
        fprintf(stderr, "clattn: compiling %s\n", watch->kernel);
    fflush(stderr);
}

static void *run(void *user)
{
    struct compile_watch *watch = user;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ended) {
        struct timespec next;
        if (!watch->kernel[0]) {
            pthread_cond_wait(&watch->changed, &watch->lock);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec++;
        if (pthread_cond_timedwait(&watch->changed, &watch->lock, &next) == 0 || !watch->kernel[0])
            continue;
        watch->seconds++;
        tell(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

struct compile_watch *compile_watch_start(bool shown)
{
    struct compile_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->shown = shown;
    watch->moves = terminal_moves(stderr);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    return watch;
}

/* Under the lock. */
static void end_kernel(struct compile_watch *watch)
{
    if (watch->kernel[0] && watch->seconds && watch->moves)
        fputs("\r\033[K", stderr);
    watch->kernel[0] = '\0';
    watch->seconds = 0;
    pthread_cond_signal(&watch->changed);
}

void compile_watch_stop(struct compile_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    end_kernel(watch);
    watch->ended = true;
    pthread_mutex_unlock(&watch->lock);
    if (watch->running)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

/* Under the lock. Who compiles nothing has no thread. */
static void begin_kernel(struct compile_watch *watch, const char *name, int length)
{
    snprintf(watch->kernel, sizeof watch->kernel, "%.*s", length, name);
    watch->count++;
    if (watch->shown && !watch->running)
        watch->running = pthread_create(&watch->thread, NULL, run, watch) == 0;
}

/* Whatever else is said means that the compilation before it is over. */
void compile_watch_hear(struct compile_watch *watch, enum clattn_log_level level, const char *text)
{
    static const char begins[] = "kernel ", ends[] = ": compiling";
    const size_t length = strlen(text), fixed = sizeof begins + sizeof ends - 2;
    if (level == CLATTN_LOG_DEBUG)
        return;
    pthread_mutex_lock(&watch->lock);
    end_kernel(watch);
    if (length > fixed && !strncmp(text, begins, sizeof begins - 1) && !strcmp(text + length - (sizeof ends - 1), ends))
        begin_kernel(watch, text + sizeof begins - 1, (int)(length - fixed));
    pthread_mutex_unlock(&watch->lock);
}

int compile_watch_count(struct compile_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    const int count = watch->count;
    pthread_mutex_unlock(&watch->lock);
    return count;
}
