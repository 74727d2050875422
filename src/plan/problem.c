/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/problem.h"
#include "plan/checked.h"
#include "plan/features/feature.h"
#include "plan/features/feature_check.h"
#include "plan/features/user_text.h"
#include "plan/philox.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <math.h>
#include <string.h>

/* The least share of a block mask's blocks with which tiles are as large as without one. */
static const float mostly_seen = 0.75f;

int clattn_dtype_size(enum clattn_dtype dtype)
{
    switch (dtype) {
    case CLATTN_FP32:
        return 4;
    case CLATTN_FP16:
    case CLATTN_BF16:
        return 2;
    }
    return 0;
}

const char *clattn_dtype_name(enum clattn_dtype dtype)
{
    static const char *const names[] = {"fp32", "fp16", "bf16"};
    return (unsigned)dtype < sizeof names / sizeof *names ? names[dtype] : "unknown";
}

struct clattn_layout cla_layout_given(const struct cla_layout *layout)
{
    return (struct clattn_layout){.offset = layout->offset,
                                  .batch = layout->batch,
                                  .head = layout->head,
                                  .row = layout->row,
                                  .column = layout->column,
                                  .strided = 1};
}

/* What 64 bits do not hold is their largest number, which no call accepts as a stride. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t result;
    return cla_multiply(a, b, &result) ? result : INT64_MAX;
}

struct clattn_layout clattn_layout_bhnd(int64_t heads, int64_t n, int64_t d)
{
    const int64_t head = product(n, d);
    return (struct clattn_layout){.batch = product(heads, head), .head = head, .row = d, .column = 1};
}

struct clattn_layout clattn_layout_bnhd(int64_t heads, int64_t n, int64_t d)
{
    const int64_t row = product(heads, d);
    return (struct clattn_layout){.batch = product(n, row), .head = d, .row = row, .column = 1};
}

struct cla_layout cla_layout_dense(int64_t heads, int64_t rows, int64_t columns)
{
    const struct clattn_layout dense = clattn_layout_bhnd(heads, rows, columns);
    return (struct cla_layout){.batch = dense.batch, .head = dense.head, .row = dense.row, .column = dense.column};
}

static clattn_status check_blocks(const struct clattn_problem *problem, struct cla_error *error)
{
    const struct {
        const char *name;
        int value;
    } choices[] = {{"b_r", problem->b_r}, {"b_c", problem->b_c}, {"work_group_size", problem->work_group_size}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value < 0 || choices[i].value > 65536)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.%s is %d: it is 0 (planned) or from 1 to 65536",
                            choices[i].name, choices[i].value);
    if (problem->unordered != 0 && problem->unordered != 1)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.unordered is %d: it is 0 (dQ is always added up in the same order) or 1 (in any)",
                        problem->unordered);
    return CLATTN_SUCCESS;
}

static clattn_status check_splits(const struct clattn_problem *problem, struct cla_error *error)
{
    if (problem->splits < CLATTN_SPLITS_BY_SHAPE || problem->splits > CLATTN_MAX_SPLITS)
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "problem.splits is %d: it is 0 (by the expected sizes), CLATTN_SPLITS_BY_SHAPE (-1), 1 (never) or "
            "from 2 to %d",
            problem->splits, CLATTN_MAX_SPLITS);
    if (problem->pass != CLATTN_FORWARD && problem->splits != 0 && problem->splits != 1)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.splits is %d: keys are split in CLATTN_FORWARD alone, in other passes it is 0 or 1",
                        problem->splits);
    if (problem->split_keys < 0 || problem->split_keys > CLA_MAX_LENGTH ||
        (problem->split_keys && (problem->splits || problem->pass != CLATTN_FORWARD)))
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "problem.split_keys is %lld, splits %d and pass %d: it is 0, or in CLATTN_FORWARD with splits 0 "
            "from 1 to %lld",
            (long long)problem->split_keys, problem->splits, (int)problem->pass, (long long)CLA_MAX_LENGTH);
    return CLATTN_SUCCESS;
}

static clattn_status check_packing(const struct clattn_problem *problem, struct cla_error *error)
{
    if (problem->packing < CLATTN_PACKING_PLANNED || problem->packing > CLATTN_PACKING_ALWAYS)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.packing is %lld: it is CLATTN_PACKING_PLANNED (0), CLATTN_PACKING_NEVER (1) or "
                        "CLATTN_PACKING_ALWAYS (2)",
                        (long long)problem->packing);
    if (problem->packing == CLATTN_PACKING_ALWAYS && cla_problem_is_backward(problem))
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "problem.packing is CLATTN_PACKING_ALWAYS: heads are packed in CLATTN_FORWARD and "
            "CLATTN_ACCUMULATE alone, in other passes it is CLATTN_PACKING_PLANNED or CLATTN_PACKING_NEVER");
    return CLATTN_SUCCESS;
}

static clattn_status check_choices(const struct clattn_problem *problem, struct cla_error *error)
{
    clattn_status status = check_blocks(problem, error);
    if (!status)
        status = check_splits(problem, error);
    if (!status)
        status = check_packing(problem, error);
    if (status)
        return status;
    if (problem->knobs && !problem->skeleton)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.knobs is \"%.80s\" without problem.skeleton, whose knobs they are", problem->knobs);
    return CLATTN_SUCCESS;
}

static clattn_status check_expected(const struct clattn_problem *problem, struct cla_error *error)
{
    const struct {
        const char *name, *what;
        int64_t value, limit;
    } sizes[] = {{"expected_n_q", "length", problem->expected_n_q, CLA_MAX_LENGTH},
                 {"expected_n_kv", "length", problem->expected_n_kv, CLA_MAX_LENGTH},
                 {"expected_heads", "number of heads", problem->expected_heads, INT32_MAX},
                 {"expected_kv_heads", "number of heads", problem->expected_kv_heads, INT32_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "problem.%s is %lld: it is 0 (unknown) or a %s", sizes[i].name,
                            (long long)sizes[i].value, sizes[i].what);
        if (sizes[i].value > sizes[i].limit)
            return cla_fail(error, CLATTN_TOO_LARGE, "problem.%s is %lld: no call has more than %lld", sizes[i].name,
                            (long long)sizes[i].value, (long long)sizes[i].limit);
    }
    return CLATTN_SUCCESS;
}

unsigned cla_problem_features(const struct clattn_problem *problem)
{
    return problem->features | (problem->score_mod ? CLA_FEATURE_SCORE_MOD : 0) |
           (problem->mask_mod ? CLA_FEATURE_MASK_MOD : 0) | (problem->rng_state ? CLA_FEATURE_RNG_STATE : 0) |
           cla_types_features(problem);
}

bool cla_problem_is_mostly_seen(const struct clattn_problem *problem)
{
    return problem->expected_density >= mostly_seen;
}

static clattn_status check_features(const struct clattn_problem *problem, struct cla_error *error)
{
    const unsigned known = cla_features_known();
    if ((unsigned)problem->pass > CLATTN_BACKWARD_ACCUMULATE)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.pass is %d: it is CLATTN_FORWARD (0), CLATTN_BACKWARD (1), CLATTN_ACCUMULATE (2) or "
                        "CLATTN_BACKWARD_ACCUMULATE (3)",
                        (int)problem->pass);
    if (problem->features & ~known)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features is 0x%x: 0x%x stands for no feature (enum clattn_feature)", problem->features,
                        problem->features & ~known);
    return cla_features_check_problem(problem, error);
}

static clattn_status check_dimensions(const struct clattn_problem *problem, struct cla_error *error)
{
    const bool backward = cla_problem_is_backward(problem);
    const int most = backward ? CLATTN_MAX_D : CLATTN_MAX_LATENT_D;
    if (problem->d < 1 || problem->d > most)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "problem.d is %d: a head dimension is from 1 to %d%s", problem->d,
                        most, backward ? " where there are gradients" : "");
    if (problem->d_v < 0 || problem->d_v > CLATTN_MAX_D || (!problem->d_v && problem->d > CLATTN_MAX_D))
        return cla_fail(error, CLATTN_INVALID_SHAPE,
                        "problem.d_v is %d with d = %d: it is 0 (the same as d) or a head dimension, and comes to 1 to "
                        "%d",
                        problem->d_v, problem->d, CLATTN_MAX_D);
    return CLATTN_SUCCESS;
}

/* Type, dimensions, mask and scale. */
static clattn_status check_core(const struct clattn_problem *problem, struct cla_error *error)
{
    if (!clattn_dtype_size(problem->dtype))
        return cla_fail(error, CLATTN_INVALID_TYPE,
                        "problem.dtype is %d: it is CLATTN_FP32 (0), CLATTN_FP16 (1) or CLATTN_BF16 (2)",
                        (int)problem->dtype);
    const clattn_status status = check_dimensions(problem, error);
    if (status)
        return status;
    if ((unsigned)problem->causal > CLATTN_CAUSAL_TOP_LEFT)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.causal is %d: it is CLATTN_FULL (0), CLATTN_CAUSAL_BOTTOM_RIGHT (1) or "
                        "CLATTN_CAUSAL_TOP_LEFT (2)",
                        (int)problem->causal);
    /* The kernels multiply it by log2(e), so that must stay finite too. */
    if (!isfinite(problem->scale) || !isfinite(problem->scale * 1.44269504f))
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "problem.scale is not finite, or beyond 2.3e38: it is 0 (1 / sqrt(d)) or any other finite number");
    return CLATTN_SUCCESS;
}

clattn_status cla_problem_resolve(const struct clattn_problem *problem, struct clattn_problem *resolved,
                                  struct cla_error *error)
{
    if (!problem)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem is NULL: it must point to a struct clattn_problem");
    clattn_status status = cla_check_reserved(&cla_struct_problem, "problem", problem, error);
    if (!status)
        status = check_core(problem, error);
    if (!status)
        status = check_expected(problem, error);
    if (!status)
        status = check_features(problem, error);
    if (!status)
        status = cla_types_check(problem, error);
    if (!status)
        status = check_choices(problem, error);
    if (!status)
        status = cla_user_texts_check(problem, error);
    if (status)
        return status;

    *resolved = *problem;
    if (!resolved->d_v)
        resolved->d_v = resolved->d;
    cla_types_resolve(resolved);
    if (resolved->scale == 0)
        resolved->scale = 1.0f / sqrtf((float)resolved->d);
    return CLATTN_SUCCESS;
}

clattn_status cla_shape_resolve(const struct clattn_shape *shape, struct clattn_shape *resolved,
                                struct cla_error *error)
{
    const clattn_status status = cla_check_reserved(&cla_struct_shape, "shape", shape, error);
    if (status)
        return status;
    const struct {
        const char *name;
        int64_t value, limit;
    } sizes[] = {{"batch", shape->batch, INT32_MAX},
                 {"heads", shape->heads, INT32_MAX},
                 {"kv_heads", shape->kv_heads, INT32_MAX},
                 {"n_q", shape->n_q, CLA_MAX_LENGTH},
                 {"n_kv", shape->n_kv, CLA_MAX_LENGTH}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "shape.%s is %lld: sizes are not negative", sizes[i].name,
                            (long long)sizes[i].value);
        if (sizes[i].value > sizes[i].limit)
            return cla_fail(error, CLATTN_TOO_LARGE, "shape.%s is %lld: it is at most %lld", sizes[i].name,
                            (long long)sizes[i].value, (long long)sizes[i].limit);
    }
    const int64_t kv_heads = shape->kv_heads ? shape->kv_heads : shape->heads;
    if (shape->heads && shape->heads % kv_heads)
        return cla_fail(
            error, CLATTN_INVALID_SHAPE,
            "shape.kv_heads is %lld with %lld heads: it must divide heads, so that each key/value head serves "
            "a whole group of query heads",
            (long long)kv_heads, (long long)shape->heads);
    *resolved = *shape;
    resolved->kv_heads = kv_heads;
    return CLATTN_SUCCESS;
}

/* One dimension of a tensor. */
struct dimension {
    const char *name;
    int64_t size, stride;
};

static void dimensions_of(const struct cla_layout *layout, const struct cla_sizes *sizes,
                          struct dimension dimensions[4])
{
    dimensions[0] = (struct dimension){"batch", sizes->batch, layout->batch};
    dimensions[1] = (struct dimension){"head", sizes->heads, layout->head};
    dimensions[2] = (struct dimension){"row", sizes->rows, layout->row};
    dimensions[3] = (struct dimension){"column", sizes->columns, layout->column};
}

static void sort_by_stride(struct dimension dimensions[4])
{
    for (int i = 1; i < 4; i++)
        for (int j = i; j > 0 && dimensions[j].stride < dimensions[j - 1].stride; j--) {
            const struct dimension swapped = dimensions[j];
            dimensions[j] = dimensions[j - 1];
            dimensions[j - 1] = swapped;
        }
}

/* Each dimension must step over all that the smaller strides reach: every layout that a reshape, slice or permutation
 * makes does. (Strides that interleave without colliding exist, but nobody lays out an output so.) */
static clattn_status check_distinct(const char *name, const struct cla_layout *layout, const struct cla_sizes *sizes,
                                    struct cla_error *error)
{
    struct dimension dimensions[4];
    dimensions_of(layout, sizes, dimensions);
    sort_by_stride(dimensions);
    int64_t reach = 0;
    for (int i = 0; i < 4; i++) {
        if (dimensions[i].size <= 1)
            continue;
        if (dimensions[i].stride <= reach)
            return cla_fail(
                error, CLATTN_INVALID_LAYOUT,
                "%s.layout.%s is %lld: elements of an output would share a place; it must be more than %lld, "
                "which the smaller strides reach",
                name, dimensions[i].name, (long long)dimensions[i].stride, (long long)reach);
        reach += (dimensions[i].size - 1) * dimensions[i].stride;
    }
    return CLATTN_SUCCESS;
}

bool cla_layout_is_default(const struct clattn_layout *layout)
{
    return !layout->strided && !layout->batch && !layout->head && !layout->row && !layout->column;
}

/* The default layout, or false where it overflows. */
static bool dense_layout(const struct cla_sizes *sizes, struct cla_layout *layout)
{
    layout->column = 1;
    layout->row = sizes->columns;
    return cla_multiply(sizes->rows, sizes->columns, &layout->head) &&
           cla_multiply(sizes->heads, layout->head, &layout->batch);
}

static clattn_status check_layout(const char *name, const struct clattn_layout *layout, struct cla_error *error)
{
    if (layout->strided != 0 && layout->strided != 1)
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "%s.layout.strided is %lld: it is 0 (dense where all four strides are 0) or 1 (the strides are "
                        "what they say)",
                        name, (long long)layout->strided);
    if (layout->offset < 0)
        return cla_fail(error, CLATTN_INVALID_LAYOUT, "%s.layout.offset is %lld: offsets are not negative", name,
                        (long long)layout->offset);
    return CLATTN_SUCCESS;
}

clattn_status cla_layout_resolve(const char *name, const struct clattn_layout *layout, const struct cla_sizes *sizes,
                                 bool output, struct cla_layout *resolved, int64_t *end, struct cla_error *error)
{
    struct cla_layout result = {layout->offset, layout->batch, layout->head, layout->row, layout->column};
    struct dimension dimensions[4];
    bool fits = !cla_layout_is_default(layout) || dense_layout(sizes, &result), empty = false;
    const clattn_status status = check_layout(name, layout, error);
    if (status)
        return status;
    if (!fits)
        result = (struct cla_layout){.offset = layout->offset};
    dimensions_of(&result, sizes, dimensions);
    int64_t last = result.offset;
    for (int i = 0; i < 4; i++) {
        int64_t reach = 0;
        if (dimensions[i].stride < 0)
            return cla_fail(error, CLATTN_INVALID_LAYOUT, "%s.layout.%s is %lld: strides are not negative", name,
                            dimensions[i].name, (long long)dimensions[i].stride);
        empty = empty || dimensions[i].size == 0;
        fits = fits &&
               (dimensions[i].size == 0 ||
                (cla_multiply(dimensions[i].size - 1, dimensions[i].stride, &reach) && cla_add(last, reach, &last)));
    }
    /* Elements are at most 4 bytes and byte counts must fit too, with room for a kernel that forms the address one past
     * a block. */
    if (!empty && (!fits || last > INT64_MAX / 16))
        return cla_fail(
            error, CLATTN_INVALID_LAYOUT,
            "%s.layout (offset %lld, strides %lld, %lld, %lld, %lld) overflows 64-bit addresses: the last element "
            "must lie below %lld",
            name, (long long)result.offset, (long long)result.batch, (long long)result.head, (long long)result.row,
            (long long)result.column, (long long)(INT64_MAX / 16));
    *resolved = result;
    *end = empty ? 0 : last + 1;
    return !empty && output ? check_distinct(name, &result, sizes, error) : CLATTN_SUCCESS;
}

bool cla_layout_is_dense(const struct cla_layout *layout, const struct cla_sizes *sizes)
{
    struct dimension dimensions[4];
    dimensions_of(layout, sizes, dimensions);
    sort_by_stride(dimensions);
    int64_t expected = 1;
    for (int i = 0; i < 4; i++) {
        if (dimensions[i].size == 1)
            continue;
        if (dimensions[i].stride != expected || !cla_multiply(expected, dimensions[i].size, &expected))
            return false;
    }
    return true;
}
