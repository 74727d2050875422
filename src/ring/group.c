/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "device/report.h"
#include "plan/error.h"
#include <clattn/ring.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Messages between threads of one process. What is sent waits in a list until it is asked for. Small messages are
 * copied; large ones are lent. */
enum { MOST_RANKS = 1024, PAUSE_NS = 20000 };

struct post {
    struct post *next;
    struct post *other; /* whom it has met; NULL: nobody yet, or one that has let go */
    bool sent, met, done;
    int from, to, tag;
    const void *data; /* what is sent */
    void *into;       /* where it is wanted; NULL: as a loan */
    size_t bytes;
};

struct member {
    struct clattn_ring_group *group;
    struct clattn_ring_transport transport;
};

struct clattn_ring_group {
    pthread_mutex_t lock;
    pthread_cond_t agreed;
    struct post *posts, **last; /* all that are under way, in their order */
    int ranks, said, all, answer;
    unsigned rounds; /* that `all` has gone through */
    struct member members[];
};

/* The first that waits for this one. */
static struct post *find(struct clattn_ring_group *group, const struct post *post)
{
    for (struct post *other = group->posts; other; other = other->next)
        if (other->sent != post->sent && !other->met && other->from == post->from && other->to == post->to &&
            other->tag == post->tag)
            return other;
    return NULL;
}

static void meet(struct post *sent, struct post *received)
{
    sent->met = received->met = true;
    received->done = true;
    if (received->into) {
        memcpy(received->into, sent->data, received->bytes < sent->bytes ? received->bytes : sent->bytes);
        sent->done = true;
        return;
    }
    received->data = sent->data;
    received->other = sent;
    sent->other = received;
}

static int put(struct member *member, const struct post *wanted, void **message)
{
    struct clattn_ring_group *group = member->group;
    struct post *post = malloc(sizeof *post);
    if (!post)
        return CL_OUT_OF_HOST_MEMORY;
    *post = *wanted;
    pthread_mutex_lock(&group->lock);
    struct post *other = find(group, post);
    if (other)
        meet(post->sent ? post : other, post->sent ? other : post);
    *group->last = post;
    group->last = &post->next;
    pthread_mutex_unlock(&group->lock);
    *message = post;
    return CLATTN_SUCCESS;
}

static int group_send(void *user, const void *data, size_t bytes, int to, int tag, void **message)
{
    struct member *member = user;
    const struct post post = {
        .sent = true, .from = (int)member->transport.rank, .to = to, .tag = tag, .data = data, .bytes = bytes};
    return put(member, &post, message);
}

static int group_receive(void *user, void *data, size_t bytes, int from, int tag, void **message)
{
    struct member *member = user;
    const struct post post = {
        .from = from, .to = (int)member->transport.rank, .tag = tag, .into = data, .bytes = bytes};
    return put(member, &post, message);
}

static int group_test(void *user, void *message, int *complete, const void **lent)
{
    struct member *member = user;
    const struct post *post = message;
    pthread_mutex_lock(&member->group->lock);
    *complete = post->done;
    if (post->done && !post->sent && !post->into)
        *lent = post->data;
    pthread_mutex_unlock(&member->group->lock);
    return CLATTN_SUCCESS;
}

static void take_out(struct clattn_ring_group *group, struct post *post)
{
    struct post **at = &group->posts;
    while (*at != post)
        at = &(*at)->next;
    *at = post->next;
    if (group->last == &post->next)
        group->last = at;
}

static void group_end(void *user, void *message)
{
    struct member *member = user;
    struct post *post = message;
    pthread_mutex_lock(&member->group->lock);
    take_out(member->group, post);
    if (post->other) {
        post->other->other = NULL;
        post->other->done = true; /* a loan has come back */
    }
    pthread_mutex_unlock(&member->group->lock);
    free(post);
}

static int group_all(void *user, int mine, int *all)
{
    struct clattn_ring_group *group = ((struct member *)user)->group;
    pthread_mutex_lock(&group->lock);
    const unsigned round = group->rounds;
    group->all = (group->said ? group->all : 1) && mine;
    if (++group->said == group->ranks) {
        group->answer = group->all;
        group->said = 0;
        group->rounds++;
        pthread_cond_broadcast(&group->agreed);
    }
    while (group->rounds == round)
        pthread_cond_wait(&group->agreed, &group->lock);
    *all = group->answer;
    pthread_mutex_unlock(&group->lock);
    return CLATTN_SUCCESS;
}

static void group_give_up(void *user)
{
    (void)user;
}

static void group_pause(void *user)
{
    (void)user;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static const char *group_why(void *user)
{
    (void)user;
    return "no host memory for a message";
}

static struct clattn_ring_group *make(int ranks)
{
    struct clattn_ring_group *group = calloc(1, sizeof *group + (size_t)ranks * sizeof *group->members);
    if (!group || pthread_mutex_init(&group->lock, NULL) != 0) {
        free(group);
        return NULL;
    }
    if (pthread_cond_init(&group->agreed, NULL) != 0) {
        pthread_mutex_destroy(&group->lock);
        free(group);
        return NULL;
    }
    group->ranks = ranks;
    group->last = &group->posts;
    for (int i = 0; i < ranks; i++)
        group->members[i] = (struct member){.group = group,
                                            .transport = {.user = &group->members[i],
                                                          .rank = i,
                                                          .ranks = ranks,
                                                          .lends = 1,
                                                          .send = group_send,
                                                          .receive = group_receive,
                                                          .test = group_test,
                                                          .end = group_end,
                                                          .all = group_all,
                                                          .give_up = group_give_up,
                                                          .pause = group_pause,
                                                          .why = group_why}};
    return group;
}

clattn_status clattn_ring_group_create(clattn_ring_group **group, int ranks)
{
    struct cla_error error;
    if (!group || ranks < 1 || ranks > MOST_RANKS) {
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "group is %p and ranks %d: it is not NULL, and ranks are 1 to %d",
                 (void *)group, ranks, MOST_RANKS);
        return cla_report(NULL, &error);
    }
    struct clattn_ring_group *made = make(ranks);
    if (!made) {
        cla_fail(&error, CL_OUT_OF_HOST_MEMORY, "no host memory for a group of %d ranks", ranks);
        return cla_report(NULL, &error);
    }
    *group = made;
    return CLATTN_SUCCESS;
}

const struct clattn_ring_transport *clattn_ring_group_transport(const clattn_ring_group *group, int rank)
{
    return group && rank >= 0 && rank < group->ranks ? &group->members[rank].transport : NULL;
}

void clattn_ring_group_destroy(clattn_ring_group **handle)
{
    if (!handle || !*handle)
        return;
    clattn_ring_group *group = *handle;
    for (struct post *post = group->posts, *next; post; post = next) {
        next = post->next;
        free(post);
    }
    pthread_cond_destroy(&group->agreed);
    pthread_mutex_destroy(&group->lock);
    free(group);
    *handle = NULL;
}
