/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The JSON of tuning files: what is read, what is refused, and where. */
#include "plan/json.h"
#include "support/unit.h"
#include <locale.h>
#include <stdio.h>
#include <string.h>

static struct cla_json of(const char *text)
{
    return (struct cla_json){.at = text, .end = text + strlen(text)};
}

/* Up to 15 digits, by powers of ten up to 22, are rounded as the compiler rounds them; others lie beside that. */
static void numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
        bool exact;
    } rows[] = {{"0", 0, true},
                {"-0.5", -0.5, true},
                {"27.4402", 27.4402, true},
                {"1.25E-2", 0.0125, true},
                {"1e22", 1e22, true},
                {"0.000123", 0.000123, true},
                {"1e+2", 100, true},
                {"100000000000000000000000", 1e23, false},
                {"0.3333333333333333333333333", 1.0 / 3, false}};
    EACH (i, rows) {
        struct cla_json json = of(rows[i].text);
        double value = -1;
        assert_true(cla_json_number(&json, &value) && cla_json_end(&json));
        const double off = value - rows[i].value;
        assert_true(rows[i].exact ? off == 0 : off * off <= 1e-31 * value * value);
    }
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"-",   "01",    "1.",    ".5", "+1",    "1e",  "1e-",
                                        "nan", "1e400", "0e999", "",   "\"1\"", "true"};
    EACH (i, texts) {
        struct cla_json json = of(texts[i]);
        double value;
        const bool taken = cla_json_number(&json, &value) && cla_json_end(&json);
        if (taken)
            fail_msg("%s is taken for %g", texts[i], value);
    }
}

static void integers_are_whole_and_fit(void **state)
{
    (void)state;
    static const char *const others[] = {"1.0", "1e2", "9223372036854775808", "99999999999999999999", "x"};
    int64_t value = 0;
    struct cla_json json = of("[-42,9223372036854775807]");
    assert_true(cla_json_mark(&json, '[') && cla_json_more(&json, true, ']') && cla_json_integer(&json, &value));
    assert_int_equal(value, -42);
    assert_true(cla_json_more(&json, false, ']') && cla_json_integer(&json, &value));
    assert_true(value == INT64_MAX);
    assert_false(cla_json_more(&json, false, ']'));
    assert_true(cla_json_end(&json));
    EACH (i, others) {
        json = of(others[i]);
        assert_false(cla_json_integer(&json, &value));
    }
}

static void texts_have_their_escapes_and_their_room(void **state)
{
    (void)state;
    char text[8];
    struct cla_json json = of(" \"a\\\"\\\\\\/\\u0041\\u007E\"");
    assert_true(cla_json_text(&json, text, sizeof text));
    assert_string_equal(text, "a\"\\/A~");
    json = of("\"1234567\"");
    assert_true(cla_json_text(&json, text, sizeof text));
    json = of("\"12345678\",");
    assert_false(cla_json_text(&json, text, sizeof text));
    assert_null(json.wrong); /* it is JSON, only too long */
    assert_true(cla_json_mark(&json, ','));
}

static void what_is_no_text_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {"\"a",         "\"a\\",        "\"\\n\"",  "\"\\u00e4\"", "\"\\u00",
                                        "\"\\u00g0\"", "\"\xc3\xa4\"", "\"a\nb\"", "\"\\u0000\""};
    EACH (i, texts) {
        char text[16];
        struct cla_json json = of(texts[i]);
        assert_false(cla_json_text(&json, text, sizeof text));
        assert_non_null(json.wrong);
        assert_false(cla_json_mark(&json, '"')); /* nothing follows what was wrong */
        assert_false(cla_json_end(&json));
    }
}

static void marks_and_lines_are_counted(void **state)
{
    (void)state;
    bool value = false;
    struct cla_json json = of("\n[true,\n false\n\t true]");
    assert_true(cla_json_mark(&json, '[') && cla_json_more(&json, true, ']') && cla_json_boolean(&json, &value));
    assert_true(value && cla_json_more(&json, false, ']') && cla_json_boolean(&json, &value));
    assert_false(value);
    assert_false(cla_json_more(&json, false, ']'));
    assert_string_equal(json.wrong, "',' or ']' is missing");
    assert_int_equal(json.line, 3);
    json = of("{} x");
    assert_true(cla_json_mark(&json, '{'));
    assert_false(cla_json_more(&json, true, '}'));
    assert_false(cla_json_end(&json));
    assert_string_equal(json.wrong, "something follows the end");
    json = of("{1");
    assert_true(cla_json_mark(&json, '{') && cla_json_more(&json, true, '}'));
    assert_false(cla_json_boolean(&json, &value));
    json.at++;
    assert_false(cla_json_more(&json, false, '}'));
    assert_string_equal(json.wrong, "',' or '}' is missing");
}

/* Under a locale whose point is a comma, where there is one. */
static void what_is_put_is_read_again(void **state)
{
    (void)state;
    static const double values[] = {1, 0, 1.5, 0.0123456, 1e-7, 2.5e-9, 123456, 1.25e20};
    setlocale(LC_NUMERIC, "de_DE.UTF-8");
    EACH (i, values) {
        struct cla_text text = {0};
        double value = -1;
        cla_json_put_number(&text, values[i]);
        struct cla_json json = of(text.data);
        assert_true(cla_json_number(&json, &value) && cla_json_end(&json));
        assert_true(value >= values[i] * (1 - 1e-15) && value <= values[i] * (1 + 1e-15));
        cla_text_free(&text);
    }
    setlocale(LC_NUMERIC, "C");
    struct cla_text text = {0};
    cla_json_put_text(&text, "a \"b\" \\");
    assert_string_equal(text.data, "\"a \\\"b\\\" \\\\\"");
    cla_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read),           cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(integers_are_whole_and_fit), cmocka_unit_test(texts_have_their_escapes_and_their_room),
        cmocka_unit_test(what_is_no_text_is_named),   cmocka_unit_test(marks_and_lines_are_counted),
        cmocka_unit_test(what_is_put_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
