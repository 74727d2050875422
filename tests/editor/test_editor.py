#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every file under cl/ can be read by itself, as an editor with clangd reads it: by clang with the flags of .clangd.

usage: test_editor.py SOURCE_ROOT

Skipped (77) where there is no clang.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def fragments(text):
    """What .clangd adds for which paths. The few forms of YAML that it uses, and no others."""
    found = []
    for part in text.split('---\n'):
        match = re.search(r'^  PathMatch: (\S+)$', part, re.MULTILINE)
        add = re.search(r'^  Add: \[(.*)\]$', part, re.MULTILINE)
        if not match or not add:
            raise SystemExit(f'.clangd has a fragment of another form:\n{part}')
        found.append((re.compile(match[1]), [flag.strip() for flag in add[1].split(',')]))
    return found


def flags_of(path, found):
    return [flag for pattern, flags in found if pattern.fullmatch(path) for flag in flags]


def read(clang, path, flags):
    return subprocess.run([clang, '-fsyntax-only', *flags, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    os.chdir(sys.argv[1])
    names = ['clang', *(f'clang-{version}' for version in range(25, 12, -1))]
    clang = next((found for found in map(shutil.which, names) if found), None)
    if not clang:
        return SKIPPED
    found = fragments(pathlib.Path('.clangd').read_text(encoding='utf-8'))
    paths = sorted(path.as_posix() for path in pathlib.Path('cl').rglob('*.cl*') if path.name != 'editor.clh')
    failed = 0
    for path in paths:
        done = read(clang, path, flags_of(path, found))
        if done.returncode:
            failed += 1
            print(f'{path}:\n{done.stdout[:1000]}')
    without = read(clang, 'cl/common/score.clh', [flag for flag in flags_of('cl/common/score.clh', found) if flag != 'cl/editor.clh'])
    if not without.returncode:
        failed += 1
        print('a file is read without its constants: this test sees nothing')
    print(f'{len(paths) - failed} of {len(paths)} files can be read')
    return 1 if failed or len(paths) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
