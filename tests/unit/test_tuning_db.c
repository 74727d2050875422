/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tuning records: text and back, damage of every kind, merging, and which record answers. */
#include "plan/problem.h"
#include "plan/tuning/knobs.h"
#include "plan/tuning/tuned.h"
#include "support/cpu.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char hash[] = "0123456789abcdef0123456789abcdef";
static struct cla_error error;

static const char *kernels(const char *skeleton, char hex[40])
{
    if (!cla_skeleton_find(skeleton))
        return NULL;
    strcpy(hex, hash);
    return hex;
}

static struct clattn_tuning_record record(int b_r, double ms)
{
    struct clattn_tuning_record made = {.device = "P / D, 2 units",
                                        .driver = "1.0",
                                        .d = 64,
                                        .d_v = 64,
                                        .n_q_up_to = 1024,
                                        .n_kv_up_to = 1024,
                                        .skeleton = "forward_cpu",
                                        .b_r = b_r,
                                        .b_c = 64,
                                        .work_group_size = 1,
                                        .knobs = "micro=8 row_vectors=2 vector_width=16",
                                        .ms = ms,
                                        .runs = 5};
    strcpy(made.kernels, hash);
    return made;
}

static void add(struct cla_tuning_db *db, struct clattn_tuning_record made)
{
    assert_int_equal(cla_tuning_add(db, &made, &error), CLATTN_SUCCESS);
}

static struct cla_tuning_db sample(void)
{
    struct cla_tuning_db db = {0};
    struct clattn_tuning_record best = record(128, 1.5), wrong = record(96, 0), slow = record(64, 2.25);
    best.best = true;
    wrong.state = CLATTN_TUNING_WRONG;
    slow.causal = true;
    slow.group = 4;
    slow.dtype = CLATTN_BF16;
    slow.pass = CLATTN_BACKWARD;
    strcpy(slow.device, "a \"quoted\" \\ name [with {braces]");
    add(&db, best);
    add(&db, wrong);
    add(&db, slow);
    return db;
}

static struct cla_text format(const struct cla_tuning_db *db)
{
    struct cla_text text = {0};
    cla_tuning_format(db, &text);
    assert_false(text.failed);
    return text;
}

/* From memory of exactly that size, so that a sanitizer sees a read past the end. */
static clattn_status parse(const char *text, size_t size, struct cla_tuning_db *db)
{
    char *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, text, size);
    const clattn_status status = cla_tuning_parse("file", exact, size, db, &error);
    free(exact);
    return status;
}

static void text_and_back_is_the_same(void **state)
{
    (void)state;
    struct cla_tuning_db db = sample(), again = {0}, none = {0};
    struct cla_text text = format(&db);
    assert_int_equal(parse(text.data, text.length, &again), CLATTN_SUCCESS);
    assert_int_equal(again.count, db.count);
    for (int i = 0; i < db.count; i++) {
        const struct clattn_tuning_record *a = &db.records[i], *b = &again.records[i];
        assert_string_equal(a->device, b->device);
        assert_string_equal(a->driver, b->driver);
        assert_string_equal(a->kernels, b->kernels);
        assert_string_equal(a->skeleton, b->skeleton);
        assert_string_equal(a->knobs, b->knobs);
        assert_true(a->pass == b->pass && a->dtype == b->dtype && a->d == b->d && a->d_v == b->d_v &&
                    a->causal == b->causal && a->n_q_up_to == b->n_q_up_to && a->n_kv_up_to == b->n_kv_up_to &&
                    a->group == b->group);
        assert_true(a->b_r == b->b_r && a->b_c == b->b_c && a->work_group_size == b->work_group_size &&
                    a->state == b->state && a->ms == b->ms && a->runs == b->runs && a->best == b->best);
    }
    struct cla_text second = format(&again);
    assert_string_equal(text.data, second.data);
    cla_text_free(&text);
    cla_text_free(&second);
    text = format(&none);
    cla_tuning_free(&again);
    assert_int_equal(parse(text.data, text.length, &again), CLATTN_SUCCESS);
    assert_int_equal(again.count, 0);
    cla_text_free(&text);
    cla_tuning_free(&db);
}

/* Only the line feed at the end may be missing. */
static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct cla_tuning_db db = sample(), read = {0};
    struct cla_text text = format(&db);
    for (size_t length = 0; length + 1 < text.length; length++) {
        if (parse(text.data, length, &read) != CLATTN_FILE_DAMAGED)
            fail_msg("cut to %zu of %zu bytes it is taken", length, text.length);
        assert_non_null(strstr(error.text, "file:"));
        assert_true(read.count == 0 && read.records == NULL);
    }
    assert_int_equal(parse(text.data, text.length - 1, &read), CLATTN_SUCCESS);
    cla_tuning_free(&read);
    cla_text_free(&text);
    cla_tuning_free(&db);
}

/* Every byte changed to a few others: taken or refused, and what is taken is whole. */
static void a_changed_byte_never_makes_a_bad_record(void **state)
{
    (void)state;
    static const char others[] = {'\0', '"', '{', '}', '[', ',', '-', '9', 'x', '\\', '\n', (char)0xff};
    struct cla_tuning_db db = sample();
    struct cla_text text = format(&db);
    int refused = 0, taken = 0;
    for (size_t at = 0; at < text.length; at++) {
        const char kept = text.data[at];
        for (size_t i = 0; i < sizeof others; i++) {
            struct cla_tuning_db read = {0};
            text.data[at] = others[i];
            const clattn_status status = parse(text.data, text.length, &read);
            assert_true(status == CLATTN_SUCCESS || status == CLATTN_FILE_DAMAGED);
            refused += status != CLATTN_SUCCESS;
            taken += status == CLATTN_SUCCESS;
            for (int r = 0; r < read.count; r++)
                assert_int_equal(cla_tuning_check(&read.records[r], &error), CLATTN_SUCCESS);
            assert_true(!status || !read.records);
            cla_tuning_free(&read);
        }
        text.data[at] = kept;
    }
    assert_true(refused > 1000 && taken > 100);
    cla_text_free(&text);
    cla_tuning_free(&db);
}

/* The text of a sample in which `from` became `to` (once). */
static void refused_as(const char *from, const char *to, const char *where, const char *why)
{
    struct cla_tuning_db db = sample(), read = {0};
    struct cla_text text = format(&db), changed = {0};
    const char *at = strstr(text.data, from);
    assert_non_null(at);
    cla_text_add(&changed, text.data, (size_t)(at - text.data));
    cla_text_printf(&changed, "%s%s", to, at + strlen(from));
    assert_int_equal(parse(changed.data, changed.length, &read), CLATTN_FILE_DAMAGED);
    if (!strstr(error.text, where) || !strstr(error.text, why))
        fail_msg("\"%s\" says neither %s nor %s", error.text, where, why);
    cla_text_free(&text);
    cla_text_free(&changed);
    cla_tuning_free(&db);
}

static void damage_is_named_with_its_line(void **state)
{
    (void)state;
    refused_as("clattn tuning", "clattn tunings", "file:1:", "not a tuning file");
    refused_as("\"version\": 1", "\"version\": 2", "file:1:", "version");
    refused_as("\"records\"", "\"record\"", "file:1:", "records");
    refused_as("\"b_r\": 128", "\"b_r\": 0", "file:2:", "b_r is 0");
    refused_as("\"b_r\": 96", "\"b_r\": 99999999999", "file:3:", "b_r is -1");
    refused_as("\"b_r\": 64", "\"b_r\": \"64\"", "file:4:", "b_r");
    refused_as("\"b_r\": 64, ", "", "file:4:", "missing");
    refused_as("\"b_r\": 64", "\"b_r\": 64, \"b_r\": 64", "file:4:", "uplicate");
    refused_as("\"b_r\": 64", "\"b_r\": 64, \"rows\": 1", "file:4:", "rows");
    refused_as("\"state\": \"wrong\"", "\"state\": \"odd\"", "file:3:", "state");
    refused_as("\"ms\": 1.5", "\"ms\": -1.5", "file:2:", "ms");
    refused_as("\"n_q_up_to\": 1024", "\"n_q_up_to\": 1000", "file:2:", "n_q_up_to");
    refused_as("0123456789abcdef0", "0123456789abcdeg0", "file:2:", "kernels");
    refused_as("\"best\": true", "\"best\": 1", "file:2:", "best");
}

static void the_same_candidate_is_replaced(void **state)
{
    (void)state;
    struct cla_tuning_db db = {0}, other = {0};
    struct clattn_tuning_record first = record(64, 2), second = record(128, 1);
    first.best = true;
    add(&db, first);
    add(&db, second);
    second.best = true;
    second.ms = 3;
    add(&other, second);
    struct clattn_tuning_record elsewhere = record(64, 5);
    strcpy(elsewhere.driver, "2.0");
    elsewhere.best = true;
    add(&other, elsewhere);
    assert_int_equal(cla_tuning_merge(&db, &other, &error), CLATTN_SUCCESS);
    assert_int_equal(db.count, 3);
    assert_true(!db.records[0].best && db.records[1].best && db.records[1].ms == 3 && db.records[2].best);
    cla_tuning_free(&db);
    cla_tuning_free(&other);
}

static void bad_records_are_named(void **state)
{
    (void)state;
    struct cla_tuning_db db = {0};
    struct clattn_tuning_record bad = record(64, 1);
    bad.state = CLATTN_TUNING_WRONG;
    assert_int_equal(cla_tuning_add(&db, &bad, &error), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "record.ms"));
    bad = record(64, 1);
    bad.device[3] = '\n';
    assert_int_equal(cla_tuning_add(&db, &bad, &error), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "record.device"));
    bad = record(70000, 1);
    assert_int_equal(cla_tuning_add(&db, &bad, &error), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "record.b_r is 70000"));
    assert_int_equal(db.count, 0);
}

static int found_rows(const struct cla_tuning_db *db, const struct clattn_tuning_record *key)
{
    const struct clattn_tuning_record *found = cla_tuning_find(db->records, db->count, key, kernels);
    return found ? found->b_r : 0;
}

static void the_right_record_answers(void **state)
{
    (void)state;
    struct cla_tuning_db db = {0};
    struct clattn_tuning_record key = record(0, 0), wanted;
    wanted = record(16, 0.1);
    strcpy(wanted.kernels, "fedcba9876543210fedcba9876543210"); /* of other kernels */
    add(&db, wanted);
    wanted = record(32, 0.1);
    strcpy(wanted.driver, "0.9");
    add(&db, wanted);
    wanted = record(48, 0.1);
    strcpy(wanted.skeleton, "forward_of_another_version");
    add(&db, wanted);
    assert_int_equal(found_rows(&db, &key), 0);
    wanted = record(64, 0.1);
    strcpy(wanted.driver, "*");
    strcpy(wanted.kernels, "*");
    wanted.best = true;
    add(&db, wanted);
    assert_int_equal(found_rows(&db, &key), 64);
    add(&db, record(80, 3));
    add(&db, record(96, 2)); /* exact, and the fastest of those */
    assert_int_equal(found_rows(&db, &key), 96);
    wanted = record(112, 4);
    wanted.best = true;
    add(&db, wanted);
    assert_int_equal(found_rows(&db, &key), 112);
    key.causal = true;
    assert_int_equal(found_rows(&db, &key), 0);
    cla_tuning_free(&db);
}

/* Records of a group are for it alone; those of any group serve where it has none. */
static void grouped_heads_have_records_of_their_own(void **state)
{
    (void)state;
    struct cla_tuning_db db = {0};
    struct clattn_tuning_record any = record(64, 1), four = record(128, 9), key = record(0, 0);
    any.best = true;
    four.group = 4;
    add(&db, any);
    add(&db, four);
    assert_int_equal(found_rows(&db, &key), 64);
    key.group = 2;
    assert_int_equal(found_rows(&db, &key), 64);
    key.group = 4;
    assert_int_equal(found_rows(&db, &key), 128);
    four.b_r = 64; /* as `any` but for the group: another candidate, and `any` stays the best of its own */
    four.best = true;
    add(&db, four);
    assert_int_equal(db.count, 3);
    assert_true(db.records[0].best);
    cla_tuning_free(&db);
}

/* 12 heads on 3 are groups of 4; 12 on 5, or on an unknown number, are none. */
static void the_group_of_a_problem_is_its_keys(void **state)
{
    (void)state;
    const struct clattn_capabilities cpu = test_cpu(16);
    struct clattn_problem problem = {.d = 64, .d_v = 64, .expected_heads = 12, .expected_kv_heads = 3};
    struct clattn_tuning_record key;
    assert_true(cla_tuning_key(&cpu, &problem, &key));
    assert_int_equal(key.group, 4);
    problem.expected_kv_heads = 5;
    assert_true(cla_tuning_key(&cpu, &problem, &key));
    assert_int_equal(key.group, 0);
    problem.expected_kv_heads = 0;
    assert_true(cla_tuning_key(&cpu, &problem, &key));
    assert_int_equal(key.group, 0);
}

/* A CPU of 512-bit vectors that has names. */
static struct clattn_capabilities named_cpu(void)
{
    struct clattn_capabilities cpu = test_cpu(16);
    strcpy(cpu.platform_name, "P");
    strcpy(cpu.device_name, "D");
    strcpy(cpu.driver_version, "1.0");
    return cpu;
}

static void names_are_normalised(void **state)
{
    (void)state;
    static const struct {
        const char *platform, *device, *name;
    } names[] = {
        {"NVIDIA CUDA", "NVIDIA H200", "NVIDIA CUDA / NVIDIA H200"},
        {"Portable Computing Language", "pthread-AMD EPYC", "Portable Computing Language / AMD EPYC"},
        {"Portable Computing Language", "cpu-skylake-avx512-Intel(R) Xeon(R) CPU @ 2.20GHz",
         "Portable Computing Language / skylake-avx512-Intel Xeon"},
        {"Intel(R) OpenCL", "  Intel(R)  Xeon(R) Gold 6130 CPU @ 2.10GHz ", "Intel OpenCL / Intel Xeon Gold 6130"},
        {"P\xc3\xa9", "pthread-x", "P?? / pthread-x"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct clattn_capabilities capabilities = {0};
        char name[200];
        snprintf(capabilities.platform_name, sizeof capabilities.platform_name, "%s", names[i].platform);
        snprintf(capabilities.device_name, sizeof capabilities.device_name, "%s", names[i].device);
        cla_tuning_device_name(&capabilities, name, sizeof name);
        assert_string_equal(name, names[i].name);
    }
    char processor[200];
    const struct clattn_capabilities cpu = named_cpu();
    cla_tuning_device_name(&cpu, processor, sizeof processor);
    assert_string_equal(processor, "P / D, 2 units");
    static const int64_t lengths[][2] = {{0, 0}, {1, 16}, {16, 16}, {17, 64}, {1024, 1024}, {4096, 4096}, {4097, 0}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_int_equal(cla_tuning_length_class(lengths[i][0]), lengths[i][1]);
}

static void plan_tuned(const struct cla_tuning_db *db, struct clattn_problem problem, struct clattn_plan_info *info)
{
    const struct clattn_capabilities cpu = named_cpu();
    struct clattn_problem resolved;
    struct cla_choice choice;
    assert_int_equal(cla_problem_resolve(&problem, &resolved, &error), CLATTN_SUCCESS);
    assert_int_equal(cla_plan_tuned(&cpu, &resolved, db, kernels, &choice, info, &error), CLATTN_SUCCESS);
    assert_true(choice.config.b_r == info->b_r && choice.config.b_c == info->b_c);
}

static void records_stand_in_for_the_model(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64, .expected_n_q = 1000, .expected_n_kv = 900};
    struct clattn_plan_info info;
    struct cla_tuning_db db = {0};
    plan_tuned(&db, problem, &info);
    assert_int_equal(info.source, CLATTN_PLAN_MODEL);
    const int planned = info.b_r;
    struct clattn_tuning_record tuned = record(planned == 64 ? 192 : 64, 1.5);
    strcpy(tuned.knobs, "dot=0 fetch=1 micro=4 row_vectors=1 tickets=0 vector_width=16");
    add(&db, tuned);
    plan_tuned(&db, problem, &info);
    assert_int_equal(info.source, CLATTN_PLAN_TUNED);
    assert_true(info.b_r == tuned.b_r && info.b_c == tuned.b_c);
    assert_string_equal(info.knobs, tuned.knobs);
    assert_non_null(strstr(info.constants, "CLATTN_MICRO=4 "));
    assert_non_null(strstr(info.steps[info.step_count - 1].reason, "1.5 ms"));

    struct clattn_problem other = problem;
    other.features = CLATTN_SOFTCAP;
    plan_tuned(&db, other, &info);
    assert_int_equal(info.source, CLATTN_PLAN_MODEL);
    other = problem;
    other.b_r = 32;
    plan_tuned(&db, other, &info);
    assert_true(info.source == CLATTN_PLAN_FORCED && info.b_r == 32);
    other = problem;
    other.expected_n_q = 0;
    plan_tuned(&db, other, &info);
    assert_int_equal(info.source, CLATTN_PLAN_MODEL);
    cla_tuning_free(&db);
}

static void a_record_that_does_not_fit_is_told(void **state)
{
    (void)state;
    static const char *const knobs[] = {"micro=7 row_vectors=2 vector_width=16",
                                        "micro=8 row_vectors=2 vector_width=5",
                                        "micro=8 rows=2",
                                        "micro=99",
                                        "micro",
                                        "micro=8 micro=8",
                                        "micro=-1"};
    const struct clattn_problem problem = {.d = 64, .expected_n_q = 1000, .expected_n_kv = 900};
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        struct cla_tuning_db db = {0};
        struct clattn_plan_info info;
        struct clattn_tuning_record tuned = record(64, 1.5);
        strcpy(tuned.knobs, knobs[i]);
        add(&db, tuned);
        plan_tuned(&db, problem, &info);
        assert_int_equal(info.source, CLATTN_PLAN_MODEL);
        assert_string_equal(info.steps[info.step_count - 1].name, "tuning");
        assert_non_null(strstr(info.steps[info.step_count - 1].reason, "does not fit"));
        cla_tuning_free(&db);
    }
}

static void the_built_in_table_is_whole(void **state)
{
    (void)state;
    struct cla_tuning_db db = {0};
    for (int i = 0; i < cla_tuning_built_in_count; i++) {
        if (cla_tuning_add(&db, &cla_tuning_built_in[i], &error))
            fail_msg("record %d: %s", i, error.text);
        struct cla_config config = {0};
        const struct cla_skeleton *skeleton = cla_skeleton_find(cla_tuning_built_in[i].skeleton);
        assert_non_null(skeleton);
        assert_int_equal(cla_knobs_read(skeleton, cla_tuning_built_in[i].knobs, &config, &error), CLATTN_SUCCESS);
    }
    assert_int_equal(db.count, cla_tuning_built_in_count);
    cla_tuning_free(&db);
}

/* In time with their number: it took its square before, minutes for these. */
static void many_records_are_quick(void **state)
{
    (void)state;
    enum { MANY = 60000, KEYS = 500 };
    struct cla_tuning_db db = {0}, again = {0};
    const clock_t start = clock();
    for (int turn = 0; turn < 2; turn++) /* the second replaces all */
        for (int i = 0; i < MANY; i++) {
            struct clattn_tuning_record made = record(1 + i / KEYS, turn + 1);
            made.d = made.d_v = 1 + i % KEYS;
            made.best = true;
            add(&db, made);
        }
    assert_int_equal(cla_tuning_merge(&again, &db, &error), CLATTN_SUCCESS);
    assert_int_equal(db.count, MANY);
    assert_int_equal(again.count, MANY);
    for (int i = 0; i < MANY; i++) {
        const struct clattn_tuning_record *const found = &again.records[i];
        assert_true(found->ms == 2 && found->d == 1 + i % KEYS && found->b_r == 1 + i / KEYS);
        assert_int_equal(found->best, i >= MANY - KEYS); /* the last of its key */
    }
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    cla_tuning_free(&db);
    cla_tuning_free(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back_is_the_same),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_changed_byte_never_makes_a_bad_record),
        cmocka_unit_test(damage_is_named_with_its_line),
        cmocka_unit_test(the_same_candidate_is_replaced),
        cmocka_unit_test(many_records_are_quick),
        cmocka_unit_test(bad_records_are_named),
        cmocka_unit_test(the_right_record_answers),
        cmocka_unit_test(grouped_heads_have_records_of_their_own),
        cmocka_unit_test(the_group_of_a_problem_is_its_keys),
        cmocka_unit_test(names_are_normalised),
        cmocka_unit_test(records_stand_in_for_the_model),
        cmocka_unit_test(a_record_that_does_not_fit_is_told),
        cmocka_unit_test(the_built_in_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
