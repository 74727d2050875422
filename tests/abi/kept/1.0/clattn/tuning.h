/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TUNING_H
#define CLATTN_TUNING_H
#include <clattn/device.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
CLATTN_BEGIN_DECLS
enum clattn_tuning_state {
    CLATTN_TUNING_OK = 0,
    CLATTN_TUNING_WRONG = 1,
    CLATTN_TUNING_INFEASIBLE = 2,
    CLATTN_TUNING_TIMEOUT = 3
};
struct clattn_tuning_record {
    char device[200];
    char driver[64];
    char kernels[40];
    enum clattn_pass pass;
    enum clattn_dtype dtype;
    int d, d_v;
    bool causal;
    int64_t n_q_up_to, n_kv_up_to;
    char skeleton[32];
    int b_r, b_c, work_group_size;
    char knobs[256];
    enum clattn_tuning_state state;
    double ms;
    int runs;
    bool best;
    uint64_t reserved[16];
};
typedef struct clattn_tuning clattn_tuning;
CLATTN_API clattn_status clattn_tuning_default_path(char *path, size_t size);
CLATTN_API clattn_status clattn_tuning_create(clattn_tuning **tuning);
CLATTN_API clattn_status clattn_tuning_load(clattn_tuning **tuning, const char *path);
CLATTN_API clattn_status clattn_tuning_parse(clattn_tuning **tuning, const char *name, const char *text, size_t size);
CLATTN_API void clattn_tuning_destroy(clattn_tuning **tuning);
CLATTN_API int clattn_tuning_count(const clattn_tuning *tuning);
CLATTN_API clattn_status clattn_tuning_get(const clattn_tuning *tuning, int index, struct clattn_tuning_record *record);
CLATTN_API clattn_status clattn_tuning_add(clattn_tuning *tuning, const struct clattn_tuning_record *record);
CLATTN_API clattn_status clattn_tuning_merge(clattn_tuning *tuning, const clattn_tuning *other);
CLATTN_API clattn_status clattn_tuning_text(const clattn_tuning *tuning, char *text, size_t size, size_t *needed);
CLATTN_API clattn_status clattn_tuning_save(const clattn_tuning *tuning, const char *path);
CLATTN_API clattn_status clattn_tuning_describe(const struct clattn_capabilities *capabilities,
                                                const struct clattn_problem *problem,
                                                const struct clattn_plan_info *info,
                                                struct clattn_tuning_record *record);
CLATTN_API clattn_status clattn_tuning_candidates(const struct clattn_capabilities *capabilities,
                                                  const struct clattn_problem *problem,
                                                  struct clattn_plan_info *candidates, int capacity, int *count);
CLATTN_API clattn_status clattn_tuning_preview(const clattn_tuning *tuning,
                                               const struct clattn_capabilities *capabilities,
                                               const struct clattn_problem *problem, struct clattn_plan_info *info);
CLATTN_END_DECLS
#endif
