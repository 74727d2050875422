/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "device/program.h"
#include "device/binary_cache.h"
#include "device/build.h"
#include "device/clcall.h"
#include "device/context.h"
#include "device/query.h"
#include "device/report.h"
#include "plan/line_names.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum state { BUILDING, READY, FAILED };

struct entry {
    struct entry *next;
    char key[CLA_HASH_HEX];
    enum state state;
    int waiters; /* threads that look at the entry, beside the one that builds it */
    uint64_t last_use;
    cl_program program;        /* when READY */
    struct cla_error *failure; /* until READY: where the outcome goes if there will be none */
};

struct cla_programs {
    pthread_mutex_t lock; /* guards all below; never held while the driver builds */
    pthread_cond_t settled;
    struct entry *entries;
    int count, most;
    uint64_t clock;
};

struct cla_programs *cla_programs_create(int most)
{
    struct cla_programs *programs = calloc(1, sizeof *programs);
    if (!programs)
        return NULL;
    programs->most = most;
    if (pthread_mutex_init(&programs->lock, NULL) != 0) {
        free(programs);
        return NULL;
    }
    if (pthread_cond_init(&programs->settled, NULL) != 0) {
        pthread_mutex_destroy(&programs->lock);
        free(programs);
        return NULL;
    }
    return programs;
}

static void free_entry(struct entry *entry)
{
    cla_cl_release_program(entry->program);
    free(entry->failure);
    free(entry);
}

void cla_programs_destroy(struct cla_programs *programs)
{
    if (!programs)
        return;
    for (struct entry *entry = programs->entries, *next; entry; entry = next) {
        next = entry->next;
        free_entry(entry);
    }
    pthread_cond_destroy(&programs->settled);
    pthread_mutex_destroy(&programs->lock);
    free(programs);
}

static struct entry *find_entry(struct cla_programs *programs, const char *key)
{
    struct entry *entry = programs->entries;
    while (entry && strcmp(entry->key, key) != 0)
        entry = entry->next;
    return entry;
}

static struct entry *add_entry(struct cla_programs *programs, const char *key)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->failure = malloc(sizeof *entry->failure);
    if (!entry->failure) {
        free(entry);
        return NULL;
    }
    strcpy(entry->key, key);
    entry->next = programs->entries;
    programs->entries = entry;
    programs->count++;
    return entry;
}

static void unlink_entry(struct cla_programs *programs, const struct entry *entry)
{
    struct entry **at = &programs->entries;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    programs->count--;
}

static void evict(struct cla_programs *programs)
{
    while (programs->count > programs->most) {
        struct entry *oldest = NULL;
        for (struct entry *entry = programs->entries; entry; entry = entry->next) {
            if (entry->state == READY && !entry->waiters && (!oldest || entry->last_use < oldest->last_use))
                oldest = entry;
        }
        if (!oldest)
            return;
        unlink_entry(programs, oldest);
        free_entry(oldest);
    }
}

static clattn_status take(struct cla_programs *programs, struct entry *entry, cl_program *program,
                          struct cla_error *error)
{
    if (entry->state == FAILED) {
        *error = *entry->failure;
        return error->status;
    }
    entry->last_use = ++programs->clock;
    const clattn_status status = cla_cl_retain_program(entry->program, error);
    if (!status)
        *program = entry->program;
    return status;
}

/* Another thread has built the program or is doing so. */
static clattn_status wait_and_take(struct cla_programs *programs, struct entry *entry, cl_program *program,
                                   struct cla_error *error)
{
    entry->waiters++;
    while (entry->state == BUILDING)
        pthread_cond_wait(&programs->settled, &programs->lock);
    const clattn_status status = take(programs, entry, program, error);
    entry->waiters--;
    if (entry->state == FAILED && !entry->waiters)
        free_entry(entry);
    return status;
}

static clattn_status settle(struct cla_programs *programs, struct entry *entry, clattn_status status,
                            cl_program *program, struct cla_error *error)
{
    if (status) {
        *entry->failure = *error;
        entry->state = FAILED;
        unlink_entry(programs, entry);
        if (!entry->waiters)
            free_entry(entry);
    } else {
        free(entry->failure);
        entry->failure = NULL;
        entry->state = READY;
        status = take(programs, entry, program, error);
        evict(programs);
    }
    pthread_cond_broadcast(&programs->settled);
    return status;
}

static int milliseconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)((now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000);
}

/* What is being made, for the functions that try one way of making it. */
struct request {
    struct clattn_context *context;
    const char *name, *text, *options, *identity, *key;
};

static bool make_from_cache(const struct request *request, cl_program *program)
{
    struct clattn_context *context = request->context;
    struct cla_error error;
    void *binary = NULL;
    size_t size = 0;
    cl_program made = NULL;
    if (!cla_binary_cache_load(context->cache_directory, request->identity, &binary, &size))
        return false;
    clattn_status status = cla_cl_program_from_binary(context->context, context->device, binary, size, &made, &error);
    free(binary);
    if (!status)
        status = cla_cl_build(made, context->device, request->options, &error);
    if (!status) {
        *program = made;
        return true;
    }
    cla_say(&context->log, CLATTN_LOG_INFO, "kernel %s: the driver refuses the cached binary: %s", request->name,
            error.text);
    cla_cl_release_program(made);
    cla_binary_cache_drop(context->cache_directory, request->identity);
    return false;
}

static clattn_status make_from_source(const struct request *request, cl_program *program, struct cla_error *error)
{
    struct clattn_context *context = request->context;
    cl_program made = NULL;
    struct cla_error cause;
    const clattn_status status =
        cla_build_text(context->context, context->device, request->text, request->options, &made, &cause);
    if (status) {
        cla_name_lines(request->text, &cause);
        return cla_fail(error, status, "building kernel %s for \"%s\": %s", request->name,
                        context->capabilities.device_name, cause.text);
    }
    *program = made;
    return CLATTN_SUCCESS;
}

static void keep(const struct request *request, cl_program program)
{
    struct clattn_context *context = request->context;
    if (!context->cache_directory[0])
        return;
    struct cla_error error;
    void *binary = NULL;
    size_t size = 0;
    if (cla_cl_program_binary(program, context->device, &binary, &size, &error)) {
        cla_say(&context->log, CLATTN_LOG_INFO, "kernel %s: its binary is not kept: %s", request->name, error.text);
        return;
    }
    if (!size || !cla_binary_cache_store(context->cache_directory, request->identity, binary, size))
        cla_say(&context->log, CLATTN_LOG_INFO, "kernel %s: its binary of %zu bytes cannot be kept in %s",
                request->name, size, context->cache_directory);
    free(binary);
}

static clattn_status make(const struct request *request, cl_program *program, struct cla_error *error)
{
    const struct clattn_log *log = &request->context->log;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (make_from_cache(request, program)) {
        cla_say(log, CLATTN_LOG_INFO, "kernel %s: loaded from the cache in %d ms, key %s", request->name,
                milliseconds_since(&start), request->key);
        return CLATTN_SUCCESS;
    }
    cla_say(log, CLATTN_LOG_DEBUG, "kernel %s, key %s, options %s:\n%s", request->name, request->key, request->options,
            request->text);
    cla_say(log, CLATTN_LOG_INFO, "kernel %s: compiling", request->name); /* clattn/log.h promises this text */
    const clattn_status status = make_from_source(request, program, error);
    if (status)
        return status;
    cla_say(log, CLATTN_LOG_INFO, "kernel %s: built in %d ms, key %s", request->name, milliseconds_since(&start),
            request->key);
    keep(request, *program);
    return CLATTN_SUCCESS;
}

static clattn_status get_or_make(struct cla_programs *programs, const struct request *request, cl_program *program,
                                 struct cla_error *error)
{
    pthread_mutex_lock(&programs->lock);
    struct entry *entry = find_entry(programs, request->key);
    clattn_status status;
    if (entry) {
        status = wait_and_take(programs, entry, program, error);
    } else if (!(entry = add_entry(programs, request->key))) {
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for kernel %s", request->name);
    } else {
        pthread_mutex_unlock(&programs->lock);
        cl_program made = NULL;
        status = make(request, &made, error);
        pthread_mutex_lock(&programs->lock);
        entry->program = made;
        status = settle(programs, entry, status, program, error);
    }
    pthread_mutex_unlock(&programs->lock);
    return status;
}

static void write_identity(const struct clattn_context *context, const char *text, const char *options,
                           struct cla_text *identity)
{
    char hex[CLA_HASH_HEX];
    const size_t length = strlen(text);
    cla_hash_hex(cla_hash_bytes(text, length), hex);
    cla_text_printf(identity, "program 1\n");
    cla_device_identity(&context->capabilities, identity);
    cla_text_printf(identity, "options %s\ntext %s, %zu bytes\n", options, hex, length);
}

clattn_status cla_program_get(struct clattn_context *context, const char *name, const char *text, const char *options,
                              cl_program *program, char key[CLA_HASH_HEX], struct cla_error *error)
{
    struct cla_text identity = {0};
    write_identity(context, text, options, &identity);
    clattn_status status;
    if (identity.failed) {
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for kernel %s", name);
    } else {
        cla_hash_hex(cla_hash_bytes(identity.data, identity.length), key);
        const struct request request = {context, name, text, options, identity.data, key};
        status = get_or_make(context->programs, &request, program, error);
    }
    cla_text_free(&identity);
    return status;
}
