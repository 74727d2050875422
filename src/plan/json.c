/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool fail(struct cla_json *json, const char *why)
{
    if (!json->wrong)
        json->wrong = why;
    return false;
}

/* The next byte that is no white space; '\0' at the end, where nothing can follow, and once something was wrong. */
static char next(struct cla_json *json)
{
    for (; json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at; json->at++)
        json->line += *json->at == '\n';
    return json->at < json->end && !json->wrong ? *json->at : '\0';
}

bool cla_json_mark(struct cla_json *json, char mark)
{
    const bool there = next(json) == mark;
    json->at += there;
    return there;
}

bool cla_json_more(struct cla_json *json, bool first, char close)
{
    if (cla_json_mark(json, close))
        return false;
    if (first || cla_json_mark(json, ','))
        return !json->wrong;
    return fail(json, close == '}' ? "',' or '}' is missing" : "',' or ']' is missing");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* The character that \uXXXX stands for, with `at` behind the u; -1 where it is none. */
static int unicode(struct cla_json *json)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = json->at < json->end ? hex_digit(*json->at++) : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* The next character of a text, its escapes resolved; -1 where it is none that a text may have. */
static int character(struct cla_json *json)
{
    int c = (unsigned char)*json->at++;
    if (c == '\\') {
        c = json->at < json->end ? *json->at++ : -1;
        if (c == 'u')
            c = unicode(json);
        else if (c != '"' && c != '\\' && c != '/')
            return -1;
    }
    return c >= 0x20 && c <= 0x7e ? c : -1;
}

bool cla_json_text(struct cla_json *json, char *text, size_t size)
{
    size_t length = 0;
    if (!cla_json_mark(json, '"'))
        return false;
    while (json->at < json->end && *json->at != '"') {
        const int c = character(json);
        if (c < 0)
            return fail(json, "a text holds something other than printable ASCII characters");
        if (length < size)
            text[length++] = (char)c;
    }
    if (json->at == json->end)
        return fail(json, "a text does not end");
    json->at++;
    if (length == size)
        return false;
    text[length] = '\0';
    return true;
}

/* A decimal number: its digits, as far as they fit, and the power of ten that they are to be taken by. */
struct decimal {
    uint64_t digits;
    int exponent;
    bool negative, whole, exact;
};

static bool digits(struct cla_json *json, struct decimal *decimal, int shift)
{
    const char *const first = json->at;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        const bool fits = decimal->digits <= (UINT64_MAX - 9) / 10;
        if (fits)
            decimal->digits = 10 * decimal->digits + (uint64_t)(*json->at - '0');
        decimal->exact = decimal->exact && fits;
        decimal->exponent += fits ? shift : shift + 1;
    }
    return json->at > first;
}

static bool exponent(struct cla_json *json, struct decimal *decimal)
{
    enum { MOST = 100000 };
    int sign = 1, value = 0;
    if (json->at < json->end && (*json->at == '-' || *json->at == '+'))
        sign = *json->at++ == '-' ? -1 : 1;
    const char *const first = json->at;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
        value = value < MOST ? 10 * value + (*json->at - '0') : value;
    decimal->exponent += sign * value;
    return json->at > first;
}

static bool passes(struct cla_json *json, char a, char b)
{
    const bool there = json->at < json->end && (*json->at == a || *json->at == b);
    json->at += there;
    return there;
}

static bool read_decimal(struct cla_json *json, struct decimal *decimal)
{
    const char c = next(json);
    *decimal = (struct decimal){.whole = true, .exact = true};
    if (c != '-' && (c < '0' || c > '9'))
        return false;
    decimal->negative = passes(json, '-', '-');
    const char *const first = json->at;
    bool good = digits(json, decimal, 0) && (*first != '0' || json->at == first + 1);
    if (good && passes(json, '.', '.')) {
        decimal->whole = false;
        good = digits(json, decimal, -1);
    }
    if (good && passes(json, 'e', 'E')) {
        decimal->whole = false;
        good = exponent(json, decimal);
    }
    return good || fail(json, "a number is none");
}

/* Digits that double has, by a power of ten that it has, are rounded once. */
bool cla_json_number(struct cla_json *json, double *value)
{
    struct decimal decimal;
    if (!read_decimal(json, &decimal))
        return false;
    const double scaled = decimal.exponent < 0 ? (double)decimal.digits / pow(10.0, -decimal.exponent)
                                               : (double)decimal.digits * pow(10.0, decimal.exponent);
    *value = decimal.negative ? -scaled : scaled;
    return isfinite(*value);
}

bool cla_json_integer(struct cla_json *json, int64_t *value)
{
    struct decimal decimal;
    if (!read_decimal(json, &decimal) || !decimal.whole || !decimal.exact || decimal.digits > INT64_MAX)
        return false;
    *value = decimal.negative ? -(int64_t)decimal.digits : (int64_t)decimal.digits;
    return true;
}

static bool passes_word(struct cla_json *json, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

bool cla_json_boolean(struct cla_json *json, bool *value)
{
    next(json);
    *value = passes_word(json, "true");
    return *value || passes_word(json, "false");
}

bool cla_json_end(struct cla_json *json)
{
    next(json);
    return !json->wrong && (json->at == json->end || fail(json, "something follows the end"));
}

void cla_json_put_text(struct cla_text *text, const char *value)
{
    cla_text_add(text, "\"", 1);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            cla_text_add(text, "\\", 1);
        cla_text_add(text, value, 1);
    }
    cla_text_add(text, "\"", 1);
}

/* Of printf(), whose point is the locale's, of one byte or more. */
void cla_json_put_number(struct cla_text *text, double value)
{
    char digits[64];
    snprintf(digits, sizeof digits, "%.6g", value);
    const size_t before = strspn(digits, "-0123456789"), behind = strcspn(digits + before, "0123456789e");
    const bool fraction = behind > 0;
    cla_text_add(text, digits, before);
    cla_text_add(text, ".", fraction);
    cla_text_printf(text, "%s", digits + before + behind);
}
