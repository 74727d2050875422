/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Planners' estimates rank configurations as measurements do. argv[1] is the folder that holds these: some were drawn
 * at random (tests/peers/candidates.py), some are all that is written down of a kernel. */
#include "support/nvidia.h"
#include "support/planned.h"
#include "support/unit.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *folder = "tests/data/measured";

/* Configurations of one shape, with what was measured and what is estimated. */
enum { MOST = 64 };
struct ranking {
    int count;
    double ms[MOST], estimate[MOST];
};

static double rank_of(const double *values, int count, int which)
{
    double rank = 0;
    for (int i = 0; i < count; i++)
        rank += values[i] < values[which] ? 1 : values[i] == values[which] && i != which ? 0.5 : 0;
    return rank;
}

/* Spearman's: Pearson's correlation of ranks. */
static double correlation(const struct ranking *ranking)
{
    const double mean = (ranking->count - 1) / 2.0;
    double both = 0, measured = 0, estimated = 0;
    for (int i = 0; i < ranking->count; i++) {
        const double m = rank_of(ranking->ms, ranking->count, i) - mean;
        const double e = rank_of(ranking->estimate, ranking->count, i) - mean;
        both += m * e;
        measured += m * m;
        estimated += e * e;
    }
    return both / sqrt(measured * estimated);
}

static void correlations_are_those_of_ranks(void **state)
{
    (void)state;
    const struct ranking alike = {4, {1, 2, 3, 40}, {5, 6, 7, 8}}, opposite = {3, {1, 2, 3}, {3, 2, 1}};
    const struct ranking one_swapped = {4, {1, 2, 3, 4}, {1, 3, 2, 4}};
    assert_true(fabs(correlation(&alike) - 1) < 1e-12);
    assert_true(fabs(correlation(&opposite) + 1) < 1e-12);
    assert_true(fabs(correlation(&one_swapped) - 0.8) < 1e-12);
}

static json_t *read_rows(const char *name, json_t **file)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *file = json_load_file(path, 0, NULL);
    json_t *rows = json_object_get(*file, "rows");
    if (!json_is_array(rows))
        fail_msg("%s has no rows", path);
    return rows;
}

static double estimate_of(const struct clattn_capabilities *capabilities, const json_t *row)
{
    struct clattn_plan_info info;
    struct cla_choice choice;
    struct clattn_problem problem = {.splits = 1};
    int causal, n, heads, batch, pass, dtype;
    const char *skeleton, *knobs;
    if (json_unpack((json_t *)row, "{s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:s, s:i, s:i, s:i, s:s}", "pass", &pass,
                    "dtype", &dtype, "d", &problem.d, "causal", &causal, "n", &n, "heads", &heads, "batch", &batch,
                    "skeleton", &skeleton, "b_r", &problem.b_r, "b_c", &problem.b_c, "work_group_size",
                    &problem.work_group_size, "knobs", &knobs))
        fail_msg("a row that is not whole");
    problem.pass = (enum clattn_pass)pass;
    problem.dtype = (enum clattn_dtype)dtype;
    problem.causal = causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL;
    problem.expected_n_q = problem.expected_n_kv = n;
    problem.expected_heads = (int64_t)heads * batch;
    problem.skeleton = skeleton;
    problem.knobs = knobs;
    if (test_plan(capabilities, problem, &choice, &info))
        fail_msg("%s", test_error.text);
    return info.estimate;
}

static bool same_shape(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"pass", "dtype", "d", "causal", "n", "skeleton"};
    EACH (k, keys)
        if (!json_equal(json_object_get(a, keys[k]), json_object_get(b, keys[k])))
            return false;
    return true;
}

/* The configurations of a row's shape. */
static struct ranking ranking_of(const struct clattn_capabilities *capabilities, const json_t *rows, const json_t *like)
{
    struct ranking ranking = {0};
    size_t n;
    const json_t *row;
    json_array_foreach((json_t *)rows, n, row)
    {
        if (!same_shape(row, like) || ranking.count == MOST)
            continue;
        ranking.ms[ranking.count] = json_number_value(json_object_get(row, "ms"));
        ranking.estimate[ranking.count++] = estimate_of(capabilities, row);
    }
    return ranking;
}

/* Spearman's coefficient of each shape, but those that a model was fitted to: 0.7 and more on average. */
static void check_file(const char *name, const struct clattn_capabilities *capabilities)
{
    json_t *file, *rows = read_rows(name, &file), *row;
    double sum = 0;
    int shapes = 0;
    size_t n;
    json_array_foreach(rows, n, row)
    {
        if (json_is_true(json_object_get(row, "fitted")) || (n && same_shape(row, json_array_get(rows, n - 1))))
            continue;
        const struct ranking ranking = ranking_of(capabilities, rows, row);
        const double found = correlation(&ranking);
        print_message("%s d %d, causal %d, n %d, %d configurations: %.2f\n",
                      json_string_value(json_object_get(row, "skeleton")),
                      (int)json_integer_value(json_object_get(row, "d")), json_is_true(json_object_get(row, "causal")),
                      (int)json_integer_value(json_object_get(row, "n")), ranking.count, found);
        sum += found;
        shapes++;
    }
    print_message("%s: %.2f on average of %d shapes\n", name, sum / shapes, shapes);
    assert_true(shapes >= 4 && sum / shapes >= 0.7);
    json_decref(file);
}

static void pocls_configurations_are_ranked(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = {.type = CLATTN_DEVICE_CPU,
                                                     .compute_units = 1,
                                                     .native_vector_width_float = 16,
                                                     .local_memory_type = CLATTN_LOCAL_MEMORY_GLOBAL,
                                                     .local_memory_bytes = 1 << 20,
                                                     .max_work_group_size = 4096,
                                                     .max_work_item_size = 4096};
    check_file("pocl-epyc-candidates.json", &capabilities);
}

/* All that was drawn at random, and what is written down of forward_matrix, three configurations a shape. */
static void nvidias_configurations_are_ranked(void **state)
{
    (void)state;
    static const char *const files[] = {"h200-candidates-forward-matrix.json", "h200-candidates-backward-matrix.json",
                                        "h200-candidates-forward-simt.json", "h200-forward-matrix-sizes.json"};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    EACH (f, files)
        check_file(files[f], &capabilities);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correlations_are_those_of_ranks),
        cmocka_unit_test(pocls_configurations_are_ranked),
        cmocka_unit_test(nvidias_configurations_are_ranked),
    };
    folder = argc > 1 ? argv[1] : folder;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
