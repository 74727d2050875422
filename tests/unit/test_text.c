/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/error.h"
#include "plan/hash.h"
#include "plan/text.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

static void a_text_grows(void **state)
{
    (void)state;
    struct cla_text text = {0};
    for (int i = 0; i < 1000; i++)
        cla_text_printf(&text, "%d,", i);
    cla_text_add(&text, "end", 3);
    assert_false(text.failed);
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_int_equal(strlen(text.data), text.length);
    assert_string_equal(text.data + text.length - 7, "999,end");
    cla_text_free(&text);
    assert_null(text.data);
}

static void adding_nothing_gives_an_empty_string(void **state)
{
    (void)state;
    struct cla_text text = {0};
    cla_text_add(&text, "", 0);
    assert_string_equal(text.data, "");
    cla_text_free(&text);
}

/* XXH3 is a published function: these are its values for the empty input and for "clattn", so that keys stay what they
 * are. */
static void the_hash_is_xxh3_128(void **state)
{
    (void)state;
    char hex[CLA_HASH_HEX];
    cla_hash_hex(cla_hash_bytes("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void a_long_error_is_cut_not_overrun(void **state)
{
    (void)state;
    struct cla_error error;
    char *word = malloc(10000);
    assert_non_null(word);
    memset(word, 'x', 9999);
    word[9999] = '\0';
    assert_int_equal(cla_fail(&error, CLATTN_BUILD_FAILED, "log: %s", word), CLATTN_BUILD_FAILED);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(error.status, CLATTN_BUILD_FAILED);
    free(word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows),
        cmocka_unit_test(adding_nothing_gives_an_empty_string),
        cmocka_unit_test(the_hash_is_xxh3_128),
        cmocka_unit_test(a_long_error_is_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
