/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/user_text.h"
#include <string.h>

static const char blanks[] = " \t\r";
static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* Forgets the macro that a line defines, if it does. A line that only looks like it, in a comment, does no harm: what
 * is not defined may be forgotten too. Names that are reserved stay, so that the kernel's own checks speak of them. */
static void forget_macro(const char *line, struct cla_text *text)
{
    static const char define[] = "define";
    line += strspn(line, blanks);
    if (*line++ != '#')
        return;
    line += strspn(line, blanks);
    if (strncmp(line, define, sizeof define - 1) != 0)
        return;
    line += sizeof define - 1;
    const size_t gap = strspn(line, blanks), length = strspn(line + gap, word);
    if (gap && length && strncmp(line + gap, "CLATTN", 6) != 0)
        cla_text_printf(text, "#undef %.*s\n", (int)length, line + gap);
}

static void forget_macros(const char *source, struct cla_text *text)
{
    const char *line = source;
    while (line) {
        forget_macro(line, text);
        line = strchr(line, '\n');
        if (line)
            line++;
    }
}

enum { TEXTS = 3 };

struct user_text {
    const char *name, *source;
};

static void list(const struct clattn_problem *problem, struct user_text texts[TEXTS])
{
    texts[0] = (struct user_text){"score_mod", problem->score_mod};
    texts[1] = (struct user_text){"score_mod_grad", problem->score_mod_grad};
    texts[2] = (struct user_text){"mask_mod", problem->mask_mod};
}

void cla_user_texts(const struct clattn_problem *problem, struct cla_text *text)
{
    struct user_text texts[TEXTS];
    list(problem, texts);
    for (int i = 0; i < TEXTS; i++) {
        if (!texts[i].source)
            continue;
        cla_text_printf(text, "#line 1 \"%s\"\n", texts[i].name);
        cla_text_add(text, texts[i].source, strlen(texts[i].source));
        cla_text_add(text, "\n", 1);
    }
    for (int i = 0; i < TEXTS; i++)
        if (texts[i].source)
            forget_macros(texts[i].source, text);
}

static struct cla_reserved_word find_reserved(const struct user_text *text)
{
    struct cla_reserved_word found = {.line = 1};
    for (const char *at = text->source; at && *at;) {
        const size_t length = strspn(at, word);
        if (!strncmp(at, "clattn", 6) || !strncmp(at, "CLATTN", 6)) {
            found.field = text->name;
            found.word = at;
            found.length = (int)length;
            return found;
        }
        found.line += *at == '\n';
        at += length ? length : 1;
    }
    return found;
}

struct cla_reserved_word cla_user_texts_reserved(const struct clattn_problem *problem)
{
    struct cla_reserved_word found = {0};
    struct user_text texts[TEXTS];
    list(problem, texts);
    for (int i = 0; i < TEXTS && !found.field; i++)
        found = find_reserved(&texts[i]);
    return found;
}
