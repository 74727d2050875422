/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/user_text.h"
#include "plan/features/user_code.h"
#include <clattn/opencl.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3 };

struct user_text {
    const char *name, *source, *declaration; /* source NULL: not given */
};

#define OF_SCORE "float score, int b, int h, int i, int j, __global const float *data"
#define OF_PAIR  "int b, int h, int i, int j, __global const float *data"

static void list(const struct clattn_problem *problem, struct user_text texts[TEXTS])
{
    texts[0] = (struct user_text){"score_mod", problem->score_mod, "float score_mod(" OF_SCORE ");"};
    texts[1] = (struct user_text){"score_mod_grad", problem->score_mod_grad, "float score_mod_grad(" OF_SCORE ");"};
    texts[2] = (struct user_text){"mask_mod", problem->mask_mod, "bool mask_mod(" OF_PAIR ");"};
}

/* Macros are kept, and put back as they were. A compiler that does not know these pragmas passes over them: then macros
 * end with their text, which is all that most texts ask for. */
static void keep_macros(const char *code, struct cla_text *text)
{
    for (struct cla_word macro; (macro = cla_next_macro(&code)).start;)
        cla_text_printf(text, "#pragma push_macro(\"%.*s\")\n", (int)macro.length, macro.start);
}

static void put_back_macros(const char *code, struct cla_text *text)
{
    for (struct cla_word macro; (macro = cla_next_macro(&code)).start;)
        cla_text_printf(text, "#undef %.*s\n#pragma pop_macro(\"%.*s\")\n", (int)macro.length, macro.start,
                        (int)macro.length, macro.start);
}

static void add_source(const struct user_text *user, struct cla_text *text)
{
    const char *source = cla_skip_byte_order_mark(user->source);
    const size_t length = strlen(source);
    cla_text_printf(text, "#line 1 \"%s\"\n", user->name);
    cla_text_add(text, source, length);
    cla_text_add(text, "\n", 1);
    if (length && strchr("\\ \t\r", source[length - 1])) /* a backslash would join the next line to it */
        cla_text_add(text, "\n", 1);
}

/* Declares the function once more, as it should be: compilers complain where it is not, and name the line where the
 * user defines it. */
static void declare(const struct user_text *user, const char *code, struct cla_text *text)
{
    const char *const function = cla_find_function(code, user->name);
    if (function)
        cla_text_printf(text, "#line %d \"%s\"\n%s\n", cla_code_line(user->source, (size_t)(function - code)),
                        user->name, user->declaration);
}

void cla_user_texts(const struct clattn_problem *problem, struct cla_text *text)
{
    struct user_text texts[TEXTS];
    char *codes[TEXTS] = {NULL};
    list(problem, texts);
    for (int i = 0; i < TEXTS; i++) {
        codes[i] = texts[i].source ? cla_code_of(texts[i].source) : NULL;
        text->failed = text->failed || (texts[i].source && !codes[i]);
    }
    for (int i = 0; i < TEXTS; i++)
        if (codes[i])
            keep_macros(codes[i], text);
    for (int i = 0; i < TEXTS; i++)
        if (codes[i])
            add_source(&texts[i], text);
    for (int i = 0; i < TEXTS; i++)
        if (codes[i])
            put_back_macros(codes[i], text);
    for (int i = 0; i < TEXTS; i++) {
        if (codes[i])
            declare(&texts[i], codes[i], text);
        free(codes[i]);
    }
}

static clattn_status check_comments(const struct user_text *user, struct cla_error *error)
{
    const int line = cla_open_comment(user->source);
    if (!line)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s:%d: the comment that begins here is not closed, and would go on in the library's text: end it "
                    "with */",
                    user->name, line);
}

static clattn_status check_names(const struct user_text *user, struct cla_error *error)
{
    char *const code = cla_code_of(user->source);
    const char *at = code;
    clattn_status status = CLATTN_SUCCESS;
    if (!code)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory to look through problem.%s", user->name);
    for (struct cla_word word; !status && (word = cla_next_word(&at)).start;)
        if (cla_word_begins(&word, "clattn") || cla_word_begins(&word, "CLATTN"))
            status =
                cla_fail(error, CLATTN_INVALID_ARGUMENT,
                         "%s:%d: \"%.*s\": names that begin with clattn or CLATTN are the library's, in problem.%s "
                         "take another",
                         user->name, cla_code_line(user->source, (size_t)(word.start - code)),
                         (int)(word.length < 80 ? word.length : 80), word.start, user->name);
    free(code);
    return status;
}

clattn_status cla_user_texts_check(const struct clattn_problem *problem, struct cla_error *error)
{
    struct user_text texts[TEXTS];
    clattn_status status = CLATTN_SUCCESS;
    list(problem, texts);
    for (int i = 0; i < TEXTS && !status; i++)
        if (texts[i].source) {
            status = check_comments(&texts[i], error);
            status = status ? status : check_names(&texts[i], error);
        }
    return status;
}
