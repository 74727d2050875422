/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/reserved.h"
#include "plan/features/feature.h"
#include <clattn/clattn.h>
#include <stdio.h>
#include <string.h>

/* A struct, or an array of them, inside another. */
struct member {
    const char *name;
    const struct cla_struct *type;
    size_t offset, count;
};

struct cla_struct {
    const char *name;
    size_t size;
    size_t reserved, words; /* where the uint64_t begin, and how many there are */
    const struct member *members;
    size_t member_count;
    struct member (*of_feature)(const struct cla_feature_tensor *row); /* NULL, or one more for each tensor of these */
};

#define WORDS(type) (sizeof((struct clattn_##type *)0)->reserved / sizeof(uint64_t))

/* Nothing, not even padding, lies behind the reserved room: it ends the struct. */
#define STRUCT(type, members, member_count, of_feature)                                                                \
    _Static_assert(offsetof(struct clattn_##type, reserved) + 8 * WORDS(type) == sizeof(struct clattn_##type),         \
                   "reserved room ends its struct");                                                                   \
    const struct cla_struct cla_struct_##type = {"struct clattn_" #type,                                               \
                                                 sizeof(struct clattn_##type),                                         \
                                                 offsetof(struct clattn_##type, reserved),                             \
                                                 WORDS(type),                                                          \
                                                 members,                                                              \
                                                 member_count,                                                         \
                                                 of_feature}
#define PLAIN(type)                 STRUCT(type, NULL, 0, NULL)
#define HOLDER(type)                STRUCT(type, type##_members, sizeof type##_members / sizeof *type##_members, NULL)
#define OF_FEATURES(type, function) STRUCT(type, NULL, 0, function)

/* The same of a struct that has none left. */
#define FULL(type, function)                                                                                           \
    const struct cla_struct cla_struct_##type = {                                                                      \
        "struct clattn_" #type, sizeof(struct clattn_##type), 0, 0, NULL, 0, function}

#define ONE(holder, member, type)                                                                                      \
    {                                                                                                                  \
#member, &cla_struct_##type, offsetof(struct clattn_##holder, member), 1                                       \
    }
#define MANY(holder, member, type)                                                                                     \
    {                                                                                                                  \
#member, &cla_struct_##type, offsetof(struct clattn_##holder, member),                                         \
            sizeof((struct clattn_##holder *)0)->member / sizeof(struct clattn_##type)                                 \
    }

PLAIN(problem);
PLAIN(shape);
PLAIN(layout);
PLAIN(capabilities);
PLAIN(log);
PLAIN(plan_step);
PLAIN(plan_stream);
PLAIN(tuning_record);
PLAIN(append_params);
PLAIN(host_params);
PLAIN(host_cache_params);
PLAIN(ring_params);
PLAIN(ring_transport);
PLAIN(ring_part);

static const struct member context_params_members[] = {ONE(context_params, log, log)};
HOLDER(context_params);

static const struct member traffic_params_members[] = {ONE(traffic_params, shape, shape)};
HOLDER(traffic_params);

static const struct member plan_info_members[] = {MANY(plan_info, streams, plan_stream),
                                                  MANY(plan_info, steps, plan_step)};
HOLDER(plan_info);

static const struct member tensor_members[] = {ONE(tensor, layout, layout)};
HOLDER(tensor);

/* Those of the score features come from their table. */
static struct member tensor_of(const struct cla_feature_tensor *row)
{
    return (struct member){row->name, &cla_struct_tensor, row->given,
                           !cla_feature_is_bare(row) && row->home == CLA_IN_SCORE};
}

static struct member more_tensor_of(const struct cla_feature_tensor *row)
{
    return (struct member){row->name, &cla_struct_tensor, row->given,
                           !cla_feature_is_bare(row) && row->home == CLA_IN_MORE};
}

static struct member layout_of(const struct cla_feature_tensor *row)
{
    return (struct member){row->layout_name, &cla_struct_layout, row->layout,
                           row->layout != 0 && row->home != CLA_IN_SCALES};
}

FULL(score_args, tensor_of);
OF_FEATURES(score_more, more_tensor_of);
OF_FEATURES(host_score_args, layout_of);

static const struct member kv_scales_members[] = {ONE(kv_scales, k_scales, tensor), ONE(kv_scales, k_zeros, tensor),
                                                  ONE(kv_scales, v_scales, tensor), ONE(kv_scales, v_zeros, tensor)};
HOLDER(kv_scales);

static const struct member host_kv_scales_members[] = {
    ONE(host_kv_scales, k_scales_layout, layout), ONE(host_kv_scales, k_zeros_layout, layout),
    ONE(host_kv_scales, v_scales_layout, layout), ONE(host_kv_scales, v_zeros_layout, layout)};
HOLDER(host_kv_scales);

static const struct member forward_args_members[] = {
    ONE(forward_args, shape, shape), ONE(forward_args, q, tensor), ONE(forward_args, k, tensor),
    ONE(forward_args, v, tensor),    ONE(forward_args, o, tensor), ONE(forward_args, lse, tensor),
    ONE(forward_args, m, tensor),    ONE(forward_args, l, tensor), ONE(forward_args, score, score_args)};
HOLDER(forward_args);

static const struct member backward_args_members[] = {
    ONE(backward_args, shape, shape),   ONE(backward_args, q, tensor),       ONE(backward_args, k, tensor),
    ONE(backward_args, v, tensor),      ONE(backward_args, o, tensor),       ONE(backward_args, d_o, tensor),
    ONE(backward_args, lse, tensor),    ONE(backward_args, m, tensor),       ONE(backward_args, l, tensor),
    ONE(backward_args, d_q, tensor),    ONE(backward_args, d_k, tensor),     ONE(backward_args, d_v, tensor),
    ONE(backward_args, d_bias, tensor), ONE(backward_args, d_sinks, tensor), ONE(backward_args, score, score_args)};
HOLDER(backward_args);

static const struct member accumulate_args_members[] = {
    ONE(accumulate_args, shape, shape), ONE(accumulate_args, q, tensor), ONE(accumulate_args, k, tensor),
    ONE(accumulate_args, v, tensor), ONE(accumulate_args, score, score_args)};
HOLDER(accumulate_args);

static const struct member finish_args_members[] = {
    ONE(finish_args, shape, shape), ONE(finish_args, o, tensor), ONE(finish_args, lse, tensor),
    ONE(finish_args, m, tensor),    ONE(finish_args, l, tensor), ONE(finish_args, score, score_args)};
HOLDER(finish_args);

static const struct member append_args_members[] = {
    ONE(append_args, shape, shape),      ONE(append_args, k_new, tensor),     ONE(append_args, v_new, tensor),
    ONE(append_args, k, tensor),         ONE(append_args, v, tensor),         ONE(append_args, q, tensor),
    ONE(append_args, q_rotated, tensor), ONE(append_args, positions, tensor), ONE(append_args, rope_cos, tensor),
    ONE(append_args, rope_sin, tensor),  ONE(append_args, score, score_args)};
HOLDER(append_args);

static const struct member host_forward_args_members[] = {
    ONE(host_forward_args, shape, shape),     ONE(host_forward_args, q_layout, layout),
    ONE(host_forward_args, k_layout, layout), ONE(host_forward_args, v_layout, layout),
    ONE(host_forward_args, o_layout, layout), ONE(host_forward_args, score, host_score_args)};
HOLDER(host_forward_args);

static const struct member host_cache_args_members[] = {
    ONE(host_cache_args, shape, shape),     ONE(host_cache_args, q_layout, layout),
    ONE(host_cache_args, k_layout, layout), ONE(host_cache_args, v_layout, layout),
    ONE(host_cache_args, o_layout, layout), ONE(host_cache_args, score, host_score_args)};
HOLDER(host_cache_args);

static const struct member host_backward_args_members[] = {
    ONE(host_backward_args, shape, shape),          ONE(host_backward_args, q_layout, layout),
    ONE(host_backward_args, k_layout, layout),      ONE(host_backward_args, v_layout, layout),
    ONE(host_backward_args, o_layout, layout),      ONE(host_backward_args, d_o_layout, layout),
    ONE(host_backward_args, d_q_layout, layout),    ONE(host_backward_args, d_k_layout, layout),
    ONE(host_backward_args, d_v_layout, layout),    ONE(host_backward_args, d_bias_layout, layout),
    ONE(host_backward_args, score, host_score_args)};
HOLDER(host_backward_args);

static const struct member ring_forward_args_members[] = {ONE(ring_forward_args, arrays, host_forward_args),
                                                          ONE(ring_forward_args, rows, ring_part),
                                                          ONE(ring_forward_args, keys, ring_part)};
HOLDER(ring_forward_args);

static const struct member ring_backward_args_members[] = {ONE(ring_backward_args, arrays, host_backward_args),
                                                           ONE(ring_backward_args, rows, ring_part),
                                                           ONE(ring_backward_args, keys, ring_part)};
HOLDER(ring_backward_args);

/* A word that is not 0: which one, of what, and by which names it was reached, the innermost first. */
struct found {
    const struct cla_struct *type;
    size_t word;
    uint64_t value;
    const char *names[4];
    size_t indices[4];
    int depth;
};

static bool is_zero(const struct cla_struct *type, const char *given, struct found *found)
{
    for (size_t i = 0; i < type->words; i++) {
        uint64_t value;
        memcpy(&value, given + type->reserved + 8 * i, sizeof value);
        if (value) {
            *found = (struct found){.type = type, .word = i, .value = value};
            return false;
        }
    }
    return true;
}

static bool all_zero(const struct cla_struct *type, const char *given, struct found *found);

static bool is_member_zero(const struct member *member, const char *given, struct found *found)
{
    for (size_t i = 0; i < member->count; i++) {
        if (all_zero(member->type, given + member->offset + i * member->type->size, found))
            continue;
        found->names[found->depth] = member->name;
        found->indices[found->depth++] = member->count > 1 ? i + 1 : 0;
        return false;
    }
    return true;
}

static bool are_features_zero(const struct cla_struct *type, const char *given, struct found *found)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    for (int i = 0; type->of_feature && (row = cla_feature_tensor_after(row, &of)); i++) {
        const struct member member = type->of_feature(row);
        if (!is_member_zero(&member, given, found))
            return false;
    }
    return true;
}

static bool all_zero(const struct cla_struct *type, const char *given, struct found *found)
{
    if (!is_zero(type, given, found))
        return false;
    for (size_t m = 0; m < type->member_count; m++)
        if (!is_member_zero(&type->members[m], given, found))
            return false;
    return are_features_zero(type, given, found);
}

static clattn_status fail(const struct found *found, const char *name, struct cla_error *error)
{
    char path[160];
    size_t used = (size_t)snprintf(path, sizeof path, "%s", name);
    for (int i = found->depth - 1; i >= 0 && used < sizeof path; i--) {
        used += (size_t)snprintf(path + used, sizeof path - used, ".%s", found->names[i]);
        if (found->indices[i] && used < sizeof path)
            used += (size_t)snprintf(path + used, sizeof path - used, "[%zu]", found->indices[i] - 1);
    }
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s.reserved[%zu] is 0x%llx: reserved room of %s must be 0. Either the program was built against "
                    "newer headers and sets a field that this library (%s) does not know, or the struct was not "
                    "initialised: begin with `= {0}`",
                    path, found->word, (unsigned long long)found->value, found->type->name, clattn_version());
}

clattn_status cla_check_reserved(const struct cla_struct *type, const char *name, const void *given,
                                 struct cla_error *error)
{
    struct found found;
    if (!given || all_zero(type, given, &found))
        return CLATTN_SUCCESS;
    return fail(&found, name, error);
}
