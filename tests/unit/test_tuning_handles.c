/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the functions on tuning records refuse. Handles are not set, and records stay as they were. */
#include "support/unit.h"
#include <clattn/clattn.h>
#include <string.h>

static const struct clattn_tuning_record good = {.device = "P / D, 2 units",
                                                 .driver = "1",
                                                 .kernels = "*",
                                                 .d = 64,
                                                 .d_v = 64,
                                                 .n_q_up_to = 1024,
                                                 .n_kv_up_to = 1024,
                                                 .skeleton = "forward_simt",
                                                 .b_r = 16,
                                                 .b_c = 16,
                                                 .work_group_size = 64,
                                                 .ms = 1.0,
                                                 .runs = 5};

static clattn_tuning *tuning;

static int make(void **state)
{
    (void)state;
    return clattn_tuning_create(&tuning) || clattn_tuning_add(tuning, &good) ? -1 : 0;
}

static int destroy(void **state)
{
    (void)state;
    clattn_tuning_destroy(&tuning);
    clattn_tuning_destroy(&tuning);
    clattn_tuning_destroy(NULL);
    return tuning ? -1 : 0;
}

static void assert_refused(clattn_status found, const char *words)
{
    assert_int_equal(found, CLATTN_INVALID_ARGUMENT);
    if (!strstr(clattn_error_message(), words))
        fail_msg("\"%s\" is not in: %s", words, clattn_error_message());
    assert_int_equal(clattn_tuning_count(tuning), 1);
}

static void handles_that_are_not_there(void **state)
{
    (void)state;
    struct clattn_tuning_record record;
    char text[16];
    assert_refused(clattn_tuning_create(NULL), "tuning is NULL: it must point to the handle");
    assert_refused(clattn_tuning_load(NULL, "file"), "tuning is NULL: it must point to the handle");
    assert_refused(clattn_tuning_parse(NULL, "name", "{}", 2), "tuning is NULL: it must point to the handle");
    assert_refused(clattn_tuning_get(NULL, 0, &record), "tuning is NULL: it must be a clattn_tuning");
    assert_refused(clattn_tuning_add(NULL, &good), "tuning is NULL: it must be a clattn_tuning");
    assert_refused(clattn_tuning_merge(NULL, tuning), "tuning is NULL: it must be a clattn_tuning");
    assert_refused(clattn_tuning_text(NULL, text, sizeof text, NULL), "tuning is NULL: it must be a clattn_tuning");
    assert_refused(clattn_tuning_save(NULL, "file"), "tuning is NULL: it must be a clattn_tuning");
    assert_int_equal(clattn_tuning_count(NULL), 0);
}

static void wrong_arguments(void **state)
{
    (void)state;
    struct clattn_tuning_record record;
    clattn_tuning *made = NULL;
    char text[16] = "as it was";
    size_t needed = 0;
    assert_refused(clattn_tuning_get(tuning, 0, NULL), "record is NULL");
    assert_refused(clattn_tuning_get(tuning, 1, &record), "index is 1: there are 1 records");
    assert_refused(clattn_tuning_get(tuning, -1, &record), "index is -1");
    assert_refused(clattn_tuning_add(tuning, NULL), "record is NULL");
    assert_refused(clattn_tuning_merge(tuning, NULL), "other is NULL");
    assert_refused(clattn_tuning_text(tuning, NULL, 5, &needed), "text is NULL");
    assert_refused(clattn_tuning_text(tuning, text, sizeof text, &needed), "size is 16: the text takes");
    assert_string_equal(text, "as it was");
    assert_true(needed > sizeof text);
    assert_refused(clattn_tuning_parse(&made, NULL, "{}", 2), "name is NULL");
    assert_refused(clattn_tuning_parse(&made, "name", NULL, 2), "text is NULL");
    assert_refused(clattn_tuning_default_path(NULL, 4), "path is NULL");
    assert_refused(clattn_tuning_save(tuning, ""), "path is empty");
    assert_null(made);
    assert_int_equal(clattn_tuning_merge(tuning, tuning), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_text(tuning, NULL, 0, &needed), CLATTN_SUCCESS);
    assert_int_equal(clattn_tuning_get(tuning, 0, &record), CLATTN_SUCCESS);
    assert_string_equal(record.device, good.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(handles_that_are_not_there), cmocka_unit_test(wrong_arguments)};
    return cmocka_run_group_tests(tests, make, destroy);
}
