/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/user_code.h"
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\v\f";
static const char word_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

const char *cla_skip_byte_order_mark(const char *source)
{
    return strncmp(source, "\xef\xbb\xbf", 3) == 0 ? source + 3 : source;
}

/* Reads characters of a text whose lines are joined where they end in a backslash. */
struct reader {
    const char *at;
    int line;
    int open_comment; /* the line where one begins that does not end */
};

static char peek(struct reader *reader)
{
    while (*reader->at == '\\') {
        /* Compilers accept blanks behind the backslash. */
        const size_t gap = strspn(reader->at + 1, blanks);
        if (reader->at[1 + gap] != '\n')
            break;
        reader->at += gap + 2;
        reader->line++;
    }
    return *reader->at;
}

static char take(struct reader *reader)
{
    const char c = peek(reader);
    if (c)
        reader->at++;
    reader->line += c == '\n';
    return c;
}

static void skip_line_comment(struct reader *reader)
{
    while (peek(reader) && peek(reader) != '\n')
        take(reader);
}

static void skip_block_comment(struct reader *reader)
{
    const int line = reader->line;
    char last = 0;
    take(reader);
    while (peek(reader) && !(last == '*' && peek(reader) == '/'))
        last = take(reader);
    if (!take(reader))
        reader->open_comment = line;
}

/* To the closing quote, or to the end of the line where there is none. */
static void skip_quoted(struct reader *reader, char quote)
{
    while (peek(reader) && peek(reader) != '\n' && peek(reader) != quote)
        if (take(reader) == '\\' && peek(reader) != '\n')
            take(reader);
}

/* The next character of the code; 0 at its end. *line: of the text. */
static char next_character(struct reader *reader, int *line)
{
    peek(reader);
    *line = reader->line;
    const char c = take(reader);
    if (c == '/' && peek(reader) == '/') {
        skip_line_comment(reader);
        return ' ';
    }
    if (c == '/' && peek(reader) == '*') {
        skip_block_comment(reader);
        return ' ';
    }
    if (c == '"' || c == '\'') {
        skip_quoted(reader, c);
        if (peek(reader) == c)
            take(reader);
    }
    return c;
}

char *cla_code_of(const char *source)
{
    struct reader reader = {cla_skip_byte_order_mark(source), 1, 0};
    char *code = malloc(strlen(source) + 1), *at = code;
    int line;
    if (!code)
        return NULL;
    while ((*at = next_character(&reader, &line)) != 0)
        at++;
    return code;
}

int cla_code_line(const char *source, size_t number)
{
    struct reader reader = {cla_skip_byte_order_mark(source), 1, 0};
    int line = 1;
    for (size_t i = 0; i <= number && next_character(&reader, &line); i++)
        ;
    return line;
}

int cla_open_comment(const char *source)
{
    struct reader reader = {cla_skip_byte_order_mark(source), 1, 0};
    for (int line; next_character(&reader, &line);)
        ;
    return reader.open_comment;
}

struct cla_word cla_next_word(const char **code)
{
    const char *const start = *code + strcspn(*code, word_characters);
    const struct cla_word word = {*start ? start : NULL, strspn(start, word_characters)};
    *code = start + word.length;
    return word;
}

bool cla_word_begins(const struct cla_word *word, const char *text)
{
    return strncmp(word->start, text, strlen(text)) == 0;
}

static bool is_word(const struct cla_word *word, const char *text)
{
    return word->length == strlen(text) && cla_word_begins(word, text);
}

/* The macro that the line from `at` on defines or undefines. */
static struct cla_word macro_of_line(const char *at)
{
    const struct cla_word none = {NULL, 0};
    at += strspn(at, blanks);
    const size_t mark = *at == '#' ? 1 : strncmp(at, "%:", 2) == 0 ? 2 : 0;
    if (!mark)
        return none;
    at += mark + strspn(at + mark, blanks);
    const struct cla_word directive = {at, strspn(at, word_characters)};
    if (!is_word(&directive, "define") && !is_word(&directive, "undef"))
        return none;
    at += directive.length;
    at += strspn(at, blanks);
    const struct cla_word name = {at, strspn(at, word_characters)};
    return name.length ? name : none;
}

struct cla_word cla_next_macro(const char **code)
{
    struct cla_word macro = {NULL, 0};
    while (**code && !macro.start) {
        macro = macro_of_line(*code);
        *code += strcspn(*code, "\n");
        *code += **code == '\n';
    }
    return macro;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\v\f\n");
}

/* Whether parentheses and then a brace follow. */
static bool begins_body(const char *at)
{
    int open = 0;
    at = skip_blanks(at);
    if (*at != '(')
        return false;
    do {
        open += (*at == '(') - (*at == ')');
        at++;
    } while (*at && open);
    return *skip_blanks(at) == '{';
}

const char *cla_find_function(const char *code, const char *name)
{
    int depth = 0;
    while (*code) {
        const struct cla_word word = {code, strspn(code, word_characters)};
        if (!depth && is_word(&word, name) && begins_body(code + word.length))
            return code;
        depth += (*code == '{') - (*code == '}');
        code += word.length ? word.length : 1;
    }
    return NULL;
}
