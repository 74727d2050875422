/* SPDX-License-Identifier: BSD-2-Clause */
#include "objects.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void objects_lock(void)
{
    pthread_mutex_lock(&lock);
}

void objects_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void objects_wait(void)
{
    pthread_cond_wait(&changed, &lock);
}

void objects_changed(void)
{
    pthread_cond_broadcast(&changed);
}

void *object_new(size_t bytes, int kind, void *owner)
{
    struct head *head = calloc(1, bytes);
    if (!head)
        return NULL;
    *head = (struct head){&simulated_dispatch, kind, 1, owner};
    if (owner)
        object_retain(owner);
    return head;
}

bool object_is(const void *object, int kind)
{
    const struct head *head = object;
    return head && head->dispatch == &simulated_dispatch && head->kind == kind && head->references > 0;
}

void object_retain(void *object)
{
    ((struct head *)object)->references++;
}

void object_release(void *object)
{
    struct head *head = object;
    if (!head || --head->references)
        return;
    struct head *owner = head->owner;
    if (head->kind == BUFFER)
        buffer_end(object);
    else if (head->kind == PROGRAM)
        program_end(object);
    else if (head->kind == KERNEL_OBJECT)
        kernel_end(object);
    head->dispatch = NULL; /* a use after this is seen, at least as long as nothing else lies here */
    free(object);
    object_release(owner);
}

cl_int answer(const void *value, size_t bytes, size_t room, void *to, size_t *wanted)
{
    if (to && room < bytes)
        return CL_INVALID_VALUE;
    if (to)
        memcpy(to, value, bytes);
    if (wanted)
        *wanted = bytes;
    return CL_SUCCESS;
}

cl_int answer_text(const char *text, size_t room, void *to, size_t *wanted)
{
    return answer(text, strlen(text) + 1, room, to, wanted);
}
