/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_SOAK_LOG_H
#define CLATTN_TOOL_VERIFY_SOAK_LOG_H

#include "failure.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cases that a soak has been through, in memory and in a file of lines of JSON: the first says on what, each other
 * one is a case that ended. A line is one write, so that a run that is killed loses no line but the one it is at; the
 * next run takes the file's cases for its own and goes on behind them. */

enum soak_outcome {
    SOAK_OK,
    SOAK_WRONG,   /* an answer is */
    SOAK_HANG,    /* the deadline passed */
    SOAK_CRASH,   /* the process died */
    SOAK_ERROR,   /* a call failed that should not */
    SOAK_REFUSED, /* the skeleton does not serve such a problem */
    SOAK_OUTCOMES
};

const char *soak_outcome_name(enum soak_outcome outcome);
bool soak_outcome_fails(enum soak_outcome outcome);

struct soak_record {
    uint64_t seed;
    int skeleton;    /* a number of struct soak_log.skeletons */
    unsigned traits; /* enum verify_trait */
    enum soak_outcome outcome;
    double share;     /* the largest error over what was allowed */
    double seconds;   /* what the case took */
    char program[40]; /* the plan's program_key; "" where none was made */
    char *name;       /* what the case is, and */
    char *text;       /* why it failed; both NULL for others */
};

enum { SOAK_SKELETONS = 32 };

/* On what a soak runs. The numbers in a file are of one device, one driver and the kernels that there are now. */
struct soak_identity {
    const char *device, *driver, *library;
    /* The hash of a skeleton's kernels; "" for what is none. */
    void (*kernels)(const void *user, const char *skeleton, char hex[40]);
    const void *user;
};

struct soak_log {
    struct soak_identity identity;
    char skeletons[SOAK_SKELETONS][32];
    char kernels[SOAK_SKELETONS][40];
    int skeleton_count;
    struct soak_record *records;
    int count, capacity;
    int earlier;    /* so many come from the file, sorted */
    char *path;     /* NULL: there is none */
    int descriptor; /* of the file */
};

/* `path` NULL: in memory alone. A file that is there is read and gone on with; *seed, where it is negative, becomes
 * that of the file, or the time. Fails where the file is another run's, of other kernels or another device, or damaged.
 */
int soak_log_open(struct soak_log *log, const char *path, const struct soak_identity *identity, int64_t *seed,
                  struct failure *failure);
void soak_log_close(struct soak_log *log);

/* The skeleton's number; -1 where there are too many. */
int soak_log_skeleton(struct soak_log *log, const char *name);

/* Whether an earlier run has had the case, with dQ in order or not as `traits` say. */
bool soak_log_has(const struct soak_log *log, uint64_t seed, int skeleton, unsigned traits);

/* Takes the record over, with its texts, which are freed also where this fails. */
int soak_log_add(struct soak_log *log, struct soak_record *record, struct failure *failure);

#endif
