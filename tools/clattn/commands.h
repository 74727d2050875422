/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_COMMANDS_H
#define CLATTN_TOOL_COMMANDS_H

#include "options/options.h"

/* A subcommand parses its own arguments; argv[0] is its name. Returns what to exit with, and *failure filled unless
 * that is STATUS_OK, STATUS_HELP or STATUS_MISMATCH (whose report has been printed). */
typedef int (*command_function)(int argc, char **argv, struct failure *failure);

int devices_main(int argc, char **argv, struct failure *failure);
int plan_main(int argc, char **argv, struct failure *failure);
int run_main(int argc, char **argv, struct failure *failure);
int verify_main(int argc, char **argv, struct failure *failure);
int bench_main(int argc, char **argv, struct failure *failure);
int compile_main(int argc, char **argv, struct failure *failure);
int tune_main(int argc, char **argv, struct failure *failure);
int report_main(int argc, char **argv, struct failure *failure);
int completion_main(int argc, char **argv, struct failure *failure);

extern const struct command_spec devices_command, plan_command, run_command, verify_command, bench_command,
    tune_command, report_command, compile_command, completion_command;

/* Every subcommand, ended by one without a spec. */
struct command {
    const struct command_spec *spec;
    command_function run;
};

extern const struct command commands[];

#endif
