/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TUNING_H
#define CLATTN_TUNING_H

#include <clattn/device.h>
#include <clattn/plan.h>
#include <clattn/problem.h>

CLATTN_BEGIN_DECLS

/* Tuning records: what was measured, in place of what the model expects.
 *
 * Where a problem forces nothing, a plan is looked up first in the records given to the context (struct
 * clattn_context_params), then in the library's own table of measured devices, and is planned by the model where
 * neither has a record. clattn_plan_info says in `source` which one answered. A record that does not fit the problem
 * after all is left out, and a step of the plan says so.
 *
 * The library reads no file by itself: a caller loads one, by name or from the default place, and hands it to contexts.
 * `clattn tune` (clattn-tune(1)) measures and writes such files. They are JSON:
 *
 *     {"format": "clattn tuning", "version": 1, "records": [
 *      {"device": "NVIDIA CUDA / NVIDIA H200", "driver": "580.159.04", "kernels": "<hash of the skeleton's text>",
 *       "pass": "forward", "dtype": "fp16", "d": 128, "d_v": 128, "causal": true,
 *       "n_q_up_to": 4096, "n_kv_up_to": 4096,
 *       "skeleton": "forward_matrix", "b_r": 128, "b_c": 64, "work_group_size": 128, "knobs": "keys=64 q_registers=0",
 *       "state": "ok", "ms": 1.25, "runs": 9, "best": true}
 *     ]}
 *
 * Of driver and kernels "*" stands for any. A file that is not exactly so is refused as a whole, with its line. */

/* How a measurement ended. */
enum clattn_tuning_state {
    CLATTN_TUNING_OK = 0,         /* right and timed */
    CLATTN_TUNING_WRONG = 1,      /* ran, and gave wrong numbers */
    CLATTN_TUNING_INFEASIBLE = 2, /* the device or its compiler refused it, or it crashed */
    CLATTN_TUNING_TIMEOUT = 3     /* took longer than it was given */
};

/* One candidate of one class of problems on one device. Lengths are classed by the largest of 16, 64, 256, 1024, 4096
 * that they do not exceed; 0 stands for longer ones, and for problems whose lengths are not known. Both causal
 * alignments are one class. Problems with features other than CLATTN_KEY_LENGTHS, CLATTN_VARLEN and CLATTN_SINKS, or
 * with functions of the user's, have no records: the model plans them. */
struct clattn_tuning_record {
    char device[200]; /* "platform / device", of a CPU ", N units": as clattn_tuning_describe() writes it */
    char driver[64];  /* or "*" */
    char kernels[40]; /* 32 hexadecimal digits, or "*" */
    enum clattn_pass pass;
    enum clattn_dtype dtype;
    int d, d_v;
    bool causal;
    int64_t n_q_up_to, n_kv_up_to;
    char skeleton[32];
    int b_r, b_c, work_group_size;
    char knobs[256]; /* as in struct clattn_plan_info */
    enum clattn_tuning_state state;
    double ms;             /* of CLATTN_TUNING_OK: the median; else 0 */
    int runs;              /* that this is the median of */
    bool best;             /* the one to take: of those that are not marked, the fastest counts */
    int64_t group;         /* heads of Q that share one of K and V: expected_heads / expected_kv_heads. 0: any, which
                            * counts where no record has the problem's own. Left out of the file where it is 0 */
    uint64_t reserved[15]; /* 0: clattn/version.h */
};

/* A set of records. Threads: any number may read at once (load, parse, get, text, save, contexts being made); adding
 * and destroying exclude everything else. A context keeps a copy, so that a set may change or go once the context is
 * made. */
typedef struct clattn_tuning clattn_tuning;

/* The default file: $CLATTN_TUNING_FILE, else $XDG_CONFIG_HOME/clattn/tuning.json, else
 * $HOME/.config/clattn/tuning.json; "" where there is none (CLATTN_TUNING_FILE set to the empty string, or no HOME). In
 * a set-user-ID program the variables are ignored. Errors: CLATTN_INVALID_ARGUMENT where path is NULL or too small. Any
 * thread. */
CLATTN_API clattn_status clattn_tuning_default_path(char *path, size_t size);

/* An empty set. */
CLATTN_API clattn_status clattn_tuning_create(clattn_tuning **tuning);

/* Reads a file. path NULL: the default one, and an empty set where that does not exist; where CLATTN_TUNING_FILE does
 * not name it, it is refused (CLATTN_FILE_FAILED) if anybody but the user or root owns it or its directory or may write
 * to them. *tuning is set on success alone. Errors: CLATTN_INVALID_ARGUMENT; CLATTN_FILE_FAILED where it cannot be
 * read; CLATTN_FILE_DAMAGED, with the line. */
CLATTN_API clattn_status clattn_tuning_load(clattn_tuning **tuning, const char *path);

/* The same from memory; `name` is for messages, the text need not be terminated. */
CLATTN_API clattn_status clattn_tuning_parse(clattn_tuning **tuning, const char *name, const char *text, size_t size);

/* Sets *tuning to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_tuning_destroy(clattn_tuning **tuning);

CLATTN_API int clattn_tuning_count(const clattn_tuning *tuning); /* 0 for NULL */

/* Record `index`, counted from 0. Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_tuning_get(const clattn_tuning *tuning, int index, struct clattn_tuning_record *record);

/* Adds a record; one of the same device, driver, kernels, class and choices is replaced. Where it is `best`, others of
 * its class no longer are. Errors: CLATTN_INVALID_ARGUMENT, naming the field that is not right. */
CLATTN_API clattn_status clattn_tuning_add(clattn_tuning *tuning, const struct clattn_tuning_record *record);

/* Adds all records of `other`, as if one by one: where both have the same, the other's count. */
CLATTN_API clattn_status clattn_tuning_merge(clattn_tuning *tuning, const clattn_tuning *other);

/* The set as the text of a file, terminated, into `size` bytes; *needed (may be NULL) gets the bytes that it takes with
 * the terminating 0. text may be NULL with size 0, to ask. Errors: CLATTN_INVALID_ARGUMENT where it does not fit. */
CLATTN_API clattn_status clattn_tuning_text(const clattn_tuning *tuning, char *text, size_t size, size_t *needed);

/* Adds the set's records to a file (path NULL: the default one), as clattn_tuning_merge() would, and makes it where
 * there is none, with its directories. It is written under another name and renamed, under a lock (the file's name with
 * ".lock" behind it), so that of two processes that save at once neither loses anything, and readers never see half a
 * file. A damaged file stays as it is. Errors: CLATTN_INVALID_ARGUMENT; CLATTN_FILE_FAILED where it cannot be read,
 * locked within ten seconds or written, CLATTN_FILE_DAMAGED. */
CLATTN_API clattn_status clattn_tuning_save(const clattn_tuning *tuning, const char *path);

/* Fills the record of a plan, planned for `problem` on a device of these capabilities: all but state, ms, runs and
 * best, which are 0. Any thread. Errors: CLATTN_INVALID_ARGUMENT, and those of clattn_plan_preview for a problem that
 * is not right. */
CLATTN_API clattn_status clattn_tuning_describe(const struct clattn_capabilities *capabilities,
                                                const struct clattn_problem *problem,
                                                const struct clattn_plan_info *info,
                                                struct clattn_tuning_record *record);

/* What is worth measuring: plans for `problem`, the planner's own choice (by the model alone) first, then others of its
 * kernel, the cheapest by the model first, with its reasons; after some of them, and at the end, the choices of other
 * kernels. A problem that forces some choices gets those that have them. At most `capacity` (at least 1) are filled,
 * *count says how many. To make a plan of one, force its skeleton, b_r, b_c, work_group_size and knobs. Pure, any
 * thread. Errors: those of clattn_plan_preview. */
CLATTN_API clattn_status clattn_tuning_candidates(const struct clattn_capabilities *capabilities,
                                                  const struct clattn_problem *problem,
                                                  struct clattn_plan_info *candidates, int capacity, int *count);

/* clattn_plan_preview() with records of the caller's (NULL: none) before the library's own. */
CLATTN_API clattn_status clattn_tuning_preview(const clattn_tuning *tuning,
                                               const struct clattn_capabilities *capabilities,
                                               const struct clattn_problem *problem, struct clattn_plan_info *info);

CLATTN_END_DECLS

#endif
