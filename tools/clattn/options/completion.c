/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include <string.h>

/* Scripts for shells, written from the option tables: they know what the command itself reads, and nothing else. */

enum { BASH, ZSH };

struct values {
    int shell;
};

static const struct option_word shells[] = {{"bash", BASH}, {"zsh", ZSH}, {NULL, 0}};

static const struct option_spec options[] = {
    WORD("shell", "NAME", shell, shells, "bash (default) or zsh"),
    END_OF_OPTIONS,
};

const struct command_spec completion_command = {
    .name = "completion",
    .summary = "Print a script by which a shell completes command lines",
    .synopsis = "clattn completion [--shell NAME]",
    .details = "source <(clattn completion --shell bash)   for the shell at hand",
    .options = options,
};

static bool takes_words(const struct option_spec *option)
{
    return option->kind == OPTION_WORD || option->kind == OPTION_WORDS || option->kind == OPTION_SKELETON;
}

static bool takes_file(const struct option_spec *option)
{
    return option->kind == OPTION_FILES || (option->kind == OPTION_STRING && strstr(option->argument, "FILE"));
}

static void print_words(const struct option_spec *option, FILE *stream)
{
    struct clattn_skeleton_info info;
    for (const struct option_word *word = option->words; word && word->word; word++)
        fprintf(stream, "%s%s", word == option->words ? "" : " ", word->word);
    for (int i = 0; option->kind == OPTION_SKELETON && option_skeleton(option, i, &info); i++)
        fprintf(stream, "%s%s", i ? " " : "", info.name);
}

static void print_commands(FILE *stream)
{
    for (const struct command *command = commands; command->spec; command++)
        fprintf(stream, "%s ", command->spec->name);
}

/* A case of bash's, for the option of a subcommand: what its values are. */
static void bash_values(const struct command_spec *command, const struct option_spec *option, FILE *stream)
{
    fprintf(stream, "        '%s --%s') ", command->name, option->name);
    if (takes_words(option)) {
        fprintf(stream, "%s='", option->kind == OPTION_WORDS ? "list" : "words");
        print_words(option, stream);
        fputs("'", stream);
    } else if (option->kind == OPTION_DEVICE || option->kind == OPTION_DEVICES) {
        fputs("words=$(\"${COMP_WORDS[0]}\" devices --brief 2>/dev/null | cut -d' ' -f1)", stream);
    } else {
        fputs(takes_file(option) ? "files=1" : "unknown=1", stream);
    }
    fputs(" ;;\n", stream);
}

static void bash_all_values(FILE *stream)
{
    for (const struct command *command = commands; command->spec; command++) {
        struct option_spec option;
        for (int i = 0; option_at(command->spec, i, &option); i++)
            if (option.argument)
                bash_values(command->spec, &option, stream);
    }
}

static void bash_all_options(FILE *stream)
{
    for (const struct command *command = commands; command->spec; command++) {
        fprintf(stream, "            %s) words='", command->spec->name);
        struct option_spec option;
        for (int i = 0; option_at(command->spec, i, &option); i++)
            fprintf(stream, "--%s ", option.name);
        fputs("--help' ;;\n", stream);
    }
}

/* '=' parts words in bash, and ':' does, so that "--json=x" and "0:1" arrive as three of them. */
static void print_bash(FILE *stream)
{
    fputs("# bash completion for clattn\n_clattn()\n{\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} words= list= files= "
          "unknown= before=\n    local -i at=COMP_CWORD\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W '",
          stream);
    print_commands(stream);
    fputs("help --help --version -V' -- \"$current\"))\n        return\n    fi\n"
          "    if [[ ${COMP_WORDS[1]} == help ]]; then\n        COMPREPLY=($(compgen -W '",
          stream);
    print_commands(stream);
    fputs(
        "' -- \"$current\"))\n        return\n    fi\n"
        "    [[ $current == [:=] ]] && { current=; at+=1; }\n"
        "    if [[ ${COMP_WORDS[at - 1]} == : ]]; then\n        before=${COMP_WORDS[at - 2]}:\n        at+=-2\n    fi\n"
        "    [[ ${COMP_WORDS[at - 1]} == = ]] && at+=-1\n    option=${COMP_WORDS[at - 1]}\n"
        "    case \"${COMP_WORDS[1]} $option\" in\n",
        stream);
    bash_all_values(stream);
    fputs("    esac\n    if [[ $current == -* ]]; then\n        words= list= files= unknown=\n    fi\n"
          "    if [[ $list ]]; then\n"
          "        [[ $current == *,* ]] && before=${current%,*},\n"
          "        COMPREPLY=($(compgen -P \"$before\" -W \"$list\" -- \"${current##*,}\"))\n"
          "    elif [[ $words ]]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$before$current\"))\n"
          "        COMPREPLY=(\"${COMPREPLY[@]#$before}\")\n"
          "    elif [[ $files ]]; then\n        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
          "    elif [[ ! $unknown ]]; then\n        case ${COMP_WORDS[1]} in\n",
          stream);
    bash_all_options(stream);
    fputs("        esac\n        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n    fi\n}\n"
          "complete -F _clattn clattn\n",
          stream);
}

/* The first line of a text, as zsh takes it between brackets or colons within single quotes. */
static void print_zsh_text(const char *text, FILE *stream)
{
    for (; *text && *text != '\n'; text++) {
        if (strchr("[]:\\", *text))
            putc('\\', stream);
        if (*text == '\'')
            fputs("'\\'", stream);
        putc(*text, stream);
    }
}

static void zsh_option(const struct option_spec *option, FILE *stream)
{
    fprintf(stream, "            '--%s%s[", option->name, !option->argument ? "" : option->optional ? "=-" : "=");
    print_zsh_text(option->help, stream);
    putc(']', stream);
    if (option->argument) {
        fputs(option->optional ? "::" : ":", stream);
        print_zsh_text(option->argument, stream);
        putc(':', stream);
        const bool one = takes_words(option) && option->kind != OPTION_WORDS;
        if (takes_words(option))
            fputs(one ? "(" : "_sequence compadd - ", stream);
        if (takes_words(option))
            print_words(option, stream);
        fputs(one ? ")" : takes_file(option) ? "_files" : "", stream);
        if (option->kind == OPTION_DEVICE || option->kind == OPTION_DEVICES)
            fputs("{compadd -- ${(f)\"$($program devices --brief 2>/dev/null | cut -d\" \" -f1)\"}}", stream);
        else if (!takes_words(option) && !takes_file(option))
            putc(' ', stream); /* nothing to offer */
    }
    fputs("' \\\n", stream);
}

static void print_zsh(FILE *stream)
{
    fputs("#compdef clattn\n_clattn()\n{\n    local program=$words[1]\n    if ((CURRENT == 2)); then\n        local -a "
          "subcommands=(\n",
          stream);
    for (const struct command *command = commands; command->spec; command++) {
        fprintf(stream, "            '%s:", command->spec->name);
        print_zsh_text(command->spec->summary, stream);
        fputs("'\n", stream);
    }
    fputs("            'help:Show the options of a subcommand'\n        )\n"
          "        _describe -t commands subcommand subcommands\n        return\n    fi\n"
          "    case $words[2] in\n        help) compadd -- ",
          stream);
    print_commands(stream);
    fputs(";;\n", stream);
    for (const struct command *command = commands; command->spec; command++) {
        fprintf(stream, "        %s)\n            shift words\n            ((CURRENT--))\n            _arguments \\\n",
                command->spec->name);
        struct option_spec option;
        for (int i = 0; option_at(command->spec, i, &option); i++)
            zsh_option(&option, stream);
        fputs("            '--help[show the options]' ;;\n", stream);
    }
    /* Installed, the file is the function's body; sourced, it says what it completes. */
    fputs("    esac\n}\nif [[ $funcstack[1] == _clattn ]]; then\n    _clattn \"$@\"\nelse\n    compdef _clattn "
          "clattn\nfi\n",
          stream);
}

int completion_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.shell = BASH};
    const int status = options_parse(&completion_command, argc, argv, &values, failure);
    if (status)
        return status;
    if (values.shell == ZSH)
        print_zsh(stdout);
    else
        print_bash(stdout);
    return STATUS_OK;
}
