#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the C table of all reserved room, by struct, from the public headers: what test_reserved.c goes through, so that
a struct or a member that the library's own table (src/plan/reserved.c) lacks is found.

usage: reserved.py INCLUDE_DIRECTORY OUTPUT
"""
import sys

import declarations

# Structs without room of their own: what is added goes to a struct that they point to.
FULL = {'clattn_score_args'}


def main():
    include, output = sys.argv[1:]
    found = declarations.read(include, lambda header: header != 'mpi.h')  # of another library, whose tests see to it
    lines = ['#include <clattn/clattn.h>', '#include <stddef.h>', '',
             'struct reserved_place {', '    const char *path;', '    size_t offset, words;', '};', '']
    for name, members in sorted(found.structs.items()):
        ends = bool(members) and members[-1].name == 'reserved' and members[-1].type == 'uint64_t'
        if ends == (name in FULL):
            sys.exit(f'struct {name} {"ends" if ends else "does not end"} in `uint64_t reserved[N]`')
        lines.append(f'static const struct reserved_place reserved_of_{name[len("clattn_"):]}[] = {{')
        for path in declarations.reserved_paths(found, name):
            lines.append(f'    {{"{path}", offsetof(struct {name}, {path}), '
                         f'sizeof(((struct {name} *)0)->{path}) / sizeof(uint64_t)}},')
        lines += ['    {NULL, 0, 0},', '};', '']
    lines += ['/* Every struct of the headers that has room: NAME(struct clattn_NAME). */',
              '#define EACH_PUBLIC_STRUCT(DO) \\']
    lines += [f'    DO({name[len("clattn_"):]}) \\' for name in sorted(found.structs) if name not in FULL] + ['', '']
    with open(output, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines))


main()
