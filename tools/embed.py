#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns files into one C file that defines cla_embedded_files[] (src/plan/source.h).

What a kernel file defines outside of functions gets the prefix clattn_ where it has another name, so that a user's own
functions and types, which are compiled above, may have any other name. Macros need none: see src/plan/features/user_text.h.

A file says what it needs: `#include "common/types.clh"`, named below --root. The library puts a program together from the
files that it names and all that these need, each once, before the first that needs it. The lines themselves, and
`#pragma once`, are for editors and compilers that read cl/ as it stands; they are left out here, so that no compiler looks
for a file on the user's machine.

The output depends on the files' bytes and their names below --root alone: no dates, no paths of the machine.
"""
import argparse
import pathlib
import re

HEAD = '''/* Made by tools/embed.py from the files under cl/. */
#include "plan/source.h"
'''


# As the kernels are written: each begins a line.
DEFINITIONS = [re.compile(pattern, re.MULTILINE) for pattern in (
    r'^CLATTN_INLINE\s[\w\s]*?[\s*](\w+)\(',
    r'^typedef\s[^{};]*?(\w+);',
    r'^}\s*(\w+);',
    r'^__constant\s[^=;{}]*?(\w+)(?:\[[^=;]*\])?\s*=')]
COMMENT = re.compile(r'(/\*.*?\*/|//[^\n]*)', re.DOTALL)
WORD = re.compile(r'\b[A-Za-z_]\w*')


INCLUDE = re.compile(r'^#include\s+"([^"]+)"[^\n]*$', re.MULTILINE)
ONCE = re.compile(r'^#pragma once$', re.MULTILINE)


def in_order(name, included, found, open_files, fail):
    """Appends to `found` what a file needs, and the file itself."""
    if name in found:
        return
    if name in open_files:
        fail(f'{name} includes itself: {" -> ".join([*open_files, name])}')
    for other in included[name]:
        if other not in included:
            fail(f'{name} includes {other}, which is not among the files')
        in_order(other, included, found, [*open_files, name], fail)
    found.append(name)


def defined_names(text):
    text = COMMENT.sub(' ', text)
    return {name for pattern in DEFINITIONS for name in pattern.findall(text) if not name.startswith('clattn_')}


def prefixed(text, names):
    code_and_comments = COMMENT.split(text)
    code_and_comments[::2] = (WORD.sub(lambda word: f'clattn_{word[0]}' if word[0] in names else word[0], code)
                              for code in code_and_comments[::2])
    return ''.join(code_and_comments)


def c_array(name, data):
    rows = (data[i:i + 20] for i in range(0, len(data), 20))
    body = ''.join('    ' + ','.join(str(byte) for byte in row) + ',\n' for row in rows)
    return f'\nstatic const unsigned char {name}[] = {{\n{body}}};\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', required=True, type=pathlib.Path, help='names are relative to this folder')
    parser.add_argument('--output', required=True, type=pathlib.Path)
    parser.add_argument('--folder', required=True, action='append', type=pathlib.Path,
                        help='all of its files are taken, beside those named; may be given again')
    parser.add_argument('--depfile', required=True, type=pathlib.Path, help='says that the output depends on these folders')
    parser.add_argument('inputs', nargs='+', type=pathlib.Path)
    arguments = parser.parse_args()

    in_folder = [path for folder in arguments.folder for path in sorted(folder.glob('*.clh'))]
    inputs = [*arguments.inputs, *in_folder]
    arguments.depfile.write_text(f'{arguments.output}: {" ".join(map(str, [*arguments.folder, *in_folder]))}\n')
    arrays, rows, included = [], [], {}
    own = set().union(*(defined_names(path.read_text(encoding='utf-8')) for path in inputs))
    for number, path in enumerate(inputs):
        name = path.resolve().relative_to(arguments.root.resolve()).as_posix()
        data = path.read_bytes()
        if not data:
            parser.error(f'{name} is empty')
        # A compiler on the user's machine reads these: what is not ASCII fails there, not here.
        if not data.isascii() or b'\0' in data or b'\r' in data or '"' in name or '\\' in name:
            parser.error(f'{name} must be plain ASCII with Unix line ends')
        text = data.decode()
        included[name] = INCLUDE.findall(text)
        arrays.append(c_array(f'file_{number}', prefixed(ONCE.sub('', INCLUDE.sub('', text)), own).encode()))
    numbers = {name: number for number, name in enumerate(included)}
    for name, number in numbers.items():
        parts = []
        in_order(name, included, parts, [], parser.error)
        arrays.append(f'static const unsigned short parts_{number}[] = {{{", ".join(str(numbers[part]) for part in parts)}}};\n')
        rows.append(f'    {{"{name}", file_{number}, sizeof file_{number}, parts_{number}, {len(parts)}}},\n')

    arguments.output.write_text(HEAD + ''.join(arrays)
                                + '\nconst struct cla_embedded_file cla_embedded_files[] = {\n' + ''.join(rows) + '};\n'
                                + f'const size_t cla_embedded_file_count = {len(rows)};\n')


if __name__ == '__main__':
    main()
