/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_PLAN_H
#define CLATTN_PLAN_H
#include <clattn/device.h>
#include <clattn/problem.h>
CLATTN_BEGIN_DECLS
#define CLATTN_MAX_PLAN_STEPS 8
enum clattn_plan_source {
    CLATTN_PLAN_MODEL = 0,
    CLATTN_PLAN_FORCED = 1,
    CLATTN_PLAN_TUNED = 2,
    CLATTN_PLAN_BUILT_IN = 3
};
struct clattn_plan_step {
    char name[24];
    int b_r;
    int b_c;
    char reason[232];
    uint64_t reserved[2];
};
struct clattn_plan_stream {
    int block;
    int tile;
    int reads;
    int reads_v;
    int resident;
    uint64_t reserved[4];
};
struct clattn_plan_info {
    char skeleton[32];
    int b_r;
    int b_c;
    int work_group_size;
    char knobs[256];
    enum clattn_plan_source source;
    uint64_t m_elements;
    int paper_b_r;
    int paper_b_c;
    int64_t t_r;
    int64_t t_c;
    int splits;
    uint64_t local_bytes;
    uint64_t local_bytes_limit;
    uint64_t private_bytes;
    double estimate;
    struct clattn_plan_stream streams[2];
    int sums;
    int step_count;
    struct clattn_plan_step steps[CLATTN_MAX_PLAN_STEPS];
    char program_key[40];
    char constants[1024];
    uint64_t reserved[64];
};
struct clattn_skeleton_info {
    char name[32];
    bool backward;
    bool for_cpus;
    bool declines;
    bool any_order;
    bool emulated;
    uint64_t reserved[8];
};
CLATTN_API int clattn_skeleton_count(void);
CLATTN_API clattn_status clattn_skeleton_get_info(int index, struct clattn_skeleton_info *info);
CLATTN_API clattn_status clattn_plan_preview(const struct clattn_capabilities *capabilities,
                                             const struct clattn_problem *problem, struct clattn_plan_info *info);
CLATTN_END_DECLS
#endif
