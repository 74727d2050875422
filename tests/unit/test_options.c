/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option table: every kind of value, and messages that name the option, its value and what would be right. */
#include "options/options.h"
#include "support/unit.h"
#include <clattn/problem.h>
#include <string.h>

struct values {
    bool json;
    const char *file;
    int64_t d;
    double scale;
    int dtype, causal;
    struct option_list n, dtypes;
    struct option_features features;
    struct option_device device;
};

static const struct option_spec options[] = {
    FLAG("json", json, "as JSON"),
    TEXT("file", "FILE", file, "a file"),
    INTEGER("d", d, 1, 512, "head dimension"),
    NUMBER("scale", "X", scale, "factor"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "type"),
    CAUSAL("corner"),
    INTEGERS("n", n, 1, 65536, "lengths"),
    WORDS("dtypes", "TYPE,...", dtypes, option_dtypes, "types"),
    DEVICE("device"),
    END_OF_OPTIONS,
};

static const struct command_spec command = {
    .name = "test", .summary = "A test", .synopsis = "clattn test", .options = options};

/* Parses words separated by spaces. */
static int parse(const char *line, struct values *values, struct failure *failure)
{
    static char words[512];
    char *argv[32] = {"test"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    *values = (struct values){.d = 64};
    failure->text[0] = '\0';
    return options_parse(&command, argc, argv, values, failure);
}

static struct values accepted(const char *line)
{
    struct values values;
    struct failure failure;
    if (parse(line, &values, &failure))
        fail_msg("'%s': %s", line, failure.text);
    return values;
}

static void refused(const char *line, const char *first, const char *second)
{
    struct values values;
    struct failure failure;
    assert_int_equal(parse(line, &values, &failure), STATUS_USAGE);
    if (!strstr(failure.text, first) || !strstr(failure.text, second))
        fail_msg("'%s': '%s' does not say '%s' and '%s'", line, failure.text, first, second);
}

static void nothing_keeps_the_defaults(void **state)
{
    (void)state;
    const struct values values = accepted("");
    assert_true(values.d == 64 && !values.json && !values.file && !values.device.given && !values.n.count);
}

static void every_kind_is_stored(void **state)
{
    (void)state;
    const struct values values = accepted("--json --file a.npy --d 128 --scale=-0.125 --dtype bf16 --causal=top-left "
                                          "--n 512,1024,1 --dtypes fp16,fp32 --device 1:12");
    assert_true(values.json && values.d == 128 && values.scale == -0.125);
    assert_string_equal(values.file, "a.npy");
    assert_int_equal(values.dtype, CLATTN_BF16);
    assert_int_equal(values.causal, CLATTN_CAUSAL_TOP_LEFT);
    assert_true(values.n.count == 3 && values.n.values[0] == 512 && values.n.values[2] == 1);
    assert_true(values.dtypes.count == 2 && values.dtypes.values[0] == CLATTN_FP16);
    assert_true(values.device.given && values.device.platform == 1 && values.device.device == 12);
}

static void the_last_of_two_counts(void **state)
{
    (void)state;
    assert_true(accepted("--d 1 --d 2").d == 2);
    assert_true(accepted("--n 1,2,3 --n 4").n.count == 1);
}

static void an_optional_value_may_follow_or_not(void **state)
{
    (void)state;
    assert_int_equal(accepted("--causal").causal, CLATTN_CAUSAL_BOTTOM_RIGHT);
    assert_int_equal(accepted("--causal --json").causal, CLATTN_CAUSAL_BOTTOM_RIGHT);
    assert_int_equal(accepted("--causal top-left --json").causal, CLATTN_CAUSAL_TOP_LEFT);
    assert_int_equal(accepted("--causal=off").causal, CLATTN_FULL);
    refused("--causal left", "--causal 'left'", "bottom-right");
}

static void wrong_numbers_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0",   "513", "-1", "64x", "6.4", "0x40", "1e2", "99999999999999999999",
                                        "+64", "-"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--d=%s", wrong[i]);
        refused(line, wrong[i], "from 1 to 512");
    }
    static const char *const wrong_scales[] = {"0", "inf", "nan", "1e39", "1,5", "0.5x", "--1", "1e-60"};
    for (size_t i = 0; i < sizeof wrong_scales / sizeof wrong_scales[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--scale=%s", wrong_scales[i]);
        refused(line, "--scale", wrong_scales[i]);
    }
}

static void wrong_words_and_lists_are_refused(void **state)
{
    (void)state;
    refused("--dtype float", "'float'", "fp32, fp16, bf16");
    refused("--dtypes fp16,", "--dtypes ''", "fp32, fp16, bf16");
    refused("--n 512,,1024", "--n", "integer");
    refused("--n 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "--n", "at most 16");
    refused("--file=", "--file", "empty");
}

static void wrong_devices_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", ":", "0:", ":0", "a:b", "0:0:0", "-1:0", "0:-1", "99999999999:0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--device=%s", wrong[i]);
        refused(line, wrong[i], "PLATFORM:DEVICE");
    }
}

static void misuse_is_named(void **state)
{
    (void)state;
    refused("--sca 0.5 --d", "--d needs a value", "--d N"); /* an abbreviation is understood */
    refused("--jsn", "--jsn", "did you mean --json");
    refused("--frobnicate=1", "--frobnicate", "--help");
    refused("-x", "-x", "--help");
    refused("--json=1", "--json", "no value");
    refused("stray", "stray", "options");
    refused("--json stray --d 1", "stray", "options");
}

static void the_closest_word_is_found(void **state)
{
    (void)state;
    static const char *const words[] = {"devices", "plan", "run", "verify", "bench", NULL};
    assert_string_equal(closest_word("device", words), "devices");
    assert_string_equal(closest_word("plna", words), "plan");
    assert_string_equal(closest_word("vrify", words), "verify");
    assert_null(closest_word("tune", words));
    assert_null(closest_word("", words));
    assert_null(closest_word("something else altogether, and long enough to fill any buffer there may be", words));
}

static void messages_name_options(void **state)
{
    (void)state;
    static const struct option_spec few[] = {INTEGER("b-r", d, 1, 8, ""), INTEGER("k-format", d, 1, 8, ""),
                                             FEATURES(features), END_OF_OPTIONS};
    static const struct command_spec some = {.name = "some", .options = few};
    static const struct {
        const char *text, *named;
    } rows[] = {
        {"problem.b_r is 3", "--b-r is 3"},
        {"problem.b_c is 3", "problem.b_c is 3"}, /* it has no such option */
        {"problem.k_type, v_type: k_type.", "--k-format, v_type: --k-format."},
        {"score.pages has 7, score.page_offsets", "--kv-pages has 7, --kv-page-indptr"},
        {"score.pages.layout.row, my_k_type, problem.b_rows", "score.pages.layout.row, my_k_type, problem.b_rows"},
        {"(score.kv_scales->k_scales)", "(--k-scales)"},
        {"problem.sink_keys is 4; score.window_right", "--sink-keys is 4; --window"},
        {"problem.features has CLATTN_PAGES, and kv_chunk is 3 with CLATTN_PAGES",
         "--kv-pages, and kv_chunk is 3 with --kv-pages"},
        {"CLATTN_PAGES_2 without CLATTN_SOFTCAP", "CLATTN_PAGES_2 without --softcap"},
        {"it is CLATTN_AS_BF16 (3), not CLATTN_AS_Q8_0 or CLATTN_ASKED", "it is bf16, not q8_0 or CLATTN_ASKED"},
        {"CLATTN_AS_INT8 (x)", "int8 (x)"},
        {"", ""}};
    char named[128];
    EACH (i, rows) {
        options_name_fields(&some, rows[i].text, named, sizeof named);
        assert_string_equal(named, rows[i].named);
    }
    char four[5] = "????"; /* what does not fit is cut */
    options_name_fields(&some, "problem.b_r is 3", four, sizeof four);
    assert_string_equal(four, "--b-");
    options_name_fields(&some, "it is 3", four, sizeof four);
    assert_string_equal(four, "it i");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_keeps_the_defaults), cmocka_unit_test(every_kind_is_stored),
        cmocka_unit_test(the_last_of_two_counts),     cmocka_unit_test(an_optional_value_may_follow_or_not),
        cmocka_unit_test(wrong_numbers_are_refused),  cmocka_unit_test(wrong_words_and_lists_are_refused),
        cmocka_unit_test(wrong_devices_are_refused),  cmocka_unit_test(misuse_is_named),
        cmocka_unit_test(the_closest_word_is_found),  cmocka_unit_test(messages_name_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
