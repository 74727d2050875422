/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TUNING_DB_H
#define CLA_TUNING_DB_H

#include "plan/error.h"
#include "plan/text.h"
#include "plan/tuning/tuning_index.h"
#include <clattn/tuning.h>

/* Tuning records in memory, and as text. Pure: files are src/device/tuning_file.c's. */

/* Zero-initialised it is empty. */
struct cla_tuning_db {
    struct clattn_tuning_record *records;
    int count, capacity;
    struct cla_tuning_index index;
};

void cla_tuning_free(struct cla_tuning_db *db);

/* Whether every field is in its range; the message names the one that is not. */
clattn_status cla_tuning_check(const struct clattn_tuning_record *record, struct cla_error *error);

/* Adds, or replaces the record of the same candidate; one that is `best` takes the mark from the others of its class.
 */
clattn_status cla_tuning_add(struct cla_tuning_db *db, const struct clattn_tuning_record *record,
                             struct cla_error *error);
clattn_status cla_tuning_merge(struct cla_tuning_db *db, const struct cla_tuning_db *other, struct cla_error *error);

/* The class of a length: the least of 16, 64, 256, 1024, 4096 that it does not exceed; else, and for 0 (unknown), 0. */
int64_t cla_tuning_length_class(int64_t length);

/* "platform / device", without what tells apart neither chips nor drivers: trademarks, clocks, repeated spaces, and the
 * name of PoCL's own driver before that of the processor. Of a CPU with its number of compute units. */
void cla_tuning_device_name(const struct clattn_capabilities *capabilities, char *name, size_t size);

/* Whether problems like this (resolved) one have records; then *key gets the fields that the problem and the device
 * determine, and zeros. */
bool cla_tuning_key(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    struct clattn_tuning_record *key);

/* The hash of a skeleton's present text, 32 digits; NULL where there is no skeleton of that name. */
typedef const char *(*cla_kernels_function)(const char *skeleton, char hex[40]);

/* The record to take, NULL where there is none: exact drivers and kernels before "*", then the one marked best, then
 * the fastest. */
const struct clattn_tuning_record *cla_tuning_find(const struct clattn_tuning_record *records, int count,
                                                   const struct clattn_tuning_record *key,
                                                   cla_kernels_function kernels);

/* Reads all of a file's text into an empty db; CLATTN_FILE_DAMAGED with "name:line: why" leaves it empty. */
clattn_status cla_tuning_parse(const char *name, const char *text, size_t size, struct cla_tuning_db *db,
                               struct cla_error *error);

/* Appends the text of a file: a record a line, in the order of the db. */
void cla_tuning_format(const struct cla_tuning_db *db, struct cla_text *text);

/* The library's own table: tuning_built_in.json, which the build turns into C (tools/tuning_table.py). */
extern const struct clattn_tuning_record cla_tuning_built_in[];
extern const int cla_tuning_built_in_count;

#endif
