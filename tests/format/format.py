#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether C files are as clang-format leaves them. Versions differ, so one judges: 14, which Debian 12 has. Without it the
test is skipped. `clang-format-14 -i FILE` mends a file.

usage: format.py ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import sources

VERSION, SKIPPED = '14', 77


def clang_format():
    for name in (f'clang-format-{VERSION}', 'clang-format'):
        path = shutil.which(name)
        if not path:
            continue
        said = subprocess.run([path, '--version'], stdout=subprocess.PIPE, text=True, check=True).stdout
        if re.search(rf'version {VERSION}\.', said):
            return path
    return None


def misformatted(program, style, paths):
    done = subprocess.run([program, f'--style=file:{style}', '--dry-run', '--ferror-limit=0', *paths],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return sorted({line.split(':')[0] for line in done.stdout.splitlines() if 'clang-format-violations' in line})


def main():
    root = sys.argv[1]
    program = clang_format()
    if not program:
        print(f'clang-format {VERSION} is not installed: not checked')
        return SKIPPED
    style = os.path.join(root, '.clang-format')
    with tempfile.TemporaryDirectory() as work:
        wrong = os.path.join(work, 'wrong.c')
        with open(wrong, 'w', encoding='utf-8') as file:
            file.write('int main( void ) { return 0 ;}\n')
        if misformatted(program, style, [wrong]) != [wrong]:
            print(f'{program} finds nothing wrong with what is')
            return 1
    paths = sources.c_files(root)
    found = misformatted(program, style, paths)
    for path in found:
        print(f'{os.path.relpath(path, root)}: {os.path.basename(program)} -i would change it')
    print(f'{len(paths)} files, {len(found)} not formatted')
    return 1 if found or not paths else 0


sys.exit(main())
