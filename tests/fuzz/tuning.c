/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A tuning file. What is read can be written, and what was written reads the same again. */
#include "fuzz/fuzz.h"
#include "plan/tuning/tuning_db.h"
#include <string.h>

/* The text, appended to *text. */
static void parse_again(const char *from, size_t length, struct cla_text *text)
{
    struct cla_tuning_db db = {0};
    struct cla_error error = {0};
    FUZZ_REQUIRE(!cla_tuning_parse("again", from, length, &db, &error));
    cla_tuning_format(&db, text);
    cla_tuning_free(&db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cla_tuning_db db = {0};
    struct cla_error error = {0};
    char *text = fuzz_exact(data, size);
    if (!cla_tuning_parse("f", text, size, &db, &error)) {
        struct cla_text first = {0}, second = {0};
        cla_tuning_format(&db, &first);
        FUZZ_REQUIRE(!first.failed);
        parse_again(first.data, first.length, &second);
        FUZZ_REQUIRE(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
        cla_text_free(&first);
        cla_text_free(&second);
    } else {
        FUZZ_REQUIRE(db.count == 0);
    }
    cla_tuning_free(&db);
    fuzz_release(text, size);
    return 0;
}
