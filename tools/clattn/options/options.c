/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/options.h"
#include "flow.h"
#include "options/values.h"
#include <getopt.h>
#include <string.h>

enum { MAX_OPTIONS = 96, HELP = 1000 };

/* Levenshtein's distance, for words of an option's length. */
static int edit_distance(const char *a, const char *b)
{
    int row[64];
    const size_t width = strlen(b);
    if (width >= sizeof row / sizeof row[0])
        return 64;
    for (size_t j = 0; j <= width; j++)
        row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < width; j++) {
            const int replace = diagonal + (a[i] != b[j]), add = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replace < add ? replace : add;
        }
    }
    return row[width];
}

const char *closest_word(const char *given, const char *const *candidates)
{
    const char *closest = NULL;
    int distance = 3; /* two slips are a misspelling, three another word */
    for (; *candidates; candidates++) {
        const int d = edit_distance(given, *candidates);
        if (d < distance && 2 * d <= (int)strlen(*candidates)) {
            distance = d;
            closest = *candidates;
        }
    }
    return closest;
}

static enum option_kind kind_of(const struct cla_feature_number *row)
{
    if (row->option.corner)
        return OPTION_WORD;
    if (row->option.two)
        return OPTION_PAIR;
    if (row->type != CLA_NUMBER_FLOAT)
        return OPTION_INTEGER;
    return row->option.share ? OPTION_SHARE : OPTION_NUMBER;
}

static const struct option_word corners[] = {
    {"bottom-right", CLATTN_CAUSAL_BOTTOM_RIGHT}, {"top-left", CLATTN_CAUSAL_TOP_LEFT}, {NULL, 0}};

static struct option_spec number_option(const struct cla_feature_number *row, size_t field)
{
    const struct cla_feature_option *option = &row->option;
    return (struct option_spec){.name = option->name,
                                .argument = option->argument ? option->argument : "X",
                                .kind = kind_of(row),
                                .field = field,
                                .help = option->help,
                                .minimum = option->least,
                                .maximum = option->most,
                                .example = option->example,
                                .words = option->corner ? corners : NULL,
                                .multiple = option->multiple,
                                .above_0 = option->above_0,
                                .of_feature = true,
                                .needs = option->needs};
}

/* Goes through the options of one feature: its tensors', its numbers' and its settings'. */
struct feature_options {
    const struct cla_feature *feature;
    size_t field;                /* of the struct option_features */
    int tensor, number, setting; /* how many there are of the features before */
    int left;                    /* options to pass over */
};

static bool tensor_option_at(struct feature_options *at, struct option_spec *option)
{
    for (int i = 0; i < CLA_FEATURE_TENSORS && at->feature->tensors[i].name; i++, at->tensor++) {
        const struct cla_feature_option *row = &at->feature->tensors[i].option;
        if (!row->name || at->left-- > 0)
            continue;
        const size_t field = offsetof(struct option_features, files) + (size_t)at->tensor * sizeof(const char *);
        *option = (struct option_spec){.name = row->name,
                                       .argument = "FILE",
                                       .kind = OPTION_STRING,
                                       .field = at->field + field,
                                       .help = row->help,
                                       .of_feature = true,
                                       .needs = row->needs};
        return true;
    }
    return false;
}

static bool number_option_at(struct feature_options *at, const struct cla_feature_number *rows, int most, size_t fields,
                             int *number, struct option_spec *option)
{
    for (int i = 0; i < most && rows[i].name; i++, ++*number) {
        if (!rows[i].option.name || at->left-- > 0)
            continue;
        *option = number_option(&rows[i], at->field + fields + (size_t)*number * sizeof(struct option_number));
        return true;
    }
    return false;
}

/* The option of a feature of that number, and how many there are, where there are fewer. */
static bool feature_option(const struct option_spec *all, int number, int *count, struct option_spec *option)
{
    struct feature_options at = {.field = all->field, .left = number};
    for (int i = 0; i < cla_feature_count; i++) {
        at.feature = &cla_features[i];
        if (tensor_option_at(&at, option) ||
            number_option_at(&at, at.feature->numbers, CLA_FEATURE_NUMBERS, offsetof(struct option_features, numbers),
                             &at.number, option) ||
            number_option_at(&at, at.feature->settings, CLA_FEATURE_SETTINGS,
                             offsetof(struct option_features, settings), &at.setting, option))
            return true;
    }
    *count = number - at.left;
    return false;
}

bool option_at(const struct command_spec *command, int number, struct option_spec *option)
{
    for (const struct option_spec *row = command->options; row->kind && number >= 0; row++) {
        int count = 1;
        if (row->kind == OPTION_FEATURES && feature_option(row, number, &count, option))
            return true;
        if (row->kind != OPTION_FEATURES && !number) {
            *option = *row;
            if (row->words_of)
                option->words = row->words_of();
            return true;
        }
        number -= count;
    }
    return false;
}

static int unknown_option(const struct command_spec *command, const char *given, struct failure *failure)
{
    const char *names[MAX_OPTIONS + 2] = {"help"};
    char word[64];
    int count = 1;
    struct option_spec option;
    while (count <= MAX_OPTIONS && option_at(command, count - 1, &option))
        names[count++] = option.name;
    const char *start = given + strspn(given, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
    const char *closest = closest_word(word, names);
    if (closest)
        return fail(failure, STATUS_USAGE, "unknown option '%s': did you mean --%s?", given, closest);
    return fail(failure, STATUS_USAGE, "unknown option '%s': 'clattn %s --help' lists them", given, command->name);
}

/* getopt_long() takes an optional value only behind "=". No subcommand has plain arguments, so a word that follows can
 * be nothing but the value. */
static const char *optional_value(const struct option_spec *option, int argc, char **argv)
{
    if (optarg)
        return optarg;
    if (optind < argc && argv[optind][0] != '-')
        return argv[optind++];
    return option->implied;
}

static void fill_long_options(const struct command_spec *command, struct option *table)
{
    int count = 0;
    struct option_spec option;
    for (; count < MAX_OPTIONS && option_at(command, count, &option); count++)
        table[count] = (struct option){.name = option.name,
                                       .has_arg = !option.argument  ? no_argument
                                                  : option.optional ? optional_argument
                                                                    : required_argument,
                                       .val = HELP + 1 + count};
    table[count] = (struct option){.name = "help", .has_arg = no_argument, .val = HELP};
}

static int misused_option(const struct command_spec *command, int code, const char *given, struct failure *failure)
{
    struct option_spec option;
    const bool known = option_at(command, optopt - HELP - 1, &option);
    if (known && code == ':' && option.argument) /* MinGW's getopt_long() also has it for a value too many */
        return fail(failure, STATUS_USAGE, "--%s needs a value: --%s %s", option.name, option.name, option.argument);
    if (known)
        return fail(failure, STATUS_USAGE, "'%s': --%s takes no value", given, option.name);
    return unknown_option(command, given, failure);
}

int options_parse(const struct command_spec *command, int argc, char **argv, void *values, struct failure *failure)
{
    struct option table[MAX_OPTIONS + 2] = {{.name = NULL}};
    failure->command = command;
    fill_long_options(command, table);
    opterr = 0;
    optind = 0; /* start afresh, also in glibc's memory */
    for (;;) {
        const int at = optind ? optind : 1;
        const int code = getopt_long(argc, argv, "+:h", table, NULL);
        if (code == -1)
            break;
        if (code == HELP || code == 'h') {
            options_help(command, stdout);
            return STATUS_HELP;
        }
        if (code < HELP)
            return misused_option(command, code, argv[at], failure);
        struct option_spec option;
        option_at(command, code - HELP - 1, &option);
        const char *text = option.optional ? optional_value(&option, argc, argv) : optarg;
        int status = option_store(&option, text, values, failure);
        while (!status && option.kind == OPTION_FILES && optind < argc && argv[optind][0] != '-')
            status = option_store(&option, argv[optind++], values, failure);
        if (status)
            return status;
    }
    if (optind < argc)
        return fail(failure, STATUS_USAGE, "unexpected argument '%s': everything is said with options", argv[optind]);
    return STATUS_OK;
}

/* A word of a list below an option's help, which goes on in further lines. */
static size_t print_listed(const char *word, size_t column, FILE *stream)
{
    enum { INDENT = 29, WIDTH = 62 };
    const size_t length = strlen(word) + 2;
    if (column == 0 || column + length > WIDTH) {
        flow(stream, column ? ",\n%*s" : "%*s", INDENT, "");
        column = 0;
    }
    flow(stream, "%s%s", column ? ", " : "", word);
    return column + length;
}

/* Below the option's help: skeletons, or words of another table where the help ends in a colon. */
static void print_choices(const struct option_spec *option, FILE *stream)
{
    struct clattn_skeleton_info info;
    size_t column = 0;
    if (option->kind == OPTION_SKELETON)
        for (int i = 0; option_skeleton(option, i, &info); i++)
            column = print_listed(info.name, column, stream);
    else if (option->words_of && option->help[strlen(option->help) - 1] == ':')
        for (const struct option_word *word = option->words; word->word; word++)
            column = print_listed(word->word, column, stream);
    if (column)
        flow(stream, "\n");
}

static void print_option(const struct option_spec *option, FILE *stream)
{
    char left[64];
    if (!option->argument)
        snprintf(left, sizeof left, "--%s", option->name);
    else if (option->optional)
        snprintf(left, sizeof left, "--%s[=%s]", option->name, option->argument);
    else
        snprintf(left, sizeof left, "--%s %s", option->name, option->argument);
    if (strlen(left) > 26)
        flow(stream, "  %s\n  %-26s ", left, "");
    else
        flow(stream, "  %-26s ", left);
    flow_text(stream, option->help, 29);
    print_choices(option, stream);
}

void options_help(const struct command_spec *command, FILE *stream)
{
    flow(stream, "%s\n\nUsage:\n", command->summary);
    flow(stream, "  ");
    flow_lines(stream, command->synopsis, 2);
    flow(stream, "\nOptions:\n");
    struct option_spec option;
    for (int i = 0; option_at(command, i, &option); i++)
        print_option(&option, stream);
    flow(stream, "  %-26s %s\n", "--help", "show this");
    flow(stream, "\n");
    if (command->details) {
        flow_text(stream, command->details, 0);
        flow(stream, "\n");
    }
    flow_text(stream,
              "Exit status: 0 success, 1 verification failed, 2 usage, 3 a file that cannot be read, is not\n"
              "what it should be or cannot be written, 4 no device or an error from OpenCL or the library.",
              0);
}
