/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/retarget.h"
#include <clattn/opencl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "//@", old_target[] = "sm_90", new_target[] = "sm_90a";

enum { MARK = sizeof mark - 1, OLDEST_VERSION = 803 /* 100 * major + minor */ };

/* What the PTX says of itself, as pointers into it. */
struct findings {
    const char *target_end; /* behind "sm_90" */
    const char *body;       /* the kernel's opening brace */
    bool sets_registers;
};

static clattn_status refuse(struct cla_error *error, const char *why)
{
    return cla_fail(error, CLATTN_BUILD_FAILED, "the driver's PTX cannot be retargeted to %s: %s", new_target, why);
}

bool cla_retarget_wanted(const char *program)
{
    return strstr(program, mark) != NULL;
}

/* The first `directive` that begins a line or stands behind blanks, from `at` on; NULL: none. */
static const char *find_directive(const char *at, const char *directive)
{
    const size_t length = strlen(directive);
    for (; (at = strstr(at, directive)); at += length) {
        const bool begins = at[-1] == '\n' || at[-1] == ' ' || at[-1] == '\t';
        const bool ends = at[length] == ' ' || at[length] == '\t' || at[length] == '\n';
        if (begins && ends)
            return at;
    }
    return NULL;
}

/* Finds the one there must be. `text` begins with a newline. */
static clattn_status find_one(const char *text, const char *directive, const char **found, struct cla_error *error)
{
    char why[96];
    *found = find_directive(text, directive);
    if (*found && !find_directive(*found + 1, directive))
        return CLATTN_SUCCESS;
    snprintf(why, sizeof why, "it has %s \"%s\"", *found ? "more than one" : "no", directive);
    return refuse(error, why);
}

static clattn_status check_version(const char *text, struct cla_error *error)
{
    const char *version = NULL;
    int major = 0, minor = 0;
    const clattn_status status = find_one(text, ".version", &version, error);
    if (status)
        return status;
    if (sscanf(version, ".version %d.%d", &major, &minor) != 2 || major < 0 || major > 1000 || minor < 0 ||
        minor > 99 || 100 * major + minor < OLDEST_VERSION)
        return refuse(error, "its version is not 8.3 or later");
    return CLATTN_SUCCESS;
}

static clattn_status find_target(const char *text, struct findings *found, struct cla_error *error)
{
    const char *target = NULL;
    const clattn_status status = find_one(text, ".target", &target, error);
    if (status)
        return status;
    target += strlen(".target");
    target += strspn(target, " \t");
    found->target_end = target + strlen(old_target);
    if (strncmp(target, old_target, strlen(old_target)) != 0 || !strchr(", \t\n", *found->target_end))
        return refuse(error, "its target is not sm_90");
    return CLATTN_SUCCESS;
}

/* The kernel, and what stands between its parameters and its body. */
static clattn_status find_kernel(const char *text, struct findings *found, struct cla_error *error)
{
    static const char *const sizes[] = {".maxntid", ".maxnreg", ".minnctapersm", ".maxnctapersm", ".reqnctapercluster"};
    const char *entry = NULL;
    const clattn_status status = find_one(text, ".entry", &entry, error);
    if (status)
        return status;
    const char *close = strchr(entry, ')'), *body = close ? strchr(close, '{') : NULL;
    const char *group = find_directive(entry, ".reqntid");
    if (!body || !group || group < close || group > body)
        return refuse(error, "its kernel has no .reqntid between its parameters and its body");
    if (text[strlen(text) - 1] != '}' && !strstr(body, "}\n"))
        return refuse(error, "it is cut");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (find_directive(text, sizes[i]))
            return refuse(error, "its kernel has directives on its size that were not asked for");
    found->body = body;
    return CLATTN_SUCCESS;
}

/* Every mark begins a line of the kernel's body, but for blanks and the "{" and labels that a compiler may put there:
 * within a line of other code it might turn a comment of somebody else's into code. */
static clattn_status check_marks(const char *text, struct findings *found, struct cla_error *error)
{
    static const char setmaxnreg[] = "setmaxnreg.";
    int marks = 0;
    found->sets_registers = false;
    for (const char *at = text; (at = strstr(at, mark)); at += MARK) {
        const char *before = at;
        while (before[-1] == ' ' || before[-1] == '\t')
            before--;
        if (before[-1] != '\n' || at < found->body)
            return refuse(error, "a mark does not begin a line of the kernel's body");
        found->sets_registers = found->sets_registers || strncmp(at + MARK, setmaxnreg, sizeof setmaxnreg - 1) == 0;
        marks++;
    }
    return marks ? CLATTN_SUCCESS : refuse(error, "the compiler left out the comments that were to be instructions");
}

/* Up to `end`, without marks. */
static void add_unmarked(struct cla_text *out, const char *at, const char *end)
{
    for (const char *next; at < end; at = next + MARK) {
        next = strstr(at, mark);
        if (!next || next > end)
            next = end;
        cla_text_add(out, at, (size_t)(next - at));
        if (next == end)
            return;
    }
}

static void rewrite(const char *text, const struct findings *found, struct cla_text *out)
{
    const char *const begin = text + 1, *const end = text + strlen(text);
    cla_text_add(out, begin, (size_t)(found->target_end - begin));
    cla_text_printf(out, "a");
    add_unmarked(out, found->target_end, found->body);
    if (found->sets_registers)
        cla_text_printf(out, ".minnctapersm 1\n");
    add_unmarked(out, found->body, end);
}

static bool is_zero(const char *bytes, size_t size)
{
    while (size && !bytes[size - 1])
        size--;
    return !size;
}

clattn_status cla_retarget_ptx(const char *ptx, size_t size, struct cla_text *out, struct cla_error *error)
{
    struct cla_text text = {0};
    struct findings found = {0};
    const char *const zero = memchr(ptx, 0, size);
    const size_t length = zero ? (size_t)(zero - ptx) : size;
    cla_text_printf(&text, "\n"); /* so that each line, the first too, stands behind one */
    cla_text_add(&text, ptx, length);
    clattn_status status = CLATTN_SUCCESS;
    if (text.failed)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes of PTX", size);
    else if (!is_zero(ptx + length, size - length))
        status = refuse(error, "it is not a text");
    if (!status)
        status = check_version(text.data, error);
    if (!status)
        status = find_target(text.data, &found, error);
    if (!status)
        status = find_kernel(text.data, &found, error);
    if (!status)
        status = check_marks(text.data, &found, error);
    if (!status)
        rewrite(text.data, &found, out);
    if (!status && out->failed)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes of PTX", size);
    cla_text_free(&text);
    return status;
}
