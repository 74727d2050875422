/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_OPTIONS_H
#define CLATTN_TOOL_OPTIONS_H

#include "failure.h"
#include "plan/features/feature.h"
#include <clattn/plan.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Each subcommand describes its options in one table. Parsing, --help and the messages about what is wrong are all made
 * from it, so they cannot disagree. */

enum option_kind {
    OPTION_END = 0,  /* closes a table */
    OPTION_FLAG,     /* bool */
    OPTION_STRING,   /* const char * */
    OPTION_INTEGER,  /* int64_t, in minimum .. maximum */
    OPTION_NUMBER,   /* double: finite, representable as float, not 0 */
    OPTION_SHARE,    /* double: 0 <= x < 1 */
    OPTION_WORD,     /* int: the value of one of `words` */
    OPTION_INTEGERS, /* struct option_list of integers, "64,128" */
    OPTION_PAIR,     /* struct option_number: two integers, "64,128" */
    OPTION_WORDS,    /* struct option_list of words' values */
    OPTION_DEVICE,   /* struct option_device, "P:D" */
    OPTION_DEVICES,  /* struct option_devices, "0:0,1:0" */
    OPTION_FILES,    /* struct option_files: the words up to the next option */
    OPTION_SKELETON, /* const char *: help and completion list what the library has, for the passes in `maximum` */
    OPTION_FEATURES  /* struct option_features: the options of all score features (plan/features/feature.h) */
};

struct option_word {
    const char *word; /* NULL ends a list */
    int value;
};

#define OPTION_LIST_MAX 16

struct option_list {
    int count; /* 0: not given */
    int64_t values[OPTION_LIST_MAX];
};

struct option_device {
    bool given;
    int platform, device;
};

struct option_devices {
    int count; /* 0: not given */
    struct option_device items[OPTION_LIST_MAX];
};

struct option_files {
    int count; /* 0: not given */
    const char *paths[OPTION_LIST_MAX];
};

/* A number, or a pair of them. */
struct option_number {
    bool given;
    int64_t whole[2];
    double real;
};

/* Files and values of score features, in the order of their table; NULL: not given. */
struct option_features {
    const char *files[CLA_SCORE_TENSORS];
    struct option_number numbers[CLA_SCORE_NUMBERS], settings[CLA_SCORE_SETTINGS];
};

struct option_spec {
    const char *name;
    const char *argument; /* as help calls it; NULL for a flag */
    enum option_kind kind;
    size_t field;     /* offset in the subcommand's struct of values */
    const char *help; /* further lines behind a line feed */
    int64_t minimum, maximum;
    const struct option_word *words;
    const struct option_word *(*words_of)(void); /* answers `words`, where they come from another table */
    bool optional;                               /* the value may be left out, and then is */
    const char *implied;                         /* this text */
    const char *example;                         /* of a pair, or of a number above 0 */
    int multiple;                                /* of a pair: its numbers are multiples of; 0: any */
    bool above_0;
    bool of_feature;   /* the field is a struct option_number, whatever the kind but OPTION_STRING */
    const char *needs; /* other options without which it says nothing, a line each: "seed N" */
};

/* Rows of a table. The field is one of the subcommand's `struct values`. */
#define OPTION_FIELD(member_) .field = offsetof(struct values, member_)
#define FLAG(name_, member_, help_)                                                                                    \
    {                                                                                                                  \
        .name = name_, .kind = OPTION_FLAG, OPTION_FIELD(member_), .help = help_                                       \
    }
#define TEXT(name_, argument_, member_, help_)                                                                         \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_STRING, OPTION_FIELD(member_), .help = help_              \
    }
#define NUMBER(name_, argument_, member_, help_)                                                                       \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_NUMBER, OPTION_FIELD(member_), .help = help_              \
    }
#define SHARE(name_, argument_, member_, help_)                                                                        \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_SHARE, OPTION_FIELD(member_), .help = help_               \
    }
#define INTEGER(name_, member_, minimum_, maximum_, help_)                                                             \
    {                                                                                                                  \
        .name = name_, .argument = "N", .kind = OPTION_INTEGER, OPTION_FIELD(member_), .minimum = minimum_,            \
        .maximum = maximum_, .help = help_                                                                             \
    }
#define INTEGERS(name_, member_, minimum_, maximum_, help_)                                                            \
    {                                                                                                                  \
        .name = name_, .argument = "N,...", .kind = OPTION_INTEGERS, OPTION_FIELD(member_), .minimum = minimum_,       \
        .maximum = maximum_, .help = help_                                                                             \
    }
#define PAIR(name_, argument_, member_, minimum_, maximum_, multiple_, example_, help_)                                \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_PAIR, OPTION_FIELD(member_), .minimum = minimum_,         \
        .maximum = maximum_, .multiple = multiple_, .example = example_, .help = help_                                 \
    }
#define WORD(name_, argument_, member_, words_, help_)                                                                 \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_WORD, OPTION_FIELD(member_), .words = words_,             \
        .help = help_                                                                                                  \
    }
#define WORDS(name_, argument_, member_, words_, help_)                                                                \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_WORDS, OPTION_FIELD(member_), .words = words_,            \
        .help = help_                                                                                                  \
    }
#define WORDS_OF(name_, argument_, member_, words_of_, help_)                                                          \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_WORDS, OPTION_FIELD(member_), .words_of = words_of_,      \
        .help = help_                                                                                                  \
    }
/* Which skeletons an option may name, by the passes that they are for. */
enum { OPTION_FORWARD = 1, OPTION_BACKWARD = 2 };

#define SKELETON(name_, member_, passes_, help_)                                                                       \
    {                                                                                                                  \
        .name = name_, .argument = "NAME", .kind = OPTION_SKELETON, OPTION_FIELD(member_), .maximum = passes_,         \
        .help = help_                                                                                                  \
    }
#define FILES(name_, argument_, member_, help_)                                                                        \
    {                                                                                                                  \
        .name = name_, .argument = argument_, .kind = OPTION_FILES, OPTION_FIELD(member_), .help = help_               \
    }
/* With and without a causal mask, or both: without an argument it is on. */
#define CAUSALS(words_, help_)                                                                                         \
    {                                                                                                                  \
        .name = "causal", .argument = "WHEN", .kind = OPTION_WORD, OPTION_FIELD(causal), .words = words_,              \
        .optional = true, .implied = "on", .help = help_                                                               \
    }
#define CAUSAL(help_)                                                                                                  \
    {                                                                                                                  \
        .name = "causal", .argument = "CORNER", .kind = OPTION_WORD, OPTION_FIELD(causal), .words = option_causal,     \
        .optional = true, .implied = "bottom-right", .help = help_                                                     \
    }
#define DEVICE(help_)                                                                                                  \
    {                                                                                                                  \
        .name = "device", .argument = "P:D", .kind = OPTION_DEVICE, OPTION_FIELD(device), .help = help_                \
    }
#define FEATURES(member_)                                                                                              \
    {                                                                                                                  \
        .name = "", .kind = OPTION_FEATURES, OPTION_FIELD(member_)                                                     \
    }
#define END_OF_OPTIONS                                                                                                 \
    {                                                                                                                  \
        .kind = OPTION_END                                                                                             \
    }

/* An option that says nothing without another: of its row's `needs`, where the row is made by one of these. */
struct option_need {
    const char *name, *needs; /* NULL ends a list */
};

struct command_spec {
    const char *name;     /* "plan" */
    const char *summary;  /* one line, for the list of subcommands */
    const char *synopsis; /* one or more lines */
    const char *details;  /* paragraphs for --help; may be NULL */
    const struct option_spec *options;
    const struct option_need *needs; /* beside those of the rows; may be NULL */
};

extern const struct option_word option_packings[]; /* enum clattn_packing */
extern const struct option_word option_formats[];  /* and what K and V may be beside: enum clattn_operand_type less 1 */
extern const struct option_word option_dtypes[];   /* fp32, fp16, bf16 -> enum clattn_dtype */
const struct option_word *option_feature_words(void);                  /* every score feature -> its bit */
const struct option_word *option_words_of_features(unsigned features); /* these; until the next call of either */
extern const struct option_word option_causal[];  /* off, bottom-right, top-left -> enum clattn_causal */
extern const struct option_word option_passing[]; /* auto, kv, q -> enum clattn_ring_passing */

/* Fills the struct `values` (which the caller has set to the defaults) from argv[1] on; argv[0] is the subcommand's
 * name. An option given twice takes its last value. STATUS_HELP after printing help to stdout, STATUS_USAGE with a
 * message. */
int options_parse(const struct command_spec *command, int argc, char **argv, void *values, struct failure *failure);

/* Whether each option that was given has those that it needs. */
int options_check_needs(const struct command_spec *command, const void *values, struct failure *failure);

void options_help(const struct command_spec *command, FILE *stream);

/* The same text, but where it names a field of the library's structs for which the command has an option, by that:
 * "problem.splits is 3" becomes "--splits is 3". */
void options_name_fields(const struct command_spec *command, const char *text, char *named, size_t size);

/* The option of that number, those of features among them; false where there are no more. */
bool option_at(const struct command_spec *command, int number, struct option_spec *option);

/* The word of `value`; "" where there is none. */
const char *option_word_of(const struct option_word *words, int64_t value);

/* Which skeleton an OPTION_SKELETON offers as number `index`, from 0 on; false where there are no more. Emulations of
 * matrix units, which are for tests, are taken but not offered. */
bool option_skeleton(const struct option_spec *option, int index, struct clattn_skeleton_info *info);

/* The candidate closest to `given`; NULL where none is close. `candidates` ends with NULL. */
const char *closest_word(const char *given, const char *const *candidates);

#endif
