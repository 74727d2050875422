/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_DEVICE_TUNING_H
#define CLA_DEVICE_TUNING_H

#include "plan/tuning/tuning_db.h"

struct clattn_tuning {
    struct cla_tuning_db db;
};

/* A cla_kernels_function over the texts that the library holds. */
const char *cla_kernels_hash(const char *skeleton, char hex[40]);

/* Reads a file into an empty db. OPTIONAL: one that does not exist is empty. OWN: one that anybody but the user or root
 * can have written is refused. */
enum { CLA_TUNING_OPTIONAL = 1, CLA_TUNING_OWN = 2 };
clattn_status cla_tuning_read_file(const char *path, int how, struct cla_tuning_db *db, struct cla_error *error);

/* Merges `db` over what the file has, under its lock. */
clattn_status cla_tuning_update_file(const char *path, int how, const struct cla_tuning_db *db,
                                     struct cla_error *error);

#endif
